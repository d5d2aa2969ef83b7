import type { Client } from '@temporalio/client';

/** No worker has ever taken the workflow. */
export const notTaken = 'not taken';

/** PENDING_WORKFLOW_TASK_STATE_SCHEDULED and PENDING_ACTIVITY_STATE_SCHEDULED of Temporal's API. */
const SCHEDULED: number = 1;
/** A history has two events until a worker takes the first task. */
const EVENTS_BEFORE_TASK = 2;

/** What of a workflow waits for a worker: a name of the task, or `notTaken`. Undefined: nothing, or it has ended. */
export async function waitingFor(client: Client, workflowId: string): Promise<string | undefined> {
  const { status, historyLength, raw } = await client.workflow.getHandle(workflowId).describe();
  if (status.name !== 'RUNNING') return undefined;
  const { pendingWorkflowTask: task, pendingActivities: activities } = raw;
  if (task && Number(task.state) === SCHEDULED) {
    if (historyLength <= EVENTS_BEFORE_TASK && Number(task.attempt ?? 1) <= 1) return notTaken;
    return `workflow task ${historyLength} ${Number(task.attempt ?? 1)}`;
  }
  // one that waits for its next attempt is scheduled too
  const untaken = (activities ?? []).find(
    ({ state, attempt, lastFailure }) => Number(state) === SCHEDULED && Number(attempt ?? 1) <= 1 && !lastFailure,
  );
  return untaken && `activity ${untaken.activityId}`;
}

/** Ends a workflow that no worker has taken, so that none does it later. */
export async function stopUntaken(client: Client, workflowId: string): Promise<void> {
  await client.workflow
    .getHandle(workflowId)
    .terminate('no worker took it in time, and the caller has been answered so');
}

/** Whether a worker had taken a workflow before it was ended: its history says so. */
export async function wasTaken(client: Client, workflowId: string): Promise<boolean> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  return (events ?? []).some(({ workflowTaskStartedEventAttributes: taken }) => taken);
}
