import type { Client } from '@temporalio/client';
import { newId } from '../../../src/new-id.ts';
import { waitFor } from './wait.ts';

/** The ways in which an operator can end a run. */
export const ENDS = ['terminate', 'cancel', 'delete', 'reset'] as const;
export type End = (typeof ENDS)[number];

/** Ends the last run of a workflow; a reset, to its first task, starts another one. */
export async function endRun(client: Client, workflowId: string, how: End): Promise<void> {
  const handle = client.workflow.getHandle(workflowId);
  const { runId } = await handle.describe();
  const of = { namespace: client.options.namespace, workflowExecution: { workflowId, runId } };
  const service = client.workflowService;
  if (how === 'terminate') await handle.terminate('by an operator');
  if (how === 'cancel') await handle.cancel();
  if (how === 'delete') await service.deleteWorkflowExecution(of);
  if (how !== 'reset') return;
  const task = await waitFor(async () =>
    (await handle.fetchHistory()).events?.find(({ workflowTaskCompletedEventAttributes: done }) => done),
  );
  const workflowTaskFinishEventId = task.eventId as NonNullable<typeof task.eventId>;
  await service.resetWorkflowExecution({ ...of, workflowTaskFinishEventId, requestId: newId('event'), reason: 'test' });
}
