import { type SQL, sql } from 'drizzle-orm';
import { likePattern, normalAddress } from '../contract/search-text.ts';

/** What a list of emails may be narrowed by; all of it is combined with AND. */
export interface EmailFilter {
  /** any part of subject, plain body, addresses and names */
  q?: string;
  from?: string;
  /** to, cc or bcc */
  to?: string;
  /** any of these addresses in from, to, cc or bcc */
  anyEmail?: string[];
  /** any part of the subject */
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

/** The place of an email in a list by date. */
export interface EmailPosition {
  date: Date;
  id: string;
}

/** The pieces that a statement for a page is made of. */
interface PagedList {
  /** the newest `count` that fulfil some more conditions, in order and each once */
  page(more: (SQL | undefined)[], count: SQL): SQL;
  /** all that fulfil some more conditions, in no order */
  candidates(more: (SQL | undefined)[]): SQL;
  after: SQL | undefined;
  key: SQL;
  /** gives how many emails are in the list, filters aside, about */
  size: SQL;
}

/**
 * A statement that gives `id, date` of the newest `rows` emails that pass the filter and come after `position`,
 * each once and in order. `rows` is a number as SQL.
 */
export function emailPage(accountId: string, filter: EmailFilter, position: EmailPosition | null, rows: SQL): SQL {
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

/** Whether the statement's best plan does not depend on the values: see `toQuery`. */
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
 * The table whose index gives the order, and the conditions besides text. Conditions that belong to a row are written as
 * scalar subqueries where they could be joins: without fresh statistics, as just after an import, the planner would
 * otherwise join thousands of rows to show fifty.
 */
function driver(accountId: string, filter: EmailFilter): Driver {
  const { folderId } = filter;
  const ofEmail = rowConditions(filter);
  const ofSearch = addressConditions(filter);
  const searches = [filter.q, filter.subject].some((text) => text !== undefined) || ofSearch.length > 0;
  const emailsOf = (id: SQL) => sql`join emails e on e.id = ${id} and e.account_id = ${accountId}`;
  // mail of one sender is found by the sender, whatever folder it lies in
  if (folderId !== undefined && filter.from === undefined) {
    const [date, id] = [sql`p.date`, sql`p.email_id`];
    const joins = [
      ...(ofEmail.length > 0 ? [emailsOf(id)] : []),
      ...(searches ? [sql`join email_search s on s.email_id = ${id} and s.account_id = ${accountId}`] : []),
    ];
    return {
      source: sql.join([sql`locations p`, ...joins], sql` `),
      date,
      id,
      conditions: [
        sql`p.folder_id = ${folderId} and p.email_id is not null`,
        lies('p'),
        ...span(filter, date),
        ...ofEmail,
        ...ofSearch,
      ],
    };
  }
  const scope = folderId === undefined ? sql`not e.is_draft` : liesIn([folderId]);
  if (!searches) {
    const date = sql`e.date`;
    const conditions = [sql`e.account_id = ${accountId}`, scope, ...span(filter, date), ...ofEmail];
    return { source: sql`emails e`, date, id: sql`e.id`, conditions };
  }
  const [date, id] = [sql`s.date`, sql`s.email_id`];
  return {
    source: sql`email_search s ${emailsOf(id)}`,
    date,
    id,
    conditions: [sql`s.account_id = ${accountId}`, scope, ...span(filter, date), ...ofEmail, ...ofSearch],
  };
}

function span({ before, after }: EmailFilter, date: SQL): SQL[] {
  return [
    ...(before ? [sql`${date} < ${before}::timestamptz`] : []),
    ...(after ? [sql`${date} > ${after}::timestamptz`] : []),
  ];
}

function rowConditions(filter: EmailFilter): SQL[] {
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
    conditions.push(sql`not ${liesIn(filter.excludeFolders)}`);
  }
  return conditions;
}

function addressConditions(filter: EmailFilter): SQL[] {
  const conditions: SQL[] = [];
  if (filter.from !== undefined) conditions.push(sql`s.from_address = ${normalAddress(filter.from)}`);
  if (filter.to !== undefined) conditions.push(sql`s.to_addresses && ${sql.param([normalAddress(filter.to)])}::text[]`);
  if (filter.anyEmail !== undefined) {
    const addresses = sql.param(filter.anyEmail.map(normalAddress));
    conditions.push(sql`(s.from_address = any(${addresses}::text[]) or s.to_addresses && ${addresses}::text[])`);
  }
  return conditions;
}

/** That the email lies in one of the folders. */
function liesIn(folderIds: string[]): SQL {
  const folders = sql.param(folderIds);
  return sql`coalesce((select bool_or(x.folder_id = any(${folders}::text[]) and ${lies('x')})
    from locations x where x.email_id = e.id), false)`;
}

/** That a location counts: one on its way out (\Deleted) does so only where there is no other. */
function lies(alias: 'p' | 'x'): SQL {
  const location = sql.raw(alias);
  return sql`(not ${location}.deleted
    or (select bool_and(y.deleted) from locations y where y.email_id = ${location}.email_id))`;
}

/** A text search in the two forms that `searchPage` needs. */
interface TextConditions {
  /** by looking into each text; no index serves it */
  looked: SQL;
  /** by the trigram index */
  indexed: SQL;
}

function textConditions({ q, subject }: EmailFilter): TextConditions | undefined {
  const searches = [
    ...searched(q, (pattern) => ({
      looked: sql`strpos(s.text, ${needle(pattern)}) > 0`,
      indexed: sql`s.text like ${pattern}`,
    })),
    ...searched(subject, (pattern) => ({
      looked: sql`strpos(s.subject, ${needle(pattern)}) > 0`,
      indexed: sql`s.subject like ${pattern}`,
    })),
  ];
  if (searches.length === 0) return undefined;
  return {
    looked: sql.join(
      searches.map(({ looked }) => looked),
      sql` and `,
    ),
    indexed: sql.join(
      searches.map(({ indexed }) => indexed),
      sql` and `,
    ),
  };
}

/** Nothing is searched for by a text without anything visible. */
function searched(text: string | undefined, conditions: (pattern: string) => TextConditions): TextConditions[] {
  const pattern = likePattern(text ?? '');
  return pattern === '%' ? [] : [conditions(pattern)];
}

/** The plain text that a pattern of `likePattern` looks for. */
function needle(pattern: string): string {
  return pattern.slice(1, -1).replace(/\\(.)/gs, '$1');
}

/** How many of the newest emails tell how common the searched text is. */
const SAMPLE = sql.raw('200');
/** A list of so many emails is looked through, however rare the text. */
const SHORT_LIST = sql.raw('2000');

/**
 * A common word is found fastest by looking into the newest texts until the page is full, a rare one by the trigram
 * index, which finds every hit of all time before the newest can be taken. With hits at a rate f in N emails, a page of
 * L costs L / f looks the one way and f · N the other: equal at f² = L / N. So the newest SAMPLE are looked into first,
 * and where they do not fill the page their rate decides how to go on. (Postgres cannot decide: it keeps no statistics
 * of long texts.) All in one statement; a branch that is not taken costs nothing.
 */
function searchPage(text: TextConditions, list: PagedList, rows: SQL): SQL {
  const { page, candidates, after, key, size } = list;
  const beyond = sql`${key} < (select date, id from sampled order by date, id limit 1)`;
  return sql`
    with sampled as materialized (
      select newest.id, newest.date, ${text.looked} as hit
      from (${page([after], SAMPLE)}) newest join email_search s on s.email_id = newest.id),
    sample as materialized (
      select hits < ${rows} and taken = ${SAMPLE} as short,
        size <= ${SHORT_LIST} or hits * hits * size >= ${rows} * ${SAMPLE} * ${SAMPLE} as common
      from (select count(*) filter (where hit) as hits, count(*) as taken from sampled) counted, (${size}) list (size))
    (select id, date from sampled where hit order by date desc, id desc limit ${rows})
    union all
    (${page([beyond, sql`(select short and common from sample)`, text.looked], rows)})
    union all
    (select distinct on (date, id) id, date
      from (${candidates([beyond, sql`(select short and not common from sample)`, text.indexed])}) hits
      order by date desc, id desc limit ${rows})
    order by date desc, id desc limit ${rows}`;
}
