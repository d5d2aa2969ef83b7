import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import type { PoolClient } from 'pg';
import { readSchema, type SchemaLine } from './schema-lines.ts';
import { UnusableDatabase } from './unusable.ts';

/*
 * Versions before 0.1.0 had nineteen migrations, which are now one. A database that has all of them gets the record of
 * that one instead: its schema is the same, except for the order of columns.
 */

/** The time of the last of the nineteen migrations, `0018_finished_runs`, which identifies it in drizzle's records. */
const LAST_BEFORE = 1_795_461_610_728;
/** The last commit with those migrations. */
const LAST_COMMIT = '7646dca';
const SHOWN_DIFFERENCES = 3;

/**
 * Adopts a database that a version before 0.1.0 has migrated; other databases are unchanged. The caller holds the lock of
 * migrations. It takes only locks of reads, so it does not wait for transactions of an earlier version that still runs.
 * Throws UnusableDatabase; then the caller closes the connection, which rolls back.
 */
export async function adoptUnreleased(client: PoolClient, migrationsFolder: string): Promise<void> {
  const [first] = readMigrationFiles({ migrationsFolder });
  if (!first) throw new Error(`${migrationsFolder} holds no migration`);
  const last = await lastRecord(client, first);
  if (last === undefined) return;
  if (last !== LAST_BEFORE) {
    throw new UnusableDatabase(
      `This database was last migrated by a version before 0.1.0, with migrations of ${new Date(last).toISOString()}. ` +
        `Start commit ${LAST_COMMIT} with it once, which brings it up to date; then start this version.`,
    );
  }
  await client.query('BEGIN');
  const differences = await compare(client, first);
  if (differences.length > 0) {
    const more = differences.length - SHOWN_DIFFERENCES;
    throw new UnusableDatabase(
      `This database is not as the versions before 0.1.0 made it: ${differences.slice(0, SHOWN_DIFFERENCES).join('; ')}` +
        `${more > 0 ? `; and ${more} more` : ''}. Undo these changes, then start this version again.`,
    );
  }
  await client.query('DELETE FROM drizzle.__drizzle_migrations');
  await client.query('INSERT INTO drizzle.__drizzle_migrations (hash, created_at) VALUES ($1, $2)', [
    first.hash,
    first.folderMillis,
  ]);
  await client.query('COMMIT');
}

/** The time of the last recorded migration; undefined if none is recorded, or the first one is. */
async function lastRecord(client: PoolClient, first: MigrationMeta): Promise<number | undefined> {
  const table = await client.query(
    `SELECT FROM pg_tables WHERE schemaname = 'drizzle' AND tablename = '__drizzle_migrations'`,
  );
  if (table.rowCount === 0) return undefined;
  const { rows } = await client.query<{ last: string | null; has_first: boolean | null }>(
    'SELECT max(created_at) AS last, bool_or(created_at = $1) AS has_first FROM drizzle.__drizzle_migrations',
    [first.folderMillis],
  );
  const [row] = rows;
  return row?.last === null || row?.last === undefined || row.has_first ? undefined : Number(row.last);
}

/**
 * The differences between the schema of the database and the objects of the first migration. That migration is run in a
 * separate schema, which is rolled back: so the same server describes both.
 */
async function compare(client: PoolClient, first: MigrationMeta): Promise<string[]> {
  const found = await readSchema(client);
  await client.query('SAVEPOINT before_first');
  await client.query('CREATE SCHEMA first_migration');
  await client.query(`SELECT set_config('search_path', 'first_migration, ' || current_setting('search_path'), true)`);
  for (const statement of first.sql) await client.query(statement.replaceAll('"public".', ''));
  const wanted = await readSchema(client);
  await client.query('ROLLBACK TO SAVEPOINT before_first');
  const objects = new Set(wanted.map(({ object }) => object));
  return [
    ...without(wanted, found).map((line) => `lacks ${line}`),
    ...without(
      found.filter(({ object }) => objects.has(object)),
      wanted,
    ).map((line) => `has ${line}`),
  ];
}

function without(lines: SchemaLine[], others: SchemaLine[]): string[] {
  const text = ({ object, detail }: SchemaLine) => `${object}: ${detail}`;
  const known = new Set(others.map(text));
  return lines.map(text).filter((line) => !known.has(line));
}
