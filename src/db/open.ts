import { fileURLToPath } from 'node:url';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate as applyMigrations } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { EVENT_TYPES } from '../contract/events.ts';
import { sleep } from '../async.ts';
import { causesOf } from '../outage.ts';
import type { Logger } from '../runtime/logger.ts';
import { SMALL_PENDING_LIST } from './coordination/search-index.ts';
import { adoptUnreleased } from './driver/adopt.ts';
import type { Database } from './driver/client.ts';
import { clientClass, type Patience } from './driver/pg-client.ts';
import { transactionsOn } from './driver/transactions.ts';
import { checkEncoding } from './driver/unusable.ts';
import { checkVersion, recordVersion } from './driver/versions.ts';
import { alignPositions } from './queries/event-feed.ts';
import * as schema from './schema/index.ts';

// Dates are written in UTC: in local time, of offsets with seconds, as most zones had before 1920, only the minutes are written.
pg.defaults.parseInputDatesAsUTC = true;

/** Next to this file in the sources; `npm run build` copies the folder next to the built one. */
const MIGRATIONS = fileURLToPath(new URL('./migrations', import.meta.url));

/** Any number that no other user of the database takes: the lock under which migrations run. */
const MIGRATION_LOCK = 7_364_218_091;

/**
 * A session whose process froze or vanished inside a transaction has its rows locked until then. The longest wait inside a
 * transaction of ours is for a token endpoint: 30 s, and 10 s for a check of the client.
 */
const ABANDONED = '-c idle_in_transaction_session_timeout=60s';

/**
 * A pool of connections; connects on first use, and reconnects after the database was unreachable. `max` connections
 * (default 10); a statement may take 60 s. With `patience`, statements fail soon when the database is down or frozen.
 */
export function openDatabase(
  url: string,
  options: { max?: number; logger?: Logger; patience?: Patience } = {},
): Database {
  const { patience } = options;
  const pool = new pg.Pool({
    connectionString: url,
    max: options.max ?? 10,
    // the wait for a free connection, too: until a hanging query fails and a new connection is made
    connectionTimeoutMillis: patience ? patience.queryMs + 2 * patience.connectMs : 10_000,
    Client: clientClass(url, patience),
    idleTimeoutMillis: 60_000,
    statement_timeout: 60_000,
    keepAlive: true,
    // by default a connection whose server vanished without a word is first probed after two hours
    keepAliveInitialDelayMillis: 10_000,
    // statements here are short: compiling them costs more than it saves. Pages that an index finds are cached or on an SSD:
    // with the default cost, Postgres 15 reads whole tables instead. Rows as JSON have their times in UTC.
    options: `${SMALL_PENDING_LIST} ${ABANDONED} -c jit=off -c random_page_cost=1.1 -c TimeZone=UTC`,
  });
  // A connection breaks between two queries of a transaction: the next query fails. Without a listener the process stops.
  pool.on('connect', (client) => {
    client.on('error', () => {});
  });
  // An idle connection that breaks is replaced on the next query.
  pool.on('error', (err) => options.logger?.warn({ err }, 'lost an idle database connection'));
  let closed: Promise<void> | undefined;
  return {
    db: Object.assign(drizzle({ client: pool, schema }), { transaction: transactionsOn(pool) }),
    pool,
    close: () => (closed ??= pool.end()),
  };
}

/**
 * Brings the schema up to date. Safe to call from several processes at once: one migrates, the others wait for it. While transactions
 * of others keep a migration from its tables, it logs that, and calls `onWait`, every few seconds. Throws UnusableDatabase for one with
 * an encoding or LC_CTYPE that is not UTF-8, for one that needs a later program, and for one of a version before 0.1.0 that is not the
 * last of these, or was changed.
 */
export async function migrate(database: Database, options: { logger?: Logger; onWait?(): void } = {}): Promise<void> {
  const client = await database.pool.connect();
  try {
    await client.query('SET statement_timeout = 0');
    await checkEncoding(client);
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await checkVersion(client, MIGRATIONS);
    await adoptUnreleased(client, MIGRATIONS);
    const db = drizzle({ client, schema });
    await client.query(`SET lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await retryWhileLocked(
      () => applyMigrations(db, { migrationsFolder: MIGRATIONS }),
      () => {
        options.logger?.warn('migration waits for a long transaction');
        options.onWait?.();
      },
    );
    await client.query('RESET lock_timeout');
    await recordVersion(client);
    await alignPositions(db, EVENT_TYPES);
  } finally {
    // closing the connection releases the lock, resets the settings and rolls back what has failed
    client.release(true);
  }
}

/**
 * A statement that waits for a lock, behind a dump of an hour, has all later statements on that table wait behind it. It waits so
 * long, and what has waited is done before it waits again.
 */
const LOCK_TIMEOUT_MS = 5_000;
const LOCK_PAUSE_MS = 3_000;

/** Repeats migrations, which roll back what they have done, until they get their locks. */
async function retryWhileLocked(apply: () => Promise<void>, onWait: () => void): Promise<void> {
  for (;;) {
    try {
      return await apply();
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      onWait();
      await sleep(LOCK_PAUSE_MS);
    }
  }
}

/** lock_not_available (errcodes-appendix). */
function isLockTimeout(error: unknown): boolean {
  return [...causesOf(error)].some((at) => (at as { code?: unknown }).code === '55P03');
}
