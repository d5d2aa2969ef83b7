import { type SQL, sql } from 'drizzle-orm';
import { normalAddress, withUnicodeDomains } from '../../../mail-wire/addresses.ts';
import { ANSWERED, FORWARDED, STARRED } from '../../../contract/flags.ts';
import { hasTrigram, likePattern } from '../../../contract/search-text.ts';
import { slot } from '../../driver/statement.ts';
import { type PagedList, searchedText, searchPage, textConditions } from './email-search.ts';
import { isGoingAway } from '../pending-removal.ts';
import { storedIdsOf, threadOf } from './merging-threads.ts';
import { messageIdsOf } from './sent-email.ts';

/** Filters of a list of emails, combined with AND. */
export interface EmailFilter {
  /** part of subject, plain body, addresses or names */
  q?: string;
  from?: string;
  /** to, cc or bcc */
  to?: string;
  /** any of these addresses in from, to, cc or bcc */
  anyEmail?: string[];
  /** part of the subject */
  subject?: string;
  hasAttachment?: boolean;
  isUnread?: boolean;
  isStarred?: boolean;
  isAnswered?: boolean;
  isForwarded?: boolean;
  /** each of these keywords, in any case */
  keywords?: string[];
  dmarc?: string;
  fromAligned?: boolean;
  /** List-Id, in any case */
  listId?: string;
  /** exclusive */
  before?: Date;
  /** exclusive */
  after?: Date;
  excludeFolders?: string[];
  threadId?: string;
  /** with or without angle brackets */
  messageId?: string;
  /** only this folder, drafts included; without it the whole account, without drafts */
  folderId?: string;
}

/** The position of an email in a list by date. */
export interface EmailPosition {
  date: Date;
  id: string;
}

/*
 * A statement is built from the shape of a filter: the parts that it has. Values are in slots, so one statement serves
 * all filters of its shape.
 */

/** The parts that a filter has, as text; equal for filters of one shape. */
export function shapeOf({
  isUnread,
  hasAttachment,
  isStarred,
  isAnswered,
  isForwarded,
  fromAligned,
  ...filter
}: EmailFilter): string {
  const booleans = [isUnread, hasAttachment, isStarred, isAnswered, isForwarded, fromAligned].map(
    (value) => value ?? null,
  );
  return JSON.stringify([...booleans, ...Object.keys(searched(filter)).sort()]);
}

/** The values of the slots of a statement of `emailPage`. */
export function pageValues(
  accountId: string,
  filter: EmailFilter,
  position: EmailPosition | null,
): Record<string, unknown> {
  const { q, subject, from, to, anyEmail, messageId, keywords, listId, ...rest } = filter;
  const [qPattern, subjectPattern] = [likePattern(withUnicodeDomains(q ?? '')), likePattern(subject ?? '')];
  return {
    ...{ ...rest, accountId, ...(position ? { positionDate: position.date, positionId: position.id } : {}) },
    ...{ qPattern, q: searchedText(qPattern), subjectPattern, subject: searchedText(subjectPattern) },
    inIndex: [qPattern, subjectPattern].every((pattern) => pattern === '%' || hasTrigram(pattern)),
    from: from === undefined ? null : normalAddress(from),
    to: to === undefined ? null : [normalAddress(to)],
    anyEmail: anyEmail?.map(normalAddress),
    listId: listId?.trim().replace(/^<|>$/g, '').toLowerCase(),
    keywords: keywords?.map((keyword) => keyword.toLowerCase()),
    messageId: messageId === undefined ? null : `<${messageId.trim().replace(/^<|>$/g, '')}>`,
  };
}

/** Removes the conditions that match everything: text without a visible character, no folder to exclude, no keyword. */
export function searched(filter: EmailFilter): EmailFilter {
  const { q, subject, excludeFolders, keywords, ...rest } = filter;
  return {
    ...rest,
    ...(q === undefined || likePattern(q) === '%' ? {} : { q }),
    ...(subject === undefined || likePattern(subject) === '%' ? {} : { subject }),
    ...(excludeFolders === undefined || excludeFolders.length === 0 ? {} : { excludeFolders }),
    ...(keywords === undefined || keywords.length === 0 ? {} : { keywords }),
  };
}

/**
 * A statement that selects `id, date` of the newest `rows` emails that pass a filter of this shape and come after the
 * position, if any, each once and in order; with slots for `pageValues`. `rows` is a number as SQL.
 */
export function emailPage(given: EmailFilter, isAfterPosition: boolean, rows: SQL): SQL {
  const filter = searched(given);
  const list = pagedList(filter, slot('accountId'), isAfterPosition);
  const text = textConditions(filter);
  return text ? searchPage(text, list, rows) : list.page([list.after], rows);
}

/** @param filter as `searched` returns it */
export function pagedList(filter: EmailFilter, account: SQL, isAfterPosition: boolean): PagedList {
  const { source, date, id, conditions, isOfThread } = driver(filter, account);
  const from = (more: (SQL | undefined)[]): SQL =>
    sql`from ${source} where ${sql.join([...conditions, ...more.filter((condition) => condition !== undefined)], sql` and `)}`;
  return {
    page: (more, count, columns = sql``) => {
      const page = sql`
        select distinct on (${date}, ${id}) ${id} as id, ${date} as date${columns} ${from(more)}
        order by ${date} desc, ${id} desc limit ${count}`;
      return isOfThread ? pageOfThread(page, count) : page;
    },
    // `offset 0` keeps the planner from walking the list in order here too
    candidates: (more) => sql`select ${id} as id, ${date} as date ${from(more)} offset 0`,
    after: isAfterPosition
      ? sql`(${date}, ${id}) < (${slot('positionDate')}::timestamptz, ${slot('positionId')})`
      : undefined,
    key: sql`(${date}, ${id})`,
    id,
    size: sql`select coalesce(sum(total_count), 0) from folders
      where account_id = ${account} ${filter.folderId === undefined ? sql`` : sql`and id = ${slot('folderId')}`}`,
  };
}

/**
 * Whether one plan is best for all values of a statement of this shape, and is made once: planning a search takes longer
 * than running it. False for a search in a folder, which may have a few emails or all of them. A thread is read in its
 * order, however long it is.
 */
export function hasFixedPlan({ threadId, ...filter }: EmailFilter): boolean {
  const { folderId, isUnread, from, q, subject, ...rest } = filter;
  const isNone = (values: unknown[]) => values.every((value) => value === undefined);
  if (threadId !== undefined) return isNone(Object.values(filter));
  if (!isNone(Object.values(rest))) return false;
  return isNone([q, subject]) || isNone([folderId, isUnread, from]);
}

const STORED_THREAD_IDS = storedIdsOf(threadOf(slot('threadId')));

/** The newest of a thread from the newest under each of its stored ids, which an index has in order: it may be long. */
function pageOfThread(page: SQL, count: SQL): SQL {
  return sql`
    select newest.* from (${STORED_THREAD_IDS}) stored cross join lateral (${page}) newest
    order by newest.date desc, newest.id desc limit ${count}`;
}

interface Driver {
  source: SQL;
  date: SQL;
  id: SQL;
  conditions: SQL[];
  /** the source is a thread, of which `stored.id` is a stored id */
  isOfThread?: boolean;
}

/**
 * The table whose index has the order, and the conditions other than text. Conditions on a row are scalar subqueries
 * where they could be joins: without fresh statistics, as just after an import, the planner would otherwise join
 * thousands of rows to show fifty.
 */
function driver(filter: EmailFilter, account: SQL): Driver {
  const isOfFolder = filter.folderId !== undefined;
  const ofSearch = addressConditions(filter);
  const searches = [filter.q, filter.subject].some((text) => text !== undefined) || ofSearch.length > 0;
  const isOfThread = filter.threadId !== undefined && !isOfFolder && !searches;
  const ofEmail = rowConditions(filter, account, isOfThread ? sql`stored.id` : undefined);
  const joinEmails = (id: SQL) => sql`join emails e on e.id = ${id} and e.account_id = ${account}`;
  const driverOf = (tables: SQL[], { date, id }: Pick<Driver, 'date' | 'id'>, scope: SQL[]): Driver => ({
    source: sql.join(tables, sql` `),
    date,
    id,
    conditions: [...scope, ...span(filter, date), ...ofEmail, ...ofSearch],
  });
  // mail of one sender is found by the sender, in all folders
  if (isOfFolder && filter.from === undefined) {
    const [date, id] = [sql`p.date`, sql`p.email_id`];
    const joinSearch = sql`join email_search s on s.email_id = ${id} and s.account_id = ${account}`;
    const tables = [
      sql`locations p`,
      ...(ofEmail.length > 0 ? [joinEmails(id)] : []),
      ...(searches ? [joinSearch] : []),
    ];
    return driverOf(tables, { date, id }, [
      // read once: the folder may be that of another account
      sql`${account} = (select f.account_id from folders f where f.id = ${slot('folderId')})`,
      sql`p.folder_id = ${slot('folderId')} and p.email_id is not null`,
      isLocation('p'),
    ]);
  }
  const scope = isOfFolder ? isIn(sql`array[${slot('folderId')}]`) : sql`not e.is_draft`;
  if (!searches) {
    const all = driverOf([sql`emails e`], { date: sql`e.date`, id: sql`e.id` }, [
      sql`e.account_id = ${account}`,
      scope,
    ]);
    return { ...all, isOfThread };
  }
  const [date, id] = [sql`s.date`, sql`s.email_id`];
  const tables = [sql`email_search s`, joinEmails(id)];
  return driverOf(tables, { date, id }, [sql`s.account_id = ${account}`, scope]);
}

function span({ before, after }: EmailFilter, date: SQL): SQL[] {
  return [
    ...(before ? [sql`${date} < ${slot('before')}::timestamptz`] : []),
    ...(after ? [sql`${date} > ${slot('after')}::timestamptz`] : []),
  ];
}

/**
 * Conditions on `emails e`.
 *
 * @param account the id of their account
 * @param threadIds the right side of `e.thread_id =`
 */
export function rowConditions(
  filter: EmailFilter,
  account: SQL,
  threadIds = sql`any(array(${STORED_THREAD_IDS}))`,
): SQL[] {
  const conditions: SQL[] = [];
  if (filter.isUnread !== undefined) conditions.push(filter.isUnread ? sql`e.is_unread` : sql`not e.is_unread`);
  if (filter.hasAttachment !== undefined) {
    conditions.push(filter.hasAttachment ? sql`e.has_attachments` : sql`not e.has_attachments`);
  }
  for (const [wanted, flag] of [
    [filter.isStarred, STARRED],
    [filter.isAnswered, ANSWERED],
    [filter.isForwarded, FORWARDED],
  ] as const) {
    const has = sql`e.flags @> array[${sql.raw(`'${flag}'`)}]`;
    if (wanted !== undefined) conditions.push(wanted ? has : sql`not coalesce(${has}, false)`);
  }
  if (filter.keywords !== undefined) conditions.push(sql`(e.flags @> ${slot('keywords')}::text[] and e.flags <> '{}')`);
  if (filter.threadId !== undefined) conditions.push(sql`e.thread_id = ${threadIds}`);
  if (filter.messageId !== undefined) {
    conditions.push(sql`e.message_id = any(${messageIdsOf(account, slot('messageId'))})`);
  }
  if (filter.excludeFolders !== undefined) conditions.push(sql`not ${isIn(slot('excludeFolders'))}`);
  return [...conditions, ...trustConditions(filter)];
}

/** The conditions on what a mail says of its list and its sender. */
function trustConditions(filter: EmailFilter): SQL[] {
  const conditions: SQL[] = [];
  if (filter.dmarc !== undefined) conditions.push(sql`e.authentication ->> 'dmarc' = ${slot('dmarc')}`);
  if (filter.fromAligned !== undefined) {
    conditions.push(sql`e.authentication ->> 'from_aligned' = ${sql.raw(filter.fromAligned ? `'true'` : `'false'`)}`);
  }
  if (filter.listId !== undefined) conditions.push(sql`(e.list ->> 'id' = ${slot('listId')} and e.list is not null)`);
  return conditions;
}

/** Conditions on `email_search s`. */
export function addressConditions(filter: EmailFilter): SQL[] {
  const conditions: SQL[] = [];
  if (filter.from !== undefined) conditions.push(sql`s.from_address = ${slot('from')}`);
  if (filter.to !== undefined) conditions.push(sql`s.to_addresses && ${slot('to')}::text[]`);
  if (filter.anyEmail !== undefined) {
    const addresses = slot('anyEmail');
    conditions.push(sql`(s.from_address = any(${addresses}::text[]) or s.to_addresses && ${addresses}::text[])`);
  }
  return conditions;
}

/** The condition that the email `e` is in one of the folders, an array of ids. */
export function isIn(folderIds: SQL): SQL {
  return sql`coalesce((select bool_or(x.folder_id = any(${folderIds}::text[]) and ${isLocation('x')})
    from locations x where x.email_id = e.id), false)`;
}

/** The condition that a location counts: one that is going away only counts when the email has no other. */
function isLocation(alias: 'p' | 'x'): SQL {
  return sql.raw(`(not ${isGoingAway(alias)}
    or (select bool_and(${isGoingAway('y')}) from locations y where y.email_id = ${alias}.email_id))`);
}
