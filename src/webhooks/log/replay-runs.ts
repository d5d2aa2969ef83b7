import type { Client } from '@temporalio/client';
import type { Db } from '../../db/driver/client.ts';
import type { Logger } from '../../runtime/logger.ts';
import type { replay } from '../../workflows/replay.ts';
import { QUEUES, replayWorkflowId, SEARCH_KEYS, WORKFLOWS } from '../../workflows/names.ts';
import { isNotFound } from '../dispatch/delivery-runs.ts';
import { cancelReplay, halfCancelledReplays, runningReplays } from './replay-state.ts';

/** Deadline of a call to Temporal, ms: a caller of the API may wait for it. */
const TEMPORAL_TIMEOUT_MS = 2_000;

/** Starts the workflow of a replay that is stored as running; does nothing while it runs. */
export async function startReplayRun(client: Client, { id, endpointId }: { id: string; endpointId: string }) {
  await client.withDeadline(Date.now() + TEMPORAL_TIMEOUT_MS, () =>
    client.workflow.start<typeof replay>(WORKFLOWS.replay, {
      workflowId: replayWorkflowId(id),
      taskQueue: QUEUES.webhooks,
      args: [{ replayId: id }],
      workflowIdConflictPolicy: 'USE_EXISTING',
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      typedSearchAttributes: [{ key: SEARCH_KEYS.webhookEndpoint, value: endpointId }],
      staticSummary: `replay of deliveries to ${endpointId}`,
    }),
  );
}

/**
 * Starts the workflows of running replays that have none: Temporal was unavailable, or an operator terminated one. Completes
 * cancellations that were cut short.
 */
export async function resumeReplays(client: Client, db: Db): Promise<void> {
  for (const id of await halfCancelledReplays(db)) await cancelReplay(db, id);
  for (const replay of await runningReplays(db)) await startReplayRun(client, replay);
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
