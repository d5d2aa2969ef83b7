import { and, eq, inArray, sql } from 'drizzle-orm';
import type { FolderRole } from '../../contract/folder.ts';
import type { Queryable, Tx } from '../../db/client.ts';
import { isPendingRemoval, type LocationKey } from '../../db/pending-removal.ts';
import { emails, folders, locations } from '../../db/schema.ts';
import type { MessageIdentity } from './locations.ts';

/** One folder in which an email lies, with what a command to it has to name and what recognises the mail elsewhere. */
export interface EmailLocation extends MessageIdentity {
  folderId: string;
  path: string;
  role: FolderRole;
  /** null: the folder was never opened */
  uidValidity: number | null;
  uid: number;
  seen: boolean;
  /** \Deleted is set */
  deleted: boolean;
  /** it is being moved away by copying, by a run that is under way or has died */
  pendingRemoval: boolean;
}

/**
 * Where an email lies now, as far as known: empty while it has left a folder and has not turned up in another.
 * Undefined: the account has no such email.
 */
export async function loadLocations(
  db: Queryable,
  accountId: string,
  emailId: string,
): Promise<EmailLocation[] | undefined> {
  const { rows } = await db.execute<{ [Key in keyof EmailLocation]: EmailLocation[Key] | null }>(sql`
    select f.id as "folderId", f.path, f.role, f.uid_validity::float8 as "uidValidity", p.uid::float8 as uid, p.seen,
      p.deleted, ${sql.raw(isPendingRemoval('p'))} as leaving, p.identity, p.weak_identity as "weakIdentity",
      p.server_id as "serverId"
    from emails e
    left join (locations p join folders f on f.id = p.folder_id) on p.email_id = e.id and p.vanished_at is null
    where e.id = ${emailId} and e.account_id = ${accountId}
    order by f.id, p.uid`);
  if (rows.length === 0) return undefined;
  return rows.filter((row): row is EmailLocation & Record<string, unknown> => row.folderId !== null);
}

/** A mail that came into a folder by a move of ours. */
export interface MovedLocation extends LocationKey, MessageIdentity {
  accountId: string;
  emailId: string | null;
  seen: boolean;
}

/** Takes mail out of folders that it was moved away from, and off their counters unless that was done already. */
export async function removeLocations(tx: Tx, places: LocationKey[]): Promise<void> {
  for (const [folderId, uids] of byFolder(places)) {
    const rows = await tx
      .delete(locations)
      .where(and(eq(locations.folderId, folderId), inArray(locations.uid, uids)))
      .returning({ seen: locations.seen, vanishedAt: locations.vanishedAt });
    await count(
      tx,
      folderId,
      rows.filter((row) => !row.vanishedAt).map((row) => row.seen),
      -1,
    );
  }
}

/** Places mail in the folders that it was moved to, unless the watch has placed it there. */
export async function addLocations(tx: Tx, places: MovedLocation[]): Promise<void> {
  if (places.length === 0) return;
  const rows = await tx
    .insert(locations)
    .values(places)
    .onConflictDoNothing()
    .returning({ folderId: locations.folderId, uid: locations.uid, seen: locations.seen });
  for (const [folderId, uids] of byFolder(rows)) {
    const seen = rows.filter((row) => row.folderId === folderId).map((row) => row.seen);
    await count(tx, folderId, seen, 1);
    await tx
      .update(locations)
      .set({ date: emails.date })
      .from(emails)
      .where(and(eq(locations.folderId, folderId), inArray(locations.uid, uids), eq(emails.id, locations.emailId)));
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

function byFolder(places: LocationKey[]): Map<string, number[]> {
  const uids = new Map<string, number[]>();
  for (const { folderId, uid } of places) uids.set(folderId, [...(uids.get(folderId) ?? []), uid]);
  return uids;
}
