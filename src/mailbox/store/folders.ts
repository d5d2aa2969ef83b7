import { eq, type SQL, sql } from 'drizzle-orm';
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core';
import type { Folder, FolderRole } from '../../contract/folder.ts';
import type { Queryable, Tx } from '../../db/driver/client.ts';
import { toFolder } from '../../db/queries/folders.ts';
import { insertRows } from '../../db/driver/insert-rows.ts';
import { anyOf } from '../../db/driver/any-of.ts';
import { folders } from '../../db/schema/index.ts';
import { columnsOf, fromRow } from '../../db/driver/rows.ts';
import { statement } from '../../db/driver/statement.ts';
import type { Writer } from '../../db/driver/writes.ts';
import { newId } from '../../new-id.ts';
import { baselineLocation, type FlagFacts, insertLocations, type MessageIdentity } from './locations.ts';

/** A folder as the store knows it, with its cursors. */
export type FolderState = typeof folders.$inferSelect;

/** A server's data about a folder, from src/imap/list.ts. */
export interface FolderFacts {
  path: string;
  delimiter: string | null;
  name: string;
  parentPath: string | null;
  role: FolderRole;
  selectable: boolean;
  status: {
    uidValidity: number;
    uidNext: number;
    highestModseq: string | null;
    messages: number;
    unseen: number;
  } | null;
}

/** Messages of a folder that were read while the account connects, ascending by UID. */
export interface BaselineMail {
  metas: (FlagFacts & MessageIdentity)[];
  /** it is all that the folder holds */
  complete: boolean;
}

/** The states of a folder that is no longer there for readers, until its emails are removed. */
const isBeing = (removed: 'deletion' | 'exclusion') => (folder: FolderState) => folder.vacating === removed;
const isBeingDeleted = isBeing('deletion');
const isBeingExcluded = isBeing('exclusion');

const foldersOfAccount = statement(
  'folders_of_account',
  (accountId: string) => sql`select ${columnsOf(folders)} from folders where account_id = ${accountId}`,
);

/** Every folder of the account that the server has, as far as known. */
export async function loadFolders(db: Queryable, accountId: string): Promise<FolderState[]> {
  return (await loadAllFolders(db, accountId)).folders;
}

/** Folders that the server has deleted and that are being vacated. */
export async function loadDeletedFolders(db: Queryable, accountId: string): Promise<FolderState[]> {
  return (await loadAllFolders(db, accountId)).deleted;
}

/** All folders: those that the server has, and those that are being vacated since it has deleted, or the account excluded, them. */
export async function loadAllFolders(
  db: Queryable,
  accountId: string,
): Promise<{ folders: FolderState[]; deleted: FolderState[]; excluded: FolderState[] }> {
  const { rows } = await db.execute(foldersOfAccount(accountId));
  const all = rows.map((row) => fromRow(folders, row));
  return {
    folders: all.filter((folder) => !isBeingDeleted(folder) && !isBeingExcluded(folder)),
    deleted: all.filter(isBeingDeleted),
    excluded: all.filter(isBeingExcluded),
  };
}

/** One folder, in any state. */
export async function loadFolder(db: Queryable, id: string): Promise<FolderState | undefined> {
  const [row] = await db.select().from(folders).where(eq(folders.id, id));
  return row;
}

/**
 * Saves the folders that exist when an account connects, with their counters as the baseline: mail at or above UIDNEXT is
 * new, mail below it was there before. `newest` holds the messages below it that were read.
 */
export async function insertBaselineFolders(
  tx: Tx,
  accountId: string,
  { folders: facts, newest }: { folders: FolderFacts[]; newest?: ReadonlyMap<string, BaselineMail> },
  now: Date,
): Promise<void> {
  for (const folder of await insertFolders(tx, accountId, facts, { now, mode: 'baseline', existing: [] })) {
    const known = newest?.get(folder.path);
    if (!known) continue;
    await insertLocations(
      tx,
      known.metas.map((meta) => baselineLocation(accountId, folder.id, meta)),
    );
    const lowest = known.metas[0]?.uid ?? folder.scannedFrom;
    await updateFolder(tx, folder.id, { scannedFrom: known.complete ? 1 : lowest });
  }
}

/** How folders that appeared are saved. */
export interface NewFolders {
  now: Date;
  /** new: all mail in them is; baseline: the mail in them was there before */
  mode: 'baseline' | 'new';
  /** the stored folders, which may be parents of new ones */
  existing: Pick<FolderState, 'id' | 'path'>[];
  /** ids that are reserved for a path */
  reservations?: ReadonlyMap<string, string>;
}

/** Saves folders that appeared. */
export async function insertFolders(
  tx: Tx,
  accountId: string,
  facts: FolderFacts[],
  { now, mode, existing, reservations }: NewFolders,
): Promise<FolderState[]> {
  if (facts.length === 0) return [];
  const idByPath = new Map(existing.map((folder) => [folder.path, folder.id]));
  // A folder that is being deleted keeps its id.
  const reservedIds = [...(reservations?.values() ?? [])];
  const stored =
    reservedIds.length === 0
      ? []
      : await tx.select({ id: folders.id }).from(folders).where(anyOf(folders.id, reservedIds));
  const taken = new Set([...existing, ...stored].map((folder) => folder.id));
  for (const fact of facts) {
    const reserved = reservations?.get(fact.path);
    idByPath.set(fact.path, reserved !== undefined && !taken.has(reserved) ? reserved : newId('folder'));
  }
  const rows = facts.map((fact) => ({
    id: idByPath.get(fact.path) as string,
    accountId,
    path: fact.path,
    delimiter: fact.delimiter,
    name: fact.name,
    parentId: parentIdOf(fact, idByPath),
    role: fact.role,
    selectable: fact.selectable,
    uidValidity: fact.status?.uidValidity ?? null,
    ...(mode === 'new' ? CURSOR_OF_NEW : baselineCursor(fact.status)),
    flagsRead: true,
    totalCount: fact.status?.messages ?? 0,
    unreadCount: fact.status?.unseen ?? 0,
    createdAt: now,
  }));
  await insertRows(tx, folders, rows);
  const untouched = { localRevision: 0, knownCount: 0, vacating: null, vacatedTo: null, renumbering: null };
  return rows.map((row) => ({ ...row, ...untouched }));
}

const CURSOR_OF_NEW = { baselineUidNext: 1, uidNext: 1, highestModseq: null, scannedFrom: 1 };

/** null: a baseline whose STATUS was refused; it is read when the folder is first selected */
function baselineCursor(status: FolderFacts['status']) {
  const uidNext = status?.uidNext ?? null;
  const highestModseq = status?.highestModseq ?? null;
  return { baselineUidNext: uidNext, uidNext, highestModseq, scannedFrom: status?.messages === 0 ? 1 : uidNext };
}

/** The id of the folder that holds this one; null at the top. */
export function parentIdOf(fact: Pick<FolderFacts, 'parentPath'>, idByPath: Map<string, string>): string | null {
  return (fact.parentPath && idByPath.get(fact.parentPath)) || null;
}

/** Changes columns of one folder. */
export async function updateFolder(
  tx: Queryable,
  id: string,
  values: PgUpdateSetSource<typeof folders>,
): Promise<void> {
  await tx.update(folders).set(values).where(eq(folders.id, id));
}

/** Makes the next pass over a folder compare all of its UIDs and flags, even if its counters are unchanged. */
export async function invalidateFolder(tx: Tx, id: string): Promise<void> {
  // no folder has so many: the pass counts its locations again
  await updateFolder(tx, id, { highestModseq: null, flagsRead: false, knownCount: -1 });
}

/** Clears the paths of folders that are about to get others: two may have swapped theirs. */
export async function freePaths(tx: Tx, ids: string[]): Promise<void> {
  if (ids.length > 0) await tx.update(folders).set({ path: PATH_OF_NONE }).where(anyOf(folders.id, ids));
}

/** Saves the list's data about stored folders. */
export async function saveFacts(
  tx: Tx,
  changed: (Omit<FolderFacts, 'status' | 'parentPath'> & { id: string; parentId: string | null })[],
): Promise<void> {
  if (changed.length === 0) return;
  const rows = changed.map(({ id, path, delimiter, name, role, selectable, parentId }) => ({
    ...{ id, path, delimiter, name, role, selectable },
    parent_id: parentId,
  }));
  await tx.execute(sql`
    update folders f set path = r.path, delimiter = r.delimiter, name = r.name, role = r.role,
      selectable = r.selectable, parent_id = r.parent_id
    from json_populate_recordset(null::folders, ${JSON.stringify(rows)}::json) r where f.id = r.id`);
}

/** A path that no server lists, for a folder that has no path just now. */
export const PATH_OF_NONE = sql`chr(1) || ${folders.id}`;

/** Removes folders; they must have been vacated before. */
export async function deleteFolders(tx: Tx, ids: string[]): Promise<void> {
  if (ids.length > 0) await tx.delete(folders).where(anyOf(folders.id, ids));
}

/** The contract's Folder of each id, in the order given. */
export async function readFolders(tx: Queryable, ids: string[]): Promise<Folder[]> {
  if (ids.length === 0) return [];
  const rows = await tx.select().from(folders).where(anyOf(folders.id, ids));
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => {
    const row = byId.get(id);
    return row ? [toFolder(row)] : [];
  });
}

/** The number of messages of a folder that are known to be there, baseline included. Reads only the folder's row. */
export async function countLocations(db: Queryable, folderId: string): Promise<number> {
  const [row] = await db.select({ known: folders.knownCount }).from(folders).where(eq(folders.id, folderId));
  return row?.known ?? 0;
}

/** Folders whose count of locations is wrong. */
export async function findMiscounted(db: Queryable, accountId: string): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select f.id from folders f where f.account_id = ${accountId} and f.vacating is null
      and f.known_count >= 0 and f.known_count <> (
        select count(*) from locations l where l.folder_id = f.id and l.vanished_at is null)`);
  return rows.map(({ id }) => id);
}

/** Counts the locations of a folder that have not vanished, where the number in its row may be wrong. */
export async function recountLocations(tx: Tx, folderId: string): Promise<void> {
  await tx.execute(sql`
    update folders f set known_count = (
      select count(*) from locations l where l.folder_id = f.id and l.vanished_at is null)
    where f.id = ${folderId}`);
}

/**
 * Counts unread mail of folders up or down; the next STATUS corrects it. `byApi`: this API made the change, which raises
 * `local_revision`: what was read of the folder before is out of date.
 */
export async function countUnread(
  writes: Writer,
  counts: { folderId: string; by: number }[],
  { byApi }: { byApi: boolean },
): Promise<void> {
  if (counts.length === 0) return;
  const rows = counts.map(({ folderId, by }) => ({ folder_id: folderId, by }));
  await writes.execute(
    sql`
    update folders f set unread_count = greatest(0, f.unread_count + c.by),
      local_revision = f.local_revision + ${byApi ? 1 : 0}::int
    from json_to_recordset(${JSON.stringify(rows)}::json) as c(folder_id text, by int)
    where f.id = c.folder_id`,
    { table: folders },
  );
}

/** What arrived in a folder. */
export interface Arrived {
  /** locations that were inserted: a part of the statement, see writeLocations */
  located: SQL;
  unread: number;
  /** messages that no STATUS has counted yet, since this API has put them there */
  total: number;
  /** the folder's cursor; left out: it stays */
  uidNext?: number;
  /** the messages were read at this MODSEQ, while another session may have read later changes; null: they were not */
  readAt: bigint | null;
}

/**
 * Defers to `writes`: counts the arrivals in a folder, and moves its cursor. Messages that this API has put there raise
 * `local_revision`: what was read of the folder before is out of date.
 */
export async function writeArrived(writes: Writer, folderId: string, arrived: Arrived): Promise<void> {
  const { located, unread, total, uidNext, readAt } = arrived;
  const cursor = uidNext === undefined ? sql`` : sql`, uid_next = ${uidNext}`;
  const modseq = readAt === null ? sql`` : sql`, highest_modseq = ${atMost(readAt)}`;
  await writes.execute(
    sql`
    update folders set known_count = known_count + ${located}, unread_count = greatest(0, unread_count + ${unread}::int),
      total_count = greatest(0, total_count + ${total}::int),
      local_revision = local_revision + ${total > 0 ? 1 : 0}::int ${cursor} ${modseq}
    where id = ${folderId}`,
    { table: folders },
  );
}

/** The stored MODSEQ, or this one if it is lower: the next pass reads the changes since then again. */
export function atMost(modseq: bigint): SQL {
  const { highestModseq } = folders;
  return sql`case when ${highestModseq} is not null
    then least(${highestModseq}::numeric, ${modseq.toString()}::numeric)::text end`;
}

/**
 * Counts one message less in a folder, which this API has removed: what was read of it before is out of date. `seen`: it was not
 * counted as unread.
 */
export async function countTakenOut(tx: Tx, { folderId, seen }: { folderId: string; seen: boolean }): Promise<void> {
  await tx
    .update(folders)
    .set({
      totalCount: sql`greatest(0, ${folders.totalCount} - 1)`,
      unreadCount: sql`greatest(0, ${folders.unreadCount} - ${seen ? 0 : 1}::int)`,
      localRevision: sql`${folders.localRevision} + 1`,
    })
    .where(eq(folders.id, folderId));
}

/** How many changes this API has made in a folder so far. */
export async function getLocalRevision(db: Queryable, folderId: string): Promise<number> {
  const [row] = await db.select({ localRevision: folders.localRevision }).from(folders).where(eq(folders.id, folderId));
  return row?.localRevision ?? 0;
}

/**
 * Whether UIDs that were read of a folder are those that are stored: another process may have given it the UIDs of a new
 * UIDVALIDITY since, of which the session that has the folder open knows nothing.
 */
export async function hasSameUids(
  tx: Tx,
  { id, uidValidity }: Pick<FolderState, 'id' | 'uidValidity'>,
): Promise<boolean> {
  const [row] = await tx.select({ uidValidity: folders.uidValidity }).from(folders).where(eq(folders.id, id));
  return row?.uidValidity === uidValidity;
}

/** Stores the counters of a STATUS, unless this API has changed the folder since it was read: those are counted already. */
export async function saveStatusCounters(
  tx: Tx,
  { id, localRevision }: Pick<FolderState, 'id' | 'localRevision'>,
  { messages, unseen }: Pick<NonNullable<FolderFacts['status']>, 'messages' | 'unseen'>,
): Promise<void> {
  if ((await getLocalRevision(tx, id)) !== localRevision) return;
  await updateFolder(tx, id, { totalCount: messages, unreadCount: unseen });
}

/** Moves the folders in a deleted one to the top level; returns their ids. */
export async function moveToTopLevel(tx: Tx, parentId: string): Promise<string[]> {
  const moved = await tx
    .update(folders)
    .set({ parentId: null })
    .where(eq(folders.parentId, parentId))
    .returning({ id: folders.id });
  return moved.map(({ id }) => id);
}
