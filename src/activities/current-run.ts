import { Context } from '@temporalio/activity';

/** The run that scheduled the current activity. */
export function currentRun(): { workflowId: string; runId: string } {
  const { workflowExecution } = Context.current().info;
  if (workflowExecution === undefined) throw new Error('an activity without a workflow');
  return workflowExecution;
}
