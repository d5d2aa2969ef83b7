import { and, eq, inArray, sql } from 'drizzle-orm';
import type { Tx } from '../../db/client.ts';
import type { PlaceKey } from '../../db/pending-removal.ts';
import { emails, folders, placements } from '../../db/schema.ts';
import type { Recognisable } from './locations.ts';

/** A mail that came into a folder by a move of ours. */
export interface MovedHere extends PlaceKey, Recognisable {
  accountId: string;
  emailId: string | null;
  seen: boolean;
}

/** Takes mail out of folders that it was moved away from, and off their counters unless that was done already. */
export async function removePlaces(tx: Tx, places: PlaceKey[]): Promise<void> {
  for (const [folderId, uids] of byFolder(places)) {
    const rows = await tx
      .delete(placements)
      .where(and(eq(placements.folderId, folderId), inArray(placements.uid, uids)))
      .returning({ seen: placements.seen, vanishedAt: placements.vanishedAt });
    await count(
      tx,
      folderId,
      rows.filter((row) => !row.vanishedAt).map((row) => row.seen),
      -1,
    );
  }
}

/** Places mail in the folders that it was moved to, unless the watch has placed it there. */
export async function addPlaces(tx: Tx, places: MovedHere[]): Promise<void> {
  if (places.length === 0) return;
  const rows = await tx
    .insert(placements)
    .values(places)
    .onConflictDoNothing()
    .returning({ folderId: placements.folderId, uid: placements.uid, seen: placements.seen });
  for (const [folderId, uids] of byFolder(rows)) {
    const seen = rows.filter((row) => row.folderId === folderId).map((row) => row.seen);
    await count(tx, folderId, seen, 1);
    await tx
      .update(placements)
      .set({ date: emails.date })
      .from(emails)
      .where(and(eq(placements.folderId, folderId), inArray(placements.uid, uids), eq(emails.id, placements.emailId)));
  }
}

/** The next STATUS corrects what others changed meanwhile. */
async function count(tx: Tx, folderId: string, seen: boolean[], by: 1 | -1): Promise<void> {
  if (seen.length === 0) return;
  const unread = seen.filter((each) => !each).length;
  await tx
    .update(folders)
    .set({
      totalCount: sql`greatest(0, ${folders.totalCount} + ${by * seen.length})`,
      unreadCount: sql`greatest(0, ${folders.unreadCount} + ${by * unread})`,
    })
    .where(eq(folders.id, folderId));
}

function byFolder(places: PlaceKey[]): Map<string, number[]> {
  const uids = new Map<string, number[]>();
  for (const { folderId, uid } of places) uids.set(folderId, [...(uids.get(folderId) ?? []), uid]);
  return uids;
}
