import type { Client } from '@temporalio/client';
import type { SearchAttributePair } from '@temporalio/common';
import type { Db } from '../../db/driver/client.ts';
import type { Logger } from '../../runtime/logger.ts';
import { QUEUES, replayWorkflowId, SEARCH_KEYS, WORKFLOWS } from '../../workflows/names.ts';
import { isNotFound } from '../dispatch/delivery-runs.ts';
import { cancelReplay, halfCancelledReplays } from './replay-state.ts';

/** Deadline of a call to Temporal, ms: a caller of the API may wait for it. */
const TEMPORAL_TIMEOUT_MS = 2_000;

/** The type and the start options of the workflow of a replay that is stored as running. */
export function replayStart({ id, endpointId }: { id: string; endpointId: string }) {
  const options = {
    workflowId: replayWorkflowId(id),
    taskQueue: QUEUES.webhooks,
    args: [{ replayId: id }],
    typedSearchAttributes: [{ key: SEARCH_KEYS.webhookEndpoint, value: endpointId }] as SearchAttributePair[],
    staticSummary: `replay of deliveries to ${endpointId}`,
  };
  return [WORKFLOWS.replay, options] as [string, typeof options];
}

/** Starts the workflow of a replay; does nothing while it runs. */
export async function startReplayRun(client: Client, replay: { id: string; endpointId: string }) {
  const [type, options] = replayStart(replay);
  await client.withDeadline(Date.now() + TEMPORAL_TIMEOUT_MS, () =>
    client.workflow.start(type, { ...options, workflowIdConflictPolicy: 'USE_EXISTING' }),
  );
}

/** Completes cancellations that were cut short. */
export async function finishCancelledReplays(db: Db): Promise<void> {
  for (const id of await halfCancelledReplays(db)) await cancelReplay(db, id);
}

/** Cancels a replay; its workflow ends now, or when it next reads the replay. */
export async function cancelReplayRun({ client, db, logger }: { client: Client; db: Db; logger: Logger }, id: string) {
  await cancelReplay(db, id);
  try {
    await client.withDeadline(Date.now() + TEMPORAL_TIMEOUT_MS, () =>
      client.workflow.getHandle(replayWorkflowId(id)).cancel(),
    );
  } catch (err) {
    if (!isNotFound(err)) logger.warn({ err, replayId: id }, 'could not cancel the workflow of a cancelled replay');
  }
}
