import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { insertRows } from '../../../src/db/driver/insert-rows.ts';
import { Writes } from '../../../src/db/driver/writes.ts';
import { finishedRuns, workers } from '../../../src/db/schema/index.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

const update = sql`update workers set watches = watches + 1`;

it('two statements of one flush on one table are refused', () => {
  const writes = new Writes();
  writes.add('first', update, { table: workers });
  expect(() => writes.add('second', update, { table: workers })).toThrow('two statements of one flush change workers');
});

it.each([
  [false, true],
  [true, false],
])('one of two that says it is disjoint is not enough: %s, %s', (first, second) => {
  const writes = new Writes();
  writes.add('first', update, { table: workers, isDisjoint: first });
  expect(() => writes.add('second', update, { table: workers, isDisjoint: second })).toThrow('workers');
});

it('disjoint inserts and statements on other tables run as one; the next flush begins anew', async () => {
  const { db } = test.database;
  const writes = new Writes();
  for (let round = 0; round < 2; round++) {
    await insertRows(writes, finishedRuns, [{ runId: `a${round}` }]);
    await insertRows(writes, finishedRuns, [{ runId: `b${round}` }]);
    writes.add('workers', sql`insert into workers (id, seen_at) values (${`w${round}`}, now())`, { table: workers });
    writes.select('seven', sql`7`);
    expect(await db.transaction((tx) => writes.flush(tx))).toEqual({ seven: 7 });
  }
  const { rows } = await db.execute(sql`
    select (select count(*) from finished_runs)::int as runs, (select count(*) from workers)::int as workers`);
  expect(rows).toEqual([{ runs: 4, workers: 2 }]);
});

it('text that Postgres refuses is stored without it', async () => {
  const { db } = test.database;
  await db.transaction((tx) => insertRows(tx, finishedRuns, [{ runId: 'a\ud800b\0c \\ud800 😀' }]));
  const { rows } = await db.execute(sql`select run_id as id from finished_runs where run_id like '%😀'`);
  expect(rows).toEqual([{ id: 'a\ufffdbc \\ud800 😀' }]);
});
