import { markAll, renewMarks } from '../changes/pending-removals.ts';
import { ApiError } from '../../contract/errors.ts';
import { inLease } from '../../db/coordination/lease.ts';
import { recordEvents } from '../../db/outbox.ts';
import { locatedElsewhere } from '../../db/queries/pending-removal.ts';
import { deleteFolder as deleteAtProvider, renameFolder } from '../../imap/change-folders.ts';
import { hasMove } from '../../imap/command.ts';
import { expungeMessages } from '../../imap/expunge.ts';
import { fetchMetaIfSent } from '../../imap/fetch.ts';
import { listAllUids } from '../../imap/list-uids.ts';
import { findFolder } from '../../imap/list.ts';
import { moveMessages } from '../../imap/move.ts';
import { openFolder } from '../../imap/select.ts';
import { FolderMissing, MailError } from '../../mail-wire/mail-error.ts';
import type { SyncContext } from '../context.ts';
import {
  deleteFolders,
  type FolderState,
  loadDeletedFolders,
  loadFolders,
  moveToTopLevel,
  readFolders,
} from '../store/folders.ts';
import { baselineLocation, insertLocations, locatedUids, locationsAt } from '../store/locations.ts';
import { isSameMessage } from '../ingest/match.ts';
import { syncOnce } from '../sync-pass.ts';
import { placeOf, type RolePlace } from './by-role.ts';
import { withRenewal } from '../../async.ts';
import { RENEW_EVERY_MS } from '../changes/move.ts';
import { bringToPath, changeable, isChosen, pathBeside } from './change.ts';
import { areVacated, markVacating, vacateFolder } from './vacate.ts';

/**
 * Deletes a folder: its mail goes to Trash, the folders in it move up. A crash may follow any numbered step; the next
 * attempt does the remaining ones. Does nothing if the folder is already deleted.
 * @throws ApiError provider_rejected for a folder with a role, or when one with a role, or one that the account would not include,
 * would move up; already_exists when a name above is taken; MailError
 */
export async function deleteFolder(ctx: SyncContext, folderId: string): Promise<void> {
  const isStored = ({ id }: FolderState) => id === folderId;
  // Other programs may have put folders into it; and an earlier attempt may have moved some up, and not stored that.
  if ((await loadFolders(ctx.db, ctx.account.id)).some(isStored)) await syncOnce(ctx, {});
  const stored = await loadFolders(ctx.db, ctx.account.id);
  if (!stored.some(isStored)) return finishDeletion(ctx, folderId);
  const folder = changeable(stored, folderId);
  const children = stored.filter(({ parentId }) => parentId === folderId);
  const movingUp = children.map((child) => ({ child, path: pathBeside(ctx, folder, child.name) }));
  for (const each of movingUp) await assertMovesUp(ctx, stored, each);
  // 1.
  if (folder.selectable) await emptyIntoTrash(ctx, folder);
  // 2.
  for (const { child, path } of movingUp) {
    await bringToPath(ctx, child.id, path, () => renameFolder(ctx.session, child.path, path));
  }
  // Mail may have arrived in the meantime.
  if (folder.selectable && movingUp.length > 0) await emptyIntoTrash(ctx, folder);
  // 3.
  await deleteAtProvider(ctx.session, folder.path).catch((error: unknown) => {
    // A name that only held other folders may go with the last of them.
    if (!(error instanceof FolderMissing)) throw error;
  });
  // 4.
  await forgetFolder(ctx, folderId);
}

/** Nothing has been changed yet when a folder turns out not to be movable, or its name to be taken. */
async function assertMovesUp(
  ctx: SyncContext,
  stored: FolderState[],
  { child, path }: { child: FolderState; path: string },
): Promise<void> {
  if (child.role !== 'UNKNOWN') {
    throw new ApiError(
      'provider_rejected',
      `the folder ${child.id} in it has the role ${child.role} and cannot move up`,
    );
  }
  if (!isChosen(ctx, { from: child.path, to: path }, stored)) {
    throw new ApiError(
      'provider_rejected',
      `the folder ${child.id} would move up, where the folders of this account do not include it, or one in it: move it first`,
    );
  }
  if (!stored.some((folder) => folder.path === path) && !(await findFolder(ctx.session, path))) return;
  throw new ApiError(
    'already_exists',
    `the folder ${child.id} would move up, where its name is taken: rename it first`,
  );
}

/** An earlier attempt, or the watch, may have been stopped halfway. */
async function finishDeletion(ctx: SyncContext, folderId: string): Promise<void> {
  const isBegun = (await loadDeletedFolders(ctx.db, ctx.account.id)).some(({ id }) => id === folderId);
  if (isBegun) await forgetFolder(ctx, folderId);
}

/** Deletes the folder and its locations in the store: see vacate.ts. The watch may have done so, or be doing it. */
async function forgetFolder(ctx: SyncContext, folderId: string): Promise<void> {
  for (let deleted = false; !deleted; ) {
    await inLease(ctx.db, ctx.lease, (tx) => markVacating(tx, [folderId], 'deletion'));
    await vacateFolder(ctx, folderId);
    deleted = await inLease(ctx.db, ctx.lease, async (tx) => {
      const [folder] = await readFolders(tx, [folderId]);
      if (!folder) return true;
      if (!(await areVacated(tx, ctx, [folderId]))) return false;
      await deleteFolders(tx, [folderId]);
      // Others have put folders into it.
      const moved = await readFolders(tx, await moveToTopLevel(tx, folderId));
      const createdAt = new Date();
      await recordEvents(tx, ctx.account.id, [
        { type: 'email.folder.delete', objectId: folderId, data: { folder }, createdAt },
        ...moved.map((child) => ({
          ...{ type: 'email.folder.update' as const, objectId: child.id },
          ...{ data: { folder: child }, createdAt },
        })),
      ]);
      return true;
    });
  }
}

/** Messages of one MOVE. */
const BATCH = 200;
/** Attempts at a folder in which mail keeps arriving. */
const ATTEMPTS = 20;

/**
 * Moves all mail of a folder to Trash, including mail from before the account connected. A sync pass finds its new
 * location and emits each email's event once. In Gmail a message with another label keeps that label and is not deleted.
 * Idempotent: a second call moves the rest.
 */
export async function emptyIntoTrash(ctx: SyncContext, { id, path }: FolderState): Promise<void> {
  const trash = await placeOf(ctx, 'TRASH');
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    // Mail that has just arrived is ingested, and emitted as new, before it is moved.
    await syncOnce(ctx, { changed: new Set([path, trash.path]) });
    const folder = (await loadFolders(ctx.db, ctx.account.id)).find((each) => each.id === id);
    if (!folder || folder.path !== path)
      throw new MailError('provider_error', 'imap', 'the folder was renamed; retry later');
    if (!(await emptyOnce(ctx, folder, trash))) return;
  }
  throw new MailError('provider_error', 'imap', 'messages keep arriving in this folder; retry later');
}

/** False: there was nothing to move. */
async function emptyOnce(ctx: SyncContext, folder: FolderState, trash: RolePlace): Promise<boolean> {
  const { session } = ctx;
  const selected = await openFolder(session, folder.path).catch((error: unknown) => {
    if (error instanceof FolderMissing) return undefined;
    throw error;
  });
  if (!selected) return false;
  if (selected.uidValidity !== folder.uidValidity) return true;
  const all = await listAllUids(session);
  let isMoving = false;
  for (let start = 0; start < all.length; start += BATCH) {
    const uids = all.slice(start, start + BATCH);
    const keeping = session.has('X-GM-EXT-1') ? await locatedElsewhere(ctx.db, folder.id, uids) : new Set<number>();
    const moving = uids.filter((uid) => !keeping.has(uid));
    if (moving.length > 0) isMoving = true;
    // Mail that has arrived since is ingested first.
    const stored = moving.filter((uid) => uid < (folder.uidNext ?? 1));
    await insertUnscanned(ctx, folder, stored);
    if (stored.length > 0) await moveBatch(ctx, folder, trash, stored);
  }
  return isMoving;
}

/** Of these UIDs of the selected folder, those that still name the stored messages. */
async function withSameMessage(ctx: SyncContext, folderId: string, uids: number[]): Promise<number[]> {
  const stored = new Map((await locationsAt(ctx.db, folderId, uids)).map((location) => [location.uid, location]));
  const metas = await fetchMetaIfSent(ctx.session, uids);
  return metas.flatMap((meta) => {
    const location = stored.get(meta.uid);
    return location && isSameMessage(meta, location) ? [meta.uid] : [];
  });
}

/** Mail from before the connect that was never scanned would be treated as new in its new folder. */
async function insertUnscanned(ctx: SyncContext, folder: FolderState, uids: number[]): Promise<void> {
  const located = await locatedUids(ctx.db, folder.id, uids, false);
  const metas = await fetchMetaIfSent(
    ctx.session,
    uids.filter((uid) => !located.has(uid)),
  );
  if (metas.length === 0) return;
  await inLease(ctx.db, ctx.lease, (tx) =>
    insertLocations(
      tx,
      metas.map((meta) => baselineLocation(ctx.account.id, folder.id, meta)),
    ),
  );
}

async function moveBatch(ctx: SyncContext, folder: FolderState, trash: RolePlace, uids: number[]): Promise<void> {
  const { session } = ctx;
  if (hasMove(session)) {
    await moveMessages(session, uids, trash.path);
    return;
  }
  // Copied and then deleted: see src/db/queries/pending-removal.ts. Messages that an earlier attempt copied are not copied
  // again.
  await markAll(ctx, folder.id, uids);
  const located = trash.folder ? [...(await locatedElsewhere(ctx.db, folder.id, uids, trash.folder.id))] : [];
  const copied = new Set(await withSameMessage(ctx, folder.id, located));
  await expungeMessages(session, [...copied]);
  const left = uids.filter((uid) => !copied.has(uid));
  if (left.length === 0) return;
  const marked = left.map((uid) => ({ folderId: folder.id, uid }));
  await withRenewal(
    () => renewMarks(ctx, marked),
    () => moveMessages(session, left, trash.path),
    RENEW_EVERY_MS,
  );
}
