import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { createDataKeys, forgetOnRemoval } from '../../src/security/data-keys.ts';
import { LEASES_CHANNEL } from '../../src/db/coordination/lease.ts';
import { listenTo } from '../../src/db/driver/listen.ts';
import { announceLease } from '../../src/db/coordination/lease.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { waitFor } from '../helpers/assert/wait.ts';

let test: TestDatabase;
const closing: (() => Promise<void>)[] = [];
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(async () => {
  await Promise.all(closing.map((close) => close()));
  await test.drop();
});

const secrets = createSecrets({ current: randomBytes(32) });

/** The keys of one process. */
function startKeys() {
  const keys = createDataKeys({ db: test.database.db, secrets });
  const removals = listenTo(test.url, { [LEASES_CHANNEL]: forgetOnRemoval(keys) }, createLogger('silent', 'test'));
  closing.push(() => removals.close());
  return keys;
}

it('every process forgets the key of a removed account, and no other', async () => {
  const [own, other] = [await storeAccount(test.database), await storeAccount(test.database)];
  const processes = [startKeys(), startKeys()];
  const query = (text: string, ...values: unknown[]) => test.database.pool.query(text, values);
  const found = () => Promise.all(processes.flatMap((keys) => [keys.find(own), keys.find(other)]));
  await processes[0]?.take(own);
  await processes[0]?.take(other);
  // both listen: from now on only removals drop keys
  await waitFor(async () => {
    const { rowCount } = await query(
      `select from pg_stat_activity where query like 'listen%' and datname = current_database()`,
    );
    return rowCount === 2;
  });
  expect((await found()).every((key) => key !== undefined)).toBe(true);
  // from now on keys are found in memory
  await query('update accounts set data_key = null, removed_at = case when id = $1 then now() end', own);
  expect((await found()).every((key) => key !== undefined)).toBe(true);
  await announceLease(test.database.db, own);
  await waitFor(async () => (await found()).filter((key) => key === undefined).length === 2);
  expect((await found()).map((key) => key !== undefined)).toEqual([false, true, false, true]);
});
