import { randomBytes } from 'node:crypto';
import { afterEach, expect, it } from '@jest/globals';
import { migrate, openDatabase } from '../../src/db/open.ts';
import { UnusableDatabase } from '../../src/db/driver/unusable.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';

/** Databases that could not store mail, or would not find it. */

const drops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const drop of drops.splice(0).reverse()) await drop();
});

async function createDatabase(admin: TestDatabase, options: string): Promise<string> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  const { pool } = admin.database;
  await pool.query(`CREATE DATABASE ${name} TEMPLATE template0 LOCALE_PROVIDER libc ${options}`);
  drops.push(() => pool.query(`DROP DATABASE ${name} WITH (FORCE)`));
  const url = new URL(admin.url);
  url.pathname = name;
  return url.href;
}

it.each([
  ["ENCODING 'LATIN1' LC_CTYPE 'C' LC_COLLATE 'C'", /encoding is LATIN1: use one in UTF8/],
  ["ENCODING 'SQL_ASCII' LC_CTYPE 'C' LC_COLLATE 'C'", /encoding is SQL_ASCII: use one in UTF8/],
  ["ENCODING 'UTF8' LC_CTYPE 'C' LC_COLLATE 'C'", /LC_CTYPE knows the letters of ASCII only/],
])('a database with %s is refused, and nothing is created in it', async (options, message) => {
  const admin = await testDatabase();
  drops.push(() => admin.drop());
  const database = openDatabase(await createDatabase(admin, options), { max: 1 });
  try {
    const migrating = migrate(database);
    await expect(migrating).rejects.toThrow(UnusableDatabase);
    await expect(migrating).rejects.toThrow(message);
    const { rows } = await database.pool.query(
      "SELECT count(*)::int AS tables FROM pg_tables WHERE schemaname = 'public'",
    );
    expect(rows).toEqual([{ tables: 0 }]);
  } finally {
    await database.close();
  }
});
