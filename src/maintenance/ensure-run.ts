import {
  type Client,
  type WorkflowExecutionDescription,
  WorkflowNotFoundError,
  type WorkflowStartOptions,
} from '@temporalio/client';
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

/**
 * Starts a run, unless it is under way. One whose workflow tasks keep failing is replaced by a new one.
 * @returns the one that was under way and continues
 */
export async function ensureRun(
  { client, logger }: RunDeps,
  [type, options]: WantedRun,
): Promise<WorkflowExecutionDescription | undefined> {
  const found = await openRun(client, options.workflowId);
  const isStuck = found !== undefined && (found.raw.pendingWorkflowTask?.attempt ?? 0) >= STUCK_ATTEMPTS;
  if (found && !isStuck) return found;
  if (isStuck) logger.warn({ workflowId: options.workflowId }, 'replaced a run whose workflow tasks failed');
  await client.workflow.start(type, {
    ...options,
    workflowIdConflictPolicy: isStuck ? 'TERMINATE_EXISTING' : 'USE_EXISTING',
  });
  return undefined;
}

/** Whether a run is under way. */
export async function isUnderWay(client: Client, workflowId: string): Promise<boolean> {
  return (await openRun(client, workflowId)) !== undefined;
}

async function openRun(client: Client, workflowId: string): Promise<WorkflowExecutionDescription | undefined> {
  try {
    const run = await client.workflow.getHandle(workflowId).describe();
    return run.status.name === 'RUNNING' ? run : undefined;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}
