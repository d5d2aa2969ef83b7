import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import {
  accountIdsAfter,
  findConnections,
  getAccount,
  listAccounts,
  mailboxKeyOf,
  markRemoved,
  changeAccount,
} from '../../../src/db/queries/accounts.ts';
import { accounts } from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';
import { testDatabase, type TestDatabase } from '../../helpers/servers/postgres.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

let test: TestDatabase;
let ids: string[];
let removed: string;
beforeAll(async () => {
  test = await testDatabase();
  const { db } = test.database;
  ids = [];
  for (const name of ['Ann', '100% Bob', 'under_score', 'Émile']) ids.push(await storeAccount(test.database, { name }));
  removed = await storeAccount(test.database, { name: 'Gone' });
  await db.transaction((tx) => markRemoved(tx, removed, new Date()));
  await db
    .update(accounts)
    .set({ status: 'errored' })
    .where(eq(accounts.id, ids[1] ?? ''));
});
afterAll(() => test.drop());

const page = { offset: 0, limit: 20 };
const list = async (query: Partial<Parameters<typeof listAccounts>[1]>) =>
  (await listAccounts(test.database.db, { ...page, ...query })).data.map(({ id }) => id);

it('lists accounts oldest first, without those being removed', async () => {
  expect(await list({})).toEqual(ids);
});

it('pages by offset', async () => {
  const { db } = test.database;
  expect(await listAccounts(db, { offset: 0, limit: 3 })).toMatchObject({ hasMore: true, data: { length: 3 } });
  expect(await listAccounts(db, { offset: 3, limit: 3 })).toMatchObject({ hasMore: false, data: { length: 1 } });
  expect(await listAccounts(db, { offset: 9, limit: 3 })).toEqual({ hasMore: false, data: [] });
});

it('searches names and ids, with wildcards taken literally', async () => {
  expect(await list({ search: 'aNN' })).toEqual([ids[0]]);
  expect(await list({ search: '0%' })).toEqual([ids[1]]);
  expect(await list({ search: '_' })).toEqual(ids);
  expect(await list({ search: 'r_s' })).toEqual([ids[2]]);
  expect(await list({ search: '%' })).toEqual([ids[1]]);
  expect(await list({ search: '\\' })).toEqual([]);
  expect(await list({ search: ids[3] ?? '' })).toEqual([ids[3]]);
});

it('filters by status', async () => {
  expect(await list({ status: 'errored' })).toEqual([ids[1]]);
  expect(await list({ status: 'errored', search: 'Ann' })).toEqual([]);
});

it('replaces the entire metadata of an existing account', async () => {
  const { db } = test.database;
  const id = ids[0] ?? '';
  expect((await changeAccount(db, id, { metadata: { a: '1' } }))?.metadata).toEqual({ a: '1' });
  await changeAccount(db, id, { metadata: { b: '2' } });
  expect((await getAccount(db, id))?.metadata).toEqual({ b: '2' });
  expect(await changeAccount(db, removed, {})).toBeUndefined();
  expect(await changeAccount(db, newId('account'), {})).toBeUndefined();
});

it('applies a choice of folders anew only where it differs', async () => {
  const { db } = test.database;
  const [id = ''] = ids;
  const isApplied = async (exclude: string[] | null) => {
    await changeAccount(db, id, { folderChoice: exclude && { exclude } });
    const [row] = await db.select({ applied: accounts.choiceApplied }).from(accounts).where(eq(accounts.id, id));
    return row?.applied;
  };
  const apply = () => db.update(accounts).set({ choiceApplied: true }).where(eq(accounts.id, id));
  expect(await isApplied(null)).toBe(true);
  expect(await isApplied(['SPAM'])).toBe(false);
  // not applied yet
  expect(await isApplied(['SPAM'])).toBe(false);
  await apply();
  expect(await isApplied(['SPAM'])).toBe(true);
  expect(await isApplied(['TRASH'])).toBe(false);
  await apply();
  expect(await isApplied(null)).toBe(false);
});

it('finds a mailbox by host and user in any case, unless it is being removed', async () => {
  const { db } = test.database;
  const mailboxKey = mailboxKeyOf({ host: 'MAIL.example.test', user: (ids[0] ?? '').toUpperCase() });
  expect((await findConnections(db, { mailboxKey })).map(({ id }) => id)).toEqual([ids[0]]);
  expect(await findConnections(db, { id: removed })).toEqual([]);
});

it('pages through all ids, including removed accounts', async () => {
  const { db } = test.database;
  const first = await accountIdsAfter(db, '', 3);
  const rest = await accountIdsAfter(db, first.at(-1)?.id ?? '', 3);
  expect([...first, ...rest]).toEqual([...ids.map((id) => ({ id, removed: false })), { id: removed, removed: true }]);
});
