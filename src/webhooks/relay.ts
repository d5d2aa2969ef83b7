import type { Client } from '@temporalio/client';
import type { Db } from '../db/client.ts';
import type { Logger } from '../logger.ts';
import { deliveryBatchWorkflowId, deliveryWorkflowId } from '../workflows/names.ts';
import { startDeliveryRun } from './delivery-runs.ts';
import {
  claimDeliveries,
  type ClaimedDelivery,
  type ClaimedRun,
  markStarted,
  unstartedRuns,
} from './delivery-state.ts';
import { type Dispatch, MAX_BATCH, startDispatch } from './dispatch.ts';

/*
 * The way of a delivery through this room:
 *
 * relay.ts             takes deliveries that `recordEvents` left in the outbox and plans their runs
 * dispatch.ts          when: woken by notifications, as far as dispatch-limiter.ts lets each endpoint
 * delivery-runs.ts     starts the run (workflow `deliverWebhooks`), which runs the activity `attemptDeliveries`
 * attempts.ts          one attempt of each delivery of the run, loaded by due-deliveries.ts
 * call-endpoint.ts     the signed call: sign.ts, post.ts, agents.ts
 * retry-schedule.ts    when the next attempt is due
 * record-queue.ts      stores the results, many in one statement
 * delivery-state.ts    the states of a delivery and every transition between them
 */

/** A run that was claimed so long ago, ms, and was not marked as started may have been lost with its worker. */
const UNSTARTED_AFTER_MS = 10_000;

export interface RelayDeps {
  db: Db;
  /** shares its connection with workers of this process */
  client: Client;
  /** Calls `wake` when deliveries have been added; returns how to stop. Reconnects by itself. */
  listen(wake: () => void): { close(): Promise<void> };
  logger: Logger;
}

/**
 * Gives the deliveries of the outbox to runs: wakes on notifications, and polls as well in case one was lost. At rest a
 * delivery is started at once and alone; while an endpoint has runs under way, its deliveries gather and go in batches.
 * What waits for one endpoint delays no other.
 */
export function startRelay({ db, client, listen, logger }: RelayDeps): Dispatch {
  return startDispatch({
    claim: (perEndpoint, except) => claimDeliveries(db, { perEndpoint, except, plan: planRuns }),
    unstarted: () => unstartedRuns(db, UNSTARTED_AFTER_MS),
    start: (run) => startDeliveryRun(client, run, { eager: true }),
    markStarted: (deliveryIds) => markStarted(db, deliveryIds),
    listen,
    logger,
  });
}

/** Deliveries in the order given, split into runs: each run has one endpoint and at most MAX_BATCH deliveries. */
export function planRuns(deliveries: readonly ClaimedDelivery[]): ClaimedRun[] {
  const batches: ClaimedDelivery[][] = [];
  const filling = new Map<string, ClaimedDelivery[]>();
  for (const delivery of deliveries) {
    const batch = filling.get(delivery.endpointId);
    if (batch && batch.length < MAX_BATCH) batch.push(delivery);
    else {
      const begun = [delivery];
      batches.push(begun);
      filling.set(delivery.endpointId, begun);
    }
  }
  return batches.map((batch) => {
    const { id, endpointId } = batch[0] as ClaimedDelivery;
    const workflowId = batch.length === 1 ? deliveryWorkflowId(id) : deliveryBatchWorkflowId(endpointId, id);
    return { workflowId, deliveries: batch };
  });
}
