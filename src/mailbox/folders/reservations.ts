import { and, eq, gt, sql } from 'drizzle-orm';
import type { Db, Queryable, Tx } from '../../db/driver/client.ts';
import { inLease, type Lease } from '../../db/coordination/lease.ts';
import { anyOf } from '../../db/driver/any-of.ts';
import { pathReservations } from '../../db/schema/index.ts';

/** A folder that is, or is about to be, at a path. */
export interface PathReservation {
  path: string;
  folderId: string;
}

/** An older reservation was left by a call that was stopped; another folder may have its path. */
const LASTS_MS = 60_000;

/**
 * Records that a folder is about to come to a path. `first`: nobody did before; `again`: for the same folder, or after a call
 * that was stopped, so that it may be there already; `taken`: another folder is about to.
 */
export async function reservePath(db: Db, lease: Lease, wanted: PathReservation): Promise<'first' | 'again' | 'taken'> {
  const { accountId } = lease;
  return inLease(db, lease, async (tx) => {
    const [old] = await tx.select().from(pathReservations).where(at(accountId, wanted.path));
    const same = old?.folderId === wanted.folderId;
    if (old && !same && Date.now() - old.createdAt.getTime() < LASTS_MS) return 'taken';
    await tx
      .insert(pathReservations)
      .values({ accountId, ...wanted, createdAt: new Date() })
      .onConflictDoUpdate({
        target: [pathReservations.accountId, pathReservations.path],
        set: { folderId: sql`excluded.folder_id`, createdAt: sql`excluded.created_at` },
      });
    // the folder of an older one may be there, too
    return old ? 'again' : 'first';
  });
}

/** A call whose outcome is not known has ended: the next one for this path takes over what it finds there. */
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

/** The reservations of calls that are under way, as far as known: they have just sent CREATE or RENAME, or are about to. */
export async function loadOngoing(db: Queryable, accountId: string): Promise<PathReservation[]> {
  const { path, folderId, createdAt } = pathReservations;
  return db
    .select({ path, folderId })
    .from(pathReservations)
    .where(and(eq(pathReservations.accountId, accountId), gt(createdAt, new Date(Date.now() - LASTS_MS))));
}

function at(accountId: string, path: string) {
  return and(eq(pathReservations.accountId, accountId), eq(pathReservations.path, path));
}
