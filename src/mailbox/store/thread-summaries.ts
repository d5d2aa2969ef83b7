import { sql } from 'drizzle-orm';
import type { Queryable, Tx } from '../../db/driver/client.ts';
import { threadNow } from '../../db/queries/mail/merging-threads.ts';

/** Threads of one verification that are corrected; the others follow in the next one. */
const WRONG_AT_ONCE = 10_000;

/** What the summaries of an account's threads should be. */
const wanted = (accountId: string) => sql`
  select ${sql.raw(threadNow('e.thread_id'))} as thread_id, max(e.date) as last_date,
    (array_agg(e.id order by e.date desc, e.id desc))[1] as last_email_id, count(*)::int as emails,
    (count(*) filter (where e.is_unread))::int as unread,
    (count(*) filter (where e.flags @> array['\\flagged']))::int as starred,
    (count(*) filter (where e.has_attachments))::int as with_attachments
  from emails e where e.account_id = ${accountId} and not e.is_draft group by 1`;

/** Threads whose summaries do not agree with their emails: see `threadSummaries`. */
export async function findWrongThreadSummaries(db: Queryable, accountId: string): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select coalesce(w.thread_id, t.thread_id) as id from (${wanted(accountId)}) w
    full join (select * from thread_summaries where account_id = ${accountId}) t on t.thread_id = w.thread_id
    where (w.last_date, w.last_email_id, w.emails, w.unread, w.starred, w.with_attachments) is distinct from
      (t.last_date, t.last_email_id, t.emails, t.unread, t.starred, t.with_attachments)
    limit ${WRONG_AT_ONCE}`);
  return rows.map(({ id }) => id);
}

/** Makes the summaries of these threads anew, in a transaction of the account's writer. */
export async function correctThreadSummaries(tx: Tx, accountId: string, ids: string[]): Promise<void> {
  if (ids.length === 0) return;
  const chosen = sql`thread_id = any(${sql.param(ids)}::text[])`;
  await tx.execute(sql`delete from thread_summaries where account_id = ${accountId} and ${chosen}`);
  await tx.execute(sql`
    insert into thread_summaries (thread_id, account_id, last_date, last_email_id, emails, unread, starred, with_attachments)
    select w.thread_id, ${accountId}, w.last_date, w.last_email_id, w.emails, w.unread, w.starred, w.with_attachments
    from (${wanted(accountId)}) w where w.${chosen}`);
}
