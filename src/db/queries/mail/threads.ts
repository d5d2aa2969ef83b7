import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Email } from '../../../contract/email.ts';
import type { EmailPosition } from './email-page.ts';
import { CONTENTS_AND_LOCATIONS, nextOf, selectEmails, selectPage } from './email-select.ts';
import { storedIdsOf, threadNow, threadOf } from './merging-threads.ts';
import { compile, slot, statement } from '../../driver/statement.ts';
import type { JsonPieces } from '../../driver/json-text.ts';
import { type SentEmail, sentEmail, storedOrSent } from './sent-email.ts';

/** A thread, or that of an email. */
type ThreadOf = { threadId: string } | { emailId: string };

export interface ThreadListing {
  /** the thread's id now: a thread that was merged into another has the other's id */
  id: string;
  data: JsonPieces<Email>[];
  next: EmailPosition | null;
}

/**
 * A page of a conversation, oldest first, Sent copies included, without drafts. Undefined: the account has no such
 * thread, or no email of it is left. One of which nothing is stored yet has the emails that were just sent.
 *
 * @param of the thread, or one of its emails
 */
export async function getThread(
  pool: pg.Pool,
  accountId: string,
  of: ThreadOf,
  page: { metaOnly: boolean; limit: number; position: EmailPosition | null },
): Promise<ThreadListing | undefined> {
  const thread = await storedOrSent(
    () => findThread(pool, accountId, of),
    () => sentThread(pool, accountId, of),
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
  const sent = next === null ? (thread.sent ?? []) : [];
  return {
    id: thread.id,
    data: [...found.map(({ email }) => email), ...sent.map((one) => sentEmail(one, page))],
    next,
  };
}

interface FoundThread {
  id: string;
  /** where nothing that was asked for is stored: the emails whose copies are not stored yet, the last ones of the thread */
  sent?: SentEmail[];
}

/** The thread of emails that were sent, and whose copies are not stored yet. */
async function sentThread(pool: pg.Pool, accountId: string, of: ThreadOf): Promise<FoundThread | undefined> {
  const statement = 'emailId' in of ? sentThreadOfEmail : sentThreadOfId;
  const { rows } = await pool.query<SentEmail & { id: string }>(statement({ ...of, accountId }));
  return rows[0] && { id: rows[0].id, sent: rows };
}

/** Emails have the thread of the time when they were sent, which may have been merged since. */
const nowOf = (threadId: SQL) => sql`coalesce((${threadOf(threadId)}), ${threadId})`;

const sentIn = (name: string, threadId: SQL) =>
  compile(
    statement(
      name,
      () => sql`
  select asked.id, s.email::text as email, s.storage_key as "storageKey"
  from (select ${nowOf(threadId)} as id) asked
  join sends s on s.account_id = ${slot('accountId')} and s.state = 'sent' and s.email is not null
    -- the index of sends with work left
    and s.storage_key is not null
    and ${nowOf(sql`(s.email ->> 'thread_id')`)} = asked.id
  order by s.created_at, s.id limit 100`,
    )(),
  );
const sentThreadOfId = sentIn('sent_thread_of_id', sql`${slot('threadId')}::text`);
const sentThreadOfEmail = sentIn(
  'sent_thread_of_email',
  sql`(select a.email ->> 'thread_id' from sends a
    where a.id = ${slot('emailId')} and a.account_id = ${slot('accountId')} and a.state = 'sent')`,
);

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

async function findThread(pool: pg.Pool, accountId: string, of: ThreadOf): Promise<FoundThread | undefined> {
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
