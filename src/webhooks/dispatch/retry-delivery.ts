import type { Client } from '@temporalio/client';
import { ApiError } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import type { Db } from '../../db/driver/client.ts';
import type { Logger } from '../../runtime/logger.ts';
import { SIGNALS } from '../../workflows/names.ts';
import { getDeliveryState } from './delivery-queries.ts';
import { isNotFound } from './delivery-runs.ts';
import {
  type Hurried,
  makeDue,
  makeRunsDue,
  markDueNow,
  markEarlierDueNow,
  requeueDelivery,
  takeBackHurry,
} from '../log/delivery-state.ts';
import type { Recovery } from '../log/recovery.ts';

/** Deadline of a call to Temporal that a caller of the API waits for, ms. */
const WAITED_FOR_MS = 2_000;

/**
 * A manual retry: attempts a delivery again, with the same ids and bytes, as soon as no earlier event of its object is pending.
 * Its status and the breaker of its endpoint do not matter. A run that waits for its next attempt is signalled not to wait;
 * any other delivery goes to the relay, with a new schedule if it had ended. Earlier deliveries of its object that wait for their next
 * attempt are due now too, and go first.
 *
 * Throws ApiError `not_found`, also when its endpoint was deleted or its event erased, and `invalid_parameters` when its endpoint is
 * disabled, since it would be skipped; rejects with the client's error when Temporal does not respond about a run that waits.
 */
export async function retryDelivery(client: Client, db: Db, deliveryId: string): Promise<void> {
  const seen = isId('delivery', deliveryId) ? await getDeliveryState(db, deliveryId) : undefined;
  if (!seen) throw new ApiError('not_found', 'no delivery with that id');
  if (seen.isEnabled === null) throw new ApiError('not_found', 'the endpoint of this delivery was deleted');
  if (!seen.isEnabled) throw new ApiError('invalid_parameters', 'the endpoint is disabled: enable it first');
  if (seen.isErased) throw new ApiError('not_found', 'the content of this event was erased with its mailbox or folder');
  const run = seen.status === 'pending' ? seen.workflowId : null;
  // its attempt is under way, or about to begin
  if (run !== null && !seen.started) return;
  const own = run === null ? [] : await markDueNow(db, deliveryId, run);
  if (own.length === 0) await requeueDelivery(db, deliveryId);
  const hurried = [...(await markEarlierDueNow(db, deliveryId)), ...own];
  for (const [n, each] of hurried.entries()) {
    const isWaiting = await orTakeBack(db, hurried.slice(n), () => hurryRun(client, each.workflowId));
    if (!isWaiting) await requeueDelivery(db, each.deliveryId, each.workflowId);
  }
}

/**
 * Makes deliveries that wait for their next attempt at an endpoint due now: its settings were corrected, or it has recovered; then
 * some of them, see `mayHurry`. Never rejects: where this fails deliveries keep their schedule.
 */
export async function attemptWaiting(
  { db, logger, hurry }: { db: Db; logger: Logger; hurry?: ((workflowId: string) => Promise<unknown>) | undefined },
  endpointId: string,
  recovery?: Recovery,
): Promise<void> {
  try {
    await makeDue(db, endpointId, recovery);
    if (!hurry) return;
    const hurried = await makeRunsDue(db, endpointId, recovery);
    const signals = await Promise.allSettled(
      hurried.map((each) => orTakeBack(db, [each], () => hurry(each.workflowId))),
    );
    for (const signal of signals) if (signal.status === 'rejected') throw signal.reason;
  } catch (err) {
    logger.warn({ err, endpointId }, 'could not hurry the deliveries of a recovered endpoint');
  }
}

/**
 * Signals a run. If this fails its deliveries are not due: the run waits on, and what is due in a run counts as under way. They are
 * due before the signal, so that no other delivery of their object is attempted beside them.
 */
async function orTakeBack<T>(db: Db, hurried: readonly Hurried[], signal: () => Promise<T>): Promise<T> {
  try {
    return await signal();
  } catch (error) {
    await takeBackHurry(db, hurried);
    throw error;
  }
}

/** Makes a run that waits for its next attempt attempt now. Resolves with false when the run does not exist or has ended. */
export async function hurryRun(client: Client, workflowId: string): Promise<boolean> {
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
