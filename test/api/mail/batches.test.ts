import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { EmailBatch } from '../../../src/contract/email.ts';
import { completeBatch, itemsChanged, itemsFailed, nextOfBatch } from '../../../src/mailbox/store/batches.ts';
import { newId } from '../../../src/new-id.ts';
import { storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

let api: ApiUnderTest;
let account: string;
let inbox: string;
const emails: string[] = [];
const started: string[] = [];
beforeAll(async () => {
  api = await apiUnderTest({ commands: { startBatch: async ({ id }) => void started.push(id) } });
  account = await storeAccount(api.database);
  inbox = await storeFolder(api.database, account, { role: 'INBOX' });
  for (const unread of [true, false, true]) {
    emails.push((await storeEmail(api.database, account, { folders: [inbox], unread })).id);
  }
});
afterAll(() => api.close());

const STAR = { is_starred: true };
const post = (body: object, headers: Record<string, string> = {}) =>
  api.call('POST', `/${account}/emails/batch`, { body, headers });

it('is accepted with its emails, and has their results', async () => {
  const answer = await post({ ids: [...emails, emails[0]], change: STAR });
  const batch = answer.json<EmailBatch>();
  expect([answer.statusCode, batch]).toEqual([
    200,
    expect.objectContaining({ status: 'running', total: 3, pending: 3, changed: 0, failed: 0, completed_at: null }),
  ]);
  expect(started).toContain(batch.id);
  const next = await nextOfBatch(api.database.db, batch.id, 10);
  expect(next?.change).toEqual({ flags: { add: ['\\Flagged'], remove: [] } });
  const items = next?.items ?? [];
  await itemsChanged(api.database.db, batch.id, items.slice(0, 2));
  await itemsFailed(api.database.db, batch.id, items.slice(1), { code: 'not_found', detail: 'no email has this id' });
  await completeBatch(api.database.db, batch.id);

  const path = `/${account}/batches/${batch.id}`;
  expect(await api.get(path)).toMatchObject({ status: 'completed', pending: 0, changed: 2, failed: 1 });
  const failed = await api.get<{ data: object[] }>(`${path}/results?status=failed`);
  const error = { type: 'errors/not_found', detail: 'no email has this id' };
  expect(failed.data).toEqual([{ object: 'EmailBatchResult', email_id: emails[2], status: 'failed', error }]);
  const first = await api.get<{ data: { email_id: string }[]; cursor: string }>(`${path}/results?limit=2`);
  const rest = await api.get<{ data: { email_id: string }[]; has_more: boolean }>(
    `${path}/results?limit=2&cursor=${first.cursor}`,
  );
  expect([...first.data, ...rest.data].map(({ email_id: id }) => id)).toEqual(emails);
  expect(rest.has_more).toBe(false);
});

it('has the emails that its filter chose when it was accepted', async () => {
  const call = () =>
    post({ filter: { is_unread: true, folder_id: inbox }, change: STAR }, { 'idempotency-key': 'once' });
  const batch = (await call()).json<EmailBatch>();
  expect(batch.total).toBe(2);
  await storeEmail(api.database, account, { folders: [inbox], unread: true });
  expect((await call()).json()).toEqual(batch);
  const items = (await nextOfBatch(api.database.db, batch.id, 10))?.items.map(({ emailId }) => emailId);
  expect(items).toEqual([emails[2], emails[0]]);
});

it('is completed at once without an email', async () => {
  const answer = await post({ filter: { q: 'zeppelin' }, change: { trash: true } });
  expect(answer.json()).toMatchObject({ status: 'completed', total: 0 });
});

it.each([
  ['no emails', { change: STAR }],
  ['both', { ids: ['x'], filter: { q: 'x' }, change: STAR }],
  ['an empty filter', { filter: {}, change: STAR }],
  ['a filter that every email passes', { filter: { q: ' ', keyword: ',', exclude_folder: '' }, change: STAR }],
  ['no change', { ids: ['x'], change: {} }],
  ['two targets', { ids: ['x'], change: { trash: true, folders_ids: ['x'] } }],
  ['too many ids', { ids: Array.from({ length: 10_001 }, (_, n) => `email_${n}`), change: STAR }],
])('is refused with %s', async (_, body) => {
  expect((await post(body)).statusCode).toBe(400);
});

it('is refused when its filter has an unknown condition, which would otherwise choose all emails', async () => {
  const answer = await post({ filter: { folder_id: inbox, unread: true }, change: { trash: true } });
  expect([answer.statusCode, answer.json()]).toEqual([
    400,
    expect.objectContaining({
      detail: 'filter.unread is unknown',
      errors: [{ path: 'filter.unread', message: 'is unknown' }],
    }),
  ]);
});

it.each([
  ['q', { q: ' \u200b' }],
  ['subject', { subject: '' }],
  ['keyword', { keyword: ' , ' }],
  ['exclude_folder', { exclude_folder: ',' }],
  ['from', { from: ' ' }],
  ['any_email', { any_email: '' }],
])(
  'is refused when %s is empty beside another condition, which would choose what it was to exclude',
  async (name, empty) => {
    const answer = await post({ filter: { is_unread: true, ...empty }, change: { trash: true } });
    expect([answer.statusCode, answer.json()]).toEqual([
      400,
      expect.objectContaining({
        detail: `filter.${name} is empty`,
        errors: [{ path: `filter.${name}`, message: 'is empty' }],
      }),
    ]);
  },
);

it('is refused when its filter excludes an unknown folder', async () => {
  const filter = (ids: string[]) => ({ is_unread: true, exclude_folder: ids.join(',') });
  expect((await post({ filter: filter([inbox, newId('folder')]), change: STAR })).statusCode).toBe(404);
  expect((await post({ filter: filter([inbox]), change: STAR })).json()).toMatchObject({ total: 0 });
});

it('is refused with an unknown folder, and not found by other accounts', async () => {
  expect((await post({ ids: emails, change: { folders_ids: [newId('folder')] } })).statusCode).toBe(404);
  const other = await storeAccount(api.database);
  const { id } = (await post({ ids: emails, change: STAR })).json<EmailBatch>();
  for (const path of [`/${other}/batches/${id}`, `/${other}/batches/${id}/results`]) {
    expect((await api.call('GET', path)).statusCode).toBe(404);
  }
});

it('a folder of another account is not found, and none of its emails are listed', async () => {
  const other = await storeAccount(api.database);
  const answer = await api.call('POST', `/${other}/emails/batch`, {
    body: { filter: { folder_id: inbox }, change: STAR },
  });
  expect([answer.statusCode, answer.json().type]).toEqual([404, 'errors/not_found']);
  const listed = async (path: string) => (await api.get<{ data: object[] }>(path)).data.length;
  expect(await listed(`/emails?account_ids=${account}&folder_id=${inbox}`)).toBeGreaterThan(0);
  expect(await listed(`/emails?account_ids=${other}&folder_id=${inbox}`)).toBe(0);
});
