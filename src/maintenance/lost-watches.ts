import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Db } from '../db/driver/client.ts';
import { returnAccounts, takeAccountsOf } from '../db/coordination/lease.ts';
import { lastAnnouncements } from '../db/coordination/workers.ts';
import type { Logger } from '../runtime/logger.ts';
import { accountWorkflowId, SIGNALS } from '../workflows/names.ts';

/*
 * Temporal detects the loss of an activity's worker by missing heartbeats. Each mailbox has such an activity, so
 * heartbeats must be rare: they are most of Temporal's load at rest. A worker announces itself in Postgres every second,
 * once for all of its mailboxes. When it no longer does, the other workers (or its replacement) signal the workflows of
 * its mailboxes, which start new watches. The lease keeps the lost worker from writing if it returns.
 */

/** How often the announcements are checked. */
export const LOOK_MS = 2_000;
/** A worker without an announcement in so many checks in a row is lost. */
const LOOKS = 5;
const AT_ONCE = 20;
const SIGNAL_MS = 5_000;

export interface LostWatchesOptions {
  db: Db;
  logger: Logger;
  /** of this process */
  workerId: string;
  /** signals the account's workflow; rejects when it must be repeated */
  signalLost(accountId: string): Promise<void>;
  /** milliseconds between two calls */
  intervalMs?: number;
}

/** Makes the account's workflow start another watch, if it runs. */
export async function signalWatchLost(client: Client, accountId: string): Promise<void> {
  try {
    await client.withDeadline(Date.now() + SIGNAL_MS, () =>
      client.workflow.getHandle(accountWorkflowId(accountId)).signal(SIGNALS.watchLost),
    );
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

interface OtherWorker {
  /** by its last announcement, ms since the epoch */
  seenAt: number;
  /** since then */
  looks: number;
  /** all workflows of its mailboxes were signalled */
  isDone: boolean;
  /** taken accounts whose workflows could not be signalled */
  failed: string[];
}

/** Returns a check that must be called every LOOK_MS. */
export function createLostWatches({ db, logger, workerId, signalLost, intervalMs = LOOK_MS }: LostWatchesOptions) {
  const others = new Map<string, OtherWorker>();
  let lookedAt = performance.now();

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
   * Signals the workflows of the mailboxes of a lost worker. `failed`: those of earlier checks that could not be
   * signalled. False: not all were signalled.
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
      const results = await Promise.allSettled(accountIds.map((accountId) => signalLost(accountId)));
      const failedNow = accountIds.filter((_, index) => results[index]?.status === 'rejected');
      for (const accountId of failedNow) failed.push(accountId);
      // Temporal is away
      if (failedNow.length === accountIds.length) break;
    }
    const isDone = failed.length === 0;
    // for the next check
    await giveBack();
    return isDone;
  }
}
