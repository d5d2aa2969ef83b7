import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { refusedInFolder, suggestedPause } from '../imap/response-codes.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { type BatchChange, changeMany } from '../mailbox/changes/batch.ts';
import { trashEmail } from '../mailbox/changes/trash.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { ensureRoleFolder, placeOf } from '../mailbox/folders/by-role.ts';
import {
  type BatchError,
  type BatchItem,
  type BatchProgress,
  completeBatch,
  failBatch as fail,
  isBehindOther,
  itemsFailed,
  nextOfBatch,
  progressOfBatch,
} from '../mailbox/store/batches.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { targetOf, withRefusal } from './change-mailbox.ts';
import { withHeartbeat } from './heartbeat.ts';

export type BatchActivities = ReturnType<typeof createBatchActivities>;

export type { BatchProgress };

/** How emails move to Trash; one that the account does not include is no target. */
async function trashOf(ctx: SyncContext): Promise<Pick<BatchChange, 'findTarget' | 'trash'>> {
  const { folder } = await placeOf(ctx, 'TRASH');
  if (folder) return { findTarget: () => ensureRoleFolder(ctx, 'TRASH') };
  return { trash: (id, also) => trashEmail(ctx, id, { also }) };
}

/** Emails of one transaction; each has an event with its body. */
const CHUNK = 500;
/** How long one execution works, about, ms; the workflow shows the counts in between. */
const STEP_MS = 20_000;
/** Between two looks at whether an earlier batch has ended, ms. */
const TURN_MS = 250;
/** From this attempt on, emails are changed one by one: one that fails alone does not stop the others. */
const ONE_BY_ONE_AT = 3;
/** Of these, so many that lose the connection in a row show an outage. */
const MOST_LOST = 5;

/** How a batch stands after a step. */
export interface BatchStep extends BatchProgress {
  /** an earlier batch changes some of its emails first */
  isBehind?: true;
  /** the mail server asks for a pause, ms */
  pauseMs?: number;
  /** what it said, for callers */
  pauseDetail?: string;
}

interface BatchRef {
  accountId: string;
  batchId: string;
}

/** Changes the next pending emails of a batch, and stops between single ones when `isOver`; false: none is pending, or it has ended. */
export async function changeNextOf(
  deps: MailboxDeps,
  { accountId, batchId, oneByOne, isOver }: BatchRef & { oneByOne: boolean; isOver: () => boolean },
): Promise<boolean> {
  const next = await nextOfBatch(deps.db, batchId, CHUNK);
  if (!next || next.items.length === 0) return false;
  const { flags, folderId, trash } = next.change;
  const change = async (ctx: SyncContext, items: BatchItem[]) => {
    const findTarget: BatchChange['findTarget'] = folderId === undefined ? undefined : () => targetOf(ctx, folderId);
    const where = trash ? await trashOf(ctx) : { findTarget };
    await changeMany(ctx, items, { batchId, flags, givesUp: oneByOne, ...where, ...(oneByOne ? {} : { isOver }) });
  };
  if (!oneByOne) await withMailbox(deps, accountId, (ctx) => change(ctx, next.items));
  else {
    await changeEach(next.items, {
      isOver,
      failureOf: (item) => failureOf(deps, accountId, (ctx) => change(ctx, [item])),
      giveUp: (item, { code, detail }) => itemsFailed(deps.db, batchId, [item], { code, detail }),
    });
  }
  return true;
}

/**
 * Changes emails one by one. One that has lost the connection twice is given up once another could be changed: the mail server
 * works, and that email is the reason. One that the server refuses for now stays pending.
 * @throws MailError when the last ones lost the connection, or none was changed
 */
async function changeEach(
  items: readonly BatchItem[],
  {
    isOver,
    failureOf,
    giveUp,
  }: {
    isOver: () => boolean;
    failureOf: (item: BatchItem) => Promise<MailError | undefined>;
    giveUp: (item: BatchItem, error: MailError) => Promise<void>;
  },
): Promise<void> {
  const lost: { item: BatchItem; error: MailError }[] = [];
  let refused: MailError | undefined;
  let isAnyChanged = false;
  for (const item of items) {
    if (isOver() || lost.length === MOST_LOST) break;
    const first = await failureOf(item);
    const error = first && !first.refused ? await failureOf(item) : first;
    if (error?.refused) refused = error;
    else if (error) lost.push({ item, error });
    else {
      isAnyChanged = true;
      for (const each of lost.splice(0)) await giveUp(each.item, each.error);
    }
  }
  if (lost[0]) throw lost[0].error;
  if (refused && !isAnyChanged) throw refused;
}

/** Why one email could not be changed, which says nothing about the others: the connection ended, or it is refused for now. */
async function failureOf(
  deps: MailboxDeps,
  accountId: string,
  change: (ctx: SyncContext) => Promise<void>,
): Promise<MailError | undefined> {
  let hasBegun = false;
  try {
    await withMailbox(deps, accountId, (ctx) => {
      hasBegun = true;
      return change(ctx);
    });
    return undefined;
  } catch (error) {
    const isOfChange = hasBegun && error instanceof MailError && error.code === 'provider_error';
    if (isOfChange && (!error.refused || refusedInFolder(error))) return error;
    throw error;
  }
}

/** Activities of the `changeEmails` workflow. */
export function createBatchActivities(deps: MailboxDeps) {
  /**
   * Changes pending emails of a batch for some seconds, after earlier batches of the same emails. Continues where it was killed.
   * `sleeps`: the workflow waits where the result says so; that of earlier versions does not.
   */
  function changeEmailsOf({ accountId, batchId, sleeps = false }: BatchRef & { sleeps?: boolean }): Promise<BatchStep> {
    const context = Context.current();
    const oneByOne = context.info.attempt >= ONE_BY_ONE_AT;
    const until = performance.now() + STEP_MS;
    const isOver = () => context.cancellationSignal.aborted || performance.now() >= until;
    return withHeartbeat(async () => {
      let isTurn = false;
      let isAnyDone = false;
      try {
        while (performance.now() < until) {
          if (context.cancellationSignal.aborted) await context.cancelled;
          isTurn ||= !(await isBehindOther(deps.db, batchId));
          if (!isTurn && sleeps) return { ...(await progressOfBatch(deps.db, batchId)), isBehind: true };
          if (!isTurn) await sleep(TURN_MS);
          else if (!(await changeNextOf(deps, { accountId, batchId, oneByOne, isOver })))
            return completeBatch(deps.db, batchId);
          else isAnyDone = true;
        }
      } catch (error) {
        const pauseMs = sleeps ? suggestedPause(error) : undefined;
        if (pauseMs !== undefined) {
          return { ...(await progressOfBatch(deps.db, batchId)), pauseMs, pauseDetail: (error as MailError).detail };
        }
        // the next step meets the failure again
        if (!isAnyDone || !(error instanceof MailError)) throw withRefusal(error);
      }
      // the last emails may have been changed just now
      return completeBatch(deps.db, batchId);
    });
  }

  /** Ends a batch: its pending emails fail with this error. */
  function failBatch({ batchId, error }: { batchId: string; error: BatchError }): Promise<BatchProgress> {
    return fail(deps.db, batchId, error);
  }

  return { changeEmailsOf, failBatch };
}
