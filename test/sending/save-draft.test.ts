import { tmpdir } from 'node:os';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq } from 'drizzle-orm';
import { createDraftActivities } from '../../src/activities/save-draft.ts';
import type { SendInput } from '../../src/contract/sending.ts';
import { drafts } from '../../src/db/schema/index.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { draftForSending, readDraftMessage, withoutDraftHeaders } from '../../src/mime/write/stored-draft.ts';
import { newId } from '../../src/new-id.ts';
import { loadDraft, recordDraft, reserveDraft } from '../../src/outgoing/draft-state.ts';
import { saveDraft } from '../../src/sending/drafts.ts';
import { inputKeyOf, storeInput } from '../../src/outgoing/outgoing-input.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailboxDeps, storeServedAccount } from '../helpers/product/served-account.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';

let ground: SyncGround;

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());

/** An account whose mailbox has a folder for drafts, but no draft. */
async function startServed() {
  const server = await new FakeImap({ folders: { Drafts: ['\\Drafts'] } }).listen();
  const session = await openTestSession({ user: 'reader@example.test', password: 'p', imapPort: server.port });
  const folders = await listFoldersWithStatus(session);
  await session.end();
  const deps = mailboxDeps(ground);
  const accountId = newId('account');
  await storeServedAccount(deps, accountId, { port: server.port, folders });
  return {
    server,
    deps,
    accountId,
    /** Records a draft as the API does; returns its id. */
    async ask(subject: string, input: SendInput = {}): Promise<string> {
      const draftId = newId('draft');
      const inputKey = inputKeyOf(accountId, draftId);
      await storeInput(deps.storage, inputKey, { input: { subject, ...input } });
      const draft = { id: draftId, accountId, inputKey, metadata: null, tracking: null, trackingId: null };
      await recordDraft(deps.db, draft);
      return draftId;
    },
    async close() {
      await deps.sessions.close();
      await server.close();
    },
  };
}

it('an update of a draft that another program expunges at the same time is 404, and saves no draft', async () => {
  const { server, deps, accountId, ask, close } = await startServed();
  const previousId = await ask('before');
  await saveDraft(deps, { accountId, draftId: previousId, previousId: null });
  const [message] = server.folder('Drafts').messages;
  server.remove('Drafts', message!.uid);
  const update = saveDraft(deps, { accountId, draftId: await ask('after'), previousId });
  await expect(update).rejects.toMatchObject({ code: 'not_found' });
  expect(server.folder('Drafts').messages).toEqual([]);
  await close();
});

it('a draft that two attempts save at the same time is saved once, and both attempts succeed', async () => {
  const server = await new FakeImap({ folders: { Drafts: ['\\Drafts'] } }).listen();
  const session = await openTestSession({ user: 'reader@example.test', password: 'p', imapPort: server.port });
  const folders = await listFoldersWithStatus(session);
  await session.end();
  const deps = mailboxDeps(ground);
  const { db, storage } = deps;
  const accountId = newId('account');
  await storeServedAccount(deps, accountId, { port: server.port, folders });
  const draftId = newId('draft');
  const inputKey = inputKeyOf(accountId, draftId);
  await storeInput(storage, inputKey, { input: { subject: 'once' } });
  await recordDraft(db, { id: draftId, accountId, inputKey, metadata: null, tracking: null, trackingId: null });
  const saving = { accountId, draftId, previousId: null };
  // The other attempt saves it, and deletes its input, just before this one reads that.
  const get: typeof storage.get = async (...args) => {
    await saveDraft(deps, saving);
    return storage.get(...args);
  };
  await saveDraft({ ...deps, storage: { ...storage, get } }, saving);
  expect((await loadDraft(db, accountId, draftId))?.state).toBe('active');
  expect(server.folder('Drafts').messages).toHaveLength(1);
  await deps.sessions.close();
  await server.close();
});

it('a save keeps the draft reserved as long as an attempt is under way, and no longer', async () => {
  const { deps, accountId, ask, close } = await startServed();
  const { db, storage } = deps;
  const previousId = await ask('before');
  await saveDraft(deps, { accountId, draftId: previousId, previousId: null });
  const [draftId, otherId] = [await ask('after'), await ask('another')];
  const reserve = (by: string) => db.transaction((tx) => reserveDraft(tx, previousId, by));
  expect(await reserve(draftId)).toBe(draftId);
  let read = () => {};
  const isRead = new Promise<void>((resolve) => (read = resolve));
  const get: typeof storage.get = async (...args) => {
    await isRead;
    return storage.get(...args);
  };
  const { appendDraft } = createDraftActivities({ ...deps, storage: { ...storage, get }, renewMs: 20 });
  const attempt = new MockActivityEnvironment().run(appendDraft, { accountId, draftId, previousId });
  // as if it had begun so long ago
  const long = new Date(Date.now() - 16 * 60_000);
  await db.update(drafts).set({ updatedAt: long }).where(eq(drafts.id, draftId));
  const renewedAt = async () => (await db.select().from(drafts).where(eq(drafts.id, draftId)))[0]?.updatedAt;
  await waitFor(async () => (await renewedAt())?.getTime() !== long.getTime());
  expect(await reserve(otherId)).toBe(draftId);
  read();
  await attempt;
  expect(await loadDraft(db, accountId, previousId)).toMatchObject({ state: 'superseded', supersededBy: draftId });
  await close();
});

it('a draft whose input cannot be deleted is saved all the same', async () => {
  const { deps, accountId, ask, close } = await startServed();
  const draftId = await ask('saved');
  const storage = { ...deps.storage, delete: () => Promise.reject(new Error('away')) };
  await saveDraft({ ...deps, storage }, { accountId, draftId, previousId: null });
  expect(await loadDraft(deps.db, accountId, draftId)).toMatchObject({ state: 'active', inputKey: null });
  await close();
});

it('a save whose message another attempt has appended succeeds, though the draft that it replaces is gone', async () => {
  const { server, deps, accountId, ask, close } = await startServed();
  const previousId = await ask('before');
  await saveDraft(deps, { accountId, draftId: previousId, previousId: null });
  const [previous] = server.folder('Drafts').messages;
  const draftId = await ask('after');
  // the connection ends after APPEND
  server.script.command = (command, session) => {
    if (command.name !== 'SELECT' || server.folder('Drafts').messages.length < 2) return false;
    session.socket.destroy();
    return true;
  };
  await expect(saveDraft(deps, { accountId, draftId, previousId })).rejects.toThrow();
  server.script = {};
  server.remove('Drafts', previous!.uid);
  await deps.db.update(drafts).set({ state: 'deleted', emailId: null }).where(eq(drafts.id, previousId));
  await saveDraft(deps, { accountId, draftId, previousId });
  expect(server.folder('Drafts').messages).toHaveLength(1);
  expect((await loadDraft(deps.db, accountId, draftId))?.state).toBe('active');
  await close();
});

it('the deletion of a draft waits for its save, and is 404 once that has replaced it', async () => {
  const { server, deps, accountId, ask, close } = await startServed();
  const { db } = deps;
  const previousId = await ask('before');
  await saveDraft(deps, { accountId, draftId: previousId, previousId: null });
  const draftId = await ask('after');
  await db.transaction((tx) => reserveDraft(tx, previousId, draftId));
  const { deleteDraftMail } = createDraftActivities(deps);
  const deletion = new MockActivityEnvironment().run(deleteDraftMail, {
    accountId,
    draftId: previousId,
    isRequested: true,
  });
  deletion.catch(() => {});
  await saveDraft(deps, { accountId, draftId, previousId });
  await expect(deletion).rejects.toMatchObject({ code: 'not_found' });
  await new MockActivityEnvironment().run(deleteDraftMail, { accountId, draftId: previousId });
  expect(server.folder('Drafts').messages).toHaveLength(1);
  await new MockActivityEnvironment().run(deleteDraftMail, { accountId, draftId, isRequested: true });
  expect(server.folder('Drafts').messages).toHaveLength(0);
  await close();
});

it('a draft is sent with the headers that the caller gave, also those that programs keep in drafts, and without others', async () => {
  const { server, deps, accountId, ask, close } = await startServed();
  const given = (custom_headers: NonNullable<SendInput['custom_headers']>): SendInput => ({
    ...{ to: [{ email: 'bea@example.test' }], html: '<p>Hi</p>', custom_headers },
  });
  const saved = async (input: SendInput, previousId: string | null): Promise<string> => {
    const draftId = await ask('headers', input);
    await saveDraft(deps, { accountId, draftId, previousId });
    return draftId;
  };
  const inDrafts = () => server.folder('Drafts').messages.at(-1)!.source;
  const stamp = { from: { email: 'reader@example.test' }, messageId: '<m@example.test>', date: new Date() };
  const sent = async (draft = inDrafts(), body = '') => {
    const { delivered } = await draftForSending(Buffer.concat([draft, Buffer.from(body)]), stamp, tmpdir());
    return delivered.toString().match(/^x-[^\r]*/gim);
  };
  /** with tracking it is composed again */
  const composed = async (draft = inDrafts()) => {
    const { headers } = withoutDraftHeaders(await readDraftMessage(draft, stamp, tmpdir()));
    return headers.map(({ name, value }) => `${name}: ${value}`);
  };
  const first = await saved(
    given([
      { name: 'X-Status', value: 'gold' },
      { name: 'X-Unsent', value: '1' },
      { name: 'X-A', value: 'a' },
    ]),
    null,
  );
  const all = ['X-Status: gold', 'X-Unsent: 1', 'X-A: a'];
  expect([await sent(), await sent(inDrafts(), 'long '.repeat(300)), await composed()]).toEqual([all, all, all]);
  const second = await saved({ subject: 'other' }, first);
  expect([await sent(), await composed()]).toEqual([all, all]);

  // as another program keeps it, with its notes
  const notes = Buffer.from('X-Mozilla-Draft-Info: internal/draft\r\nX-UID: 7\r\nReceived: from x\r\n');
  const noted = Buffer.concat([notes, inDrafts()]);
  expect([await sent(noted), await composed(noted)]).toEqual([all, all]);
  // as another program writes it again
  const rewritten = Buffer.from(`X-Status: RO\r\nX-Unsent: 1\r\nX-A: a\r\nTo: bea@example.test\r\n\r\nHi`);
  expect([await sent(rewritten), await composed(rewritten)]).toEqual([['X-A: a'], ['X-A: a']]);

  await saved(given([{ name: 'X-UID', value: '12' }]), second);
  expect([await sent(), await composed()]).toEqual([['X-UID: 12'], ['X-UID: 12']]);
  await close();
});
