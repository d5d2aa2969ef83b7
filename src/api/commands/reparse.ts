import type { Client } from '@temporalio/client';
import type { MailboxReparse } from '../../contract/account.ts';
import { QUERIES, reparseWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import type { reparse } from '../../workflows/reparse.ts';
import type { RunState } from '../../workflows/run-state.ts';
import { StillRunning, workflowErrorToApiError } from './run-errors.ts';
import { execute, type RunDeps } from './run-workflow.ts';

/** How long a caller waits; a large mailbox takes longer. */
const WAIT_MS = 30_000;
/** How long a worker may take to say how the run stands. */
const STATE_MS = 3_000;

/** Starts parsing the stored mail of an account again, or joins the run that is under way, and waits for it for a while. */
export async function reparseMailbox(
  { waitMs = WAIT_MS, ...deps }: RunDeps & { waitMs?: number },
  accountId: string,
): Promise<MailboxReparse> {
  const workflowId = reparseWorkflowId(accountId);
  const about = { object: 'MailboxReparse' as const, account_id: accountId, workflow_id: workflowId };
  try {
    const counts = await execute<Awaited<ReturnType<typeof reparse>>>(deps, {
      type: WORKFLOWS.reparse,
      workflowId,
      accountId,
      args: [{ accountId }],
      summary: `parse the stored mail of ${accountId} again`,
      repeats: true,
      deadlineMs: waitMs,
      until: ({ handle }) => handle.result(),
    });
    return { ...about, status: 'completed', ...counts };
  } catch (error) {
    if (!(error instanceof StillRunning)) throw workflowErrorToApiError(error, 'the emails are not parsed again');
    return { ...about, status: 'running', ...NONE, ...(await countsSoFar(deps.client, workflowId)) };
  }
}

const NONE = { unchanged: 0, changed: 0, incomplete: 0, unreadable: 0 };

/** Nothing when no worker says it in time: the run goes on nevertheless. */
async function countsSoFar(client: Client, workflowId: string): Promise<Record<string, number>> {
  try {
    const ask = () => client.workflow.getHandle(workflowId).query<RunState>(QUERIES.state);
    return (await client.withDeadline(Date.now() + STATE_MS, ask)).counts;
  } catch {
    return {};
  }
}
