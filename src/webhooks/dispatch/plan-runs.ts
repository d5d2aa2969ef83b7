import { deliveryBatchWorkflowId, deliveryWorkflowId } from '../../workflows/names.ts';
import type { ClaimedDelivery, ClaimedRun } from './delivery-queries.ts';

/** One run takes at most this many deliveries: its ids still fit the search attributes, and its result is soon known. */
export const MAX_BATCH = 50;

/**
 * Deliveries of one line, in the order given, split into runs of at most MAX_BATCH; all of one object go in one run. As few as
 * `alone` get a run for each object: each is then found by its own id.
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
