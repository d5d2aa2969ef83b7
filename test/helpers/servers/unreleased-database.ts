import { readFileSync } from 'node:fs';
import { type TestDatabase, testDatabase } from './postgres.ts';

const MIGRATIONS = new URL('../../fixtures/migrations-to-0018.sql', import.meta.url);

/** A separate database without rows, as the nineteen migrations of the last version before 0.1.0 made it. */
export async function unreleasedDatabase(): Promise<TestDatabase> {
  const test = await testDatabase({ max: 2 });
  await test.database.pool.query('DROP SCHEMA drizzle CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public');
  await test.database.pool.query(readFileSync(MIGRATIONS, 'utf8'));
  return test;
}
