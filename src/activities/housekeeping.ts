import { Context } from '@temporalio/activity';
import type { WorkflowClient } from '@temporalio/client';
import { createLimiter } from '../async.ts';
import type { Db } from '../db/client.ts';
import { deleteDeliveriesBefore, deleteEventsBefore, deleteIdempotencyKeysBefore } from '../db/retention.ts';
import { nextSweep, saveSweep, unreferencedKeys } from '../db/stored-objects.ts';
import { deleteUnusedTracking } from '../db/tracking.ts';
import { forgetDeadWorkers } from '../db/workers.ts';
import type { Logger } from '../logger.ts';
import { deleteEndedDrafts, giveUpStaleDrafts } from '../sending/draft-state.ts';
import { deleteEndedSends, giveUpStaleSends } from '../sending/send-state.ts';
import type { Storage } from '../storage/storage.ts';
import { getRunState } from '../webhooks/delivery-runs.ts';
import { failDeliveries, overdueDeliveries, releaseDeliveries } from '../webhooks/delivery-state.ts';

export interface HousekeepingDeps {
  db: Db;
  storage: Storage;
  client: WorkflowClient;
  logger: Logger;
}

export type HousekeepingActivities = ReturnType<typeof createHousekeepingActivities>;

const DAY_MS = 24 * 60 * 60 * 1000;
/**
 * Stored for 30 days: the log and the events (CONTRACT), and sends and drafts that ended. For 24 h: responses to idempotent
 * calls (CONTRACT). For a year: the tracking of an email that was deleted, whose links in other mailboxes work as long.
 */
const RETENTION: readonly [days: number, deleteBefore: (db: Db, before: Date) => Promise<number>][] = [
  [30, deleteDeliveriesBefore],
  [30, deleteEventsBefore],
  [1, deleteIdempotencyKeysBefore],
  [30, deleteEndedSends],
  [30, deleteEndedDrafts],
  [365, deleteUnusedTracking],
];
/** One execution of `deleteExpired` works for about so long. */
const STEP_MS = 60_000;
/** A delivery whose attempt is late by this is checked: its run may have been lost. */
const OVERDUE_MS = 15 * 60_000;
const OVERDUE_PAGE = 500;
/** Calls to Temporal at a time. */
const PARALLEL_CHECKS = 10;

/** Each account's storage is compared with its rows this often, and objects younger than that may be about to get a row. */
const SWEEP_MS = DAY_MS;
/** One execution of `deleteExpired` sweeps for this long; the next hour's goes on. */
const SWEEP_STEP_MS = 2 * 60_000;

/** Activities of the `housekeeping` workflow. */
export function createHousekeepingActivities(deps: HousekeepingDeps) {
  const { db, storage, client, logger } = deps;
  /**
   * Deletes what is stored for a time only, a bounded number of rows at a time; `done: false` when there is more. Gives
   * up sends and drafts that lost their run, and deletes objects in storage that no row names.
   */
  async function deleteExpired(): Promise<{ done: boolean }> {
    const until = Date.now() + STEP_MS;
    for (const [days, deleteBefore] of RETENTION) {
      for (let deleted = -1; deleted !== 0; ) {
        if (Date.now() >= until) return { done: false };
        Context.current().heartbeat();
        deleted = await deleteBefore(db, new Date(Date.now() - days * DAY_MS));
      }
    }
    await forgetDeadWorkers(db);
    const deleteFiles = (keys: string[]) => storage.delete(keys);
    await giveUpStaleSends(db, new Date(), deleteFiles);
    await giveUpStaleDrafts(db, new Date(), deleteFiles);
    await sweepStorage(deps, Date.now() + SWEEP_STEP_MS).catch((err: unknown) => {
      logger.warn({ err }, 'the sweep of the storage was interrupted: it continues in an hour');
    });
    return { done: true };
  }

  /**
   * Looks for deliveries whose run will not make them: it is unknown to Temporal (whose store was lost), has ended (an
   * operator terminated it), or was never given them. Those that an ended run had been given have failed; the others are
   * released, for the relay to give them to a new run.
   */
  async function repairDeliveries(): Promise<void> {
    const limit = createLimiter(PARALLEL_CHECKS);
    let afterId = lastHeartbeat();
    const repair = (workflowId: string, ids: string[]) => {
      Context.current().heartbeat(afterId);
      return repairRun(workflowId, ids);
    };
    for (;;) {
      Context.current().heartbeat(afterId);
      const page = await overdueDeliveries(db, { lateMs: OVERDUE_MS, afterId, limit: OVERDUE_PAGE });
      const byRun = new Map<string, string[]>();
      for (const { id, workflowId } of page) byRun.set(workflowId, [...(byRun.get(workflowId) ?? []), id]);
      await Promise.all([...byRun].map(([workflowId, ids]) => limit(() => repair(workflowId, ids))));
      afterId = page.at(-1)?.id ?? afterId;
      if (page.length < OVERDUE_PAGE) return;
    }
  }

  /** @param deliveryIds overdue ones that the store says this run has */
  async function repairRun(workflowId: string, deliveryIds: string[]): Promise<void> {
    const run = await getRunState(client, workflowId);
    if (run.is === 'running') return;
    const given = new Set(run.is === 'ended' ? run.deliveryIds : []);
    const failed = deliveryIds.filter((id) => given.has(id));
    const released = deliveryIds.filter((id) => !given.has(id));
    logger.warn({ workflowId, run: run.is, failed, released }, 'deliveries had lost their run');
    if (failed.length > 0) {
      await failDeliveries(db, failed, { workflowId, error: 'its run was ended before the delivery was made' });
    }
    if (released.length > 0) await releaseDeliveries(db, released, workflowId);
  }

  return { deleteExpired, repairDeliveries };
}

/** Where an earlier attempt of the activity was, as its heartbeat said; '' for the first. */
function lastHeartbeat(): string {
  const details: unknown = Context.current().info.heartbeatDetails;
  return typeof details === 'string' ? details : '';
}

/** Deletes objects that no row names, as a process leaves that was killed between writing a file and saving its row. */
async function sweepStorage({ db, storage, logger }: HousekeepingDeps, until: number): Promise<void> {
  const before = new Date(Date.now() - SWEEP_MS);
  for (let due = await nextSweep(db, before); due && Date.now() < until; due = await nextSweep(db, before)) {
    Context.current().heartbeat();
    const { accountId, after } = due;
    const objects = await storage.list(`${accountId}/`, after ?? undefined);
    const old = objects.filter(({ modifiedAt }) => modifiedAt < before).map(({ key }) => key);
    const unused = await unreferencedKeys(db, accountId, old);
    await storage.delete(unused);
    if (unused.length > 0) logger.warn({ accountId, objects: unused.length }, 'objects without a row were deleted');
    await saveSweep(db, accountId, objects.at(-1)?.key ?? null, new Date());
  }
}
