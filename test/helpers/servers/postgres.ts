import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import type { Database } from '../../../src/db/driver/client.ts';
import { migrate, openDatabase } from '../../../src/db/open.ts';

const MIGRATIONS = join(import.meta.dirname, '..', '..', '..', 'src', 'db', 'migrations');
const TEMPLATE_LOCK = 41_107;

export interface TestDatabase {
  url: string;
  database: Database;
  /** closes the pool and removes the database */
  drop(): Promise<void>;
}

/**
 * A separate database with the whole schema and no rows; about 50 ms. The first call of a run migrates a template.
 * `copyOf`: with the rows of that one, whose pool must be closed. `empty`: without the schema. Throws outside of `npm test`.
 */
export async function testDatabase(
  options: { max?: number; copyOf?: TestDatabase; empty?: boolean } = {},
): Promise<TestDatabase> {
  const template = options.copyOf ? new URL(options.copyOf.url).pathname.slice(1) : templateName();
  const name = `test_${randomBytes(6).toString('hex')}`;
  await withAdmin(async (admin) => {
    if (options.empty) return admin.query(`CREATE DATABASE ${name}`);
    if (!options.copyOf) await ensureTemplate(admin, template);
    // the default strategy writes all of it to the log besides
    return admin.query(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`);
  });
  const url = urlOf(name);
  const database = openDatabase(url, options);
  return {
    url,
    database,
    drop: async () => {
      await database.close();
      await withAdmin((admin) => admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
    },
  };
}

/** One test file migrates it, the others wait. Made under another name first: what exists under this one is whole. */
async function ensureTemplate(admin: pg.Client, template: string): Promise<void> {
  if (await exists(admin, template)) return;
  await admin.query('SELECT pg_advisory_lock($1)', [TEMPLATE_LOCK]);
  try {
    if (await exists(admin, template)) return;
    const unfinished = `${template}_new`;
    await admin.query(`DROP DATABASE IF EXISTS ${unfinished} WITH (FORCE)`);
    await admin.query(`CREATE DATABASE ${unfinished}`);
    const database = openDatabase(urlOf(unfinished), { max: 1 });
    await migrate(database).finally(() => database.close());
    await admin.query(`ALTER DATABASE ${unfinished} RENAME TO ${template}`);
  } finally {
    await admin.query('SELECT pg_advisory_unlock($1)', [TEMPLATE_LOCK]);
  }
}

async function exists(admin: pg.Client, name: string): Promise<boolean> {
  const { rowCount } = await admin.query('SELECT FROM pg_database WHERE datname = $1', [name]);
  return rowCount === 1;
}

/** Named after the migrations: a changed schema is never tested on an old template. */
function templateName(): string {
  const hash = createHash('sha256');
  for (const file of readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith('.sql'))
    .sort()) {
    hash.update(readFileSync(join(MIGRATIONS, file)));
  }
  return `template_${hash.digest('hex').slice(0, 16)}`;
}

async function withAdmin<T>(work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({ connectionString: serverUrl() });
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.end();
  }
}

function urlOf(database: string): string {
  const url = new URL(serverUrl());
  url.pathname = `/${database}`;
  return url.href;
}

function serverUrl(): string {
  const url = process.env['TEST_POSTGRES_URL'];
  if (url === undefined) throw new Error('TEST_POSTGRES_URL is not set: run tests by `npm test -- <path>`');
  return url;
}
