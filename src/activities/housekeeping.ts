import { Context } from '@temporalio/activity';
import type { WorkflowClient } from '@temporalio/client';
import type { Db } from '../db/client.ts';
import { deleteDeliveriesBefore, deleteEventsBefore, deleteIdempotencyKeysBefore } from '../db/retention.ts';
import type { Logger } from '../logger.ts';
import { giveUpStale } from '../sending/stale.ts';
import type { Storage } from '../storage/storage.ts';
import { failDelivery, overdueDeliveries, releaseDelivery } from '../webhooks/delivery-state.ts';

export interface HousekeepingDeps {
  db: Db;
  storage: Storage;
  client: WorkflowClient;
  logger: Logger;
}

export type HousekeepingActivities = ReturnType<typeof createHousekeepingActivities>;

const DAY_MS = 24 * 60 * 60 * 1000;
/** The log and the events are kept 30 days, answers of idempotent calls 24 h (CONTRACT). */
const KEPT: readonly [days: number, deleteBefore: (db: Db, before: Date) => Promise<number>][] = [
  [30, deleteDeliveriesBefore],
  [30, deleteEventsBefore],
  [1, deleteIdempotencyKeysBefore],
];
/** One run of `deleteExpired` works for about so long. */
const STEP_MS = 60_000;
/** A try of a delivery that is so much overdue is looked into: its run may have been lost. */
const OVERDUE_MS = 15 * 60_000;
const OVERDUE_LIMIT = 500;

/** Activities of the `housekeeping` workflow. */
export function createHousekeepingActivities({ db, storage, client, logger }: HousekeepingDeps) {
  /**
   * Deletes what is kept for a time only, a bounded number of rows at a time; `done: false` when there is more. Gives up
   * sends and drafts that lost their run.
   */
  async function deleteExpired(): Promise<{ done: boolean }> {
    const until = Date.now() + STEP_MS;
    for (const [days, deleteBefore] of KEPT) {
      for (let deleted = -1; deleted !== 0; ) {
        if (Date.now() >= until) return { done: false };
        Context.current().heartbeat();
        deleted = await deleteBefore(db, new Date(Date.now() - days * DAY_MS));
      }
    }
    const stale = await giveUpStale(db, new Date());
    await storage.delete(stale.keys);
    await stale.forget();
    return { done: true };
  }

  /**
   * Looks for deliveries that wait for a run which has ended or is unknown to Temporal (ended by an operator, or
   * Temporal's own store was lost): the first have failed, the others are given to a new run.
   */
  async function repairDeliveries(): Promise<void> {
    for (const { id, workflowId } of await overdueDeliveries(db, OVERDUE_MS, OVERDUE_LIMIT)) {
      Context.current().heartbeat();
      const run = await stateOf(client, workflowId);
      if (run === 'running') continue;
      logger.warn({ deliveryId: id, workflowId, run }, 'a delivery had lost its run');
      if (run === 'unknown') await releaseDelivery(db, id, workflowId);
      else await failDelivery(db, id, workflowId, 'its run was ended before the delivery was made');
    }
  }

  return { deleteExpired, repairDeliveries };
}

async function stateOf(client: WorkflowClient, workflowId: string): Promise<'running' | 'ended' | 'unknown'> {
  try {
    const { status } = await client.getHandle(workflowId).describe();
    return status.name === 'RUNNING' ? 'running' : 'ended';
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return 'unknown';
    throw error;
  }
}
