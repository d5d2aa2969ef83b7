import type { Client, WorkflowClient, WorkflowHandle, WorkflowStartOptions } from '@temporalio/client';
import type { SearchAttributePair } from '@temporalio/common';
import type { DeliverInput } from '../attempt/attempted-deliveries.ts';
import { isStuck, QUEUES, SEARCH_KEYS, searchableBy, WORKFLOWS } from '../../workflows/names.ts';
import type { ClaimedRun } from './delivery-queries.ts';

/** Deadline of one call to Temporal, ms: the run is started again after it. */
const TEMPORAL_TIMEOUT_MS = 10_000;

/**
 * Starts the run whose id is already in the rows of its deliveries. Starting it again does nothing: Temporal knows the id.
 * `eager` asks for the first task in the response; only for a client that shares its connection with workers. Resolves with
 * whether the task came. Rejects when Temporal does not respond; the run may have been started then.
 */
export async function startDeliveryRun(
  client: Client,
  run: ClaimedRun,
  { eager = false, timeoutMs = TEMPORAL_TIMEOUT_MS } = {},
): Promise<boolean> {
  try {
    const handle = await client.withDeadline(Date.now() + timeoutMs, () =>
      client.workflow.start<(input: DeliverInput) => Promise<void>>(
        WORKFLOWS.deliverWebhooks,
        startOptions(run, eager),
      ),
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
): WorkflowStartOptions<(input: DeliverInput) => Promise<void>> {
  const [first] = deliveries;
  if (!first) throw new RangeError('a run has deliveries');
  const isOneType = deliveries.every((delivery) => delivery.eventType === first.eventType);
  const isOneAccount = deliveries.every((delivery) => delivery.accountId === first.accountId);
  // Those of emails first, which all fit. A delivery and its event name their email, and the API names the run of a delivery.
  const ids = [
    ...deliveries.map(({ objectId }) => objectId),
    ...deliveries.map(({ id }) => id),
    ...deliveries.map(({ eventId }) => eventId),
  ];
  const searchAttributes: SearchAttributePair[] = [
    { key: SEARCH_KEYS.webhookEndpoint, value: first.endpointId },
    ...(isOneType ? [{ key: SEARCH_KEYS.eventType, value: first.eventType }] : []),
    ...searchableBy(isOneAccount ? first.accountId : undefined, ids),
  ];
  return {
    workflowId,
    taskQueue: QUEUES.webhooks,
    args: [{ deliveryIds: deliveries.map(({ id }) => id), ...(first.isFailing ? { regular: true } : {}) }],
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
    workflowIdConflictPolicy: 'FAIL',
    requestEagerStart: eager,
    typedSearchAttributes: searchAttributes,
    staticSummary: `${typesOf(deliveries)} to ${first.endpointId}`,
  };
}

/** `email.new`, or `3 × email.new, 2 × email.update` */
function typesOf(deliveries: readonly { eventType: string }[]): string {
  const counts = new Map<string, number>();
  for (const { eventType } of deliveries) counts.set(eventType, (counts.get(eventType) ?? 0) + 1);
  if (deliveries.length === 1) return deliveries[0]?.eventType ?? '';
  return [...counts].map(([type, count]) => `${count} × ${type}`).join(', ');
}

/** The state of a run; with the deliveries that it was given, if it has ended without completing. */
export type RunState =
  | { is: 'running' | 'stuck' | 'completed' | 'unknown' }
  | { is: 'ended'; deliveryIds: readonly string[] };

/** Asks Temporal for the state of a run; `unknown`: the run does not exist; `stuck`: its workflow tasks keep failing. Rejects when Temporal does not respond. */
export async function getRunState(client: WorkflowClient, workflowId: string): Promise<RunState> {
  try {
    const handle = client.getHandle(workflowId);
    const run = await handle.describe();
    if (run.status.name === 'RUNNING') return { is: isStuck(run) ? 'stuck' : 'running' };
    if (run.status.name === 'COMPLETED') return { is: 'completed' };
    const input = await inputOf(client, handle);
    return { is: 'ended', deliveryIds: input?.deliveryIds ?? [] };
  } catch (error) {
    if (isNotFound(error)) return { is: 'unknown' };
    throw error;
  }
}

async function inputOf(client: WorkflowClient, handle: WorkflowHandle): Promise<DeliverInput | undefined> {
  const { events } = await handle.fetchHistory();
  const { payloads } = events?.[0]?.workflowExecutionStartedEventAttributes?.input ?? {};
  const { payloadConverter, payloadCodecs } = client.options.loadedDataConverter;
  let decoded = payloads ?? [];
  for (const codec of payloadCodecs) decoded = await codec.decode(decoded);
  return decoded[0] && payloadConverter.fromPayload<DeliverInput>(decoded[0]);
}

/** Terminates a run, unless it has ended. `runId` left out: the last one with that id. */
export async function terminateRun(
  client: WorkflowClient,
  { workflowId, runId }: { workflowId: string; runId?: string },
  reason: string,
): Promise<void> {
  await client
    .getHandle(workflowId, runId)
    .terminate(reason)
    .catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
}

/** Whether the error says that a run does not exist. */
export function isNotFound(error: unknown): boolean {
  return error instanceof Error && error.name === 'WorkflowNotFoundError';
}
