import { sql } from 'drizzle-orm';
import type { Db } from '../driver/client.ts';

/*
 * The trigram indexes of email_search. Adding the 1,500 trigrams of one message costs 4 ms of CPU; adding those of many
 * messages together, under 1 ms each. So new entries gather in the pending list of GIN ("fast update"), which searches
 * read too, and a worker merges it every two seconds. With a large pending list the planner avoids the index (searches of
 * 200 ms): hence the small limit for every connection except the writers of mail.
 */

/** Connection options: entries are merged soon, except after `GATHER_SEARCH_ENTRIES`. */
export const SMALL_PENDING_LIST = '-c gin_pending_list_limit=1MB';

/** Selected in a statement before the entries are written: mergeSearchEntries merges those of this transaction. */
export const GATHER_SEARCH_ENTRIES = sql`set_config('gin_pending_list_limit', '64MB', true)`;

/** Merges the gathered entries; one process at a time. */
export async function mergeSearchEntries(db: Db): Promise<void> {
  await db.execute(sql`
    select gin_clean_pending_list(indexrelid)
    from pg_index join pg_class on pg_class.oid = indexrelid join pg_am on pg_am.oid = relam
    where indrelid = 'email_search'::regclass and amname = 'gin' and pg_try_advisory_xact_lock(${MERGE_LOCK})`);
}

/** Any number that no other user of the database takes. */
const MERGE_LOCK = 7_364_218_092;
