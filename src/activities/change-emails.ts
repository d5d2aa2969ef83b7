import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { type BatchChange, changeMany } from '../mailbox/changes/batch.ts';
import { trashEmail } from '../mailbox/changes/trash.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { ensureRoleFolder, placeOf } from '../mailbox/folders/by-role.ts';
import {
  type BatchError,
  type BatchProgress,
  completeBatch,
  failBatch as fail,
  isBehindOther,
  nextOfBatch,
  progressOfBatch,
} from '../mailbox/store/batches.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { targetOf } from './change-mailbox.ts';
import { withHeartbeat } from './heartbeat.ts';

export type BatchActivities = ReturnType<typeof createBatchActivities>;

export type { BatchProgress };

/** How emails move to Trash; one that the account does not include is no target. */
async function trashOf(ctx: SyncContext): Promise<Pick<BatchChange, 'findTarget' | 'trash'>> {
  const { folder } = await placeOf(ctx, 'TRASH');
  return folder ? { findTarget: () => ensureRoleFolder(ctx, 'TRASH') } : { trash: (id) => trashEmail(ctx, id) };
}

/** Emails of one transaction; each has an event with its body. */
const CHUNK = 500;
/** How long one execution works, about, ms; the workflow shows the counts in between. */
const STEP_MS = 20_000;
/** Between two looks at whether an earlier batch has ended, ms. */
const TURN_MS = 250;
/** From this attempt on, an email that fails alone does not stop the others. */
const GIVES_UP_AT = 3;

/** Changes the next pending emails of a batch; false: none is pending, or the batch has ended. */
export async function changeNextOf(
  deps: MailboxDeps,
  { accountId, batchId, givesUp }: { accountId: string; batchId: string } & Pick<BatchChange, 'givesUp'>,
): Promise<boolean> {
  const next = await nextOfBatch(deps.db, batchId, CHUNK);
  if (!next || next.items.length === 0) return false;
  const { flags, folderId, trash } = next.change;
  await withMailbox(deps, accountId, async (ctx) => {
    const findTarget: BatchChange['findTarget'] = folderId === undefined ? undefined : () => targetOf(ctx, folderId);
    const where = trash ? await trashOf(ctx) : { findTarget };
    await changeMany(ctx, next.items, { batchId, flags, givesUp, ...where });
  });
  return true;
}

/** Activities of the `changeEmails` workflow. */
export function createBatchActivities(deps: MailboxDeps) {
  /** Changes pending emails of a batch for some seconds, after earlier batches of the same emails. Continues where it was killed. */
  function changeEmailsOf({ accountId, batchId }: { accountId: string; batchId: string }): Promise<BatchProgress> {
    const context = Context.current();
    const givesUp = context.info.attempt >= GIVES_UP_AT;
    const until = performance.now() + STEP_MS;
    return withHeartbeat(async () => {
      for (let isTurn = false; performance.now() < until; ) {
        if (context.cancellationSignal.aborted) await context.cancelled;
        isTurn ||= !(await isBehindOther(deps.db, batchId));
        if (!isTurn) await sleep(TURN_MS);
        else if (!(await changeNextOf(deps, { accountId, batchId, givesUp }))) return completeBatch(deps.db, batchId);
      }
      return progressOfBatch(deps.db, batchId);
    });
  }

  /** Ends a batch: its pending emails fail with this error. */
  function failBatch({ batchId, error }: { batchId: string; error: BatchError }): Promise<BatchProgress> {
    return fail(deps.db, batchId, error);
  }

  return { changeEmailsOf, failBatch };
}
