import { sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Email } from '../../contract/email.ts';
import type { EmailPosition } from './email-page.ts';
import { CONTENTS_AND_LOCATIONS, emailColumns, selectEmails } from './email-select.ts';
import { compile, slot, statement } from '../driver/statement.ts';
import type { JsonPieces } from '../driver/json-text.ts';

export interface ThreadListing {
  /** the thread's id now: a thread that was merged into another has the other's id */
  id: string;
  data: JsonPieces<Email>[];
  next: EmailPosition | null;
}

/**
 * A page of a conversation, oldest first, Sent copies included, without drafts. Undefined: the account has no such
 * thread, or no email of it is left.
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
  const text = sql`
    select ${emailColumns(page.metaOnly)} from emails e ${CONTENTS_AND_LOCATIONS}
    where e.thread_id = ${threadId} and e.account_id = ${accountId} and not e.is_draft ${beyond}
    order by e.date, e.id limit ${limit + 1}`;
  const found = await selectEmails(pool, compile(text)());
  const shown = found.slice(0, limit);
  return {
    id: threadId,
    data: shown.map(({ email }) => email),
    next: found.length > limit ? (shown.at(-1)?.place() ?? null) : null,
  };
}

async function findThread(
  pool: pg.Pool,
  accountId: string,
  of: { threadId: string } | { emailId: string },
): Promise<string | undefined> {
  const statement = 'emailId' in of ? threadOfEmail : threadNow;
  const { rows } = await pool.query<{ id: string }>(statement({ ...of, accountId }));
  return rows[0]?.id;
}

const threadOfEmail = compile(
  statement(
    'thread_of_email',
    () =>
      sql`select e.thread_id as id from emails e where e.id = ${slot('emailId')} and e.account_id = ${slot('accountId')}`,
  )(),
);
const threadNow = compile(
  statement(
    'thread_now',
    () => sql`
  select t.id from (
    select coalesce(merged_into, id) as id from threads where id = ${slot('threadId')} and account_id = ${slot('accountId')}
  ) t where exists (select from emails e where e.thread_id = t.id)`,
  )(),
);
