import type { Client } from '@temporalio/client';
import type { MailboxReparse } from '../../contract/account.ts';
import { QUERIES, reparseWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import type { reparse } from '../../workflows/reparse.ts';
import type { RunState } from '../../workflows/run-state.ts';
import { StillRunning, workflowErrorToApiError } from './run-errors.ts';
import { execute, type RunDeps } from './run-workflow.ts';

/** How long a caller waits; a large mailbox takes longer. */
const WAIT_MS = 30_000;
/** How long a worker may take to report the state of the run. */
const STATE_MS = 3_000;

/** Starts reparsing the stored mail of an account, or joins the present run, and waits for it for a limited time. */
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
      summary: `reparse the stored mail of ${accountId}`,
      repeats: true,
      deadlineMs: waitMs,
      until: ({ handle }) => handle.result(),
    });
    return { ...about, status: 'completed', ...counts };
  } catch (error) {
    if (!(error instanceof StillRunning)) throw workflowErrorToApiError(error, 'the emails are not reparsed');
    return { ...about, status: 'running', ...NONE, ...(await countsSoFar(deps.client, workflowId)) };
  }
}

const NONE = { unchanged: 0, changed: 0, incomplete: 0, unreadable: 0 };

/** The counts of a run; empty when no worker responds in time, while the run continues. */
async function countsSoFar(client: Client, workflowId: string): Promise<Record<string, number>> {
  try {
    const ask = () => client.workflow.getHandle(workflowId).query<RunState>(QUERIES.state);
    return (await client.withDeadline(Date.now() + STATE_MS, ask)).counts;
  } catch {
    return {};
  }
}
