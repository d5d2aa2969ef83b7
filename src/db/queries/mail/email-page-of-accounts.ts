import { type SQL, sql } from 'drizzle-orm';
import { slot } from '../../driver/statement.ts';
import { type EmailFilter, pagedList, searched } from './email-page.ts';
import { SAMPLE, type TextConditions, textConditions } from './email-search.ts';

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

/** So many of the newest emails are searched text by text after the sample, if twice the wanted hits are expected there. */
const WALK = sql.raw('2000');

/**
 * The sample shows how common the text is: a common one is in as many of the next emails as a page needs, and a rare one is
 * found by the trigram index. Only what is merged is searched: of each account as many texts would take as often as long.
 */
function searchOfAccounts(
  filter: EmailFilter,
  { text, isAfterPosition, rows }: { text: TextConditions; isAfterPosition: boolean; rows: SQL },
): SQL {
  const { q: _, subject: __, ...rest } = filter;
  // without the texts: most filters then have an index in the order of the list, and no other table is read
  const { page, after, key } = pagedList(rest, VISIBLE_ACCOUNT, isAfterPosition);
  const looked = (more: (SQL | undefined)[], count: SQL) => sql`
    select m.id, m.date, ${text.byText} as hit from (${newestOfEach(page(more, count), count)}) m
    join email_search s on s.email_id = m.id`;
  const beyond = (read: SQL) => sql`${key} < (select date, id from ${read} order by date, id limit 1)`;
  const beyondRead = sql`(f.date, f.id) < (select date, id from looked order by date, id limit 1)`;
  return sql`
    with ${VISIBLE},
    sampled as materialized (${looked([after], SAMPLE)}),
    counted as materialized (
      select hits < ${rows} and taken = ${SAMPLE} as short, 2 * ${rows} * ${SAMPLE} <= hits * ${WALK} as common
      from (select count(*) filter (where hit) as hits, count(*) as taken from sampled) sample),
    walked as materialized (${looked([beyond(sql`sampled`), sql`(select short and common from counted)`], WALK)}),
    looked as materialized (select * from sampled union all select * from walked),
    rest as materialized (
      select hits < ${rows} and taken = ${SAMPLE} + case when common then ${WALK} else 0 end as needed, ${FEW} as few
      from counted, (select count(*) filter (where hit) as hits, count(*) as taken from looked) found_so_far)
    (select id, date from looked where hit order by date desc, id desc limit ${rows})
    union all
    (select distinct on (f.date, f.id) f.id, f.date
      from (${indexHits(filter, { text, isAfterPosition, gate: sql`(select needed from rest)`, few: sql`(select few from rest)` })}) f
      where ${beyondRead} order by f.date desc, f.id desc limit ${rows})
    order by date desc, id desc limit ${rows}`;
}

/** Whether the accounts of `visible` are few of all: the entries of other accounts in the index would be read for nothing. */
export const FEW = sql`(select count(*) from visible) * 4 < (select count(*) from accounts)`;

/**
 * Selects `id` and `date` of emails that the trigram index finds, in no order, where `gate` is true: in the index once where
 * the accounts are most of all, else once for each account.
 */
export function indexHits(
  filter: EmailFilter,
  { text, isAfterPosition, gate, few }: { text: TextConditions; isAfterPosition: boolean; gate: SQL; few: SQL },
): SQL {
  const each = pagedList(filter, VISIBLE_ACCOUNT, isAfterPosition);
  const found = pagedList(filter, sql`hit.account_id`, isAfterPosition);
  return sql`
    select each_one.id, each_one.date from visible cross join lateral (
      ${each.candidates([each.after, gate, few, text.byIndex])}) each_one
    union all
    select passing.id, passing.date from (
      select s.email_id, s.account_id from email_search s where ${gate} and not ${few} and ${text.byIndex} offset 0
    ) hit join visible on visible.account_id = hit.account_id
    cross join lateral (${found.candidates([found.after, sql`${found.id} = hit.email_id`])}) passing`;
}
