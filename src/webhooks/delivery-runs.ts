import type { Client, WorkflowStartOptions } from '@temporalio/client';
import { defineSearchAttributeKey, type SearchAttributePair, SearchAttributeType } from '@temporalio/common';
import { ApiError } from '../contract/errors.ts';
import { isId } from '../contract/ids.ts';
import type { Db } from '../db/client.ts';
import type { deliverWebhooks } from '../workflows/deliver-webhooks.ts';
import { deliveryRetryWorkflowId, QUEUES, SEARCH_ATTRIBUTES, SIGNALS, WORKFLOWS } from '../workflows/names.ts';
import { type ClaimedRun, getDeliveryRun, markDueNow, markStarted, reclaimDelivery } from './delivery-state.ts';

const webhookEndpoint = defineSearchAttributeKey(SEARCH_ATTRIBUTES.webhookEndpoint, SearchAttributeType.KEYWORD);
const eventType = defineSearchAttributeKey(SEARCH_ATTRIBUTES.eventType, SearchAttributeType.KEYWORD);
const mailAccount = defineSearchAttributeKey(SEARCH_ATTRIBUTES.mailAccount, SearchAttributeType.KEYWORD);

/** Milliseconds that Temporal is given for one start. */
const START_TIMEOUT_MS = 10_000;

/**
 * Starts the run whose id is already in its deliveries' rows. Doing it again does nothing: Temporal knows the id.
 * `eager` hands the first task straight back to this process; only for a client that shares its connection with workers.
 * Whether it was. Rejects when Temporal did not answer; then the run may have been started or not.
 */
export async function startDeliveryRun(client: Client, run: ClaimedRun, eager: boolean): Promise<boolean> {
  try {
    const handle = await client.withDeadline(Date.now() + START_TIMEOUT_MS, () =>
      client.workflow.start<typeof deliverWebhooks>(WORKFLOWS.deliverWebhooks, startOptions(run, eager)),
    );
    return handle.eagerlyStarted ?? false;
  } catch (error) {
    if (!(error instanceof Error && error.name === 'WorkflowExecutionAlreadyStartedError')) throw error;
    return false;
  }
}

function startOptions(
  { workflowId, deliveries }: ClaimedRun,
  eager: boolean,
): WorkflowStartOptions<typeof deliverWebhooks> {
  const [first] = deliveries;
  if (!first) throw new RangeError('a run has deliveries');
  const oneType = deliveries.every((delivery) => delivery.eventType === first.eventType);
  const oneAccount = deliveries.every((delivery) => delivery.accountId === first.accountId);
  const what = oneType ? first.eventType : 'events';
  // a run made by hand begins the schedule afresh; any other one goes on where its deliveries stand
  const attemptsBefore = isRetryRun(workflowId) ? first.attemptsCount : 0;
  const found: SearchAttributePair[] = [
    { key: webhookEndpoint, value: first.endpointId },
    ...(oneType ? [{ key: eventType, value: first.eventType }] : []),
    ...(oneAccount ? [{ key: mailAccount, value: first.accountId }] : []),
  ];
  return {
    workflowId,
    taskQueue: QUEUES.webhooks,
    args: [{ deliveryIds: deliveries.map(({ id }) => id), ...(attemptsBefore > 0 ? { attemptsBefore } : {}) }],
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
    workflowIdConflictPolicy: 'FAIL',
    requestEagerStart: eager,
    typedSearchAttributes: found,
    staticSummary:
      deliveries.length === 1
        ? `${what} to ${first.endpointId}`
        : `${deliveries.length} × ${what} to ${first.endpointId}`,
  };
}

/** Whether the id is that of a run made by hand; see deliveryRetryWorkflowId. */
export function isRetryRun(workflowId: string): boolean {
  return retryNumber(workflowId) > 0;
}

/** The n of `deliver/<whc>/r<n>`; 0 for other runs. */
export function retryNumber(workflowId: string | null): number {
  return Number(/\/r(\d+)$/.exec(workflowId ?? '')?.[1] ?? 0);
}

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
