import { ApiError } from '../../contract/errors.ts';
import { inLease } from '../../db/lease.ts';
import { recordEvents } from '../../db/outbox.ts';
import { deleteFolder as deleteAtProvider, renameFolder } from '../../imap/change-folders.ts';
import { findFolder } from '../../imap/find-folder.ts';
import { FolderMissing } from '../../mail-error.ts';
import type { SyncContext } from '../context.ts';
import { type FolderState, loadFolders, readFolders, takeOutOfParent } from '../store/folders.ts';
import { deleteFoldersWithMail } from './apply.ts';
import { bringToPath, changeable, pathOf } from './change.ts';
import { emptyIntoTrash } from './empty.ts';

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
    await takeOutOfParent(tx, folderId);
    await recordEvents(tx, ctx.account.id, [
      { type: 'email.folder.delete', objectId: folderId, data: { folder: told }, createdAt: now },
    ]);
  });
}
