import type { Client } from '@temporalio/client';
import type { Db } from '../../db/driver/client.ts';
import type { Logger } from '../../runtime/logger.ts';
import { deliveryBatchWorkflowId, deliveryWorkflowId } from '../../workflows/names.ts';
import { startPosition } from './claim-queries.ts';
import { startDeliveryRun } from './delivery-runs.ts';
import { type ClaimedDelivery, type ClaimedRun, unstartedRuns } from './delivery-queries.ts';
import { claimDeliveries, markStarted } from '../log/delivery-state.ts';
import { type Dispatch, MAX_BATCH, startDispatch } from './dispatch.ts';

/*
 * The way of a delivery through this room:
 *
 * relay.ts             takes deliveries that `recordEvents` left in the outbox and plans their runs
 * claim-queries.ts     what it may take: a share for each endpoint and for replays
 * claim-objects.ts     of these the events of each object in their order
 * dispatch.ts          when: woken by notifications, as far as dispatch-limiter.ts lets each endpoint, and
 *                      costly-endpoints.ts those that fail
 * delivery-runs.ts     starts the run (workflow `deliverWebhooks`), which runs the activity `attemptDeliveries`
 * attempts.ts          one attempt of each delivery of the run, loaded by due-deliveries.ts, within call-slots.ts
 * call-endpoint.ts     the signed call: sign.ts, post.ts, agents.ts
 * retry-schedule.ts    when the next attempt is due
 * result-store.ts      stores the results, many in one statement (record-queue.ts)
 * delivery-state.ts    the states of a delivery and every transition between them
 * endpoint-health.ts   the circuit breaker of an endpoint
 * lost-runs.ts         finds deliveries whose run was terminated or lost
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
  const turns = startPosition();
  /** something was taken since the first endpoint had its turn */
  let hasTaken = false;
  return startDispatch({
    claim: async ({ runs: room, ...allowance }) => {
      const position = allowance.only ? startPosition() : turns;
      const from = position.endpointId;
      const plan = (deliveries: readonly ClaimedDelivery[]) =>
        planRuns(deliveries, deliveries.length <= room ? FEW : 0);
      const runs = await claimDeliveries(db, { ...allowance, plan, position });
      // what came meanwhile for endpoints before `from` has had no turn
      if (!allowance.only) hasTaken = runs.length > 0 || position.isMore || (from !== '' && hasTaken);
      const isMore = position.endpointId !== '' || (from !== '' && hasTaken) || position.isMore;
      return { runs, isMore, perEndpoint: position.perEndpoint, hasLeft: position.hasMarked || runs.some(isChain) };
    },
    unstarted: () => unstartedRuns(db, UNSTARTED_AFTER_MS),
    start: (run) => startDeliveryRun(client, run, { eager: true }),
    markStarted: (runs) => markStarted(db, runs),
    listen,
    logger,
  });
}

/** So few deliveries of an endpoint get a run each, when there is little to do: each is then found by its own id. */
const FEW = 4;

/**
 * Deliveries in the order given, split into runs: each run has one endpoint and at most MAX_BATCH deliveries, and has all
 * of one object. What exceeds a batch of one object is in no run.
 */
export function planRuns(deliveries: readonly ClaimedDelivery[], few = FEW): ClaimedRun[] {
  const byEndpoint = groupBy(deliveries, ({ endpointId, isReplay }) => `${endpointId} ${isReplay ? 'replay' : 'live'}`);
  return [...byEndpoint.values()].flatMap((ofEndpoint) => {
    const objects = [...groupBy(ofEndpoint, ({ objectId }) => objectId).values()];
    const batches = ofEndpoint.length <= few ? objects : fill(objects);
    return batches.map(toRun);
  });
}

/** Whether a run has several deliveries of one object: there may be more, that it left. */
function isChain({ deliveries }: ClaimedRun): boolean {
  return new Set(deliveries.map(({ objectId }) => objectId)).size < deliveries.length;
}

/** Objects put together into batches. */
function fill(objects: readonly ClaimedDelivery[][]): ClaimedDelivery[][] {
  const batches: ClaimedDelivery[][] = [];
  for (const object of objects) {
    const group = object.slice(0, MAX_BATCH);
    const batch = batches.at(-1);
    if (!batch || batch.length + group.length > MAX_BATCH) batches.push(group);
    else for (const delivery of group) batch.push(delivery);
  }
  return batches;
}

function toRun(deliveries: ClaimedDelivery[]): ClaimedRun {
  const { id, endpointId, runs } = deliveries[0] as ClaimedDelivery;
  const isAlone = deliveries.length === 1;
  return {
    workflowId: isAlone ? deliveryWorkflowId(id, runs) : deliveryBatchWorkflowId(endpointId, id, runs),
    deliveries,
  };
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}
