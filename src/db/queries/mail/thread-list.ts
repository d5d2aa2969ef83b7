import { type SQL, sql } from 'drizzle-orm';
import type pg from 'pg';
import type { Attendee } from '../../../contract/email.ts';
import type { ThreadSummary } from '../../../contract/thread.ts';
import { compile, slot, statement } from '../../driver/statement.ts';
import { type EmailFilter, pageValues, shapeOf } from './email-page.ts';
import { type AccountIds, newestOfEach, VISIBLE } from './email-page-of-accounts.ts';
import { type LocationOfEmail, shownFolders } from './email-object.ts';
import { locationsOf, snippetFrom, TEXTS } from './email-select.ts';
import { storedIdsOf } from './merging-threads.ts';
import { threadsWithEmails } from './threads-with-emails.ts';

/** Filters of the list of threads, combined with AND. */
export interface ThreadFilter {
  isUnread?: boolean | undefined;
  isStarred?: boolean | undefined;
  hasAttachment?: boolean | undefined;
  /** of the last email, exclusive */
  before?: Date | undefined;
  after?: Date | undefined;
  /** one of its emails passes all of these */
  emails?: EmailFilter | undefined;
}

export interface ThreadPosition {
  date: Date;
  id: string;
}

export interface ThreadPage {
  filter: ThreadFilter;
  limit: number;
  position: ThreadPosition | null;
}

export interface ThreadListing {
  data: ThreadSummary[];
  /** where the next page begins; null at the end */
  next: ThreadPosition | null;
}

/** The emails of a thread that its participants and folders are read from. */
const SHOWN_EMAILS = sql.raw('20');

/** @param ids selects `id` and `date` of the threads of the page, in order */
const pageOf = (ids: SQL) => sql`
    with page as materialized (${ids})
    select t.thread_id as id, t.account_id, t.last_date, t.last_email_id, t.emails, t.unread, t.starred,
      t.with_attachments, e.subject, c.snippet, ${sql.raw(TEXTS)} as texts, shown.participants, shown.locations
    from page join thread_summaries t on t.thread_id = page.id
    join emails e on e.id = t.last_email_id
    left join email_contents c on c.email_id = e.id
    cross join lateral (
      with newest as materialized (
        select n.* from (${storedIdsOf(sql`select t.thread_id as id`)}) stored cross join lateral (
          select n.id, n.date, n.from_attendee from emails n where n.thread_id = stored.id and not n.is_draft
          order by n.date desc, n.id desc limit ${SHOWN_EMAILS}) n
        order by n.date desc, n.id desc limit ${SHOWN_EMAILS})
      select (select json_agg(n.from_attendee order by n.date desc, n.id desc) from newest n) as participants,
        (select json_agg(${sql.raw(locationsOf('n'))}) from newest n) as locations
    ) shown
    order by page.date desc, page.id desc`;

interface Row {
  id: string;
  account_id: string;
  last_date: Date | string;
  last_email_id: string;
  emails: number;
  unread: number;
  starred: number;
  with_attachments: number;
  subject: string;
  snippet: string | null;
  texts: string | null;
  participants: Attendee[];
  /** of each of its newest emails */
  locations: (LocationOfEmail[] | null)[];
}

/** A page of an account's threads, the one with the latest email first; one statement. */
export function listThreads(pool: pg.Pool, accountId: string, page: ThreadPage): Promise<ThreadListing> {
  return listed(pool, statementOf('one', page)(valuesOf(accountId, page)), page);
}

/** A page of the threads of several accounts, the one with the latest email first; one statement. */
export function listThreadsOfAccounts(pool: pg.Pool, accountIds: AccountIds, page: ThreadPage): Promise<ThreadListing> {
  return listed(pool, statementOf('several', page)({ ...valuesOf('', page), accountIds }), page);
}

async function listed(pool: pg.Pool, statement: pg.QueryConfig, { limit }: ThreadPage): Promise<ThreadListing> {
  const { rows } = await pool.query<Row>(statement);
  const data = rows.slice(0, limit).map(toSummary);
  const last = data.at(-1);
  return { data, next: last && rows.length > limit ? { date: new Date(last.last_date), id: last.id } : null };
}

function valuesOf(accountId: string, { filter, limit, position }: ThreadPage): Record<string, unknown> {
  const { emails = {}, before, after } = filter;
  return { ...pageValues(accountId, emails, position), before, after, taken: limit + 1 };
}

/** Statements by their shape: to put one together takes longer than to run it. */
const statements = new Map<string, ReturnType<typeof compile>>();
const REMEMBERED = 500;

function statementOf(accounts: 'one' | 'several', { filter, limit, position }: ThreadPage): ReturnType<typeof compile> {
  const { isUnread, isStarred, hasAttachment, before, after, emails } = filter;
  const parts = [isUnread ?? null, isStarred ?? null, hasAttachment ?? null, before !== undefined, after !== undefined];
  const shape = JSON.stringify([accounts, parts, position !== null, emails ? [shapeOf(emails), limit] : null]);
  let found = statements.get(shape);
  if (!found) {
    if (statements.size >= REMEMBERED) statements.clear();
    const text = textOf(accounts, filter, { isLater: position !== null, limit });
    found = compile(emails ? text : statement('threads_page', () => text)());
    statements.set(shape, found);
  }
  return found;
}

function textOf(
  accounts: 'one' | 'several',
  filter: ThreadFilter,
  { isLater, limit }: { isLater: boolean; limit: number },
): SQL {
  const isOne = accounts === 'one';
  const ofOne = (more: SQL[], count: SQL) => sql`
    select t.thread_id as id, t.last_date as date from thread_summaries t
    where ${sql.join([sql`t.account_id = ${isOne ? slot('accountId') : sql`visible.account_id`}`, ...own, ...more], sql` and `)}
    order by t.last_date desc, t.thread_id desc limit ${count}`;
  const own = conditionsOf(filter, isLater);
  const newest = isOne ? ofOne : (more: SQL[], count: SQL) => newestOfEach(ofOne(more, count), count);
  const ctes = isOne ? [] : [VISIBLE];
  if (!filter.emails) {
    const all = newest([], slot('taken'));
    return pageOf(isOne ? all : sql`with ${sql.join(ctes, sql`, `)} ${all}`);
  }
  const rows = sql.raw(String(limit + 1));
  return pageOf(threadsWithEmails(filter.emails, { newest, own, ctes, rows, isOne }));
}

/** Conditions on `thread_summaries t`. */
function conditionsOf({ isUnread, isStarred, hasAttachment, before, after }: ThreadFilter, isLater: boolean): SQL[] {
  const counts = (wanted: boolean | undefined, column: string) =>
    wanted === undefined ? [] : [sql.raw(`t.${column} ${wanted ? '> 0' : '= 0'}`)];
  return [
    ...counts(isUnread, 'unread'),
    ...counts(isStarred, 'starred'),
    ...counts(hasAttachment, 'with_attachments'),
    ...(before ? [sql`t.last_date < ${slot('before')}::timestamptz`] : []),
    ...(after ? [sql`t.last_date > ${slot('after')}::timestamptz`] : []),
    ...(isLater
      ? [sql`(t.last_date, t.thread_id) < (${slot('positionDate')}::timestamptz, ${slot('positionId')})`]
      : []),
  ];
}

function toSummary(row: Row): ThreadSummary {
  const participants = new Map<string, Attendee>();
  for (const each of row.participants) {
    const address = each.identifier.toLowerCase();
    if (!participants.has(address)) participants.set(address, each);
  }
  return {
    object: 'ThreadSummary',
    id: row.id,
    account_id: row.account_id,
    subject: row.subject,
    snippet: row.snippet ?? snippetFrom(row.texts),
    last_date: new Date(row.last_date).toISOString(),
    last_email_id: row.last_email_id,
    participants: [...participants.values()],
    emails_count: row.emails,
    unread_count: row.unread,
    is_starred: row.starred > 0,
    has_attachments: row.with_attachments > 0,
    folders: [...new Set(row.locations.flatMap((locations) => shownFolders(locations ?? [])))].sort(),
  };
}
