import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { migrate, openDatabase } from '../../src/db/client.ts';
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
