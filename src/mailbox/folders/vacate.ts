import { and, eq, gt, isNull, sql } from 'drizzle-orm';
import type { Tx } from '../../db/driver/client.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { eraseEventsOf } from '../../db/coordination/removal.ts';
import { anyOf } from '../../db/driver/any-of.ts';
import { folders, locations, type Vacating } from '../../db/schema/index.ts';
import { changeEmails } from '../change-emails.ts';
import type { SyncContext } from '../context.ts';
import { deleteEmails } from '../store/emails.ts';
import { loadFolder, PATH_OF_NONE } from '../store/folders.ts';
import { counted } from '../store/locations.ts';

/*
 * Removes all mail of a folder, even 100,000 emails, when the server has deleted it or made it a parent without mail, or the account
 * no longer includes it (exclude.ts): emails that are in no other folder are then deleted here, without an event.
 * 1. one transaction marks the folder: from then on it is matched with no folder of the server, and gets no command
 * 2. its locations are removed in chunks, each a transaction with its events; the folder's row records the progress, and
 *    the next sync of the account continues from there
 * 3. the caller's transaction deletes the folder, or clears the mark, with the folder's event
 * Two processes that do this concurrently share the chunks. An email that another folder holds is in that one alone from
 * its chunk on; the others count as vanished until it is known where they went.
 */

/** Locations of one transaction. */
const CHUNK = 1_000;

/** The part of a context that the chunks need. */
export type VacateContext = Pick<SyncContext, 'db' | 'lease' | 'storage'>;

/** 1. Marks folders. Those that are marked already keep their progress. */
export async function markVacating(tx: Tx, folderIds: string[], reason: Vacating): Promise<void> {
  if (folderIds.length === 0) return;
  const values = reason === 'noselect' ? { selectable: false } : { path: PATH_OF_NONE };
  await tx
    .update(folders)
    .set({ ...values, vacating: reason, vacatedTo: null, renumbering: null })
    .where(and(anyOf(folders.id, folderIds), sql`${folders.vacating} is distinct from ${reason}`));
}

/**
 * 2. Removes all mail from a marked folder. Does nothing if another process has done so.
 * @param over whether time is up; called before each chunk. Some mail is left then
 */
export async function vacateFolder(ctx: VacateContext, folderId: string, over = () => false): Promise<void> {
  for (let vacated = false; !vacated && !over(); ) {
    const chunk = await inLease(ctx.db, ctx.lease, (tx) => vacateChunk(tx, ctx, folderId));
    if (chunk.unused.length > 0) await ctx.storage.delete(chunk.unused);
    vacated = chunk.isLast;
  }
}

/** Whether the marked folders have no mail left; mail that has arrived since is removed, as a chunk. */
export async function areVacated(tx: Tx, ctx: VacateContext, folderIds: string[]): Promise<boolean> {
  for (const id of folderIds) if (!(await vacateChunk(tx, ctx, id)).isLast) return false;
  return true;
}

/** 3. Clears the mark. */
export async function clearVacating(tx: Tx, folderIds: string[]): Promise<void> {
  if (folderIds.length === 0) return;
  await tx.update(folders).set({ vacating: null, vacatedTo: null }).where(anyOf(folders.id, folderIds));
}

/** `isLast`: no mail was left; `unused`: the storage keys that no row names now. */
async function vacateChunk(
  tx: Tx,
  { lease }: Pick<VacateContext, 'lease'>,
  folderId: string,
): Promise<{ isLast: boolean; unused: string[] }> {
  const folder = await loadFolder(tx, folderId);
  if (!folder?.vacating) return { isLast: true, unused: [] };
  let chunk = await nextLocations(tx, folderId, folder.vacatedTo);
  // A process that had selected the folder before may have added some behind the cursor.
  if (chunk.length === 0 && folder.knownCount > 0) chunk = await nextLocations(tx, folderId, null);
  const last = chunk.at(-1);
  if (!last) return { isLast: true, unused: [] };
  const uids = chunk.map(({ uid }) => uid);
  const emailIds = chunk.flatMap(({ emailId }) => emailId ?? []);
  const now = new Date();
  let unused: string[] = [];
  if (folder.vacating === 'exclusion') {
    const others = await locatedOutside(tx, folderId, emailIds);
    const only = emailIds.filter((id) => !others.has(id));
    await changeEmails(tx, { lease, emailIds: [...others], now }, () => deleteLocations(tx, folderId, uids));
    await eraseEventsOf(tx, lease.accountId, only);
    unused = await deleteEmails(tx, only);
  } else await changeEmails(tx, { lease, emailIds, now }, () => takeOut(tx, folderId, uids, now));
  await tx.update(folders).set({ vacatedTo: last.uid }).where(eq(folders.id, folderId));
  return { isLast: false, unused };
}

/** Of these emails, those that another folder holds. */
async function locatedOutside(tx: Tx, folderId: string, emailIds: string[]): Promise<Set<string>> {
  const { rows } = await tx.execute<{ id: string }>(sql`
    select distinct email_id as id from locations
    where email_id = any(${sql.param(emailIds)}::text[]) and folder_id <> ${folderId} and vanished_at is null`);
  return new Set(rows.map(({ id }) => id));
}

async function deleteLocations(tx: Tx, folderId: string, uids: number[]): Promise<void> {
  const remove = sql`
    delete from locations p where p.folder_id = ${folderId} and p.uid = any(${sql.param(uids)}::bigint[])
    returning p.folder_id, case when p.vanished_at is null then -1 else 0 end as by`;
  await tx.execute(sql`${counted(remove)} select`);
}

function nextLocations(tx: Tx, folderId: string, after: number | null) {
  const { uid, emailId } = locations;
  const ahead = after === null ? undefined : gt(uid, after);
  return tx
    .select({ uid, emailId })
    .from(locations)
    .where(and(eq(locations.folderId, folderId), isNull(locations.vanishedAt), ahead))
    .orderBy(uid)
    .limit(CHUNK);
}

/**
 * Deletes the locations of emails that another folder holds, and marks the others as vanished, including those of emails
 * that have left yet another folder: their event follows when it is known where they went.
 */
async function takeOut(tx: Tx, folderId: string, uids: number[], now: Date): Promise<void> {
  const inChunk = sql`p.folder_id = ${folderId} and p.uid = any(${sql.param(uids)}::bigint[]) and p.vanished_at is null`;
  // a scalar subquery, so that it is looked up for each location of the chunk and never joined with all of the account
  const elsewhere = sql`(select true from locations o
    where o.email_id = p.email_id and o.folder_id <> p.folder_id and o.vanished_at is null limit 1)`;
  const leftOther = sql`exists (select from locations v where v.email_id = p.email_id and v.vanished_at is not null)`;
  const remove = sql`
    delete from locations p where ${inChunk} and ${elsewhere} and not ${leftOther} returning p.folder_id, -1 as by`;
  await tx.execute(sql`${counted(remove)} select`);
  const mark = sql`
    update locations p set vanished_at = ${now.toISOString()}::timestamptz where ${inChunk}
    returning p.folder_id, -1 as by`;
  await tx.execute(sql`${counted(mark)} select`);
}
