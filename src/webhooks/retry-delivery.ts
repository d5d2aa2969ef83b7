import type { Client } from '@temporalio/client';
import { ApiError } from '../contract/errors.ts';
import { isId } from '../contract/ids.ts';
import type { Db } from '../db/client.ts';
import { deliveryRetryWorkflowId, SIGNALS } from '../workflows/names.ts';
import { getDeliveryRun, markDueNow, markStarted, reclaimDelivery } from './delivery-state.ts';
import { retryNumber, startDeliveryRun } from './start-delivery.ts';

const SIGNAL_TIMEOUT_MS = 10_000;

/**
 * A new try of a delivery at once, whatever its status: same ids, same bytes. One that waits for its next try is told not
 * to wait; any other one gets a new run, with the whole schedule before it.
 *
 * Throws ApiError `not_found`; rejects with the client's error when Temporal does not answer. A new run that could not be
 * started then is started by the relay later.
 */
export async function retryDelivery(client: Client, db: Db, deliveryId: string): Promise<void> {
  const seen = isId('delivery', deliveryId) ? await getDeliveryRun(db, deliveryId) : undefined;
  if (!seen) throw new ApiError('not_found', 'no delivery with that id');
  if (seen.status === 'pending') {
    // its first try is under way, or about to be
    if (seen.workflowId === null || !seen.started) return;
    if (await hurry(client, seen.workflowId)) return markDueNow(db, deliveryId);
  }
  const workflowId = deliveryRetryWorkflowId(deliveryId, retryNumber(seen.workflowId) + 1);
  const run = await reclaimDelivery(db, deliveryId, seen, workflowId);
  if (!run) return;
  await startDeliveryRun(client, run, false);
  await markStarted(db, [deliveryId]);
}

/** Whether the run is alive and has heard. */
async function hurry(client: Client, workflowId: string): Promise<boolean> {
  try {
    await client.withDeadline(Date.now() + SIGNAL_TIMEOUT_MS, () =>
      client.workflow.getHandle(workflowId).signal(SIGNALS.retryNow),
    );
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return false;
    throw error;
  }
}
