import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { inLease } from '../../src/db/coordination/lease.ts';
import { emails } from '../../src/db/schema/index.ts';
import { listenForChanges } from '../../src/imap/idle.ts';
import { createFolderRefusals } from '../../src/mailbox/refusals.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { changeEmails } from '../../src/mailbox/change-emails.ts';
import { markVanished } from '../../src/mailbox/store/vanished-locations.ts';
import { watch } from '../../src/mailbox/watch.ts';
import type { Logger } from '../../src/runtime/logger.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';

const { start } = engineTests();

/** Watches until the test stops it; what it gives is in sync. */
async function watching({ ctx }: Engine, pollMs = 60_000) {
  const ending = new AbortController();
  let inSync = () => {};
  const synced = new Promise<void>((resolve) => (inSync = resolve));
  const running = watch(ctx, { pollMs, signal: ending.signal, onInSync: async () => inSync() });
  await Promise.race([synced, running]);
  return {
    async stop() {
      ending.abort();
      await running;
    },
    abort: () => ending.abort(),
    running,
  };
}

describe('a watch', () => {
  it('stores a message that EXISTS reports, long before the next poll', async () => {
    const engine = await start();
    const watch = await watching(engine);
    engine.server.append('INBOX', mailText({ subject: 'hello' }));
    await waitFor(() => [...engine.server.sessions].some((session) => session.idling), { what: 'IDLE' });
    engine.server.tell();
    await waitFor(async () => (await engine.events()).includes('email.new'), { what: 'the event' });
    await watch.stop();
  });

  it('selects an INBOX that the server does not open less and less often, and finds what comes in other folders', async () => {
    const engine = await start({ folders: { Work: [] } });
    const { server } = engine;
    server.script.command = (command, session) => {
      if (!/^(SELECT|EXAMINE)$/.test(command.name) || command.args[0] !== 'INBOX') return false;
      session.done(command, 'NO it is broken');
      return true;
    };
    const watch = await watching(engine, 4_000);
    const selects = () => server.log.filter(({ name, args }) => name === 'SELECT' && args[0] === 'INBOX').length;
    server.log.length = 0;
    await sleep(7_000);
    expect(selects()).toBeLessThan(4);
    server.append('Work', mailText({ subject: 'elsewhere' }));
    await waitFor(async () => (await engine.events()).includes('email.new'), { timeoutMs: 15_000, what: 'the event' });
    await watch.stop();
  }, 40_000);

  it('treats a folder that is missing from the list as deleted on a new connection only', async () => {
    const engine = await start({ folders: { Work: [] } });
    const watch = await watching(engine, 100);
    const [first] = engine.server.sessions;
    engine.server.deleteFolder('Work');
    await waitFor(async () => (await engine.events()).includes('email.folder.delete'), { what: 'the event' });
    expect([...engine.server.sessions]).not.toContain(first);
    await watch.stop();
    await engine.ctx.session.end();
    await waitFor(() => engine.server.sessions.size === 0, { what: 'all connections to end' });
  });

  it('decides about an email that a call has seen leave', async () => {
    const engine = await start();
    const { server, ctx } = engine;
    const watch = await watching(engine, 3_000);
    const uid = server.append('INBOX', mailText({ subject: 'gone soon' }));
    server.tell();
    await waitFor(async () => (await engine.events()).includes('email.new'), { what: 'the event' });
    const [email] = await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
    const { id: folderId } = await engine.folder('INBOX');
    server.remove('INBOX', uid);
    // what a call does before its own sync, which may fail
    await inLease(ctx.db, ctx.lease, (tx) => {
      const now = new Date();
      const change = { lease: ctx.lease, emailIds: [email!.id], now };
      return changeEmails(tx, change, () => markVanished(tx, folderId, [uid], now));
    });
    await waitFor(async () => (await engine.events()).includes('email.delete'), {
      timeoutMs: 15_000,
      what: 'the deletion',
    });
    await watch.stop();
  });

  it('ends a connection that was being opened when it was asked to stop', async () => {
    const engine = await start({ folders: { Work: [] } });
    const watch = await watching(engine, 100);
    let login = () => {};
    engine.server.script.command = (command, session) => {
      if (command.name !== 'LOGIN') return false;
      login = () => session.answer(command);
      return true;
    };
    engine.server.deleteFolder('Work');
    await waitFor(() => engine.server.log.filter(({ name }) => name === 'LOGIN').length === 2, { what: 'a LOGIN' });
    // as the watching activity does
    watch.abort();
    await engine.ctx.session.end();
    login();
    await watch.running;
    await waitFor(() => engine.server.sessions.size === 0, { timeoutMs: 3_000, what: 'all connections to end' });
  });
});

it('a server whose IDLE reports nothing is asked every few seconds, once that has shown', async () => {
  const { server } = await start({ lazyIdle: true });
  // The connections of an engine are given up after as long a silence as the interval is.
  const login = { user: 'reader@example.test', password: 'secret', imapPort: server.port };
  const session = await openTestSession(login, { silenceMs: 20_000 });
  const { signal } = new AbortController();
  await session.run('SELECT', () => session.client.mailboxOpen('INBOX'));
  const listener = await listenForChanges(session);
  server.append('INBOX', mailText({ subject: 'found by the poll' }));
  server.tell();
  await listener.probe();
  expect([...listener.take().folders]).toEqual(['INBOX']);
  const waiting = listener.wait(10 * 60_000, signal);
  await waitFor(() => [...server.sessions].some(({ idling }) => idling), { what: 'IDLE' });
  server.append('INBOX', mailText({ subject: 'found long before the next poll' }));
  server.tell();
  await waiting;
  expect([...listener.take().folders]).toEqual(['INBOX']);
  await session.end();
}, 30_000);

describe('a folder in which a command is refused', () => {
  it('is logged once, with the command, and when it is read again', async () => {
    const { server, ctx, folder } = await start({ folders: { Work: [] } });
    // fewer may be damaged messages
    for (let count = 0; count < 3; count++) server.append('Work', mailText());
    server.script.command = (command, session) => {
      if (command.name !== 'UID FETCH' || session.selected?.path !== 'Work') return false;
      session.done(command, 'NO [SERVERBUG] not now');
      return true;
    };
    const lines: unknown[] = [];
    const write = (fields: object, text: string) => lines.push([text, fields]);
    const refusals = createFolderRefusals(ctx.account.id, { warn: write, info: write } as unknown as Logger);
    for (let pass = 0; pass < 2; pass++) await syncMailbox({ ...ctx, refusals }, {});
    const ids = { accountId: ctx.account.id, folderId: (await folder('Work')).id };
    const refused = ['command refused in a folder', { ...ids, command: 'FETCH', code: 'SERVERBUG' }];
    expect(lines).toEqual([refused]);
    server.script = {};
    await waitFor(async () => {
      await syncMailbox({ ...ctx, refusals }, {});
      return lines.length > 1;
    });
    expect(lines).toEqual([refused, ['no command refused in the folder any longer', ids]]);
  });
});
