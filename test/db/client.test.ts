import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { migrate, openDatabase } from '../../src/db/client.ts';
import { waitForCollected } from '../helpers/garbage.ts';
import { type TestDatabase, testDatabase } from '../helpers/postgres.ts';

describe('the database', () => {
  let test: TestDatabase;
  beforeAll(async () => {
    test = await testDatabase();
  });
  afterAll(() => test.drop());

  it.each(['日本語テスト', 'ünïcode', 'Привет', 'שלום', 'ไทย'])('takes the letters of %s for letters', async (word) => {
    const { rows } = await test.database.pool.query('SELECT show_trgm($1) AS trigrams', [word]);
    expect(rows[0].trigrams.length).toBeGreaterThan(2);
  });

  it.each([undefined, { connectMs: 5000, queryMs: 5000 }])(
    'lets go of what was read on a new connection',
    async (patience) => {
      const { pool, close } = openDatabase(test.url, { max: 1, ...(patience && { patience }) });
      // the first query makes the pool connect
      const read = async () => new WeakRef((await pool.query("SELECT 'a mail' AS text")).rows[0] as object);
      try {
        const row = await read();
        await waitForCollected(row, 'the row of the first query');
        expect(pool.totalCount).toBe(1);
      } finally {
        await close();
      }
    },
  );

  it('migrates once when several processes begin at the same time', async () => {
    const name = `${new URL(test.url).pathname.slice(1)}_empty`;
    await test.database.pool.query(`CREATE DATABASE ${name}`);
    const url = test.url.replace(/\/[^/]+$/, `/${name}`);
    const databases = [1, 2, 3].map(() => openDatabase(url));
    try {
      await Promise.all(databases.map((database) => migrate(database)));
      const { rows } = await databases[0]!.pool.query('SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations');
      expect(rows[0].n).toBeGreaterThan(0);
      await migrate(databases[1]!);
      const again = await databases[0]!.pool.query('SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations');
      expect(again.rows).toEqual(rows);
    } finally {
      await Promise.all(databases.map((database) => database.close()));
      await test.database.pool.query(`DROP DATABASE ${name} WITH (FORCE)`);
    }
  });
});
