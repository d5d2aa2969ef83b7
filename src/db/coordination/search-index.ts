import { sql } from 'drizzle-orm';
import type { Db } from '../driver/client.ts';

/*
 * The trigram indexes of email_search. A message has about 500 trigrams, and adding one to the index writes the list of
 * all emails that have it to the write-ahead log again. Messages that are added together share most of these lists: a
 * message of 10 KB writes 240 KB when it is added with three others, and 50 KB when it is added with 500. It takes less
 * CPU, too: 4 ms alone, under 1 ms with many. So new entries gather in the pending list of GIN ("fast update"), which
 * searches read too, at 5 µs a message, and a worker merges it when it has enough of them. With a list of more than
 * about 10 MB the planner avoids the index (searches of 200 ms): hence the small limit for every connection except the
 * writers of mail.
 */

/** Connection options: entries are merged soon, except after `GATHER_SEARCH_ENTRIES`. */
export const SMALL_PENDING_LIST = '-c gin_pending_list_limit=1MB';

/** Selected in a statement before the entries are written: mergeSearchEntries merges those of this transaction. */
export const GATHER_SEARCH_ENTRIES = sql`set_config('gin_pending_list_limit', '64MB', true)`;

/** Merged together, or after GATHER_MS if there are fewer. */
const GATHERED_EMAILS = 500;
const GATHER_MS = 300_000;

/**
 * Returns a function that merges the gathered entries when there are enough of them, or when the last merge was five
 * minutes ago; one process at a time. Its first call merges.
 */
export function searchIndexMerger(db: Db, now: () => number = Date.now): () => Promise<void> {
  let merged = { emails: Number.NaN, at: Number.NEGATIVE_INFINITY };
  return async () => {
    const emails = await countWritten(db);
    // the counter begins again when Postgres resets its statistics
    const isEnough = !(emails >= merged.emails) || emails - merged.emails >= GATHERED_EMAILS;
    if (!isEnough && (emails === merged.emails || now() - merged.at < GATHER_MS)) return;
    await mergeSearchEntries(db);
    merged = { emails, at: now() };
  };
}

/** How many rows were ever inserted, by the statistics of Postgres, which are up to a second late. */
async function countWritten(db: Db): Promise<number> {
  const { rows } = await db.execute<{ emails: string }>(
    sql`select pg_stat_get_tuples_inserted('email_search'::regclass) as emails`,
  );
  return Number(rows[0]?.emails);
}

async function mergeSearchEntries(db: Db): Promise<void> {
  await db.execute(sql`
    select gin_clean_pending_list(indexrelid)
    from pg_index join pg_class on pg_class.oid = indexrelid join pg_am on pg_am.oid = relam
    where indrelid = 'email_search'::regclass and amname = 'gin' and pg_try_advisory_xact_lock(${MERGE_LOCK})`);
}

/** Any number that no other user of the database takes. */
const MERGE_LOCK = 7_364_218_092;
