import { ActivityNotFoundError, ApplicationFailure, type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Db } from '../db/driver/client.ts';
import { hasAccounts, returnAccounts, takeAccountsOf } from '../db/coordination/lease.ts';
import { lastAnnouncements } from '../db/coordination/workers.ts';
import type { Logger } from '../runtime/logger.ts';
import { accountWorkflowId, SIGNALS } from '../workflows/names.ts';

/*
 * Temporal detects the loss of an activity's worker by missing heartbeats. Each mailbox has such an activity, so
 * heartbeats must be rare: they are most of Temporal's load at rest. A worker announces itself in Postgres every second,
 * once for all of its mailboxes. When it no longer does, the other workers (or its replacement) report the failure of its
 * activities, which Temporal then retries. The lease keeps the lost worker from writing if it returns.
 */

/** How often the announcements are checked. */
export const LOOK_MS = 2_000;
/** A worker without an announcement in so many checks in a row is lost. */
const LOOKS = 5;
const AT_ONCE = 20;
const CALL_MS = 5_000;
const RETRY_MS = 1;
/** The activity of the account's workflow that watches. */
const WATCH = 'watchMailbox';

export interface LostWatchesOptions {
  db: Db;
  logger: Logger;
  /** of this process */
  workerId: string;
  /** has the watch of an account begun anew if it is with a lost worker; rejects when it must be repeated */
  retryWatch(accountId: string, isLost: (workerId: string) => boolean): Promise<void>;
  /** milliseconds between two calls */
  intervalMs?: number;
}

/**
 * Makes Temporal give the watch of an account to another worker, if a lost one has it. The history of its workflow stays as it
 * is.
 */
export async function retryWatch(
  client: Client,
  accountId: string,
  isLost: (workerId: string) => boolean,
): Promise<void> {
  const workflow = client.workflow.getHandle(accountWorkflowId(accountId));
  try {
    await client.withDeadline(Date.now() + CALL_MS, async () => {
      const { workflowId, runId, raw } = await workflow.describe();
      const watch = raw.pendingActivities?.find(({ activityType }) => activityType?.name === WATCH);
      if (!watch?.activityId || !watch.lastWorkerIdentity) return;
      // as worker.ts gives it; that of an earlier version has no id
      const [, workerId] = watch.lastWorkerIdentity.split(' ');
      if (workerId === undefined) await workflow.signal(SIGNALS.watchLost);
      else if (isLost(workerId))
        await client.activity.fail({ workflowId, runId, activityId: watch.activityId }, lost());
    });
  } catch (error) {
    // it was removed, or begins anew already
    if (!(error instanceof WorkflowNotFoundError || error instanceof ActivityNotFoundError)) throw error;
  }
}

/** Retried at once. Where the workflow waits for the end of the activity, it is one without a cause in the mailbox. */
const lost = () =>
  ApplicationFailure.create({ message: 'its worker was lost', type: 'worker_lost', nextRetryDelay: RETRY_MS });

interface OtherWorker {
  /** by its last announcement, ms since the epoch */
  seenAt: number;
  /** since then */
  looks: number;
  /** the watches of all its mailboxes were retried */
  isDone: boolean;
  /** taken accounts whose watches could not be retried */
  failed: string[];
}

/** Returns a check that must be called every LOOK_MS. */
export function createLostWatches({ db, logger, workerId, retryWatch, intervalMs = LOOK_MS }: LostWatchesOptions) {
  const others = new Map<string, OtherWorker>();
  let lookedAt = performance.now();
  const isLost = (id: string) => id !== workerId && (others.get(id)?.looks ?? LOOKS) >= LOOKS;

  return async function look(): Promise<void> {
    // after a pause of this process or of the database, live workers need time to announce themselves again
    const isLate = performance.now() - lookedAt > 2 * intervalMs;
    lookedAt = performance.now();
    if (isLate) for (const [id, { looks }] of others) if (looks < LOOKS) others.delete(id);
    const announcements = await lastAnnouncements(db);
    for (const { id, seenAt } of announcements) {
      if (id === workerId) continue;
      const other = others.get(id);
      if (other?.seenAt !== seenAt.getTime()) {
        others.set(id, { seenAt: seenAt.getTime(), looks: 0, isDone: false, failed: [] });
        continue;
      }
      other.looks += 1;
      if (other.looks >= LOOKS && !other.isDone) other.isDone = await watchAgain(id, other.failed);
    }
    for (const id of others.keys()) if (!announcements.some((worker) => worker.id === id)) others.delete(id);
  };

  /**
   * Has the watches of a lost worker retried. `failed`: the accounts of earlier checks where that was not possible. False: it
   * was not for all.
   */
  async function watchAgain(lostId: string, failed: string[]): Promise<boolean> {
    const giveBack = async () => {
      if (failed.length > 0) await returnAccounts(db, lostId, failed);
      failed.length = 0;
    };
    // if the database was down
    await giveBack();
    for (;;) {
      const accountIds = await takeAccountsOf(db, lostId, AT_ONCE);
      if (accountIds.length === 0) break;
      logger.warn({ lostId, accountIds }, 'worker lost; reassigning its mailboxes');
      const results = await Promise.allSettled(accountIds.map((accountId) => retryWatch(accountId, isLost)));
      const failedNow = accountIds.filter((_, index) => results[index]?.status === 'rejected');
      for (const accountId of failedNow) failed.push(accountId);
      // Temporal is away
      if (failedNow.length === accountIds.length) break;
    }
    const isDone = failed.length === 0 && !(await hasAccounts(db, lostId));
    // for the next check
    await giveBack();
    return isDone;
  }
}
