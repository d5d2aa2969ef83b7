import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import type { PoolClient } from 'pg';
import { readSchema, type SchemaLine } from './schema-lines.ts';

/*
 * Versions before 0.1.0 had nineteen migrations, which are one now. A database that has all of them gets the record of that
 * one in their place: it has the same schema, but for the order of columns.
 */

/** Of the last of the nineteen migrations, `0018_finished_runs`; it identifies it in the records of drizzle. */
const LAST_BEFORE = 1_795_461_610_728;
/** The last commit with those migrations. */
const LAST_COMMIT = '7646dca';
const SHOWN_DIFFERENCES = 3;

/** The database was migrated by a version before 0.1.0 and cannot be adopted; the message says what to do. */
export class NotAdoptable extends Error {
  override name = 'NotAdoptable';
}

/** Whether this is what `adoptUnreleased` throws: the next attempt throws it, too, until the operator has done what it says. */
export const isNotAdoptable = (error: unknown): boolean => error instanceof NotAdoptable;

/**
 * Adopts a database that a version before 0.1.0 has migrated; any other one is left as it is. The caller holds the lock of
 * migrations. It takes the locks of reads alone, so it waits for no transaction of an earlier version that still runs. Throws
 * NotAdoptable; then the caller closes the connection, which rolls back.
 */
export async function adoptUnreleased(client: PoolClient, migrationsFolder: string): Promise<void> {
  const [first] = readMigrationFiles({ migrationsFolder });
  if (!first) throw new Error(`${migrationsFolder} holds no migration`);
  const last = await lastRecord(client, first);
  if (last === undefined) return;
  if (last !== LAST_BEFORE) {
    throw new NotAdoptable(
      `This database was last migrated by a version before 0.1.0, with migrations of ${new Date(last).toISOString()}. ` +
        `Start commit ${LAST_COMMIT} with it once, which brings it up to date; then start this version.`,
    );
  }
  await client.query('BEGIN');
  const differences = await compare(client, first);
  if (differences.length > 0) {
    const more = differences.length - SHOWN_DIFFERENCES;
    throw new NotAdoptable(
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

/** The time of the last migration that is recorded; undefined where there is none, or the first one is among them. */
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
 * What differs between the schema of the database and that of the first migration, of the objects that it makes. It is run in
 * a schema of its own, which is rolled back: so the same server describes both.
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
