import { expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { beginImport, createImport } from '../../../src/db/coordination/import-state.ts';
import { getImport } from '../../../src/db/queries/imports.ts';
import { changeAccount } from '../../../src/db/queries/accounts.ts';
import { emails, locations } from '../../../src/db/schema/index.ts';
import { DAY } from '../../../src/duration.ts';
import { scanBaseline } from '../../../src/mailbox/baseline.ts';
import { importHistory } from '../../../src/mailbox/import-history.ts';
import { importMail } from '../../../src/mailbox/import.ts';
import { createUndelivered } from '../../../src/mailbox/ingest/undelivered.ts';
import { type ImportRun, loadImportRun } from '../../../src/mailbox/store/import-folders.ts';
import { syncOnce } from '../../../src/mailbox/sync-pass.ts';
import { deleteOldMail } from '../../../src/maintenance/mail-retention.ts';
import { newId } from '../../../src/new-id.ts';
import { guardStorage } from '../../../src/storage/guard.ts';
import { type FakeImap, PLAIN } from '../../helpers/fakes/fake-imap.ts';
import type { FakeSession } from '../../helpers/fakes/fake-imap-session.ts';
import type { Command } from '../../helpers/fakes/fake-imap-wire.ts';
import { type Engine, engineTests } from '../../helpers/product/engine.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { mailText } from '../../helpers/product/mail-text.ts';

/** Imports from mailboxes that change in the meantime, or are not shown completely. */

const { start } = engineTests();

const MESSAGES = 120;
const CHANGED = { detail: expect.stringContaining('UIDs of a folder have changed') };

const startFull = (capabilities = PLAIN) =>
  start({ capabilities, folders: { Work: [] } }, (server) => {
    for (const path of ['INBOX', 'Work']) {
      for (let n = 0; n < MESSAGES; n++) server.append(path, mailText({ subject: `${path} ${n}` }));
    }
  });
const importAll = ({ ctx }: Engine) =>
  importMail(ctx, { since: new Date(0), signal: new AbortController().signal, onProgress: () => {} });
const emailsOf = ({ ctx }: Engine) => ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));

/** An import of all folders: makes one attempt, and returns how it ended and how the import stands. */
async function startRun({ ctx }: Engine, since: Date | null = null) {
  const ref = { id: newId('import'), accountId: ctx.account.id };
  await createImport(ctx.db, { ...ref, since, until: null, folders: null });
  await beginImport(ctx.db, ref);
  const run = (await loadImportRun(ctx.db, ref.id)) as ImportRun;
  return async () => {
    const done = await importHistory(ctx, run, AbortSignal.timeout(20_000)).catch((error: unknown) => error);
    return { done, ...(await getImport(ctx.db, ref.accountId, ref.id))?.progress };
  };
}

const importRun = async (engine: Engine, since?: Date) => (await startRun(engine, since))();

/** The folder gets another UIDVALIDITY and other UIDs, as after a restore. */
function restore(server: FakeImap, path: string): void {
  const folder = server.folder(path);
  folder.uidValidity += 1000;
  folder.messages.forEach((message, index) => (message.uid = 5001 + index));
  folder.uidNext = 5001 + folder.messages.length;
}

async function expectComplete(engine: Engine): Promise<void> {
  await syncOnce(engine.ctx, { changed: new Set(['INBOX', 'Work']) });
  await importAll(engine);
  expect((await emailsOf(engine)).length).toBe(2 * MESSAGES);
  const located = await engine.ctx.db.select().from(locations).where(eq(locations.accountId, engine.ctx.account.id));
  expect(located.filter(({ emailId }) => emailId !== null)).toHaveLength(2 * MESSAGES);
  expect(await engine.events()).toEqual([]);
}

it('a folder whose UIDVALIDITY has changed is imported once its UIDs are mapped', async () => {
  const engine = await startFull();
  restore(engine.server, 'INBOX');
  await importAll(engine);
  expect((await emailsOf(engine)).length).toBe(2 * MESSAGES);
  await expectComplete(engine);
});

it('a folder whose UIDVALIDITY changes during the import is imported once its UIDs are mapped', async () => {
  const engine = await startFull();
  let batches = 0;
  engine.server.script.command = ({ name, args }) => {
    const isBodies = name === 'UID FETCH' && JSON.stringify(args).includes('BODY.PEEK[]');
    if (isBodies && ++batches === 2) restore(engine.server, 'INBOX');
  };
  await importAll(engine);
  expect(batches).toBeGreaterThan(2);
  expect((await emailsOf(engine)).length).toBe(2 * MESSAGES);
  await expectComplete(engine);
});

it('a folder whose UIDVALIDITY changes again and again is not complete before', async () => {
  const engine = await startFull();
  engine.server.script.command = ({ name, args }) => {
    if (name === 'SELECT' && String(args[0]) === 'INBOX') restore(engine.server, 'INBOX');
  };
  await expect(importAll(engine)).rejects.toMatchObject(CHANGED);
  expect((await emailsOf(engine)).length).toBe(MESSAGES);
  engine.server.script = {};
  await expectComplete(engine);
});

/** Refuses to open INBOX with this text. */
function refuseInbox({ server }: Engine, text: string): void {
  server.script.command = (command, session) => {
    if (!/^(SELECT|EXAMINE)$/.test(command.name) || String(command.args[0]) !== 'INBOX') return false;
    session.done(command, text);
    return true;
  };
}

it('a folder that the server refuses to open fails the import, once all others are imported', async () => {
  const engine = await startFull();
  refuseInbox(engine, 'NO not now');
  await expect(importAll(engine)).rejects.toMatchObject({ command: 'SELECT' });
  expect((await emailsOf(engine)).length).toBe(MESSAGES);
  engine.server.script = {};
  await expectComplete(engine);
});

it.each(['NO [NOPERM] not yours', 'NO [NONEXISTENT] deleted'])('a folder that answers %s is left out', async (text) => {
  const engine = await startFull();
  refuseInbox(engine, text);
  await importAll(engine);
  expect((await emailsOf(engine)).length).toBe(MESSAGES);
});

const MISSING = ['NO [NONEXISTENT] no such folder', 'NO no such folder'];

/** Answers the SELECT of a folder that does not exist with this text. */
function refuseMissing({ server }: Engine, text: string): void {
  server.script.command = (command, session) => {
    if (!/^(SELECT|EXAMINE)$/.test(command.name) || server.folders.has(String(command.args[0]))) return false;
    session.done(command, text);
    return true;
  };
}

it.each(MISSING)('a folder that was renamed is imported at its new path, where the server answers %s', async (text) => {
  const engine = await startFull();
  refuseMissing(engine, text);
  engine.server.renameFolder('Work', 'Play');
  await importAll(engine);
  expect((await emailsOf(engine)).length).toBe(2 * MESSAGES);
  expect((await engine.folder('Play')).path).toBe('Play');
});

it.each(MISSING)('a folder that was deleted is left out, where the server answers %s', async (text) => {
  const engine = await startFull();
  refuseMissing(engine, text);
  engine.server.deleteFolder('Work');
  await importAll(engine);
  expect((await emailsOf(engine)).length).toBe(MESSAGES);
});

it('a folder that was renamed is imported where a new one has its former path', async () => {
  const engine = await startFull();
  engine.server.renameFolder('Work', 'Play');
  engine.server.createFolder('Work');
  engine.server.append('Work', mailText({ subject: 'new' }));
  expect(await importRun(engine)).toMatchObject({ done: true });
  const subjects = (await emailsOf(engine)).map(({ subject }) => subject);
  expect(subjects.filter((subject) => subject?.startsWith('Work'))).toHaveLength(MESSAGES);
});

it('a folder of which the parent is renamed during an import is read before the import ends', async () => {
  const engine = await start({ folders: { Work: ['\\Noselect'], 'Work/Old': [] } }, (server) => {
    for (let n = 0; n < 3; n++) server.append('INBOX', mailText({ subject: `${n}` }));
    server.append('Work/Old', mailText({ subject: 'in the folder' }));
  });
  const { server } = engine;
  server.script.command = ({ name, args }) => {
    if (name !== 'UID FETCH' || !JSON.stringify(args).includes('BODY.PEEK[]') || !server.folders.has('Work')) return;
    server.renameFolder('Work', 'Play');
  };
  expect(await importRun(engine)).toMatchObject({ done: true });
  expect(await emailsOf(engine)).toHaveLength(4);
});

it('a message that is read by the watch before it is imported is read', async () => {
  const engine = await startFull(`${PLAIN} ENABLE CONDSTORE`);
  let held: { command: Command; session: FakeSession } | undefined;
  engine.server.script.command = (command, session) => {
    if (held || command.name !== 'UID FETCH' || !JSON.stringify(command.args).includes('BODY.PEEK[]')) return false;
    held = { command, session };
    return true;
  };
  const importing = importAll(engine);
  await waitFor(() => held !== undefined);
  engine.server.setFlag('INBOX', MESSAGES, '\\Seen');
  await syncOnce({ ...engine.ctx, session: await engine.ctx.reopen() }, { changed: new Set(['INBOX']) });
  engine.server.script = {};
  held?.session.answer(held.command);
  await importing;
  await syncOnce(engine.ctx, {});
  const [email, ...others] = (await emailsOf(engine)).filter(({ subject }) => subject === `INBOX ${MESSAGES - 1}`);
  expect(others).toEqual([]);
  expect(email?.isUnread).toBe(false);
});

/** An account whose three emails `retention_days` has deleted; INBOX has their messages. */
async function startDeleted(): Promise<Engine> {
  const date = new Date(Date.now() - 40 * DAY);
  const engine = await start({ folders: { Work: [], Later: [] } }, (server) => {
    for (let n = 0; n < 3; n++) server.append('INBOX', mailText({ subject: `${n}`, date }), { date });
  });
  const { db, storage, account } = engine.ctx;
  await importAll(engine);
  expect(await emailsOf(engine)).toHaveLength(3);
  await db
    .update(emails)
    .set({ createdAt: new Date(Date.now() - 2 * DAY) })
    .where(eq(emails.accountId, account.id));
  await changeAccount(db, account.id, { retentionDays: 30 });
  await deleteOldMail({ db, storage }, () => false);
  expect(await emailsOf(engine)).toEqual([]);
  return engine;
}

it('mail that `retention_days` has deleted is not imported again, until it is raised', async () => {
  const engine = await startDeleted();
  await importAll(engine);
  expect(await emailsOf(engine)).toEqual([]);
  await changeAccount(engine.ctx.db, engine.ctx.account.id, { retentionDays: 50 });
  await importAll(engine);
  expect(await emailsOf(engine)).toHaveLength(3);
});

it('mail that `retention_days` has deleted is not imported again after another program has moved and copied it', async () => {
  const engine = await startDeleted();
  const { server, ctx } = engine;
  const inbox = server.folder('INBOX');
  const work = server.folder('Work');
  for (const message of [...inbox.messages]) server.move(inbox, message, work);
  await syncOnce(ctx, {});
  for (let n = 0; n < 2; n++) server.copy(work, work.messages[0]!, server.folder('Later'));
  await syncOnce(ctx, {});
  await importAll(engine);
  expect(await emailsOf(engine)).toEqual([]);
  expect(await engine.events()).toEqual([]);
  await changeAccount(ctx.db, ctx.account.id, { retentionDays: 50 });
  await importAll(engine);
  expect(await emailsOf(engine)).not.toEqual([]);
});

it('an import ends where UIDNEXT stays behind the messages of a folder', async () => {
  const engine = await start({ folders: { Work: [] } }, (server) => {
    server.append('INBOX', mailText({ subject: 'old' }), { date: new Date('2020-01-01') });
  });
  const { server, ctx } = engine;
  await scanBaseline(ctx, new AbortController().signal);
  const messages = server
    .folder('INBOX')
    .messages.splice(0)
    .map((message) => ({ ...message, uid: 5 }));
  Object.assign(server.folder('Work'), { messages, uidNext: 6 });
  await syncOnce(ctx, { changed: new Set(['INBOX', 'Work']) });
  server.script.answer = (text) => text.replace(/UIDNEXT 6/, 'UIDNEXT 2');

  expect(await importRun(engine, new Date('2024-01-01'))).toMatchObject({ done: true });
  expect(await emailsOf(engine)).toEqual([]);
});

it.each(['BODY[]', 'BODY[HEADER.FIELDS ('])(
  'messages that are not delivered are not counted as read: %s',
  async (item) => {
    const engine = await start({}, (server) => {
      for (const subject of ['one', 'broken', 'three']) server.append('INBOX', mailText({ subject }));
    });
    engine.server.script.answer = (text, { name }) => {
      if (name !== 'UID FETCH' || !text.includes(item) || !text.includes('Subject: broken\r\n')) return text;
      return `${text.slice(0, text.indexOf(item) + item.length)} NIL)\r\n`;
    };
    const attempt = await startRun(engine);
    const left = { messages_known: 3, messages_done: 2, messages_left: 1, folders_done: 0 };
    for (let n = 0; n < 3; n++) {
      expect(await attempt()).toMatchObject({ ...left, done: { code: 'provider_error' } });
    }
    engine.server.script = {};
    // that of another process
    Object.assign(engine.ctx, { undelivered: createUndelivered(engine.ctx.logger) });
    expect(await attempt()).toMatchObject({ done: true, messages_known: 3, messages_done: 3, messages_left: 0 });
  },
);

it('messages for which the storage has no room are not counted as read', async () => {
  const engine = await start({}, (server) => {
    for (const subject of ['one', 'two', 'three']) server.append('INBOX', mailText({ subject }));
  });
  const { ctx } = engine;
  const full = guardStorage({
    ...ctx.storage,
    put: async (key, body) => {
      if (Buffer.isBuffer(body) && body.includes('Subject: two'))
        throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
      return ctx.storage.put(key, body);
    },
  });
  const attempt = await startRun({ ...engine, ctx: { ...ctx, storage: full } });
  const left = { messages_known: 3, messages_done: 2, messages_left: 1, folders_done: 0 };
  for (let n = 0; n < 3; n++) expect(await attempt()).toMatchObject({ ...left, done: { part: 'storage' } });
});
