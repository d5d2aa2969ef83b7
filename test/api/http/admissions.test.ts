import { afterAll, beforeAll, expect, it, jest } from '@jest/globals';
import { createAdmissions } from '../../../src/api/http/admissions.ts';
import { createApiKey, deleteApiKey } from '../../../src/db/access/api-keys.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

let test: TestDatabase;

beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

const newKey = async () => createApiKey(test.database.db, { name: 'one', expiresAt: null });

it('looks a key up once for many calls', async () => {
  const { key } = await newKey();
  const accountId = await storeAccount(test.database);
  const query = jest.spyOn(test.database.pool, 'query');
  const admissions = createAdmissions(test.database.pool);
  for (let call = 0; call < 50; call++) expect((await admissions.admit(key, accountId))?.accountExists).toBe(true);
  const lookUps = query.mock.calls.filter(([statement]) => (statement as { name?: string }).name === 'admit');
  query.mockRestore();
  expect(lookUps.length).toBeLessThan(5);
});

it('rejects a key everywhere once its revocation has returned', async () => {
  const { apiKey, key } = await newKey();
  const processes = [createAdmissions(test.database.pool), createAdmissions(test.database.pool)];
  for (const each of processes) expect(await each.admit(key, undefined)).toBeDefined();
  await deleteApiKey(test.database.db, apiKey.id);
  await processes[0]!.forget();
  for (const each of processes) expect(await each.admit(key, undefined)).toBeUndefined();
});

it('finds a new account immediately after a failed look-up', async () => {
  const { key } = await newKey();
  const admissions = createAdmissions(test.database.pool);
  const accountId = await storeAccount(test.database);
  await test.database.pool.query('update accounts set removed_at = now() where id = $1', [accountId]);
  expect((await admissions.admit(key, accountId))?.accountExists).toBe(false);
  await test.database.pool.query('update accounts set removed_at = null where id = $1', [accountId]);
  expect((await admissions.admit(key, accountId))?.accountExists).toBe(true);
});
