import {
  type Client,
  type WorkflowExecutionDescription,
  WorkflowNotFoundError,
  type WorkflowStartOptions,
} from '@temporalio/client';
import type { Logger } from '../runtime/logger.ts';
import { terminateRun } from '../webhooks/dispatch/delivery-runs.ts';
import { isStuck } from '../workflows/names.ts';

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

/**
 * Starts a run, unless it is under way. One whose workflow tasks keep failing is replaced by a new one.
 * @returns the one that was under way and continues
 */
export async function ensureRun(
  { client, logger }: RunDeps,
  [type, options]: WantedRun,
): Promise<WorkflowExecutionDescription | undefined> {
  const found = await openRun(client, options.workflowId);
  if (found && !isStuck(found)) return found;
  if (found) logger.warn({ workflowId: options.workflowId }, 'replaced a run whose workflow tasks failed');
  await client.workflow.start(type, {
    ...options,
    workflowIdConflictPolicy: found ? 'TERMINATE_EXISTING' : 'USE_EXISTING',
  });
  return undefined;
}

/** Calls `end`, unless a run is under way. One whose workflow tasks keep failing is terminated. */
export async function unlessUnderWay(
  { client, logger }: RunDeps,
  workflowId: string,
  end: () => Promise<unknown>,
): Promise<void> {
  const found = await openRun(client, workflowId);
  if (found && !isStuck(found)) return;
  if (found) {
    logger.warn({ workflowId }, 'terminated a run whose workflow tasks failed');
    await terminateRun(client.workflow, found, 'its workflow tasks failed');
  }
  await end();
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
