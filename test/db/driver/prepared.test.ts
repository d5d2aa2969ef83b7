import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { prepared } from '../../../src/db/driver/prepared.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

let test: TestDatabase;

beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

const sumOf = (a: number, b: number) => prepared(sql`select ${a}::int + ${b}::int as sum`);

it('a statement is prepared once for each connection, and run with other values each time', async () => {
  await test.database.db.transaction(async (tx) => {
    for (const [a, b, sum] of [
      [1, 2, 3],
      [20, 30, 50],
    ] as const) {
      const { rows } = await tx.execute(sumOf(a, b));
      expect(rows).toEqual([{ sum }]);
    }
    await tx.execute(sql`select 7::int as not_kept`);
    const { rows } = await tx.execute(sql`
      select statement, generic_plans + custom_plans as plans from pg_prepared_statements where statement like '%sum%' or
        statement like '%not_kept%'`);
    expect(rows).toEqual([{ statement: expect.stringContaining('as sum') as unknown, plans: '2' }]);
  });
});

it('a failed statement can be repeated on its connection', async () => {
  const divided = (by: number) => prepared(sql`select 10 / ${by}::int as quotient`);
  const client = test.database.db;
  await expect(Promise.resolve(client.execute(divided(0)))).rejects.toThrow();
  expect((await client.execute(divided(5))).rows).toEqual([{ quotient: 2 }]);
});
