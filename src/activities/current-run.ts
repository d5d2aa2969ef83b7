import { Context } from '@temporalio/activity';

/** The run that the current activity is a part of: ours are started by workflows only. */
export function currentRun(): { workflowId: string; runId: string } {
  const { workflowExecution } = Context.current().info;
  if (workflowExecution === undefined) throw new Error('an activity without a workflow');
  return workflowExecution;
}
