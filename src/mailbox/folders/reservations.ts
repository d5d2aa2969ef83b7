import { and, eq, sql } from 'drizzle-orm';
import type { Db, Queryable, Tx } from '../../db/driver/client.ts';
import { inLease, type Lease } from '../../db/coordination/lease.ts';
import { anyOf } from '../../db/driver/any-of.ts';
import { pathReservations } from '../../db/schema/index.ts';

/** A folder that is, or is about to be, at a path. */
export interface PathReservation {
  path: string;
  folderId: string;
}

/**
 * An older reservation was left by a call that was stopped; another folder may have its path. One of the future is older too:
 * the clock was set back.
 */
const IS_ONGOING = sql<boolean>`abs(extract(epoch from now() - ${pathReservations.createdAt})) < 60`;

/**
 * Reserves a path for a folder. `first`: no earlier call did; `again`: reserved for the same folder, or by a call that was
 * stopped, so the folder may exist already; `taken`: reserved for another folder.
 */
export async function reservePath(db: Db, lease: Lease, wanted: PathReservation): Promise<'first' | 'again' | 'taken'> {
  const { accountId } = lease;
  return inLease(db, lease, async (tx) => {
    const { folderId } = pathReservations;
    const [old] = await tx
      .select({ folderId, isOngoing: IS_ONGOING })
      .from(pathReservations)
      .where(at(accountId, wanted.path));
    if (old?.isOngoing && old.folderId !== wanted.folderId) return 'taken';
    await tx
      .insert(pathReservations)
      .values({ accountId, ...wanted, createdAt: sql`now()` })
      .onConflictDoUpdate({
        target: [pathReservations.accountId, pathReservations.path],
        set: { folderId: sql`excluded.folder_id`, createdAt: sql`excluded.created_at` },
      });
    // the folder of an older reservation may exist, too
    return old ? 'again' : 'first';
  });
}

/**
 * Releases the reservation of a call whose outcome is unknown: the next call for this path takes over the folder it finds
 * there.
 */
export async function abandonReservation(db: Queryable, accountId: string, path: string): Promise<void> {
  await db
    .update(pathReservations)
    .set({ createdAt: new Date(0) })
    .where(at(accountId, path));
}

/** Deletes the reservations of these paths. */
export async function releaseReservations(tx: Queryable, accountId: string, paths: string[]): Promise<void> {
  if (paths.length === 0) return;
  await tx
    .delete(pathReservations)
    .where(and(eq(pathReservations.accountId, accountId), anyOf(pathReservations.path, paths)));
}

/** Every path that is reserved in the account, with the id of its folder. */
export async function loadReservations(tx: Tx | Queryable, accountId: string): Promise<Map<string, string>> {
  const rows = await tx.select().from(pathReservations).where(eq(pathReservations.accountId, accountId));
  return new Map(rows.map(({ path, folderId }) => [path, folderId]));
}

/** The reservations of calls in progress: they have just sent CREATE or RENAME, or are about to. */
export async function loadOngoing(db: Queryable, accountId: string): Promise<PathReservation[]> {
  const { path, folderId } = pathReservations;
  return db
    .select({ path, folderId })
    .from(pathReservations)
    .where(and(eq(pathReservations.accountId, accountId), IS_ONGOING));
}

function at(accountId: string, path: string) {
  return and(eq(pathReservations.accountId, accountId), eq(pathReservations.path, path));
}
