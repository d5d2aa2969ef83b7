import { type Client, WorkflowNotFoundError, type WorkflowStartOptions } from '@temporalio/client';
import type { Logger } from '../runtime/logger.ts';

/*
 * Every state that names a run has an owner: a task that reads the store and calls `ensureRun` for what should have a run.
 * So the end of a run is noticed, no matter who or what ended it.
 */

export interface RunDeps {
  client: Client;
  logger: Logger;
}

/** A run that should be under way: its type, and what to start it with. */
export type WantedRun = [type: string, options: WorkflowStartOptions & { workflowId: string }];

/** Temporal has repeated the same workflow task so often: the workers cannot continue its history. */
const STUCK_ATTEMPTS = 3;

/** Starts a run, unless it is under way. One whose workflow tasks keep failing is replaced by a new one. */
export async function ensureRun({ client, logger }: RunDeps, [type, options]: WantedRun): Promise<void> {
  const found = await stateOf(client, options.workflowId);
  if (found === 'running') return;
  if (found === 'stuck') logger.warn({ workflowId: options.workflowId }, 'replaced a run whose workflow tasks failed');
  await client.workflow.start(type, {
    ...options,
    workflowIdConflictPolicy: found === 'stuck' ? 'TERMINATE_EXISTING' : 'USE_EXISTING',
  });
}

/** Whether a run is under way. */
export async function isUnderWay(client: Client, workflowId: string): Promise<boolean> {
  return (await stateOf(client, workflowId)) !== 'ended';
}

async function stateOf(client: Client, workflowId: string): Promise<'running' | 'stuck' | 'ended'> {
  try {
    const { status, raw } = await client.workflow.getHandle(workflowId).describe();
    if (status.name !== 'RUNNING') return 'ended';
    return (raw.pendingWorkflowTask?.attempt ?? 0) >= STUCK_ATTEMPTS ? 'stuck' : 'running';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return 'ended';
    throw error;
  }
}
