import { ApiError } from '../../contract/errors.ts';
import { inLease } from '../../db/lease.ts';
import { recordEvents } from '../../db/outbox.ts';
import { markAllPendingRemoval, locatedElsewhere } from '../../db/pending-removal.ts';
import { deleteFolder as deleteAtProvider, renameFolder } from '../../imap/change-folders.ts';
import { hasMove } from '../../imap/command.ts';
import { expungeMessages } from '../../imap/expunge.ts';
import { fetchMetaOf, MAX_UID } from '../../imap/fetch.ts';
import { searchUids } from '../../imap/search.ts';
import { findFolder } from '../../imap/list.ts';
import { moveMessages } from '../../imap/move.ts';
import { openFolder } from '../../imap/select.ts';
import { FolderMissing, MailError } from '../../mail-error.ts';
import type { SyncContext } from '../context.ts';
import { type FolderState, loadFolders, readFolders, moveToTopLevel } from '../store/folders.ts';
import { baselineLocation, insertLocations, locatedUids } from '../store/locations.ts';
import { syncOnce } from '../watch.ts';
import { deleteFoldersWithMail } from './apply.ts';
import { ensureRoleFolder } from './by-role.ts';
import { bringToPath, changeable, pathOf } from './change.ts';

/**
 * Deletes a folder: its mail goes to Trash, the folders in it move up (CONTRACT "Folders"). Each numbered step may be the
 * last one before a crash; the next try finds what is left to do. Where it is gone already, it is done.
 * @throws ApiError provider_rejected for a folder with a role; already_exists when a name above is taken; MailError
 */
export async function deleteFolder(ctx: SyncContext, folderId: string): Promise<void> {
  const stored = await loadFolders(ctx.db, ctx.account.id);
  if (!stored.some(({ id }) => id === folderId)) return;
  const folder = changeable(stored, folderId);
  const children = stored.filter(({ parentId }) => parentId === folderId);
  const movingUp = children.map((child) => ({ child, path: pathAbove(ctx, folder, child, stored) }));
  for (const { child, path } of movingUp) await checkFree(ctx, stored, child, path);
  // 1.
  if (folder.selectable) await emptyIntoTrash(ctx, folder);
  // 2.
  for (const { child, path } of movingUp) {
    await bringToPath(ctx, child.id, path, () => renameFolder(ctx.session, child.path, path));
  }
  // 3.
  await deleteAtProvider(ctx.session, folder.path).catch((error: unknown) => {
    // A name that only held other folders may go with the last of them.
    if (!(error instanceof FolderMissing)) throw error;
  });
  // 4.
  await forget(ctx, folderId);
}

function pathAbove(ctx: SyncContext, folder: FolderState, child: FolderState, stored: FolderState[]): string {
  return pathOf(ctx, { name: child.name, parentId: folder.parentId }, stored);
}

/** Nothing has been changed yet when a name turns out to be taken. */
async function checkFree(ctx: SyncContext, stored: FolderState[], child: FolderState, path: string): Promise<void> {
  if (!stored.some((folder) => folder.path === path) && !(await findFolder(ctx.session, path))) return;
  throw new ApiError(
    'already_exists',
    `the folder ${child.id} would move up, where its name is taken: rename it first`,
  );
}

async function forget(ctx: SyncContext, folderId: string): Promise<void> {
  await inLease(ctx.db, ctx.lease, async (tx) => {
    const now = new Date();
    const folder = (await loadFolders(tx, ctx.account.id)).find(({ id }) => id === folderId);
    const [told] = await readFolders(tx, [folderId]);
    if (!folder || !told) return;
    await deleteFoldersWithMail(tx, ctx, [folder], now);
    await moveToTopLevel(tx, folderId);
    await recordEvents(tx, ctx.account.id, [
      { type: 'email.folder.delete', objectId: folderId, data: { folder: told }, createdAt: now },
    ]);
  });
}

/** Messages of one MOVE. */
const BATCH = 200;
/** Looks at a folder into which mail keeps coming. */
const ROUNDS = 20;

/**
 * Moves all mail of a folder to Trash, what lay there before the account connected too. Where it went is found by a look
 * at the mailbox, which tells each email's event once. In Gmail what has another label keeps that, and is not thrown away.
 * Doing it again moves what is left.
 */
export async function emptyIntoTrash(ctx: SyncContext, { id, path }: FolderState): Promise<void> {
  const trash = await ensureRoleFolder(ctx, 'TRASH');
  for (let round = 1; round <= ROUNDS; round++) {
    // Mail that has just come is taken in, and told as new, before it goes.
    await syncOnce(ctx, new Set([path, trash.path]));
    const folder = (await loadFolders(ctx.db, ctx.account.id)).find((each) => each.id === id);
    if (!folder || folder.path !== path)
      throw new MailError('provider_error', 'imap', 'the folder was renamed: try again');
    if (!(await emptyOnce(ctx, folder, trash))) return;
  }
  throw new MailError('provider_error', 'imap', 'mail keeps coming into the folder: try again');
}

/** False: there was nothing to move. */
async function emptyOnce(ctx: SyncContext, folder: FolderState, trash: FolderState): Promise<boolean> {
  const { session } = ctx;
  const selected = await openFolder(session, folder.path).catch((error: unknown) => {
    if (error instanceof FolderMissing) return undefined;
    throw error;
  });
  if (!selected) return false;
  if (selected.uidValidity !== folder.uidValidity) return true;
  const there = await searchUids(session, MAX_UID + 1);
  const keeping = session.has('X-GM-EXT-1') ? await locatedElsewhere(ctx.db, folder.id, there) : new Set<number>();
  const moving = there.filter((uid) => !keeping.has(uid));
  await noteUnknown(ctx, folder, moving);
  const known = moving.filter((uid) => uid < (folder.uidNext ?? 1));
  for (let start = 0; start < known.length; start += BATCH) {
    await moveBatch(ctx, folder, trash, known.slice(start, start + BATCH));
  }
  return moving.length > 0;
}

/** Mail from before the connect that was never scanned would be taken for new where it goes. */
async function noteUnknown(ctx: SyncContext, folder: FolderState, uids: number[]): Promise<void> {
  const below = uids.filter((uid) => uid < (folder.uidNext ?? 1));
  const placed = await locatedUids(ctx.db, folder.id, below, false);
  const metas = await fetchMetaOf(
    ctx.session,
    below.filter((uid) => !placed.has(uid)),
  );
  if (metas.length === 0) return;
  await inLease(ctx.db, ctx.lease, (tx) =>
    insertLocations(
      tx,
      metas.map((meta) => baselineLocation(ctx.account.id, folder.id, meta)),
    ),
  );
}

async function moveBatch(ctx: SyncContext, folder: FolderState, trash: FolderState, uids: number[]): Promise<void> {
  const { session } = ctx;
  if (hasMove(session)) {
    await moveMessages(session, uids, trash.path);
    return;
  }
  // Copied and then deleted: see src/db/pending-removal.ts. What an earlier try has copied already is not copied again.
  await markAllPendingRemoval(ctx.db, ctx.lease, folder.id, uids);
  const copied = await locatedElsewhere(ctx.db, folder.id, uids, trash.id);
  await expungeMessages(session, [...copied]);
  const left = uids.filter((uid) => !copied.has(uid));
  if (left.length > 0) await moveMessages(session, left, trash.path);
}
