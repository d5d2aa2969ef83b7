import { deliveryBatchWorkflowId, deliveryWorkflowId } from '../../workflows/names.ts';
import type { ClaimedDelivery, ClaimedRun } from './delivery-queries.ts';

/** Deliveries of one run at most: the ids of their emails fit the search attributes, and the result of the run is known soon. */
export const MAX_BATCH = 50;

/**
 * Splits deliveries of one line, in the order given, into runs of at most MAX_BATCH; those of one object go into one run. When they
 * are `alone` or fewer, each object gets its own run, which operators find by the id of the delivery.
 */
export function planRuns(deliveries: readonly ClaimedDelivery[], alone: number): ClaimedRun[] {
  const objects = new Map<string, ClaimedDelivery[]>();
  for (const delivery of deliveries) {
    const group = objects.get(delivery.objectId);
    if (group) group.push(delivery);
    else objects.set(delivery.objectId, [delivery]);
  }
  const groups = [...objects.values()];
  return (deliveries.length <= alone ? groups : batchesOf(groups)).map(toRun);
}

function batchesOf(groups: readonly ClaimedDelivery[][]): ClaimedDelivery[][] {
  const batches: ClaimedDelivery[][] = [];
  for (const group of groups) {
    const batch = batches.at(-1);
    if (!batch || batch.length + group.length > MAX_BATCH) batches.push([...group]);
    else for (const delivery of group) batch.push(delivery);
  }
  return batches;
}

function toRun(deliveries: ClaimedDelivery[]): ClaimedRun {
  const { id, endpointId, runs } = deliveries[0] as ClaimedDelivery;
  const workflowId =
    deliveries.length === 1 ? deliveryWorkflowId(id, runs) : deliveryBatchWorkflowId(endpointId, id, runs);
  return { workflowId, deliveries };
}
