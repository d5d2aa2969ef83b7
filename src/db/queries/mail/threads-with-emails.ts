import { type SQL, sql } from 'drizzle-orm';
import { slot } from '../../driver/statement.ts';
import { addressConditions, type EmailFilter, isIn, pagedList, rowConditions, searched } from './email-page.ts';
import { FEW, indexHits, VISIBLE_ACCOUNT } from './email-page-of-accounts.ts';
import { judgedSample, SAMPLE, textConditions } from './email-search.ts';
import { storedIdsOf, threadNow } from './merging-threads.ts';

export interface ListOfThreads {
  /** selects `id, date` of the newest `count` threads that meet further conditions on `thread_summaries t`, in order */
  newest(more: SQL[], count: SQL): SQL;
  /** the conditions of the list itself on `thread_summaries t` */
  own: SQL[];
  /** what `newest` reads */
  ctes: SQL[];
  rows: SQL;
  /** of the slot `accountId`; false: of the accounts in `visible` */
  isOne: boolean;
}

/**
 * Selects `id, date` of the newest `rows` threads with an email that passes a filter, with slots for `pageValues`. How many
 * of the newest threads have one decides how the others are found, as `searchPage` does: by a look at each thread, or by
 * the emails that pass.
 */
export function threadsWithEmails(given: EmailFilter, { newest, own, ctes, rows, isOne }: ListOfThreads): SQL {
  const filter = searched(given);
  const account = isOne ? slot('accountId') : VISIBLE_ACCOUNT;
  const has = hasEmail(filter, isOne ? account : sql`e.account_id`);
  const list = pagedList(filter, account, false);
  const text = textConditions(filter);
  const beyond = sql`(t.last_date, t.thread_id) < (select date, id from sampled order by date, id limit 1)`;
  const gate = sql`(select short and not common from sample)`;
  const size = isOne
    ? list.size
    : sql`select coalesce(sum(total_count), 0) from folders where account_id in (select account_id from visible)`;
  const passing = isOne
    ? list.candidates([gate, text?.byIndex])
    : text
      ? indexHits(filter, { text, isAfterPosition: false, gate, few: FEW })
      : sql`select of_one.* from visible cross join lateral (${list.candidates([gate])}) of_one`;
  const theirThreads = sql`array(select distinct ${sql.raw(threadNow('e.thread_id'))}
    from (${passing}) passing join emails e on e.id = passing.id where not e.is_draft)`;
  return sql`
    with ${sql.join(
      [
        ...ctes,
        sql`sampled as materialized (select m.id, m.date, ${has(sql`m.id`)} as hit from (${newest([], SAMPLE)}) m)`,
        sql`sample as materialized (${judgedSample(size, rows)})`,
      ],
      sql`, `,
    )}
    (select id, date from sampled where hit order by date desc, id desc limit ${rows})
    union all
    (${newest([beyond, sql`(select short and common from sample)`, has(sql`t.thread_id`)], rows)})
    union all
    (select t.thread_id, t.last_date from thread_summaries t
      where ${sql.join([...own, beyond, gate, sql`t.thread_id = any(${theirThreads})`], sql` and `)}
      order by t.last_date desc, t.thread_id desc limit ${rows})
    order by date desc, id desc limit ${rows}`;
}

/** Whether a thread has an email that passes a filter. `account`: the id of the account of `emails e`. */
function hasEmail(filter: EmailFilter, account: SQL): (threadId: SQL) => SQL {
  const text = textConditions(filter)?.byText;
  const ofSearch = [...addressConditions(filter), ...(text ? [text] : [])];
  const conditions = [
    sql`not e.is_draft`,
    ...rowConditions(filter, account),
    ...(filter.folderId === undefined ? [] : [isIn(sql`array[${slot('folderId')}]`)]),
    ...ofSearch,
  ];
  const join = ofSearch.length > 0 ? sql`join email_search s on s.email_id = e.id` : sql``;
  return (threadId) => sql`exists (
    select from (${storedIdsOf(sql`select ${threadId} as id`)}) stored join emails e on e.thread_id = stored.id ${join}
    where ${sql.join(conditions, sql` and `)})`;
}
