import { ApiError } from '../contract/errors.ts';
import { isRunFinished, recordFinishedRun, type RunRef } from '../db/coordination/finished-runs.ts';
import { changeFlags, type FlagChange, markEmail as mark } from '../mailbox/changes/mark.ts';
import { moveEmail as move } from '../mailbox/changes/move.ts';
import { trashEmail as trash } from '../mailbox/changes/trash.ts';
import type { SyncContext } from '../mailbox/context.ts';
import {
  changeFolder as change,
  createFolder as create,
  type FolderChange,
  type NewFolder,
} from '../mailbox/folders/change.ts';
import { deleteFolder as remove } from '../mailbox/folders/delete.ts';
import { loadSyncSettings } from '../mailbox/settings.ts';
import { type FolderState, loadFolders } from '../mailbox/store/folders.ts';
import { currentRun } from './current-run.ts';
import { withHeartbeat } from './heartbeat.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { refusedForGood } from '../imap/response-codes.ts';
import { MailError } from '../mail-wire/mail-error.ts';

export type ChangeEmailActivities = ReturnType<typeof createChangeEmailActivities>;

interface OfEmail {
  accountId: string;
  emailId: string;
}

/** What to change of an email; what is left out stays. */
export interface EmailUpdate {
  flags?: FlagChange;
  /** the folder to move it to */
  folderId?: string;
}

/** Activities of the `changeMailbox` workflow that change one email; each is idempotent. */
export function createChangeEmailActivities(deps: MailboxDeps) {
  /** Marks an email as read or unread. */
  function markEmail({ accountId, emailId, seen }: OfEmail & { seen: boolean }): Promise<void> {
    return runChange(deps, accountId, (ctx, run) => mark(ctx, emailId, seen, run));
  }

  /** Moves an email into one folder. */
  function moveEmail({ accountId, emailId, folderId }: OfEmail & { folderId: string }): Promise<void> {
    return runChange(deps, accountId, (ctx, run) => move(ctx, emailId, () => targetOf(ctx, folderId), run));
  }

  /** Moves an email to Trash, which is created if it is missing. */
  function trashEmail({ accountId, emailId }: OfEmail): Promise<void> {
    return runChange(deps, accountId, (ctx, run) => trash(ctx, emailId, { finishes: run }));
  }

  /** Changes flags of an email, then its folder. */
  function updateEmail({ accountId, emailId, flags, folderId }: OfEmail & EmailUpdate): Promise<void> {
    return runChange(deps, accountId, async (ctx, run) => {
      if (folderId !== undefined) await targetOf(ctx, folderId);
      if (flags) await changeFlags(ctx, emailId, flags, folderId === undefined ? run : undefined);
      if (folderId !== undefined) await move(ctx, emailId, () => targetOf(ctx, folderId), run);
    });
  }

  return { markEmail, moveEmail, trashEmail, updateEmail };
}

/** The folder to move an email to. @throws ApiError not_found, provider_rejected */
export async function targetOf(ctx: SyncContext, folderId: string): Promise<FolderState> {
  const folder = (await loadFolders(ctx.db, ctx.account.id)).find(({ id }) => id === folderId);
  if (!folder) throw new ApiError('not_found', 'no folder has this id');
  if (!folder.selectable) throw new ApiError('provider_rejected', 'this folder cannot contain messages');
  if (folder.role === 'ALL') {
    throw new ApiError('provider_rejected', 'the folder with the role ALL holds every email: choose another folder');
  }
  return folder;
}

export type ChangeFolderActivities = ReturnType<typeof createChangeFolderActivities>;

interface OfFolder {
  accountId: string;
  folderId: string;
}

/** Activities of the `changeMailbox` workflow that change one folder; each is idempotent. */
export function createChangeFolderActivities(deps: MailboxDeps) {
  /** Creates a folder under `folderId`. */
  function createFolder({ accountId, folderId, name, parentId }: OfFolder & NewFolder): Promise<void> {
    return runFolderChange(deps, accountId, (ctx) => create(ctx, folderId, { name, parentId }));
  }

  /** Renames a folder, or moves it into another one. */
  function changeFolder({ accountId, folderId, ...wanted }: OfFolder & FolderChange): Promise<void> {
    return runFolderChange(deps, accountId, (ctx) => change(ctx, folderId, wanted));
  }

  /** Deletes a folder; its emails move to Trash. */
  function deleteFolder({ accountId, folderId }: OfFolder): Promise<void> {
    return runFolderChange(deps, accountId, (ctx) => remove(ctx, folderId));
  }

  return { createFolder, changeFolder, deleteFolder };
}

/**
 * Runs a change that does not record the run as finished itself. The run is recorded after it: the change is made again if
 * the worker is killed in between.
 */
function runFolderChange(
  deps: MailboxDeps,
  accountId: string,
  work: (ctx: SyncContext) => Promise<void>,
): Promise<void> {
  return runChange(deps, accountId, async (ctx, run) => {
    await work(ctx);
    await recordFinishedRun(deps.db, run).catch((err: unknown) =>
      deps.logger.warn({ accountId, err }, 'could not record early completion; the caller waits for the workflow'),
    );
  });
}

/**
 * Runs a change that a caller waits for, with heartbeats, unless an earlier execution has made it: other changes may have
 * followed. The change records the run as finished. A command that the provider refuses fails with `provider_rejected`.
 */
function runChange(
  deps: MailboxDeps,
  accountId: string,
  work: (ctx: SyncContext, run: RunRef) => Promise<void>,
): Promise<void> {
  return withHeartbeat(async () => {
    const run = currentRun();
    const [isFinished, settings] = await Promise.all([
      isRunFinished(deps.db, run),
      loadSyncSettings(deps.db, accountId),
    ]);
    if (isFinished) return;
    const checkedAt = performance.now();
    const isLate = () => performance.now() - checkedAt > LATE_MS;
    try {
      await withMailbox(
        deps,
        accountId,
        async (ctx) => {
          if (!(isLate() && (await isRunFinished(deps.db, run)))) await work(ctx, run);
        },
        settings,
      );
    } catch (error) {
      throw withRefusal(error);
    }
  });
}

/** After a wait this long for a session, an earlier execution of the same run may have made the change. */
const LATE_MS = 500;

/** A command that the provider refuses for good as `provider_rejected`; any other error as it is. */
export function withRefusal(error: unknown): unknown {
  if (!refusedForGood(error)) return error;
  return new MailError('provider_rejected', error.side, error.detail, { refused: true, cause: error });
}
