import {
  changeFolder as change,
  createFolder as create,
  type FolderChange,
  type NewFolder,
} from '../mailbox/folders/change.ts';
import { deleteFolder as remove } from '../mailbox/folders/delete.ts';
import { changeWaitedFor, type WriteDeps } from './write-context.ts';

export type ChangeFolderActivities = ReturnType<typeof createChangeFolderActivities>;

interface OfFolder {
  accountId: string;
  folderId: string;
}

/** Activities of the `changeMailbox` workflow about one folder; each may be done again. */
export function createChangeFolderActivities(deps: WriteDeps) {
  /** Makes a folder under the id given. */
  function createFolder({ accountId, folderId, name, parentId }: OfFolder & NewFolder): Promise<void> {
    return changeWaitedFor(deps, accountId, (ctx) => create(ctx, folderId, { name, parentId }));
  }

  /** Renames a folder, or moves it into another one. */
  function changeFolder({ accountId, folderId, ...wanted }: OfFolder & FolderChange): Promise<void> {
    return changeWaitedFor(deps, accountId, (ctx) => change(ctx, folderId, wanted));
  }

  /** Deletes a folder; its mail goes to Trash. */
  function deleteFolder({ accountId, folderId }: OfFolder): Promise<void> {
    return changeWaitedFor(deps, accountId, (ctx) => remove(ctx, folderId));
  }

  return { createFolder, changeFolder, deleteFolder };
}
