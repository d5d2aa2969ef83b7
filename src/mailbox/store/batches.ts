import { sql } from 'drizzle-orm';
import type { ErrorCode } from '../../contract/errors.ts';
import type { Db, Queryable, Tx } from '../../db/driver/client.ts';
import type { StoredBatchChange } from '../../db/schema/index.ts';

/*
 * status of a batch   running → completed, when no email is pending
 * of an email in it   pending → changed, in the transaction that stores the change, or failed
 */

export interface BatchItem {
  position: number;
  emailId: string;
}

export interface BatchError {
  code: ErrorCode;
  detail: string;
}

/** How a batch stands: counts of emails. */
export interface BatchProgress {
  total: number;
  changed: number;
  failed: number;
  pending: number;
}

/** The change of a running batch and its next pending emails, at most `limit`; undefined when it is not running. */
export async function nextOfBatch(
  db: Queryable,
  batchId: string,
  limit: number,
): Promise<{ change: StoredBatchChange; items: BatchItem[] } | undefined> {
  const { rows } = await db.execute<{ change: StoredBatchChange; items: BatchItem[] }>(sql`
    select b.change, (
      select coalesce(json_agg(json_build_object('position', position, 'emailId', email_id) order by position), '[]') from (
        select position, email_id from batch_items i where i.batch_id = b.id and i.status = 'pending'
        order by position limit ${limit}) next
    ) as items from batches b where b.id = ${batchId} and b.status = 'running'`);
  return rows[0];
}

/**
 * Whether an email of a batch is to be changed by an earlier batch first: two at once would move it back and forth, and the
 * last step of either would remain. INTERSECT takes the same time with any statistics.
 */
export async function isBehindOther(db: Queryable, batchId: string): Promise<boolean> {
  const { rows } = await db.execute<{ behind: boolean }>(sql`
    select exists (
      select i.email_id from batches own
      join batches earlier on earlier.account_id = own.account_id and earlier.status = 'running'
        and (earlier.created_at, earlier.id) < (own.created_at, own.id)
      join batch_items i on i.batch_id = earlier.id and i.status = 'pending' where own.id = ${batchId}
      intersect
      select email_id from batch_items where batch_id = ${batchId} and status = 'pending'
    ) as behind`);
  return rows[0]?.behind ?? false;
}

/** pending → changed. */
export async function itemsChanged(tx: Queryable, batchId: string, items: readonly BatchItem[]): Promise<void> {
  await endItems(tx, batchId, items, null);
}

/** pending → failed. */
export async function itemsFailed(
  tx: Queryable,
  batchId: string,
  items: readonly BatchItem[],
  error: BatchError,
): Promise<void> {
  await endItems(tx, batchId, items, error);
}

async function endItems(
  tx: Queryable,
  batchId: string,
  items: readonly BatchItem[],
  error: BatchError | null,
): Promise<void> {
  if (items.length === 0) return;
  await tx.execute(sql`
    update batch_items set status = ${error ? 'failed' : 'changed'}, error_code = ${error?.code ?? null},
      error_detail = ${error?.detail ?? null}
    where batch_id = ${batchId} and position = any(${sql.param(items.map(({ position }) => position))}::int[])
      and status = 'pending'`);
}

/** running → completed, unless emails are pending. Returns how the batch stands. */
export async function completeBatch(db: Queryable, batchId: string): Promise<BatchProgress> {
  await db.execute(sql`
    update batches b set status = 'completed', completed_at = now() where b.id = ${batchId} and b.status = 'running'
      and not exists (select from batch_items i where i.batch_id = b.id and i.status = 'pending')`);
  return progressOfBatch(db, batchId);
}

/** Ends a batch early: what is pending fails. */
export async function failBatch(db: Db, batchId: string, error: BatchError): Promise<BatchProgress> {
  return db.transaction(async (tx: Tx) => {
    await tx.execute(sql`
      update batch_items set status = 'failed', error_code = ${error.code}, error_detail = ${error.detail}
      where batch_id = ${batchId} and status = 'pending'`);
    return completeBatch(tx, batchId);
  });
}

/** Counts the emails of a batch; zeros when it does not exist. */
export async function progressOfBatch(db: Queryable, batchId: string): Promise<BatchProgress> {
  const { rows } = await db.execute<BatchProgress & Record<string, unknown>>(sql`
    select count(*)::int as total, (count(*) filter (where status = 'changed'))::int as changed,
      (count(*) filter (where status = 'failed'))::int as failed, (count(*) filter (where status = 'pending'))::int as pending
    from batch_items where batch_id = ${batchId}`);
  return rows[0] as BatchProgress;
}

/** Running batches from before `before`, by id. */
export async function runningBatches(
  db: Queryable,
  { before, afterId, limit }: { before: Date; afterId: string; limit: number },
): Promise<{ id: string; accountId: string }[]> {
  const { rows } = await db.execute<{ id: string; account_id: string }>(sql`
    select id, account_id from batches where status = 'running' and id > ${afterId}
      and created_at < ${before.toISOString()}::timestamptz order by id limit ${limit}`);
  return rows.map((row) => ({ id: row.id, accountId: row.account_id }));
}
