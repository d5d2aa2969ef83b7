import type { Client, WorkflowStartOptions } from '@temporalio/client';
import { defineSearchAttributeKey, type SearchAttributePair, SearchAttributeType } from '@temporalio/common';
import type { deliverWebhooks } from '../workflows/deliver-webhooks.ts';
import { QUEUES, SEARCH_ATTRIBUTES, WORKFLOWS } from '../workflows/names.ts';
import type { ClaimedRun } from './delivery-state.ts';

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
