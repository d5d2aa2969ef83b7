import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { ApiError, type ErrorCode, ERRORS } from '../../contract/errors.ts';
import { QUEUES, SEARCH_KEYS } from '../../workflows/names.ts';

/** A workflow that a caller waits for. */
export interface WorkflowCall {
  type: string;
  workflowId: string;
  accountId: string;
  args: unknown[];
  /** shown in Temporal's UI; no mail text, no address */
  summary: string;
  /** ms that the caller waits */
  deadlineMs: number;
}

/**
 * Starts a workflow, unless one of that id is running or has completed, and waits for its end. One that failed is started
 * again: its steps are safe to repeat.
 */
export async function execute(client: Client, run: WorkflowCall): Promise<void> {
  const handle = await onceOnly(client.withDeadline(Date.now() + run.deadlineMs, () => start(client, run)));
  if (handle) await client.withDeadline(Date.now() + run.deadlineMs, () => handle.result());
}

/** Waits for the end of a workflow that was started before. */
export async function awaitWorkflow(client: Client, workflowId: string, deadlineMs: number): Promise<void> {
  await client.withDeadline(Date.now() + deadlineMs, () => client.workflow.getHandle(workflowId).result());
}

function start(client: Client, run: WorkflowCall) {
  return client.workflow.start(run.type, optionsOf(run));
}

function optionsOf({ workflowId, accountId, args, summary }: WorkflowCall) {
  return {
    taskQueue: QUEUES.commands,
    workflowIdConflictPolicy: 'USE_EXISTING' as const,
    workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' as const,
    workflowId,
    args,
    staticSummary: summary,
    typedSearchAttributes: [{ key: SEARCH_KEYS.mailAccount, value: accountId }],
  };
}

/** Undefined: a workflow of that id has completed already. */
async function onceOnly<T>(running: Promise<T>): Promise<T | undefined> {
  try {
    return await running;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return undefined;
    throw error;
  }
}

/**
 * What a failed workflow means to the caller: the code and the detail that the activity gave (see
 * src/activities/failures.ts). `late` is the detail when the deadline passed, or no worker responded.
 */
export function workflowErrorToApiError(error: unknown, late: string): ApiError {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (LATE.has(at.name) || isDeadline(at)) return new ApiError('provider_error', late, { cause: error });
    if (at.name !== 'ApplicationFailure') continue;
    const { details } = at as Error & { details?: { code?: string; detail?: string }[] };
    const { code, detail } = details?.[0] ?? {};
    if (code === 'lease_lost') return new ApiError('not_found', 'there is no account with that id', { cause: error });
    if (code && Object.hasOwn(ERRORS, code) && detail) return new ApiError(code as ErrorCode, detail, { cause: error });
  }
  return new ApiError('unexpected_error', 'something unexpected happened', { cause: error });
}

/** Whether the workflow itself failed: any other error says nothing about it. */
export function isWorkflowFailure(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (at.name === 'ApplicationFailure' || at.name === 'TimeoutFailure' || at.name === 'WorkflowFailedError')
      return true;
  }
  return false;
}

const LATE = new Set(['TimeoutFailure', 'WorkflowUpdateRPCTimeoutOrCancelledError']);

/** gRPC DEADLINE_EXCEEDED, or CANCELLED, as which some connections report their own deadline. */
export function isDeadline(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === 4 || code === 1;
}
