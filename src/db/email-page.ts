import { type SQL, sql } from 'drizzle-orm';
import { likePattern, normalAddress } from '../contract/search-text.ts';

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

/** In a statement that is prepared some values are slots. */
type Value<T> = T | SQL;
type FilterValues = Omit<EmailFilter, 'folderId'> & { folderId?: Value<string> };
type PositionValues = { date: Value<Date>; id: Value<string> };

/** The pieces of a statement for a page. */
interface PagedList {
  /** the newest `count` that meet further conditions, in order and each once */
  page(more: (SQL | undefined)[], count: SQL): SQL;
  /** all that meet further conditions, in no order */
  candidates(more: (SQL | undefined)[]): SQL;
  after: SQL | undefined;
  key: SQL;
  /** selects about how many emails are in the list, without the filters */
  size: SQL;
}

/**
 * A statement that selects `id, date` of the newest `rows` emails that pass the filter and come after `position`, each once
 * and in order. `rows` is a number as SQL.
 */
export function emailPage(
  accountId: Value<string>,
  filter: FilterValues,
  position: PositionValues | null,
  rows: SQL,
): SQL {
  const { source, date, id, conditions } = driver(accountId, filter);
  const from = (more: (SQL | undefined)[]): SQL =>
    sql`from ${source} where ${sql.join([...conditions, ...more.filter((condition) => condition !== undefined)], sql` and `)}`;
  const list: PagedList = {
    page: (more, count) => sql`
      select distinct on (${date}, ${id}) ${id} as id, ${date} as date ${from(more)}
      order by ${date} desc, ${id} desc limit ${count}`,
    // `offset 0` keeps the planner from walking the list in order here too
    candidates: (more) => sql`select ${id} as id, ${date} as date ${from(more)} offset 0`,
    after: position ? sql`(${date}, ${id}) < (${position.date}::timestamptz, ${position.id})` : undefined,
    key: sql`(${date}, ${id})`,
    size: sql`select coalesce(sum(total_count), 0) from folders
      where account_id = ${accountId} ${filter.folderId === undefined ? sql`` : sql`and id = ${filter.folderId}`}`,
  };
  const text = textConditions(filter);
  return text ? searchPage(text, list, rows) : list.page([list.after], rows);
}

/** Whether the statement's best plan does not depend on the values: see `prepare`. */
export function hasFixedPlan({ folderId: _, isUnread: __, ...rest }: EmailFilter): boolean {
  return Object.values(rest).every((value) => value === undefined);
}

interface Driver {
  source: SQL;
  date: SQL;
  id: SQL;
  conditions: SQL[];
}

/**
 * The table whose index gives the order, and the conditions besides text. Conditions on a row are scalar subqueries where
 * they could be joins: without fresh statistics, as just after an import, the planner would otherwise join thousands of
 * rows to show fifty.
 */
function driver(accountId: Value<string>, filter: FilterValues): Driver {
  const { folderId } = filter;
  const ofEmail = rowConditions(filter);
  const ofSearch = addressConditions(filter);
  const searches = [filter.q, filter.subject].some((text) => text !== undefined) || ofSearch.length > 0;
  const joinEmails = (id: SQL) => sql`join emails e on e.id = ${id} and e.account_id = ${accountId}`;
  const driverOf = (tables: SQL[], { date, id }: Pick<Driver, 'date' | 'id'>, scope: SQL[]): Driver => ({
    source: sql.join(tables, sql` `),
    date,
    id,
    conditions: [...scope, ...span(filter, date), ...ofEmail, ...ofSearch],
  });
  // mail of one sender is found by the sender, in whatever folder it is
  if (folderId !== undefined && filter.from === undefined) {
    const [date, id] = [sql`p.date`, sql`p.email_id`];
    const joinSearch = sql`join email_search s on s.email_id = ${id} and s.account_id = ${accountId}`;
    const tables = [
      sql`locations p`,
      ...(ofEmail.length > 0 ? [joinEmails(id)] : []),
      ...(searches ? [joinSearch] : []),
    ];
    return driverOf(tables, { date, id }, [sql`p.folder_id = ${folderId} and p.email_id is not null`, isLocation('p')]);
  }
  const scope = folderId === undefined ? sql`not e.is_draft` : isIn(sql`array[${folderId}]`);
  if (!searches) {
    return driverOf([sql`emails e`], { date: sql`e.date`, id: sql`e.id` }, [sql`e.account_id = ${accountId}`, scope]);
  }
  const [date, id] = [sql`s.date`, sql`s.email_id`];
  const tables = [sql`email_search s`, joinEmails(id)];
  return driverOf(tables, { date, id }, [sql`s.account_id = ${accountId}`, scope]);
}

function span({ before, after }: FilterValues, date: SQL): SQL[] {
  return [
    ...(before ? [sql`${date} < ${before}::timestamptz`] : []),
    ...(after ? [sql`${date} > ${after}::timestamptz`] : []),
  ];
}

function rowConditions(filter: FilterValues): SQL[] {
  const conditions: SQL[] = [];
  if (filter.isUnread !== undefined) conditions.push(filter.isUnread ? sql`e.is_unread` : sql`not e.is_unread`);
  if (filter.hasAttachment !== undefined) {
    conditions.push(filter.hasAttachment ? sql`e.has_attachments` : sql`not e.has_attachments`);
  }
  if (filter.threadId !== undefined) {
    conditions.push(
      sql`e.thread_id = (select coalesce(t.merged_into, t.id) from threads t where t.id = ${filter.threadId})`,
    );
  }
  if (filter.messageId !== undefined) {
    const bare = filter.messageId.trim().replace(/^<|>$/g, '');
    conditions.push(sql`e.message_id = ${`<${bare}>`}`);
  }
  if (filter.excludeFolders !== undefined && filter.excludeFolders.length > 0) {
    conditions.push(sql`not ${isIn(sql`${sql.param(filter.excludeFolders)}`)}`);
  }
  return conditions;
}

function addressConditions(filter: FilterValues): SQL[] {
  const conditions: SQL[] = [];
  if (filter.from !== undefined) conditions.push(sql`s.from_address = ${normalAddress(filter.from)}`);
  if (filter.to !== undefined) conditions.push(sql`s.to_addresses && ${sql.param([normalAddress(filter.to)])}::text[]`);
  if (filter.anyEmail !== undefined) {
    const addresses = sql.param(filter.anyEmail.map(normalAddress));
    conditions.push(sql`(s.from_address = any(${addresses}::text[]) or s.to_addresses && ${addresses}::text[])`);
  }
  return conditions;
}

/** The condition that the email is in one of the folders, an array of ids. */
function isIn(folderIds: SQL): SQL {
  return sql`coalesce((select bool_or(x.folder_id = any(${folderIds}::text[]) and ${isLocation('x')})
    from locations x where x.email_id = e.id), false)`;
}

/** The condition that a location counts: one marked with \Deleted does only when there is no other. */
function isLocation(alias: 'p' | 'x'): SQL {
  const location = sql.raw(alias);
  return sql`(not ${location}.deleted
    or (select bool_and(y.deleted) from locations y where y.email_id = ${location}.email_id))`;
}

/** A text search in the two forms that `searchPage` needs. */
interface TextConditions {
  /** searches each text, without an index */
  byText: SQL;
  /** searches the trigram index */
  byIndex: SQL;
}

function textConditions({ q, subject }: FilterValues): TextConditions | undefined {
  const searches = [
    ...searchOf(q, (pattern) => ({
      byText: sql`strpos(s.text, ${searchedText(pattern)}) > 0`,
      byIndex: sql`s.text like ${pattern}`,
    })),
    ...searchOf(subject, (pattern) => ({
      byText: sql`strpos(s.subject, ${searchedText(pattern)}) > 0`,
      byIndex: sql`s.subject like ${pattern}`,
    })),
  ];
  if (searches.length === 0) return undefined;
  return {
    byText: sql.join(
      searches.map(({ byText }) => byText),
      sql` and `,
    ),
    byIndex: sql.join(
      searches.map(({ byIndex }) => byIndex),
      sql` and `,
    ),
  };
}

/** A text without a visible character is no search. */
function searchOf(text: string | undefined, conditions: (pattern: string) => TextConditions): TextConditions[] {
  const pattern = likePattern(text ?? '');
  return pattern === '%' ? [] : [conditions(pattern)];
}

/** The text that a pattern of `likePattern` searches for. */
function searchedText(pattern: string): string {
  return pattern.slice(1, -1).replace(/\\(.)/gs, '$1');
}

/** How common the searched text is shows in so many of the newest emails. */
const SAMPLE = sql.raw('200');
/** Lists of at most so many emails are searched text by text, however rare the text. */
const SHORT_LIST = sql.raw('2000');

/**
 * A common word is found fastest by searching the newest texts until the page is full. A rare one is found fastest by the
 * trigram index, which finds every hit of all time before the newest can be chosen. With hits at a rate f in N emails, a
 * page of L costs L / f texts the one way and f · N the other: equal at f² = L / N. So the newest SAMPLE are searched
 * first, and where they do not fill the page their rate decides how to go on. (Postgres cannot decide: it has no statistics
 * of long texts.) All in one statement; a branch that is not used costs nothing.
 */
function searchPage(text: TextConditions, list: PagedList, rows: SQL): SQL {
  const { page, candidates, after, key, size } = list;
  const beyond = sql`${key} < (select date, id from sampled order by date, id limit 1)`;
  return sql`
    with sampled as materialized (
      select newest.id, newest.date, ${text.byText} as hit
      from (${page([after], SAMPLE)}) newest join email_search s on s.email_id = newest.id),
    sample as materialized (
      select hits < ${rows} and taken = ${SAMPLE} as short,
        size <= ${SHORT_LIST} or hits * hits * size >= ${rows} * ${SAMPLE} * ${SAMPLE} as common
      from (select count(*) filter (where hit) as hits, count(*) as taken from sampled) counted, (${size}) list (size))
    (select id, date from sampled where hit order by date desc, id desc limit ${rows})
    union all
    (${page([beyond, sql`(select short and common from sample)`, text.byText], rows)})
    union all
    (select distinct on (date, id) id, date
      from (${candidates([beyond, sql`(select short and not common from sample)`, text.byIndex])}) hits
      order by date desc, id desc limit ${rows})
    order by date desc, id desc limit ${rows}`;
}
