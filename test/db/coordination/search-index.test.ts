import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { searchIndexMerger } from '../../../src/db/coordination/search-index.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

/** The pending list of the text index, in a real Postgres. */

let test: TestDatabase;
beforeAll(async () => {
  // one connection: it flushes its own statistics
  test = await testDatabase({ max: 1 });
});
afterAll(() => test.drop());

let written = 0;
async function write(emails: number): Promise<void> {
  await test.database.pool.query(
    `insert into email_search (email_id, account_id, date, text, subject, from_address, to_addresses)
     select 'email_' || n, 'acc', now(), ' text ' || n || ' ', ' subject ', 'a@example.test', '{}'
     from generate_series($1::int, $2::int) n`,
    [written + 1, written + emails],
  );
  written += emails;
  await test.database.pool.query('select pg_stat_force_next_flush()');
}

/** Whether entries were left to merge; merges them. */
async function wereLeft(): Promise<boolean> {
  const { rows } = await test.database.pool.query<{ pages: string }>(
    `select gin_clean_pending_list('email_search_text') as pages`,
  );
  return Number(rows[0]?.pages) > 0;
}

it('merges 500 emails together, or what there is after five minutes', async () => {
  let now = 0;
  const merge = searchIndexMerger(test.database.db, () => now);
  await write(3);
  await merge();
  expect(await wereLeft()).toBe(false);

  await write(499);
  await merge();
  expect(await wereLeft()).toBe(true);
  await write(1);
  await merge();
  expect(await wereLeft()).toBe(false);

  await write(1);
  now = 299_999;
  await merge();
  expect(await wereLeft()).toBe(true);
  await write(1);
  now = 300_000;
  await merge();
  expect(await wereLeft()).toBe(false);
});

it('merges when the statistics of Postgres begin again', async () => {
  const merge = searchIndexMerger(test.database.db);
  await merge();
  await test.database.pool.query('select pg_stat_reset()');
  await write(2);
  await merge();
  expect(await wereLeft()).toBe(false);
});
