import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import type { Database } from '../../src/db/driver/client.ts';
import { migrate, openDatabase } from '../../src/db/open.ts';
import { readSchema } from '../../src/db/driver/schema-lines.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { unreleasedDatabase } from '../helpers/servers/unreleased-database.ts';

const GOLDEN = new URL('./schema.golden.txt', import.meta.url);
const MIGRATIONS = new URL('../../src/db/migrations/', import.meta.url);

/** SHA-256 of each migration. A line is only ever added: databases exist that were migrated by the others. */
const RELEASED = {
  '0000_initial': 'da4cb21d5a3c873d36ae568a7cc0bfc57aa6358670ebdbf8f92aa9b0544fa839',
  '0001_run_ensured_at': '90fbec07ba3ef71d2af070d37b562dcfbb12f104fedcab81461d45acd6f49cc2',
  '0002_sends_unfinished': '9d12e8d475291fd5aabac52054fd2dae8777a32672baaf4ab5f13c6cb184caca',
  '0003_pending_deliveries': '4d64eb77c20bf870fcd25d0af99fd1cde090722500bc6ad1e0ac44e22e8a3c61',
  '0004_link_attempts': '7ea15eb63f20b3d3727907d9cef7bbd61e0431921201b3d9e507d73f404bfb72',
  '0005_merging_threads': '17fd504990175af8217832775e92aab31d2e3a4782b62719246a9a8bb60c7e4d',
  '0006_epochs_and_mail_retention': 'e008c126ce420a824c67330bcd471d6ecd19a6d58c92f17c9059bc7069008255',
  '0007_flags_snippets_threads': '1b1209b4cdaae70ba1a70c6e2552c9a5763c7925c798f90f492a397390bdab15',
  '0008_oauth': 'd3835913dc7ec697e143c228196399e3f673e18e092e9fc36154a79f7a2e603a',
  '0009_attempt_counts': '60b1062e90b5d6ab68c1f4ed0a91be4aeb85f339a7905f0692777578e0825c93',
  '0010_mail_trust_uploads_forwards': '48f84ecec449d4f0df80d0eac75976650232f44dc45de2653181cc04442ba220',
  '0011_device_sign_ins': '0512d4b12c6060e07f8b0a1078697cf46ad0a60613130fce980db3f47677217b',
  '0012_imports': '9c181f78c32d8ec5db4a05769f9962933ce139709728e660f3733b35744ffa7a',
  '0013_batches': '1ec2e09a2927f40a200217bf60b6e37f21d8655824d11321223f7213d89040b8',
  '0014_brand_of_auth_links': 'c8e12cc570990a78bdf4635b02b5c561b9206b6278ea0a746effd3c946f64300',
  '0015_folder_choice': '4a98dfb8d742dca450d13107de7c9d3a5ec31aa0fc23de0be21e128a409b940c',
  '0016_alerts': 'c4688d5e32e3295cd9a4fb930dc9618179732ee7855e9583fd277940cccdd2a6',
  '0017_persons_and_audit_names': '8cd2a514fe4dbc7c93a2900f8ec5e5cd56bd247164a7124fa01edef2d0d15d42',
  '0018_token_renewals': '1e4aae3295da13f8956fb28383746ef7804a39fcb0c5bdcab6de2ba860473a83',
  '0019_invited_persons': 'b58ceaa82097d207b397945f7d3960cf6d714541f41d377fd0b0fa0bc2f89f04',
  '0020_account_watch': 'e3b5bb084fe13c9332842677441fcf3d4979a97365a04999662083cadae4ba76',
  '0021_uploads': 'a14be7eee7ba5b7c18adae655ddc70bb0c9534ba401d10589cb7bce3ad04a36f',
  '0022_plans_for_large_accounts': '899148a52396bcb8e3340cfc6ec30713026846d35a823287a699665357332901',
  '0023_erased_events': 'fbd0b54bd4b771a6b54037f764ef0c7ef83b88a9f00bdc66b6d0426602ae2a55',
  '0024_login_slowness': '81883cc01c6186a74b9f6417c1493623b22665a228f74d4f5c8aa8e89ff75d91',
  '0025_followed_since': '44cc92feb52210b4344410928ebb3d906d12bb1e11b62afa6223ae49d43729b5',
  '0026_server_message_id': '2030c659c02a802a1c9c1379c57e2e10d36b3f140f98749d5699c271de9e7aaf',
  '0027_events_to_erase': 'ec2cba16e2882461a856a0e44aeb36b0c82c44fbd4253bb93df79ed589d6169a',
};

let whole: TestDatabase;
let fresh: string;
beforeAll(async () => {
  whole = await testDatabase({ max: 2 });
  fresh = await schemaText(whole.database.pool);
});
afterAll(() => whole?.drop());

describe('migrations', () => {
  it('make the schema of the golden file, unless a change is meant', () => {
    // UPDATE_GOLDEN=1 npm test -- test/db/migrate.test.ts accepts the change
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(GOLDEN, fresh);
    expect(fresh).toBe(readFileSync(GOLDEN, 'utf8'));
  });

  it('are only added, each with a later time than the one before', () => {
    const { entries } = JSON.parse(readFileSync(new URL('meta/_journal.json', MIGRATIONS), 'utf8')) as {
      entries: { tag: string; when: number }[];
    };
    const hash = (tag: string) =>
      createHash('sha256')
        .update(readFileSync(new URL(`${tag}.sql`, MIGRATIONS)))
        .digest('hex');
    expect(Object.fromEntries(entries.map(({ tag }) => [tag, hash(tag)]))).toEqual(RELEASED);
    // drizzle applies what is later than the last one that is recorded
    expect(entries.map(({ when }) => when)).toEqual([...new Set(entries.map(({ when }) => when))].sort());
  });

  it.each([
    [
      'a trigger, and a function',
      `CREATE FUNCTION further() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END';
       CREATE TRIGGER further AFTER DELETE ON deliveries EXECUTE FUNCTION further()`,
    ],
    ['a function', `CREATE FUNCTION further() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'`],
    ['a default', `ALTER TABLE accounts ALTER COLUMN status SET DEFAULT 'errored'`],
    ['a column that may be null', 'ALTER TABLE accounts ALTER COLUMN name DROP NOT NULL'],
    ['a constraint', 'ALTER TABLE sessions DROP CONSTRAINT sessions_api_key_id_api_keys_id_fk'],
    ['an index', 'DROP INDEX deliveries_open'],
    [
      'the compression of a column',
      'ALTER TABLE events ALTER COLUMN data SET STORAGE EXTENDED, ALTER COLUMN data SET COMPRESSION pglz',
    ],
    ['a sequence', 'CREATE SEQUENCE further'],
    ['an extension', 'DROP EXTENSION btree_gin CASCADE'],
  ])('differ from a schema with another state of %s', async (_, change) => {
    const client = await whole.database.pool.connect();
    try {
      await client.query('BEGIN');
      await client.query(change);
      expect(await schemaText(client)).not.toBe(fresh);
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
  });
});

describe('a database of the last version before 0.1.0', () => {
  let test: TestDatabase;
  beforeEach(async () => {
    test = await unreleasedDatabase();
  });
  afterEach(() => test.drop());

  it('has the schema of a new one once it is adopted, though its columns have another order, and keeps its rows', async () => {
    const { pool } = test.database;
    await pool.query(`INSERT INTO workers (id, seen_at) VALUES ('w', now())`);
    await migrate(test.database);
    expect(await schemaText(pool)).toBe(fresh);
    expect(await records(pool)).toEqual(Object.values(RELEASED));
    expect((await pool.query('SELECT id FROM workers')).rows).toEqual([{ id: 'w' }]);
    expect(await columnsOf(pool)).not.toEqual(await columnsOf(whole.database.pool));
  });

  it('has its pending deliveries in the queue, as they were', async () => {
    const { pool } = test.database;
    await pool.query(`
      INSERT INTO deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence, created_at,
        status, next_attempt_at, forced, held, attempts_count, runs, workflow_id, last_workflow_id, started_at, replay_id)
      SELECT 'whc_' || n, 'evt_' || n, 'we', '', 'acc', 'email.new', 'email', n, '2026-01-01T00:00:00Z', status, next_at, forced,
        held, attempts, runs, run, coalesce(run, last_run), CASE WHEN run IS NOT NULL THEN now() END, replay
      FROM (VALUES
        (1, 'pending', NULL::timestamptz, false, false, 0, 0, NULL, NULL, NULL),
        (2, 'pending', '2026-02-01T00:00:00Z', false, false, 2, 1, 'deliver/2', NULL, NULL),
        (3, 'pending', NULL, true, true, 0, 1, NULL, 'deliver/3', NULL),
        (4, 'pending', NULL, false, false, 0, 1, NULL, 'deliver/4', 'rpl'),
        (5, 'delivered', NULL, false, false, 1, 1, 'deliver/5', NULL, NULL)
      ) AS old (n, status, next_at, forced, held, attempts, runs, run, last_run, replay)`);
    await migrate(test.database);
    const { rows } = await pool.query(`
      SELECT p.sequence::int AS n, line, waits_for, to_char(due_at AT TIME ZONE 'UTC', 'MM') AS month, attempted, p.runs,
        p.workflow_id AS run, started_at IS NOT NULL AS started, d.workflow_id AS last_run, p.replay_id AS replay
      FROM pending_deliveries p JOIN deliveries d ON d.id = p.delivery_id ORDER BY 1`);
    const plain = { waits_for: null, month: '01', attempted: false, run: null, started: false, replay: null };
    expect(rows).toEqual([
      { ...plain, n: 1, line: 1, runs: 0, last_run: null },
      {
        ...{ ...plain, n: 2, line: 1, runs: 1, waits_for: 'retry', month: '02', attempted: true },
        ...{ run: 'deliver/2', started: true, last_run: 'deliver/2' },
      },
      { ...plain, n: 3, line: 0, runs: 1, last_run: 'deliver/3' },
      { ...plain, n: 4, line: 2, runs: 1, last_run: 'deliver/4', replay: 'rpl' },
    ]);
  });

  it('is adopted once by processes that start together, while one of the earlier version is writing', async () => {
    const earlier = await test.database.pool.connect();
    const starting = [1, 2, 3].map(() => openDatabase(test.url));
    try {
      await earlier.query('BEGIN');
      await earlier.query('LOCK TABLE accounts, deliveries, api_keys, sessions IN EXCLUSIVE MODE');
      await earlier.query(`INSERT INTO workers (id, seen_at) VALUES ('w', now())`);
      const migrated = Promise.all(starting.map((database) => migrate(database)));
      // the migrations after it may wait for that transaction
      const isAdopted = async () => (await records(test.database.pool))[0] === RELEASED['0000_initial'];
      await Promise.race([migrated, waitFor(isAdopted, { what: 'the adoption' })]);
      await earlier.query('COMMIT');
      await migrated;
      expect(await records(test.database.pool)).toEqual(Object.values(RELEASED));
      expect((await test.database.pool.query('SELECT id FROM workers')).rows).toEqual([{ id: 'w' }]);
    } finally {
      earlier.release();
      await Promise.all(starting.map((database) => database.close()));
    }
  });

  it('is migrated after a dump that reads it, and its readers do not wait until then', async () => {
    const dump = await test.database.pool.connect();
    const starting = openDatabase(test.url);
    try {
      await dump.query('BEGIN');
      await dump.query('LOCK TABLE accounts IN ACCESS SHARE MODE');
      let waits = 0;
      const migrated = migrate(starting, { onWait: () => (waits += 1) });
      await Promise.race([migrated, waitFor(() => waits > 0, { timeoutMs: 20_000, what: 'it to wait' })]);
      await dump.query('SELECT id FROM accounts');
      const reader = openDatabase(test.url, { max: 1 });
      await reader.pool.query(`SET statement_timeout = '20s'; SELECT id FROM accounts`).finally(() => reader.close());
      await dump.query('COMMIT');
      await migrated;
      expect(waits).toBeGreaterThan(0);
      expect(await schemaText(test.database.pool)).toBe(fresh);
    } finally {
      dump.release(true);
      await starting.close();
    }
  }, 60_000);

  it.each([
    ['lacks a trigger', 'DROP TRIGGER deliveries_ended ON deliveries', 'lacks deliveries: TRIGGER deliveries_ended'],
    ['has a further column', 'ALTER TABLE accounts ADD COLUMN mine text', 'has accounts: column mine text'],
  ])('is left as it was when it %s, and the message says so', async (_, change, message) => {
    await test.database.pool.query(change);
    await expectRefused(test.database, message);
  });

  it('is left as it was without its last migration, and the message says what to do', async () => {
    await test.database.pool.query('DELETE FROM drizzle.__drizzle_migrations WHERE created_at = 1795461610728');
    await expectRefused(test.database, /^This database was last migrated .* Start commit 7646dca with it once, .*\.$/);
  });

  it('is adopted with tables of others beside', async () => {
    await test.database.pool.query('CREATE TABLE mine (id int)');
    await migrate(test.database);
    expect(await records(test.database.pool)).toEqual(Object.values(RELEASED));
  });
});

async function expectRefused(database: Database, message: string | RegExp): Promise<void> {
  const before = [await records(database.pool), await schemaText(database.pool)];
  await expect(migrate(database)).rejects.toThrow(message);
  expect([await records(database.pool), await schemaText(database.pool)]).toEqual(before);
}

async function records(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ hash: string }>('SELECT hash FROM drizzle.__drizzle_migrations ORDER BY id');
  return rows.map(({ hash }) => hash);
}

/** In their order. */
async function columnsOf(pool: pg.Pool): Promise<unknown[]> {
  const { rows } = await pool.query(
    `SELECT attname FROM pg_attribute WHERE attrelid = 'accounts'::regclass AND attnum > 0 ORDER BY attnum`,
  );
  return rows;
}

/** One block for each object, a line for each fact about it. */
async function schemaText(pool: Pick<pg.Pool, 'query'>): Promise<string> {
  const lines = await readSchema(pool);
  const objects = [...new Set(lines.map(({ object }) => object))];
  const details = (object: string) =>
    lines.filter((line) => line.object === object).map(({ detail }) => `  ${detail}\n`);
  return objects.map((object) => `${object}\n${details(object).join('')}`).join('');
}
