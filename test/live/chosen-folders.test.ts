import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account, MailboxVerification } from '../../src/contract/account.ts';
import type { FolderChoice } from '../../src/contract/mailbox-config.ts';
import type { EmailBatch } from '../../src/contract/email.ts';
import type { Import } from '../../src/contract/runs/import.ts';
import { emailOf } from '../helpers/fakes/receiver.ts';
import { brief, type ConnectedUser, connectUser, type OwnLive, startLive } from '../helpers/product/live.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import type { Mailbox } from '../helpers/product/mailbox.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** Accounts that store only some folders of their mailbox: what is in the others is in no row, event or file. */

const CANARY = 'zanzibarine';

let live: OwnLive;
beforeAll(async () => {
  live = await startLive({ SYNC_POLL_INTERVAL: '1s', STORAGE_ENCRYPTION: 'false' });
}, 120_000);
afterAll(() => live?.close());

/** The tables and files that hold the word. */
async function placesWith(word: string): Promise<string[]> {
  const places: string[] = [];
  const { rows: tables } = await live.pool.query<{ name: string }>(
    "select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'",
  );
  for (const { name } of tables) {
    const { rows } = await live.pool.query<{ text: string }>(`select t::text as text from "${name}" t`);
    const isIn = rows.some(
      ({ text }) => text.toLowerCase().includes(word) || text.includes(Buffer.from(word).toString('hex')),
    );
    if (isIn) places.push(name);
  }
  const files = await readdir(live.product.dataDir, { recursive: true, withFileTypes: true });
  for (const file of files.filter((each) => each.isFile() && each.name !== 'log')) {
    const bytes = await readFile(join(file.parentPath, file.name)).catch(() => Buffer.alloc(0));
    if (bytes.toString('latin1').toLowerCase().includes(word)) places.push(file.name);
  }
  if (live.receiver.calls.some(({ body }) => body.toString().toLowerCase().includes(word))) places.push('a call');
  return places;
}

const mail = (word: string, n = 1) => ({
  subject: `about ${word} ${n}`,
  text: `a text on ${word}`,
  from: `${word}@example.test`,
});
async function fill(box: Mailbox, folder: string, word: string): Promise<void> {
  await box.append(folder, mail(word, 1));
  await box.append(folder, mail(word, 2), { date: new Date('2024-03-04T05:06:07Z') });
}

const choose = ({ account }: ConnectedUser, folders: FolderChoice | null) =>
  live.api.patch<Account>(`/accounts/${account.id}`, { folders });
const names = async ({ account }: ConnectedUser) => (await live.api.folders(account.id)).map(({ name }) => name);
const subjects = async ({ account }: ConnectedUser) =>
  (await live.api.emails(account.id)).data.map(({ subject }) => subject).sort();

test('what is in a folder that was excluded at the connect is stored nowhere', async () => {
  const word = `${CANARY}one`;
  const ana = await connectUser(live, {
    before: async (box) => {
      await box.createFolder('Private');
      await box.createFolder('Private/Deep');
      await fill(box, 'Private/Deep', word);
      await fill(box, 'INBOX', 'harbour');
    },
    config: { initial_sync_enable: true, history: 'all', folders: { exclude: ['Private', 'SPAM'] } },
  });
  await ana.event('import.completed', undefined, { timeoutMs: 60_000 });
  expect((await subjects(ana)).length).toBe(2);
  expect(await names(ana)).toEqual(['INBOX', 'Sent', 'Drafts', 'Trash', 'Archive']);
  await ana.box.append('Private', mail(word, 3));
  await ana.box.append('Junk', mail(word, 4));
  await ana.settle();
  const verified = await live.api.post<MailboxVerification>(`/accounts/${ana.account.id}/verify`);
  expect(verified).toMatchObject({ status: 'completed', differences: 0 });
  const imported = await live.api.post<Import>(`/accounts/${ana.account.id}/imports`, {});
  const status = async () => (await live.api.get<Import>(`/accounts/${ana.account.id}/imports/${imported.id}`)).status;
  await waitFor(async () => (await status()) === 'completed', { timeoutMs: 30_000, what: 'the second import' });
  expect(await placesWith(word)).toEqual([]);

  // moved out of the folder, it is mail as any other
  await ana.box.move('Private', await ana.box.uids('Private'), 'INBOX');
  await ana.event('email.new', (call) => emailOf(call).subject === `about ${word} 3`);
  // and moved back, it is gone
  const last = (await ana.box.uids('INBOX')).at(-1)!;
  await ana.box.move('INBOX', last, 'Private');
  await ana.event('email.delete', (call) => emailOf(call).subject === `about ${word} 3`);
  await ana.box.close();
}, 180_000);

test('a stored folder that is excluded leaves without an event; included again, its mail is found and not new', async () => {
  const word = `${CANARY}two`;
  const ben = await connectUser(live, {
    before: async (box) => {
      await box.createFolder('Secret');
      await fill(box, 'Secret', word);
      await fill(box, 'INBOX', 'lantern');
    },
    config: { history: 'all' },
  });
  await ben.event('import.completed', undefined, { timeoutMs: 60_000 });
  await ben.box.append('Secret', mail(word, 3));
  await ben.event('email.new', (call) => emailOf(call).subject === `about ${word} 3`);
  const both = await ben.receive('INBOX', 'in both');
  await ben.box.client.mailboxOpen('INBOX');
  await ben.box.client.messageCopy(String(both.uid), 'Secret', { uid: true });
  const id = emailOf(both.call).id;
  await waitFor(async () => (await live.api.email(ben.account.id, id)).folders.length === 2, { what: 'the copy' });
  await ben.settle();

  expect((await choose(ben, { exclude: ['secret'] })).folders).toEqual({ exclude: ['secret'] });
  await waitFor(async () => !(await names(ben)).includes('Secret'), { timeoutMs: 30_000, what: 'the folder to leave' });
  const left = await subjects(ben);
  expect(left).toEqual(['a mark', 'about lantern 1', 'about lantern 2', 'in both']);
  expect((await live.api.email(ben.account.id, id)).folders).toEqual([
    (await live.api.folder(ben.account.id, 'INBOX')).id,
  ]);
  expect(brief(await ben.settle())).toEqual(['email.update in both']);
  await ben.box.append('Secret', mail(word, 4));
  await ben.settle();
  // the calls were made before
  expect((await placesWith(word)).filter((place) => place !== 'a call')).toEqual([]);

  await choose(ben, null);
  await waitFor(async () => (await subjects(ben)).filter((subject) => subject.includes(word)).length === 4, {
    timeoutMs: 90_000,
    what: 'the import',
  });
  await waitFor(async () => (await live.api.email(ben.account.id, id)).folders.length === 2, {
    what: 'the copy again',
  });
  const events = brief(await ben.settle());
  expect(events.filter((line) => line.startsWith('email.new'))).toEqual([]);
  expect(events).toContain('email.folder.create Secret');
  const { call } = await ben.receive('Secret', 'new in it');
  expect(call.event.type).toBe('email.new');
  await ben.box.close();
}, 240_000);

test('Sent, Trash and Drafts that are not included get mail, and nothing of it is stored', async () => {
  const word = `${CANARY}three`;
  const cleo = await connectUser(live, {
    before: (box) => fill(box, 'INBOX', 'meadow'),
    config: { initial_sync_enable: true, initial_sync_days: 30, folders: { include: ['INBOX'] } },
  });
  const { account, box, user } = cleo;
  await cleo.event('account.initial_sync.completed', undefined, { timeoutMs: 60_000 });
  const sent = await live.api.post<{ id: string }>(`/${account.id}/emails/send`, {
    // one who gets it: a bounce would quote it in INBOX
    to: [{ email: (await addUser()).user }],
    subject: `about ${word}`,
    plain_text: word,
  });
  await waitFor(async () => (await box.uids('Sent')).length === 1, { what: 'the copy in Sent' });
  await waitFor(async () => (await live.api.request('GET', `/${account.id}/emails/${sent.id}`)).status === 404, {
    timeoutMs: 30_000,
    what: 'the send to be done',
  });
  let left: string[] = [];
  await waitFor(async () => (left = await placesWith(word)).length === 0, {
    timeoutMs: 20_000,
    what: () => `nothing to be left of it, in ${left.join()}`,
  });

  const refused = await live.api.request('POST', `/${account.id}/drafts`, { subject: 'a draft' });
  expect(refused.status).toBe(422);
  expect(await refused.json()).toMatchObject({ detail: expect.stringMatching(/do not include DRAFTS/) });
  const create = await live.api.request('POST', `/${account.id}/folders`, { name: 'Other' });
  expect(create.status).toBe(400);

  const trashed = await cleo.receive('INBOX', 'to be trashed');
  await live.api.delete(`/${account.id}/emails/${emailOf(trashed.call).id}`);
  await cleo.event('email.delete', (call) => emailOf(call).subject === 'to be trashed');
  for (const n of [1, 2]) await cleo.receive('INBOX', `harvest ${n}`);
  const batch = await live.api.post<EmailBatch>(`/${account.id}/emails/batch`, {
    filter: { q: 'harvest' },
    change: { trash: true },
  });
  const state = () => live.api.get<EmailBatch>(`/${account.id}/batches/${batch.id}`);
  await waitFor(async () => (await state()).status === 'completed', { timeoutMs: 30_000, what: 'the batch' });
  expect(await state()).toMatchObject({ changed: 2, failed: 0 });
  expect((await box.uids('Trash')).length).toBe(3);
  expect(await names(cleo)).toEqual(['INBOX']);
  expect(user.user).toBe(account.user_id);
  await box.close();
}, 180_000);
