import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { readTokens } from '../../../src/db/coordination/oauth-tokens.ts';
import { compile, slot, statement } from '../../../src/db/driver/statement.ts';
import { loadSyncSettings } from '../../../src/mailbox/settings.ts';
import { loadFolders } from '../../../src/mailbox/store/folders.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

let test: TestDatabase;

beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

const sumOf = statement('sum_of', (a: number, b: number) => sql`select ${a}::int + ${b}::int as sum`);

it('a named statement is planned once on its connection, for other values each time', async () => {
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

it('a statement that failed runs again on its connection', async () => {
  const divided = statement('divided', (by: number) => sql`select 10 / ${by}::int as quotient`);
  const client = test.database.db;
  await expect(Promise.resolve(client.execute(divided(0)))).rejects.toThrow();
  expect((await client.execute(divided(5))).rows).toEqual([{ quotient: 2 }]);
});

it('a compiled statement takes its values by name, and keeps its own', async () => {
  const sum = compile(statement('compiled_sum', () => sql`select ${slot('a')}::int + ${slot('b')}::int as sum`)());
  const { pool } = test.database;
  expect((await pool.query(sum({ a: 1, b: 2 }))).rows).toEqual([{ sum: 3 }]);
  expect((await pool.query(sum({ b: 5, a: 4 }))).rows).toEqual([{ sum: 9 }]);
  const client = await pool.connect();
  try {
    await client.query(sum({ a: 1, b: 1 }));
    const { rows } = await client.query('select name from pg_prepared_statements where name like $1', [
      'compiled_sum%',
    ]);
    expect(rows).toHaveLength(1);
  } finally {
    client.release();
  }
});

it('two texts under one name are two statements', async () => {
  const either = statement('either', (isFirst: boolean) => (isFirst ? sql`select 1 as a` : sql`select 2 as b`));
  await test.database.db.transaction(async (tx) => {
    expect((await tx.execute(either(true))).rows).toEqual([{ a: 1 }]);
    expect((await tx.execute(either(false))).rows).toEqual([{ b: 2 }]);
  });
});

// before it, a process beside a newer one failed its first send on each connection (0A000)
it('statements that connections keep continue when a migration adds a column beside them', async () => {
  const { db } = test.database;
  const read = () => Promise.all([loadSyncSettings(db, 'acc_1'), loadFolders(db, 'acc_1'), readTokens(db, 'acc_1')]);
  await read();
  for (const table of ['accounts', 'folders', 'oauth_tokens']) {
    await db.execute(sql`alter table ${sql.identifier(table)} add column later text`);
  }
  for (let times = 0; times < 5; times++) expect(await read()).toEqual([undefined, [], undefined]);
});

it('no statement that connections keep selects or returns all columns of a table', () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  const found = files.flatMap((file) => {
    const text = readFileSync(join('src', file), 'utf8');
    const kept = text.matchAll(
      /\bstatement\(\s*'(\w+)',[^`]*?sql`\s*(?:select (?:\w+\.)?\*|[^`]*\breturning (?:\w+\.)?\*\s*`)/g,
    );
    return [...kept].map(([, name]) => `${file}: ${name}`);
  });
  expect(found).toEqual([]);
});
