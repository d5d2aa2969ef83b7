import { eq, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { anyOf } from '../../db/driver/any-of.ts';
import type { Db, Tx } from '../../db/driver/client.ts';
import { insertRows } from '../../db/driver/insert-rows.ts';
import { emails, mergingThreads, threadKeys, threads } from '../../db/schema/index.ts';

/*
 * Threads are merged by writers of their account alone, one after the other (src/db/coordination/lease.ts): they read ids of
 * threads as they are now, and so store none of a thread that is being merged. See src/db/queries/mail/merging-threads.ts.
 */

/** Rows that get another thread in one transaction: 50 ms. */
const ROWS_AT_ONCE = 1_000;
/** Threads that one transaction finishes. */
const THREADS_AT_ONCE = 250;
const ACCOUNTS_AT_ONCE = 100;

/** The columns that name threads. */
const COLUMNS: PgColumn[] = [emails.threadId, threadKeys.threadId, threads.mergedInto];

/**
 * Merges threads into others, whose ids stay: readers see it from the commit on. Gives a first part of the rows their new
 * thread; `continueMerging` gives it to the others, if any.
 *
 * @param merges merged thread → the thread that stays; neither is being merged
 */
export async function mergeThreads(tx: Tx, accountId: string, merges: ReadonlyMap<string, string>): Promise<void> {
  const rows = [...merges].map(([threadId, mergedInto]) => ({ threadId, accountId, mergedInto }));
  // those that are being merged into one of these
  await tx.execute(sql`
    update merging_threads m set merged_into = n."mergedInto"
    from json_to_recordset(${JSON.stringify(rows)}::json) as n("threadId" text, "mergedInto" text)
    where m.merged_into = n."threadId"`);
  await insertRows(tx, mergingThreads, rows);
  await continueMerging(tx, accountId);
}

/**
 * Gives the next rows of threads that are being merged their new thread, in a transaction of the account's writer. False:
 * none are left.
 */
export async function continueMerging(tx: Tx, accountId: string): Promise<boolean> {
  const merging = await tx
    .select({ id: mergingThreads.threadId })
    .from(mergingThreads)
    .where(eq(mergingThreads.accountId, accountId))
    .orderBy(mergingThreads.threadId)
    .limit(THREADS_AT_ONCE);
  const ids = merging.map(({ id }) => id);
  let room = ROWS_AT_ONCE;
  for (const column of COLUMNS) room -= await moveRows(tx, column, ids, room);
  if (room === 0) return true;
  const finished = await finish(tx, ids);
  return finished < ids.length || ids.length === THREADS_AT_ONCE;
}

/** Gives at most so many rows their new thread; returns how many. */
async function moveRows(tx: Tx, column: PgColumn, ids: string[], limit: number): Promise<number> {
  if (limit === 0) return 0;
  const { table } = column;
  // by their ctid: a statement may change no more rows than it names
  const { rowCount } = await tx.execute(sql`
    update ${table} set ${sql.identifier(column.name)} = (
      select m.merged_into from merging_threads m where m.thread_id = ${column})
    where ctid = any(array(select ctid from ${table} where ${anyOf(column, ids)} limit ${limit}))`);
  return rowCount ?? 0;
}

/** Ends the merging of the threads whose id no row has; returns their number. */
async function finish(tx: Tx, ids: string[]): Promise<number> {
  const isUsed = COLUMNS.map((column): SQL => sql`exists (select from ${column.table} where ${column} = m.thread_id)`);
  const { rowCount } = await tx.execute(sql`
    with finished as (
      delete from merging_threads m where m.thread_id = any(${sql.param(ids)}::text[]) and not (${sql.join(isUsed, sql` or `)})
      returning thread_id, merged_into
    )
    update threads t set merged_into = f.merged_into from finished f where t.id = f.thread_id`);
  return rowCount ?? 0;
}

/** Accounts with threads that are being merged, except those that are being removed; some, if there are many. */
export async function accountsWithMerging(db: Db): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select a.id from accounts a where a.removed_at is null and a.id in (select account_id from merging_threads)
    order by random() limit ${ACCOUNTS_AT_ONCE}`);
  return rows.map(({ id }) => id);
}
