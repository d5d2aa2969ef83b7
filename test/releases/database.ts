import { fileURLToPath } from 'node:url';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import pg from 'pg';

/** The rows of a database, which are restored into the schema that it had: migrations are only added. */
export interface StoredDatabase {
  /** when it was read, ms since 1970 */
  at: number;
  /** the time of its last migration */
  migration: number;
  /** the rows of each table, as JSON */
  tables: Record<string, string>;
}

const MIGRATIONS = fileURLToPath(new URL('../../src/db/migrations', import.meta.url));

/** Reads all rows of a database that nothing changes. */
export async function readDatabase(url: string): Promise<StoredDatabase> {
  return withClient(url, async (client) => {
    const { rows: names } = await client.query<{ name: string }>(
      `select tablename as name from pg_tables where schemaname = 'public' order by 1`,
    );
    const tables: Record<string, string> = {};
    for (const { name } of names) {
      const { rows } = await client.query<{ rows: string }>(
        `select coalesce(json_agg(t), '[]')::text as rows from "${name}" t`,
      );
      tables[name] = rows[0]?.rows ?? '[]';
    }
    const { rows } = await client.query<{ last: string }>(
      'select max(created_at) as last from drizzle.__drizzle_migrations',
    );
    return { at: Date.now(), migration: Number(rows[0]?.last), tables };
  });
}

/** Makes the schema that the rows had in an empty database, and stores them as if they had been read now. */
export async function restoreDatabase(url: string, { at, migration, tables }: StoredDatabase): Promise<void> {
  await withClient(url, async (client) => {
    await client.query('create schema drizzle');
    await client.query(
      'create table drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)',
    );
    for (const { sql, hash, folderMillis } of readMigrationFiles({ migrationsFolder: MIGRATIONS })) {
      if (folderMillis > migration) break;
      for (const statement of sql) await client.query(statement);
      await client.query('insert into drizzle.__drizzle_migrations (hash, created_at) values ($1, $2)', [
        hash,
        folderMillis,
      ]);
    }
    const names = Object.keys(tables).map((name) => `"${name}"`);
    await client.query(`truncate ${names.join(', ')}`);
    // no triggers: what they would write is among the rows; no foreign keys: the tables are in the order of their names
    await client.query('set session_replication_role = replica');
    for (const [name, rows] of Object.entries(tables)) {
      await client.query(
        `insert into "${name}" overriding system value select * from json_populate_recordset(null::"${name}", $1)`,
        [rows],
      );
      await ageColumns(client, name, Date.now() - at);
    }
    await client.query(`
      select setval(pg_get_serial_sequence(quote_ident(table_name), column_name), 1000000)
      from information_schema.columns where table_schema = 'public' and is_identity = 'YES'`);
  });
}

/** Makes times later, or retention would delete what the test is about. Those of the mail itself, as in the mailbox, stay. */
async function ageColumns(client: pg.Client, table: string, ms: number): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select quote_ident(column_name) as name from information_schema.columns
     where table_schema = 'public' and table_name = $1 and data_type = 'timestamp with time zone' and column_name !~ 'date$'`,
    [table],
  );
  if (rows.length === 0) return;
  const changes = rows.map(({ name }) => `${name} = ${name} + $1 * interval '1 ms'`);
  await client.query(`update "${table}" set ${changes.join(', ')}`, [ms]);
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
