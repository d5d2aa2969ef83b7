import { and, eq, sql } from 'drizzle-orm';
import type { Db, Queryable } from './client.ts';
import { inLease, type Lease } from './lease.ts';
import { isOneOf } from './one-of.ts';
import { locations } from './schema.ts';

/*
 * A mail that is moved without MOVE, or out of several folders, lies in more than one for a moment. What it is to leave
 * is marked before, and counts as marked with \Deleted: whoever looks in between sees it in its new folder alone.
 */

/** One UID in one folder. */
export interface LocationKey {
  folderId: string;
  uid: number;
}

/** A mark that is older was left by a run that died: the folders tell where the mail lies. */
const LASTS = "interval '2 minutes'";
/** A run that marked a mail before that is taken for dead, as its heartbeats say by then. */
const TAKEN_FOR_DEAD = "interval '8 seconds'";

/** SQL: the location under this alias is on its way out. */
export function isGoingAway(alias: string): string {
  return `(${alias}.deleted or ${isPendingRemoval(alias)})`;
}

/** SQL: the location under this alias is being left by a move of ours. */
export function isPendingRemoval(alias: string): string {
  return `coalesce(${alias}.pending_removal_since > now() - ${LASTS}, false)`;
}

/**
 * Marks a location as being left. `first`: nobody did before; `again`: a run that died had begun; `taken`: another run
 * is at it.
 */
export async function markPendingRemoval(
  db: Db,
  lease: Lease,
  place: LocationKey,
): Promise<'first' | 'again' | 'taken'> {
  const { rows } = await inLease(db, lease, (tx) =>
    tx.execute<{ before: Date | null; taken: boolean }>(sql`
      with old as (
        select pending_removal_since as before, coalesce(pending_removal_since > now() - ${sql.raw(TAKEN_FOR_DEAD)}, false) as taken
        from locations where folder_id = ${place.folderId} and uid = ${place.uid}
      ), marked as (
        update locations p set pending_removal_since = now() from old
        where p.folder_id = ${place.folderId} and p.uid = ${place.uid} and not old.taken
      )
      select before, taken from old`),
  );
  const [old] = rows;
  if (old?.taken) return 'taken';
  return old?.before ? 'again' : 'first';
}

/** Takes the mark off: the provider refused the move. */
export async function clearPendingRemoval(db: Db, lease: Lease, place: LocationKey): Promise<void> {
  await inLease(db, lease, (tx) =>
    tx.execute(
      sql`update locations set pending_removal_since = null where folder_id = ${place.folderId} and uid = ${place.uid}`,
    ),
  );
}

/** Marks locations of a folder as being left, whoever marked them before. */
export async function markAllPendingRemoval(db: Db, lease: Lease, folderId: string, uids: number[]): Promise<void> {
  if (uids.length === 0) return;
  await inLease(db, lease, (tx) =>
    tx
      .update(locations)
      .set({ pendingRemovalSince: sql`now()` })
      .where(and(eq(locations.folderId, folderId), isOneOf(locations.uid, uids))),
  );
}

/** Of these UIDs of a folder, those whose mail lies in another one too: in that one, or in any that is no view of mail. */
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
