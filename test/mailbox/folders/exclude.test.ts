import { expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import type { Email } from '../../../src/contract/email.ts';
import type { Tx } from '../../../src/db/driver/client.ts';
import { accounts, emails } from '../../../src/db/schema/index.ts';
import { trashEmail } from '../../../src/mailbox/changes/trash.ts';
import { ensureRoleFolder } from '../../../src/mailbox/folders/by-role.ts';
import { removeAllExcluded } from '../../../src/mailbox/folders/exclude.ts';
import { DoubtfulList } from '../../../src/mailbox/folders/list-pass.ts';
import { loadFolders } from '../../../src/mailbox/store/folders.ts';
import { syncMailbox, syncOnce } from '../../../src/mailbox/sync-pass.ts';
import { newId } from '../../../src/new-id.ts';
import { recordSend, saveProvisional } from '../../../src/outgoing/send-state.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { choose, type Engine, engineTests } from '../../helpers/product/engine.ts';

/** Stored folders that a new choice excludes. */

const { start } = engineTests();

const startArchive = () =>
  start({ folders: { Archive: ['\\Archive'], 'Archive/2024': [] } }, (server) => {
    server.append('Archive/2024', mailText());
  });

const paths = async ({ ctx }: Engine) =>
  (await loadFolders(ctx.db, ctx.account.id)).map(({ path }) => path).sort((a, b) => a.localeCompare(b));
const housekeep = ({ ctx }: Engine, over = () => false) => removeAllExcluded(ctx, over);

it('without the mailbox, what an entry of `include` may cover stays until it is reached', async () => {
  const engine = await startArchive();
  await choose(engine, { include: ['INBOX', 'Archive/2024'] });
  expect(await housekeep(engine)).toBe(true);
  expect(await paths(engine)).toEqual(['Archive', 'Archive/2024', 'INBOX']);
  await syncOnce(engine.ctx, {});
  expect(await paths(engine)).toEqual(['Archive/2024', 'INBOX']);

  await choose(engine, { include: ['INBOX', 'ARCHIVE'] });
  await housekeep(engine);
  expect(await paths(engine)).toEqual(['Archive/2024', 'INBOX']);

  await choose(engine, { exclude: ['Archive'] });
  await housekeep(engine);
  expect(await paths(engine)).toEqual(['INBOX']);
});

it('the list of a reused connection, which may lack the folder above it, excludes none', async () => {
  const engine = await startArchive();
  await choose(engine, { include: ['INBOX', 'ARCHIVE'] });
  await syncMailbox(engine.ctx, { freshSession: true });
  const stale = [...engine.server.sessions];
  engine.server.script.answer = (text, { name }, session) =>
    name === 'LIST' && stale.includes(session) ? text.replace(/^\* LIST .*"Archive"?\r\n/m, '') : text;
  const { id } = await engine.folder('Archive/2024');
  await expect(syncMailbox(engine.ctx, {})).rejects.toThrow(DoubtfulList);
  await syncOnce(engine.ctx, {});
  expect((await engine.folder('Archive/2024')).id).toBe(id);
});

it('whether the mail of a folder that appears is new is read when the folder is saved, not before', async () => {
  const engine = await start({ folders: { Work: [] } }, (server) => {
    server.append('Work', mailText());
  });
  const { account } = engine.ctx;
  const [all, none] = [{ exclude: ['SPAM'] }, { include: ['INBOX'] }];
  for (const choice of [all, none]) {
    await choose(engine, choice);
    await syncOnce(engine.ctx, {});
  }
  // loaded when the first choice was applied, which is given again
  await choose(engine, all);
  account.choice = { folders: all, isApplied: true };
  await syncOnce(engine.ctx, {});
  expect(await engine.events()).toEqual(['email.folder.create']);

  engine.server.createFolder('Later');
  engine.server.append('Later', mailText());
  const sent = engine.server.createFolder('Sent', ['\\Sent']);
  engine.server.append('Sent', mailText());
  expect(await ensureRoleFolder(engine.ctx, 'SENT')).toMatchObject({ baselineUidNext: sent.uidNext });
  await engine.ctx.db.update(accounts).set({ choiceApplied: true }).where(eq(accounts.id, account.id));
  // loaded before
  account.choice = { folders: all, isApplied: false };
  await syncOnce(engine.ctx, {});
  expect((await engine.events()).slice(2)).toEqual(['email.folder.create', 'email.new']);
});

it('an email just sent, which is not stored yet, is not deleted in silence where Trash is excluded', async () => {
  const engine = await start({ folders: { Trash: ['\\Trash'] } });
  const { db, account } = engine.ctx;
  await choose(engine, { exclude: ['TRASH'] });
  await syncOnce(engine.ctx, {});
  const id = newId('email');
  const caller = { apiKeyId: newId('apiKey'), apiKeyName: 'a key', draftId: null, metadata: null };
  await recordSend(db, { ...caller, id, accountId: account.id, trackingId: null, tracking: null, inputKey: null });
  // an email that has left is deleted already; this one is shown
  await trashEmail(engine.ctx, newId('email'));
  await saveProvisional(db as unknown as Tx, id, { id } as Email);
  await expect(trashEmail(engine.ctx, id)).rejects.toMatchObject({ code: 'not_found' });
});

it('an email that leaves for a Trash that is excluded is counted in its folder no longer, as unread either', async () => {
  const engine = await start({ folders: { Trash: ['\\Trash'] } });
  const { server, ctx } = engine;
  await choose(engine, { exclude: ['TRASH'] });
  await syncOnce(ctx, {});
  for (const subject of ['one', 'two']) server.append('INBOX', mailText({ subject }));
  server.append('INBOX', mailText({ subject: 'read' }), { flags: ['\\Seen'] });
  await syncOnce(ctx, {});
  const stored = await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
  const one = (isUnread: boolean) => stored.find((email) => email.isUnread === isUnread)!.id;
  expect(await engine.folder('INBOX')).toMatchObject({ totalCount: 3, unreadCount: 2 });
  await trashEmail(ctx, one(true));
  expect(await engine.folder('INBOX')).toMatchObject({ totalCount: 2, unreadCount: 1 });
  await trashEmail(ctx, one(false));
  expect(await engine.folder('INBOX')).toMatchObject({ totalCount: 1, unreadCount: 1 });
});
