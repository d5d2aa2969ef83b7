import { type SQL, sql } from 'drizzle-orm';
import type { Queryable } from '../../db/driver/client.ts';
import { emails } from '../../db/schema/index.ts';

/*
 * Stored emails that are parsed again: all of an account after an upgrade, or those whose parsing was cut short, a few
 * times, later each time.
 */

export type StoredEmailRow = typeof emails.$inferSelect;

/** The progress of a pass over the emails of an account. */
export interface ReparseCursor {
  list: 'emails' | 'drafts' | 'incomplete';
  /** the last email that was checked; null: none of this list yet */
  last: { date: string; id: string } | null;
}

/** How long after an email was stored it is parsed for the second, third and fourth time, if it is cut short each time. */
const DUE_AFTER = [
  [0, '10 minutes'],
  [1, '6 hours'],
  [2, '2 days'],
] as const;

const isDue = sql.raw(
  `not is_complete and (${DUE_AFTER.map(([reparses, age]) => `reparses = ${reparses} and created_at < now() - interval '${age}'`).join(' or ')})`,
);

/** The emails after `cursor`, the newest first, at most `limit`; `next` null: these were the last. */
export async function emailsToReparse(
  db: Queryable,
  accountId: string,
  cursor: ReparseCursor,
  limit: number,
): Promise<{ rows: StoredEmailRow[]; next: ReparseCursor | null }> {
  const { list, last } = cursor;
  const isOfList = { emails: sql`not is_draft`, drafts: sql`is_draft`, incomplete: isDue }[list];
  const isAfter: SQL =
    last === null
      ? sql``
      : list === 'incomplete'
        ? sql`and id > ${last.id}`
        : sql`and (date, id) < (${last.date}::timestamptz, ${last.id})`;
  const rows = await db
    .select()
    .from(emails)
    .where(sql`account_id = ${accountId} and ${isOfList} ${isAfter}`)
    .orderBy(list === 'incomplete' ? sql`id` : sql`date desc, id desc`)
    .limit(limit);
  const end = rows.at(-1);
  if (end && rows.length === limit) return { rows, next: { list, last: { date: end.date.toISOString(), id: end.id } } };
  return { rows, next: list === 'emails' ? { list: 'drafts', last: null } : null };
}

/** Counts that an email was parsed again and cut short again. */
export async function countReparse(db: Queryable, emailId: string): Promise<void> {
  await db.execute(sql`
    update emails set reparses = least(reparses + 1, ${DUE_AFTER.length}) where id = ${emailId} and not is_complete`);
}

/** Accounts, unordered, with emails whose parsing was cut short and is to be repeated now. */
export async function accountsWithDueReparses(db: Queryable, limit: number): Promise<string[]> {
  const { rows } = await db.execute<{ account_id: string }>(sql`
    select account_id from (
      select distinct account_id from emails where ${isDue}
        and exists (select 1 from accounts a where a.id = account_id and a.removed_at is null)
    ) due order by random() limit ${limit}`);
  return rows.map((row) => row.account_id);
}
