import { type SQL, sql } from 'drizzle-orm';
import { slot } from '../../driver/statement.ts';
import { type EmailFilter, pagedList, searched } from './email-page.ts';
import { IN_INDEX, SAMPLE, type TextConditions, textConditions } from './email-search.ts';

/*
 * Lists over several accounts: the newest of each account are read from its part of an index, then merged. Searches begin
 * with the newest emails of all accounts together, as those of one account do (email-search.ts).
 */

/** Which accounts a list is about; null: all. */
export type AccountIds = readonly string[] | null;

/** An account of the CTE `visible`. */
export const VISIBLE_ACCOUNT = sql`visible.account_id`;

/** The accounts of the slot `accountIds` that exist; a CTE that the parts below read. */
export const VISIBLE = sql`
  visible as materialized (
    select a.id as account_id from accounts a
    where a.removed_at is null and (${slot('accountIds')}::text[] is null or a.id = any(${slot('accountIds')}::text[])))`;

/** The newest `count` of all accounts, from a query of as many of each that selects `id` and `date`. */
export function newestOfEach(ofOne: SQL, count: SQL): SQL {
  return sql`
    select found.* from visible cross join lateral (${ofOne}) found
    order by found.date desc, found.id desc limit ${count}`;
}

/**
 * A statement like that of `emailPage` over the accounts of `visible`, which the slot `accountIds` names: it selects `id,
 * date` of the newest `rows` emails, with slots for `pageValues`.
 */
export function emailPageOfAccounts(given: EmailFilter, isAfterPosition: boolean, rows: SQL): SQL {
  const filter = searched(given);
  const text = textConditions(filter);
  const list = pagedList(filter, VISIBLE_ACCOUNT, isAfterPosition);
  if (!text) return sql`with ${VISIBLE} ${newestOfEach(list.page([list.after], rows), rows)}`;
  return searchOfAccounts(filter, { text, isAfterPosition, rows });
}

/** At most so many emails are searched text by text after the sample. A text takes about twice as long as a hit of the index. */
const LONGEST_WALK = sql.raw('2000');

/**
 * The sample shows how common the text is: a common one is found by a walk over as many of the next emails as a page is
 * expected to need, and half of them more; a rare one by the trigram index. The walk reads of each account four times its
 * share, and goes no further than what it has of all: where one account has most of the new mail it ends early, and the index
 * finds the rest.
 */
function searchOfAccounts(
  filter: EmailFilter,
  { text, isAfterPosition, rows }: { text: TextConditions; isAfterPosition: boolean; rows: SQL },
): SQL {
  const { q: _, subject: __, ...rest } = filter;
  // without the texts: most filters then have an index in the order of the list, and no other table is read
  const { page, after, key } = pagedList(rest, VISIBLE_ACCOUNT, isAfterPosition);
  const looked = (emails: SQL) => sql`
    select m.id, m.date, ${text.byText} as hit from (${emails}) m join email_search s on s.email_id = m.id`;
  const beyondSample = sql`${key} < (select date, id from sampled order by date, id limit 1)`;
  const beyondLooked = sql`(f.date, f.id) < (select date, id from looked order by date, id limit 1)`;
  return sql`
    with ${VISIBLE},
    sampled as materialized (${looked(newestOfEach(page([after], SAMPLE), SAMPLE))}),
    counted as materialized (
      select hits < ${rows} and taken = ${SAMPLE} as short, ${rows} * ${SAMPLE} * 3 / 2 / nullif(hits, 0) as walk
      from (select count(*) filter (where hit) as hits, count(*) as taken from sampled) sample),
    planned as materialized (
      select short and coalesce(walk <= ${LONGEST_WALK}, false) as walks, walk, least(walk, 4 * walk / greatest(accounts, 1) + 10) as share
      from counted, (select count(*) as accounts from visible) them),
    read as materialized (
      select found.*, visible.account_id from visible cross join lateral (
        ${page([beyondSample, sql`(select walks from planned)`], sql`(select share from planned)`)}) found),
    ends as materialized (
      select max(oldest) as date from (
        select min(date) as oldest from read group by account_id having count(*) = (select share from planned)) cut),
    walked as materialized (${looked(sql`
      select id, date from read where date > coalesce((select date from ends), '-infinity')
      order by date desc, id desc limit (select walk from planned)`)}),
    looked as materialized (select * from sampled union all select * from walked),
    rest as materialized (
      select short and hits < ${rows} and not (walks and ended) as needed, ${FEW} as few
      from counted, planned, (select count(*) filter (where hit) as hits from looked) found_so_far,
        (select (select date from ends) is null and count(*) <= (select walk from planned) as ended from read) all_read)
    (select id, date from looked where hit order by date desc, id desc limit ${rows})
    union all
    (select distinct on (f.date, f.id) f.id, f.date
      from (${indexHits(filter, { text, isAfterPosition, gate: sql`(select needed from rest)`, few: sql`(select few from rest)` })}) f
      where ${beyondLooked} order by f.date desc, f.id desc limit ${rows})
    order by date desc, id desc limit ${rows}`;
}

/** Whether the accounts of `visible` are few of all: the entries of other accounts in the index would be read for nothing. */
export const FEW = sql`(select count(*) from visible) * 4 < (select count(*) from accounts)`;

/**
 * Selects `id` and `date` of emails with the text, in no order, where `gate` is true: by the trigram index, once where the
 * accounts are most of all, else once for each account; without a trigram, by a look at each text.
 */
export function indexHits(
  filter: EmailFilter,
  { text, isAfterPosition, gate, few }: { text: TextConditions; isAfterPosition: boolean; gate: SQL; few: SQL },
): SQL {
  const each = pagedList(filter, VISIBLE_ACCOUNT, isAfterPosition);
  const found = pagedList(filter, sql`hit.account_id`, isAfterPosition);
  return sql`
    select each_one.id, each_one.date from visible cross join lateral (
      ${each.candidates([each.after, gate, IN_INDEX, few, text.byIndex])}) each_one
    union all
    select looked_at.id, looked_at.date from visible cross join lateral (
      ${each.candidates([each.after, gate, sql`not ${IN_INDEX}`, text.byText])}) looked_at
    union all
    select passing.id, passing.date from (
      select s.email_id, s.account_id from email_search s where ${gate} and ${IN_INDEX} and not ${few} and ${text.byIndex} offset 0
    ) hit join visible on visible.account_id = hit.account_id
    cross join lateral (${found.candidates([found.after, sql`${found.id} = hit.email_id`])}) passing`;
}
