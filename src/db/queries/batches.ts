import { sql } from 'drizzle-orm';
import type pg from 'pg';
import type { BatchResult, EmailBatch, EmailBatchResult } from '../../contract/email.ts';
import { MAX_BATCH } from '../../contract/email.ts';
import { ApiError, type ErrorCode } from '../../contract/errors.ts';
import type { Db, Queryable } from '../driver/client.ts';
import { compile } from '../driver/statement.ts';
import type { StoredBatchChange } from '../schema/index.ts';
import { type EmailFilter, emailPage, pageValues } from './mail/email-page.ts';

/** A batch as the store knows it: the name of its workflow belongs to `workflows/names`. */
export type StoredBatch = Omit<EmailBatch, 'workflow_id'>;

/**
 * The ids of all emails of an account that pass a filter, newest first.
 * @throws ApiError invalid_parameters when there are more than `MAX_BATCH`
 */
export async function idsOfFilter(pool: pg.Pool, accountId: string, filter: EmailFilter): Promise<string[]> {
  const page = compile(emailPage(filter, false, sql.raw(String(MAX_BATCH + 1))));
  const { rows } = await pool.query<{ id: string }>(page(pageValues(accountId, filter, null)));
  if (rows.length > MAX_BATCH) {
    throw new ApiError(
      'invalid_parameters',
      `filter matches more than ${MAX_BATCH} emails: narrow it, by dates for example`,
    );
  }
  return rows.map(({ id }) => id);
}

/**
 * Saves a new batch with its emails; does nothing when that id exists. Batches of an account are saved one after the other: a later
 * one sees all earlier ones, and waits for those that change the same emails.
 */
export async function createBatch(
  db: Db,
  { id, accountId, change, emailIds }: { id: string; accountId: string; change: StoredBatchChange; emailIds: string[] },
): Promise<void> {
  const isEmpty = emailIds.length === 0;
  const save = sql`
    with batch as (
      insert into batches (id, account_id, change, total, status, created_at, completed_at)
      values (${id}, ${accountId}, ${JSON.stringify(change)}::jsonb, ${emailIds.length},
        ${isEmpty ? 'completed' : 'running'}, clock_timestamp(), ${isEmpty ? sql`clock_timestamp()` : null})
      on conflict (id) do nothing returning id
    )
    insert into batch_items (batch_id, position, account_id, email_id)
    select batch.id, e.position, ${accountId}, e.id
    from batch, unnest(${sql.param(emailIds)}::text[]) with ordinality e (id, position)`;
  await db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${`batches of ${accountId}`}, 0))`);
    await tx.execute(save);
  });
}

/** Reads a batch; undefined when the account has none with that id. */
export async function getBatch(db: Queryable, accountId: string, id: string): Promise<StoredBatch | undefined> {
  const { rows } = await db.execute<BatchRow>(sql`
    select b.id, b.account_id, b.status, b.total, b.created_at, b.completed_at, c.* from batches b cross join lateral (
      select (count(*) filter (where i.status = 'changed'))::int as changed,
        (count(*) filter (where i.status = 'failed'))::int as failed,
        (count(*) filter (where i.status = 'pending'))::int as pending
      from batch_items i where i.batch_id = b.id) c
    where b.id = ${id} and b.account_id = ${accountId}`);
  const [row] = rows;
  if (!row) return undefined;
  return {
    object: 'EmailBatch',
    ...row,
    created_at: new Date(row.created_at).toISOString(),
    completed_at: row.completed_at === null ? null : new Date(row.completed_at).toISOString(),
  };
}

interface BatchRow extends Omit<StoredBatch, 'object'>, Record<string, unknown> {}

/** A page of the results of a batch, in the order of its emails; `next`: the position where the next page begins. */
export async function listBatchResults(
  db: Queryable,
  batchId: string,
  { status, after, limit }: { status: BatchResult | undefined; after: number; limit: number },
): Promise<{ data: EmailBatchResult[]; next: number | null }> {
  const { rows } = await db.execute<{
    position: number;
    email_id: string;
    status: BatchResult;
    error_code: ErrorCode | null;
    error_detail: string | null;
  }>(sql`
    select position, email_id, status, error_code, error_detail from batch_items
    where batch_id = ${batchId} and position > ${after}
      and ${status === undefined ? sql`true` : sql`status = ${status}`}
    order by position limit ${limit + 1}`);
  const data = rows.slice(0, limit).map((row): EmailBatchResult => {
    const error = row.error_code === null ? null : { type: `errors/${row.error_code}`, detail: row.error_detail ?? '' };
    return { object: 'EmailBatchResult', email_id: row.email_id, status: row.status, error };
  });
  return { data, next: rows.length > limit ? (rows[limit - 1]?.position ?? null) : null };
}
