import { describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { emails, folders, locations } from '../../src/db/schema/index.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { changeFlags, markEmail } from '../../src/mailbox/changes/mark.ts';
import { moveEmail } from '../../src/mailbox/changes/move.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { verifyMailbox } from '../../src/mailbox/verify.ts';
import { type FakeImapOptions, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';
import { mailText } from '../helpers/product/mail-text.ts';

/** Flags other than \Seen and \Deleted, and keywords. */

const { start } = engineTests();

const SERVERS: [string, FakeImapOptions][] = [
  ['without CONDSTORE', { capabilities: PLAIN, folders: { Work: [] } }],
  ['with CONDSTORE and QRESYNC', { capabilities: `${PLAIN} MOVE CONDSTORE QRESYNC`, folders: { Work: [] } }],
];

async function received(running: Engine, flags: string[] = []): Promise<{ id: string; uid: number }> {
  const { server, ctx } = running;
  server.append('INBOX', mailText({ subject: 'x' }), { flags });
  await syncMailbox(ctx, { freshSession: true });
  return { id: (await stored(running)).id, uid: server.folder('INBOX').messages.at(-1)!.uid };
}

async function stored({ ctx }: Engine): Promise<{ id: string; flags: string[] | null; isUnread: boolean }> {
  const [row] = await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
  return row!;
}

const onServer = ({ server }: Engine, path = 'INBOX') => [...server.folder(path).messages.at(-1)!.flags].sort();

/** Makes the rows as versions before flags were stored left them. */
async function forget({ ctx }: Engine): Promise<void> {
  const ofAccount = ctx.account.id;
  await ctx.db.update(emails).set({ flags: null }).where(eq(emails.accountId, ofAccount));
  await ctx.db.update(locations).set({ flags: null }).where(eq(locations.accountId, ofAccount));
  await ctx.db.update(folders).set({ flagsRead: false }).where(eq(folders.accountId, ofAccount));
}

describe.each(SERVERS)('on a server %s', (_, options) => {
  it('are stored in lower case, and a change is one event', async () => {
    const running = await start(options);
    const { uid } = await received(running, ['\\Flagged', '$Label1', '\\Draft']);
    expect((await stored(running)).flags).toEqual(['$label1', '\\flagged']);
    running.server.setFlag('INBOX', uid, 'Work');
    running.server.setFlag('INBOX', uid, '\\Answered');
    await syncMailbox(running.ctx, { changed: new Set(['INBOX']) });
    expect((await stored(running)).flags).toEqual(['$label1', '\\answered', '\\flagged', 'work']);
    expect(await running.events()).toEqual(['email.new', 'email.update']);
  });

  it('are changed at the server and in the store, once', async () => {
    const running = await start(options);
    const { id } = await received(running, ['Old']);
    const change = { add: ['\\Flagged', 'New', '\\Seen'], remove: ['old'] };
    await changeFlags(running.ctx, id, change);
    await changeFlags(running.ctx, id, change);
    expect(onServer(running)).toEqual(['New', '\\Flagged', '\\Seen'].sort());
    expect(await stored(running)).toMatchObject({ flags: ['\\flagged', 'new'], isUnread: false });
    await syncMailbox(running.ctx, { changed: new Set(['INBOX']) });
    expect(await running.events()).toEqual(['email.new', 'email.update']);
  });

  it('move with their email', async () => {
    const running = await start(options);
    const { id } = await received(running, ['\\Flagged', 'Old']);
    await moveEmail(running.ctx, id, () => running.folder('Work'));
    await syncMailbox(running.ctx, { changed: new Set(['INBOX', 'Work']) });
    expect((await stored(running)).flags).toEqual(['\\flagged', 'old']);
    expect(onServer(running, 'Work')).toEqual(['Old', '\\Flagged']);
    expect(await running.events()).toEqual(['email.new', 'email.update']);
  });

  it('that an earlier version did not store are learned by the next pass, without events', async () => {
    const running = await start(options);
    await received(running, ['\\Flagged', '\\Seen', 'Old']);
    await forget(running);
    await syncMailbox(running.ctx, {});
    expect((await stored(running)).flags).toEqual(['\\flagged', 'old']);
    const { flagsRead } = await running.folder('INBOX');
    expect([flagsRead, await running.events()]).toEqual([true, ['email.new']]);
    const fetched = running.server.count('UID FETCH') + running.server.count('FETCH');
    await syncMailbox(running.ctx, {});
    expect(running.server.count('UID FETCH') + running.server.count('FETCH')).toBe(fetched);
  });

  it('that a pass missed are found by a verification', async () => {
    const running = await start(options);
    const { id } = await received(running, ['Old']);
    const { ctx } = running;
    await ctx.db.update(locations).set({ flags: null }).where(eq(locations.emailId, id));
    expect(await verifyMailbox(ctx, new AbortController().signal)).toMatchObject({
      left: 0,
      kinds: { flags: expect.any(Number) as unknown },
    });
    expect((await stored(running)).flags).toEqual(['old']);
    await ctx.db
      .update(emails)
      .set({ flags: ['wrong'] })
      .where(eq(emails.id, id));
    expect(await verifyMailbox(ctx, new AbortController().signal)).toMatchObject({ left: 0, kinds: { flags: 1 } });
    expect((await stored(running)).flags).toEqual(['old']);
  });

  it('that are in one of two folders count', async () => {
    const running = await start(options);
    const { uid } = await received(running, ['one']);
    const { server, ctx } = running;
    const [inbox, work] = [server.folder('INBOX'), server.folder('Work')];
    server.copy(inbox, inbox.messages.at(-1)!, work);
    await syncMailbox(ctx, {});
    server.setFlag('Work', work.messages.at(-1)!.uid, 'two');
    await syncMailbox(ctx, { changed: new Set(['Work']) });
    expect((await stored(running)).flags).toEqual(['one', 'two']);
    server.remove('INBOX', uid);
    await syncMailbox(ctx, {});
    expect((await stored(running)).flags).toEqual(['one', 'two']);
  });
});

describe('a folder', () => {
  it('that does not keep keywords or stars refuses them, and nothing changes', async () => {
    const running = await start({ permanentFlags: '\\Seen \\Deleted $Junk' });
    const { id } = await received(running);
    const refusals: [string[], RegExp][] = [
      [['\\Seen', 'label'], /does not store label in this folder/],
      [['\\Flagged'], /does not store \\Flagged/],
    ];
    for (const [add, message] of refusals) {
      await expect(changeFlags(running.ctx, id, { add, remove: [] })).rejects.toMatchObject({
        code: 'provider_rejected',
        detail: expect.stringMatching(message) as unknown,
      });
    }
    expect(onServer(running)).toEqual([]);
    await changeFlags(running.ctx, id, { add: ['$JUNK'], remove: ['label'] });
    await markEmail(running.ctx, id, true);
    expect(await stored(running)).toMatchObject({ flags: ['$junk'], isUnread: false });
  });

  it('whose server distinguishes cases loses a keyword given in another one', async () => {
    const running = await start({});
    const { id } = await received(running, ['Project-X']);
    running.server.script.command = (command, session) => {
      const [, item, names] = command.args;
      if (command.name !== 'UID STORE' || !String(item).startsWith('-') || String(names) === 'Project-X') return false;
      session.write('* 1 FETCH (UID 1 FLAGS (Project-X))\r\n');
      session.done(command);
      return true;
    };
    await changeFlags(running.ctx, id, { add: [], remove: ['project-x'] });
    expect([onServer(running), (await stored(running)).flags]).toEqual([[], []]);
  });

  it('whose server names thousands of flags stores a hundred', async () => {
    const running = await start({});
    await received(running, [...Array.from({ length: 300 }, (_, n) => `k${n}`), 'x'.repeat(200)]);
    expect((await stored(running)).flags).toHaveLength(100);
    await listFoldersWithStatus(running.ctx.session);
  });
});
