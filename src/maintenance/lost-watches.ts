import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Db } from '../db/driver/client.ts';
import { returnAccounts, takeAccountsOf } from '../db/coordination/lease.ts';
import { lastAnnouncements } from '../db/coordination/workers.ts';
import type { Logger } from '../runtime/logger.ts';
import { accountWorkflowId, SIGNALS } from '../workflows/names.ts';

/*
 * Temporal notices by missing heartbeats that the worker of an activity is gone. Each mailbox has one, so heartbeats have to be
 * rare: they are most of what Temporal does at rest. A worker announces itself in Postgres every second, once for all of its
 * mailboxes. When it no longer does, the other ones (or the one that replaces it) signal the workflows of its mailboxes, which
 * begin another watch. The lease keeps the lost one from writing, should it come back.
 */

/** How often the announcements are looked at. */
export const LOOK_MS = 2_000;
/** A worker that has announced nothing between so many looks in a row is gone. */
const LOOKS = 5;
const AT_ONCE = 20;
const SIGNAL_MS = 5_000;

export interface LostWatchesOptions {
  db: Db;
  logger: Logger;
  /** of this process */
  workerId: string;
  /** signals the account's workflow; rejects when that is to be tried again */
  signalLost(accountId: string): Promise<void>;
  /** milliseconds between two calls */
  intervalMs?: number;
}

/** Has the account's workflow begin another watch, where it runs. */
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
  /** the workflows of its mailboxes were signalled */
  isDone: boolean;
  /** accounts that are nobody's now, whose workflows could not be signalled */
  failed: string[];
}

/** Looks once, when it is called; to be called every LOOK_MS. */
export function createLostWatches({ db, logger, workerId, signalLost, intervalMs = LOOK_MS }: LostWatchesOptions) {
  const others = new Map<string, OtherWorker>();
  let lookedAt = performance.now();

  return async function look(): Promise<void> {
    // after a pause of this process, or of the database, the others need time to announce themselves, but for those that are gone
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
   * Signals the workflows of the mailboxes that a worker which is gone has watched. `failed`: those of earlier looks that could
   * not be signalled. False: not all of them.
   */
  async function watchAgain(lostId: string, failed: string[]): Promise<boolean> {
    const giveBack = async () => {
      if (failed.length > 0) await returnAccounts(db, lostId, failed);
      failed.length = 0;
    };
    // where the database was away
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
    // for the next look
    await giveBack();
    return isDone;
  }
}
