import type { Client } from '@temporalio/client';
import { batchStart } from '../../workflows/names.ts';

/** Deadline of the call to Temporal, ms: a caller of the API waits for it. */
const TEMPORAL_TIMEOUT_MS = 2_000;

/** Starts the workflow of a batch; does nothing while it runs. */
export async function startBatchRun(client: Client, batch: { id: string; accountId: string }): Promise<void> {
  const [type, options] = batchStart(batch);
  await client.withDeadline(Date.now() + TEMPORAL_TIMEOUT_MS, () =>
    client.workflow.start(type, { ...options, workflowIdConflictPolicy: 'USE_EXISTING' }),
  );
}
