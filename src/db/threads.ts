import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Email } from '../contract/email.ts';
import type { EmailPosition } from './email-page.ts';
import { emailColumns, selectEmails, toQuery } from './email-select.ts';
import type { JsonOf } from './json-text.ts';

export interface ThreadListing {
  /** the thread's id now: a thread that was merged into another has the other's id */
  id: string;
  data: JsonOf<Email>[];
  next: EmailPosition | null;
}

/**
 * A page of a conversation, oldest first, Sent copies included, drafts left out (SPEC "Endpoints"). Undefined: the
 * account has no such thread, or nothing of it is left.
 *
 * @param of the thread, or one of its emails
 */
export async function getThread(
  pool: pg.Pool,
  accountId: string,
  of: { threadId: string } | { emailId: string },
  page: { metaOnly: boolean; limit: number; position: EmailPosition | null },
): Promise<ThreadListing | undefined> {
  const threadId = await findThread(pool, accountId, of);
  if (threadId === undefined) return undefined;
  const { limit, position } = page;
  const beyond = position ? sql`and (e.date, e.id) > (${position.date}::timestamptz, ${position.id})` : sql``;
  const statement = sql`
    select ${emailColumns(page.metaOnly)} from emails e left join email_contents c on c.email_id = e.id
    where e.thread_id = ${threadId} and e.account_id = ${accountId} and not e.is_draft ${beyond}
    order by e.date, e.id limit ${limit + 1}`;
  const found = await selectEmails(pool, statement, { prepared: false });
  const shown = found.slice(0, limit);
  const last = shown.at(-1)?.row;
  return {
    id: threadId,
    data: shown.map(({ email }) => email),
    next: last && found.length > limit ? { date: last.date, id: last.id } : null,
  };
}

async function findThread(
  pool: pg.Pool,
  accountId: string,
  of: { threadId: string } | { emailId: string },
): Promise<string | undefined> {
  const statement: SQL =
    'emailId' in of
      ? sql`select e.thread_id as id from emails e where e.id = ${of.emailId} and e.account_id = ${accountId}`
      : sql`
        select t.id from (
          select coalesce(merged_into, id) as id from threads where id = ${of.threadId} and account_id = ${accountId}
        ) t where exists (select from emails e where e.thread_id = t.id)`;
  const { rows } = await pool.query<{ id: string }>(toQuery(statement, { prepared: true }));
  return rows[0]?.id;
}
