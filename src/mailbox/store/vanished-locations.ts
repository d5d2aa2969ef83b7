import { and, isNotNull, sql } from 'drizzle-orm';
import { anyOf } from '../../db/driver/any-of.ts';
import type { Queryable, Tx } from '../../db/driver/client.ts';
import { emails, locations } from '../../db/schema/index.ts';
import { counted } from './locations.ts';

/** Bounds one statement. */
const ROWS_PER_STATEMENT = 2_000;

/** At most `limit` UIDs of a folder in these ranges, which do not overlap, that are known to be there (or are pending removal). */
export async function knownUidsIn(
  db: Queryable,
  folderId: string,
  ranges: { from: number; to: number }[],
  limit: number,
): Promise<number[]> {
  const [first, last] = [ranges.map(({ from }) => from), ranges.map(({ to }) => to)];
  // for each range a part of the index is read: for a join all of the folder might be
  const { rows } = await db.execute<{ uid: string }>(sql`
    select known.uid from unnest(${sql.param(first)}::bigint[], ${sql.param(last)}::bigint[]) as range (first, last)
    cross join lateral (
      select uid from locations
      where folder_id = ${folderId} and uid between range.first and range.last and vanished_at is null
      order by uid limit ${limit}
    ) known limit ${limit}`);
  return rows.map(({ uid }) => Number(uid));
}

/** Marks UIDs of a folder as vanished. They count as their emails' locations until it is known where the emails went. */
export async function markVanished(tx: Tx, folderId: string, uids: number[], now: Date): Promise<void> {
  if (uids.length === 0) return;
  const mark = sql`
    update locations set vanished_at = ${now.toISOString()}::timestamptz
    where folder_id = ${folderId} and ${anyOf(locations.uid, uids)} and vanished_at is null
    returning folder_id, -1 as by`;
  await tx.execute(sql`${counted(mark)} select`);
}

/** Marks UIDs of a folder as not vanished: the folder has them. */
export async function reviveLocations(tx: Tx, folderId: string, uids: number[]): Promise<void> {
  if (uids.length === 0) return;
  const mark = sql`
    update locations set vanished_at = null, pending_removal_since = null
    where folder_id = ${folderId} and ${anyOf(locations.uid, uids)} and vanished_at is not null
    returning folder_id, 1 as by`;
  await tx.execute(sql`${counted(mark)} select`);
}

/** Has emails and locations that vanished after `now`, by a clock that was set back since, vanish now. */
export async function vanishedBy(tx: Tx, accountId: string, now: Date): Promise<void> {
  const at = sql`${now.toISOString()}::timestamptz`;
  for (const [table, column] of [
    [locations, sql.raw('vanished_at')],
    [emails, sql.raw('missing_since')],
  ] as const) {
    await tx.execute(sql`update ${table} set ${column} = ${at} where account_id = ${accountId} and ${column} > ${at}`);
  }
}

/** Deletes the vanished locations of emails that another folder has now. */
export async function deleteVanished(tx: Tx, emailIds: string[]): Promise<void> {
  if (emailIds.length === 0) return;
  await tx.delete(locations).where(and(anyOf(locations.emailId, emailIds), isNotNull(locations.vanishedAt)));
}

/**
 * Deletes locations that vanished before `before`, in chunks: by then it is known whether the email moved or was deleted.
 * An email that has left another folder since is decided by a later pass.
 * @returns whether that was all
 */
export async function deleteVanishedBefore(tx: Tx, accountId: string, before: Date): Promise<boolean> {
  // by their ctid: joined by their keys Postgres may read the whole table for each of the chunks
  const { rowCount } = await tx.execute(sql`
    delete from locations where ctid = any(array(
      select ctid from locations
      where account_id = ${accountId} and vanished_at < ${before.toISOString()}::timestamptz
        and not exists (select from emails e where e.id = email_id and e.missing_since is not null)
      limit ${ROWS_PER_STATEMENT}
    ))`);
  return (rowCount ?? 0) < ROWS_PER_STATEMENT;
}
