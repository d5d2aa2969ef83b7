import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Email } from '../../../contract/email.ts';
import type { EmailPosition } from './email-page.ts';
import { CONTENTS_AND_LOCATIONS, nextOf, selectEmails, selectPage } from './email-select.ts';
import { storedIdsOf, threadNow, threadOf } from './merging-threads.ts';
import { compile, slot, statement } from '../../driver/statement.ts';
import type { JsonPieces } from '../../driver/json-text.ts';
import { getSentEmail, type SentEmail, sentEmail, storedOrSent } from './sent-email.ts';

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
  const thread = await storedOrSent(
    () => findThread(pool, accountId, of),
    async () => ('emailId' in of ? sentThread(pool, accountId, of.emailId) : undefined),
  );
  if (!thread) return undefined;
  const { limit, position } = page;
  const { first, later } = page.metaOnly ? metadata : whole;
  const values = {
    accountId,
    threadId: thread.id,
    limit,
    taken: limit + 1,
    positionDate: position?.date,
    positionId: position?.id,
  };
  const found = await selectEmails(pool, (position ? later : first)(values));
  const next = nextOf(found);
  const sent = next === null && thread.sent !== undefined ? [sentEmail(thread.sent, page)] : [];
  return { id: thread.id, data: [...found.map(({ email }) => email), ...sent], next };
}

interface FoundThread {
  id: string;
  /** the email that was asked for, where its copy is not stored yet: the last one of the thread */
  sent?: SentEmail;
}

/** The thread of an email that was sent, and whose copy is not stored yet. */
async function sentThread(pool: pg.Pool, accountId: string, emailId: string): Promise<FoundThread | undefined> {
  const sent = await getSentEmail(pool, accountId, emailId);
  if (!sent) return undefined;
  const { rows } = await pool.query<{ id: string }>(threadItIsNow({ threadId: sent.threadId }));
  return { id: rows[0]?.id ?? sent.threadId, sent };
}

const threadItIsNow = compile(statement('thread_it_is_now', () => threadOf(slot('threadId')))());

/** The first of the emails under each stored id, which an index has in order, however many they are; then the first of these. */
const pageOf = (metaOnly: boolean, beyond: SQL) =>
  compile(
    statement('thread_page', () =>
      selectPage(
        metaOnly ? 'metadata' : 'whole',
        sql`(
    select e.* from (${storedIdsOf(threadOf(slot('threadId')))}) stored cross join lateral (
      select * from emails e
      where e.thread_id = stored.id and e.account_id = ${slot('accountId')} and not e.is_draft ${beyond}
      order by e.date, e.id limit ${slot('taken')}
    ) e order by e.date, e.id limit ${slot('taken')}
  ) e ${CONTENTS_AND_LOCATIONS}`,
        { order: 'asc', limit: slot('limit') },
      ),
    )(),
  );
const BEYOND = sql`and (e.date, e.id) > (${slot('positionDate')}::timestamptz, ${slot('positionId')})`;
const pagesOf = (metaOnly: boolean) => ({ first: pageOf(metaOnly, sql``), later: pageOf(metaOnly, BEYOND) });
const whole = pagesOf(false);
const metadata = pagesOf(true);

async function findThread(
  pool: pg.Pool,
  accountId: string,
  of: { threadId: string } | { emailId: string },
): Promise<FoundThread | undefined> {
  const statement = 'emailId' in of ? threadOfEmail : threadOfId;
  const { rows } = await pool.query<{ id: string }>(statement({ ...of, accountId }));
  return rows[0];
}

const threadOfEmail = compile(
  statement(
    'thread_of_email',
    () => sql`
  select ${sql.raw(threadNow('e.thread_id'))} as id from emails e
  where e.id = ${slot('emailId')} and e.account_id = ${slot('accountId')}`,
  )(),
);
const threadOfId = compile(
  statement(
    'thread_of_id',
    () => sql`
  select now.id from (${threadOf(slot('threadId'))} and t.account_id = ${slot('accountId')}) now
  where exists (
    select from (${storedIdsOf(sql`select now.id`)}) stored join emails e on e.thread_id = stored.id)`,
  )(),
);
