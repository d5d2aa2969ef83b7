import { type SQL, sql } from 'drizzle-orm';

/*
 * Two threads of any length become one in a single short transaction: a row of `merging_threads` says that rows with the id
 * `thread_id` belong to the thread `merged_into` from now on. The rows get the other id afterwards, some at a time
 * (src/mailbox/store/merging-threads.ts), and then the row of `merging_threads` is deleted. `merged_into` always names a
 * thread that is not being merged itself. Every reader of a thread id in `emails`, `thread_keys` or `threads.merged_into`
 * resolves it by this table, which is empty most of the time.
 */

/**
 * The id of the thread to which a stored id belongs now.
 *
 * @param stored a column with the name of its table, or an expression of such; evaluated up to three times
 */
export function threadNow(stored: string): string {
  // the first `exists` is evaluated once for a statement, not once for each row
  return `case when exists (select from merging_threads)
    then coalesce((select m.merged_into from merging_threads m where m.thread_id = ${stored}), ${stored}) else ${stored} end`;
}

/** Selects as `id` the thread that answers to an id, also to one that it had before it was merged; no row: none does. */
export function threadOf(threadId: SQL): SQL {
  const merged = sql.raw(threadNow('coalesce(t.merged_into, t.id)'));
  return sql`select ${merged} as id from threads t where t.id = ${threadId}`;
}

/**
 * Selects as `id` the ids under which the rows of a thread are stored: its own, and those of threads that are being merged
 * into it.
 *
 * @param thread a query of the thread's `id`, as `threadOf` is
 */
export function storedIdsOf(thread: SQL): SQL {
  return sql`
    with thread as (${thread})
    select id from thread
    union all select m.thread_id from thread join merging_threads m on m.merged_into = thread.id`;
}
