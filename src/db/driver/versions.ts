import { readMigrationFiles } from 'drizzle-orm/migrator';
import type { PoolClient } from 'pg';
import { VERSION } from '../../runtime/version.ts';
import { UnusableDatabase } from './unusable.ts';

/*
 * Programs of different versions may use one database: it records the oldest one that works with its schema, as the time of
 * the last migration that such a program has. A migration that only adds leaves this as it is, so that programs of the
 * version before it continue beside it; one that takes something away raises it.
 */

/**
 * `0022_plans_for_large_accounts`: a program without it keeps statements that select all columns of `accounts`, each of which fails
 * once when a column is added.
 */
export const OLDEST_PROGRAM = 1_795_780_775_743;

/** Its row in `installation`: the time, and the version that stored it. */
const NAME = 'oldest_program';

/**
 * Refuses a database that this program cannot use: it needs a later one, or its tables are those of something else. Changes
 * nothing. The caller holds the lock of migrations.
 * @throws UnusableDatabase
 */
export async function checkVersion(client: PoolClient, migrationsFolder: string): Promise<void> {
  const { rows } = await client.query<{ foreign: boolean; ours: boolean }>(`
    SELECT to_regclass('accounts') IS NOT NULL AND to_regclass('drizzle.__drizzle_migrations') IS NULL AS foreign,
      to_regclass('installation') IS NOT NULL AS ours`);
  if (rows[0]?.foreign) {
    throw new UnusableDatabase(
      'This database has a table "accounts", but no record of the migrations of this product: it belongs to another program, or was restored in part. Name another database in DATABASE_URL, or restore all of it.',
    );
  }
  if (rows[0]?.ours) await checkOldestProgram(client, migrationsFolder);
}

async function checkOldestProgram(client: PoolClient, migrationsFolder: string): Promise<void> {
  const { rows } = await client.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [NAME]);
  const [time = '0', version = 'unknown'] = rows[0]?.value.split(' ') ?? [];
  const own = readMigrationFiles({ migrationsFolder }).at(-1)?.folderMillis ?? 0;
  if (Number(time) <= own) return;
  throw new UnusableDatabase(
    `This database was migrated by version ${version}, and this program is version ${VERSION}, which is too old for it: start ${version} or a later one, or restore the backup that was made before the upgrade.`,
  );
}

/** Records which programs can use the database from now on; a later record stays. The caller has migrated it. */
export async function recordVersion(client: PoolClient): Promise<void> {
  await client.query(
    `INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
     WHERE split_part(installation.value, ' ', 1)::bigint < split_part(excluded.value, ' ', 1)::bigint`,
    [NAME, `${OLDEST_PROGRAM} ${VERSION}`],
  );
}
