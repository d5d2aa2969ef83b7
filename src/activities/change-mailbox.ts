import { ApiError } from '../contract/errors.ts';
import { markEmail as mark } from '../mailbox/changes/mark-email.ts';
import { moveEmail as move } from '../mailbox/changes/move.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { ensureRoleFolder } from '../mailbox/folders/by-role.ts';
import { type FolderState, loadFolders } from '../mailbox/store/folders.ts';
import { changeWaitedFor, type WriteDeps } from './write-context.ts';

export type ChangeEmailActivities = ReturnType<typeof createChangeEmailActivities>;

interface OfEmail {
  accountId: string;
  emailId: string;
}

/** Activities of the `changeMailbox` workflow about one email; each may be done again. */
export function createChangeEmailActivities(deps: WriteDeps) {
  /** Marks an email as read or unread. */
  function markEmail({ accountId, emailId, seen }: OfEmail & { seen: boolean }): Promise<void> {
    return changeWaitedFor(deps, accountId, (ctx) => mark(ctx, emailId, seen));
  }

  /** Puts an email into one folder. */
  function moveEmail({ accountId, emailId, folderId }: OfEmail & { folderId: string }): Promise<void> {
    return changeWaitedFor(deps, accountId, (ctx) => move(ctx, emailId, () => targetOf(ctx, folderId)));
  }

  /** Moves an email to Trash; where there is none, it is made. */
  function trashEmail({ accountId, emailId }: OfEmail): Promise<void> {
    return changeWaitedFor(deps, accountId, (ctx) => move(ctx, emailId, () => ensureRoleFolder(ctx, 'TRASH')));
  }

  return { markEmail, moveEmail, trashEmail };
}

/** The folder that mail is to be moved to. Throws ApiError not_found, provider_rejected. */
async function targetOf(ctx: SyncContext, folderId: string): Promise<FolderState> {
  const folder = (await loadFolders(ctx.db, ctx.account.id)).find(({ id }) => id === folderId);
  if (!folder) throw new ApiError('not_found', 'there is no folder with that id');
  if (!folder.selectable) throw new ApiError('provider_rejected', 'this folder only holds other folders, and no mail');
  if (folder.role === 'ALL') {
    throw new ApiError('provider_rejected', 'the folder of all mail holds every email: choose another one');
  }
  return folder;
}
