import { type SQL, sql } from 'drizzle-orm';
import type { Attendee } from '../../../contract/email.ts';
import type { ThreadSummary } from '../../../contract/thread.ts';
import type { Queryable } from '../../driver/client.ts';
import { statement } from '../../driver/statement.ts';
import { snippetFrom, TEXTS } from './email-select.ts';
import { storedIdsOf } from './merging-threads.ts';

/** Filters of the list of threads, combined with AND. */
export interface ThreadFilter {
  isUnread?: boolean | undefined;
  isStarred?: boolean | undefined;
  hasAttachment?: boolean | undefined;
  /** of the last email, exclusive */
  before?: Date | undefined;
  after?: Date | undefined;
}

export interface ThreadPosition {
  date: Date;
  id: string;
}

/** The emails of a thread that its participants and folders are read from. */
const SHOWN_EMAILS = sql.raw('20');

const pageOf = statement(
  'threads_page',
  (conditions: SQL, limit: number) => sql`
    select t.thread_id as id, t.account_id, t.last_date, t.last_email_id, t.emails, t.unread, t.starred,
      t.with_attachments, e.subject, c.snippet, ${sql.raw(TEXTS)} as texts, shown.participants, shown.folders
    from (
      select * from thread_summaries t where ${conditions} order by t.last_date desc, t.thread_id desc limit ${limit}
    ) t
    join emails e on e.id = t.last_email_id
    left join email_contents c on c.email_id = e.id
    cross join lateral (
      with newest as materialized (
        select n.* from (${storedIdsOf(sql`select t.thread_id as id`)}) stored cross join lateral (
          select n.id, n.date, n.from_attendee from emails n where n.thread_id = stored.id and not n.is_draft
          order by n.date desc, n.id desc limit ${SHOWN_EMAILS}) n
        order by n.date desc, n.id desc limit ${SHOWN_EMAILS})
      select (select json_agg(n.from_attendee order by n.date desc, n.id desc) from newest n) as participants,
        (select json_agg(distinct p.folder_id) from newest n join locations p on p.email_id = n.id) as folders
    ) shown
    order by t.last_date desc, t.thread_id desc`,
);

interface Row extends Record<string, unknown> {
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
  folders: string[] | null;
}

/** A page of an account's threads, the one with the latest email first; one statement. */
export async function listThreads(
  db: Queryable,
  accountId: string,
  { filter, limit, position }: { filter: ThreadFilter; limit: number; position: ThreadPosition | null },
): Promise<{ data: ThreadSummary[]; next: ThreadPosition | null }> {
  const conditions = sql.join(conditionsOf(accountId, filter, position), sql` and `);
  const { rows } = await db.execute<Row>(pageOf(conditions, limit + 1));
  const data = rows.slice(0, limit).map(toSummary);
  const last = data.at(-1);
  return { data, next: last && rows.length > limit ? { date: new Date(last.last_date), id: last.id } : null };
}

function conditionsOf(accountId: string, filter: ThreadFilter, position: ThreadPosition | null): SQL[] {
  const { isUnread, isStarred, hasAttachment, before, after } = filter;
  const counts = (wanted: boolean | undefined, column: string) =>
    wanted === undefined ? [] : [sql.raw(`t.${column} ${wanted ? '> 0' : '= 0'}`)];
  const at = (date: Date) => sql`${date.toISOString()}::timestamptz`;
  return [
    sql`t.account_id = ${accountId}`,
    ...counts(isUnread, 'unread'),
    ...counts(isStarred, 'starred'),
    ...counts(hasAttachment, 'with_attachments'),
    ...(before ? [sql`t.last_date < ${at(before)}`] : []),
    ...(after ? [sql`t.last_date > ${at(after)}`] : []),
    ...(position ? [sql`(t.last_date, t.thread_id) < (${at(position.date)}, ${position.id})`] : []),
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
    folders: row.folders ?? [],
  };
}
