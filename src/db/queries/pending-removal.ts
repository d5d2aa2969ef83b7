import { and, eq, type SQL, sql } from 'drizzle-orm';
import { anyOf } from '../driver/any-of.ts';
import type { Queryable, Tx } from '../driver/client.ts';
import { statement } from '../driver/statement.ts';
import { locations } from '../schema/index.ts';

/*
 * A message that is moved without MOVE, or out of several folders, is in more than one for a moment. The locations that
 * it leaves are marked first, and count as marked with \Deleted: a read in between shows it in its new folder only. A
 * mark never expires, since readers would see that without an event: the move clears it, or a sync pass does.
 * src/mailbox/changes/pending-removals.ts sets and clears marks, and emits the events.
 */

/** One UID in one folder. */
export interface LocationKey {
  folderId: string;
  uid: number;
}

/** An attempt whose mark is older than this counts as dead: it would have renewed it by then. */
const COUNTS_AS_DEAD = "interval '8 seconds'";

/** SQL: the location under this alias is marked with \Deleted or is being left. */
export function isGoingAway(alias: string): string {
  return `(${alias}.deleted or ${isPendingRemoval(alias)})`;
}

/** SQL: the location under this alias is being left by a move of this service. */
export function isPendingRemoval(alias: string): string {
  return `(${alias}.pending_removal_since is not null)`;
}

/** SQL: a move of this service that is under way leaves the location under this alias. */
export function isBeingMoved(alias: string): string {
  const since = `coalesce(${alias}.pending_removal_since, '-infinity')`;
  // one of the future was made before the clock was set back
  return `(${since} > now() - ${COUNTS_AS_DEAD} and ${since} < now() + ${COUNTS_AS_DEAD})`;
}

/**
 * Marks a location as being left. `first`: it had no mark; `again`: it had the mark of a dead attempt; `taken`: another
 * attempt is moving the message.
 */
export async function markPendingRemoval(tx: Tx, location: LocationKey): Promise<'first' | 'again' | 'taken'> {
  const { rows } = await tx.execute<{ before: Date | null; taken: boolean }>(sql`
    with old as (
      select pending_removal_since as before, ${sql.raw(isBeingMoved('l'))} as taken
      from locations l where folder_id = ${location.folderId} and uid = ${location.uid}
    ), marked as (
      update locations p set pending_removal_since = now() from old
      where p.folder_id = ${location.folderId} and p.uid = ${location.uid} and not old.taken
    )
    select before, taken from old`);
  const [old] = rows;
  if (old?.taken) return 'taken';
  return old?.before ? 'again' : 'first';
}

/** Clears the marks of locations. */
export function clearPendingRemoval(tx: Tx, marked: LocationKey[]): Promise<void> {
  return setMarks(tx, marked, sql`null`);
}

/** Renews the marks of locations, except those that were cleared. */
export function renewPendingRemoval(tx: Tx, marked: LocationKey[]): Promise<void> {
  return setMarks(tx, marked, sql`now()`);
}

/** Gives the locations that are marked another mark. */
async function setMarks(tx: Tx, marked: LocationKey[], mark: SQL): Promise<void> {
  if (marked.length === 0) return;
  const rows = marked.map(({ folderId, uid }) => ({ folder_id: folderId, uid }));
  await tx.execute(sql`
    update locations l set pending_removal_since = ${mark}
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(folder_id text, uid bigint)
    where l.folder_id = r.folder_id and l.uid = r.uid and l.pending_removal_since is not null`);
}

const pendingOfAccount = statement(
  'pending_removals',
  (accountId: string, seconds: number, limit: number) => sql`
    select folder_id as "folderId", uid::float8 as uid, email_id as "emailId" from locations
    where account_id = ${accountId} and pending_removal_since is not null
      and abs(extract(epoch from now() - pending_removal_since)) > ${seconds}
    order by pending_removal_since limit ${limit}`,
);

/** Locations of an account that were marked longer than `olderThanMs` ago, or as much later, with their emails: the oldest first. */
export async function findPendingRemovals(
  db: Queryable,
  accountId: string,
  { olderThanMs, limit }: { olderThanMs: number; limit: number },
): Promise<(LocationKey & { emailId: string | null })[]> {
  type Pending = LocationKey & { emailId: string | null };
  const text = pendingOfAccount(accountId, olderThanMs / 1000, limit);
  return (await db.execute<Pending & Record<string, unknown>>(text)).rows;
}

/** Marks locations of a folder as being left, including marked ones. */
export async function markAllPendingRemoval(tx: Tx, folderId: string, uids: number[]): Promise<void> {
  if (uids.length === 0) return;
  await tx
    .update(locations)
    .set({ pendingRemovalSince: sql`now()` })
    .where(and(eq(locations.folderId, folderId), anyOf(locations.uid, uids)));
}

/**
 * Of these UIDs of a folder, those whose message is in another folder too: in `otherId`, or in any folder except All
 * Mail, Starred and Important.
 */
export async function locatedElsewhere(
  db: Queryable,
  folderId: string,
  uids: number[],
  otherId?: string,
): Promise<Set<number>> {
  if (uids.length === 0) return new Set();
  const where = otherId === undefined ? sql`f.role not in ('ALL', 'STARRED', 'IMPORTANT')` : sql`f.id = ${otherId}`;
  const { rows } = await db.execute<{ uid: string }>(sql`
    select p.uid from locations p
    where p.folder_id = ${folderId} and p.uid = any (${sql.param(uids)}::bigint[]) and exists (
      select 1 from locations o join folders f on f.id = o.folder_id
      where o.folder_id <> p.folder_id and o.vanished_at is null and o.account_id = p.account_id and ${where}
        and o.weak_identity = p.weak_identity
        and (o.email_id = p.email_id or (o.email_id is null and p.email_id is null and o.identity = p.identity)))`);
  return new Set(rows.map((row) => Number(row.uid)));
}
