import type { Client } from '@temporalio/client';
import { ApiError } from '../contract/errors.ts';
import { isId } from '../contract/ids.ts';
import type { Db } from '../db/client.ts';
import { deliveryRetryWorkflowId, SIGNALS } from '../workflows/names.ts';
import { isNotFound, retryNumber, startDeliveryRun } from './delivery-runs.ts';
import { getDeliveryState, markDueNow, markStarted, reclaimDelivery } from './delivery-state.ts';

/** Milliseconds that Temporal is given for a call that a caller waits for; there are two at most. */
const WAITED_FOR_MS = 2_000;

/**
 * A manual retry: attempts a delivery again at once, whatever its status, with the same ids and the same bytes. One that
 * waits for its next attempt is signalled not to wait; any other one gets a new run, with the whole schedule before it.
 *
 * Throws ApiError `not_found`; rejects with the client's error when Temporal does not respond. A new run that could not
 * be started then is started by the relay later.
 */
export async function retryDelivery(client: Client, db: Db, deliveryId: string): Promise<void> {
  const seen = isId('delivery', deliveryId) ? await getDeliveryState(db, deliveryId) : undefined;
  if (!seen) throw new ApiError('not_found', 'no delivery with that id');
  if (seen.status === 'pending') {
    // its first attempt is under way, or about to be
    if (seen.workflowId === null || !seen.started) return;
    if (await signalRetryNow(client, seen.workflowId)) return markDueNow(db, deliveryId);
  }
  const workflowId = deliveryRetryWorkflowId(deliveryId, retryNumber(seen.workflowId) + 1);
  const run = await reclaimDelivery(db, deliveryId, seen, workflowId);
  if (!run) return;
  await startDeliveryRun(client, run, { timeoutMs: WAITED_FOR_MS });
  await markStarted(db, [deliveryId]);
}

/** False: no such run is alive. */
async function signalRetryNow(client: Client, workflowId: string): Promise<boolean> {
  try {
    await client.withDeadline(Date.now() + WAITED_FOR_MS, () =>
      client.workflow.getHandle(workflowId).signal(SIGNALS.retryNow),
    );
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
