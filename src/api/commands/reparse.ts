import type { Client, WorkflowHandle } from '@temporalio/client';
import type { MailboxReparse } from '../../contract/account.ts';
import type { Db } from '../../db/driver/client.ts';
import { hasWorker } from '../../db/coordination/workers.ts';
import { QUERIES, QUEUES, reparseWorkflowId, searchableBy, WORKFLOWS } from '../../workflows/names.ts';
import type { reparse } from '../../workflows/reparse.ts';
import type { RunState } from '../../workflows/run-state.ts';
import { StillRunning, watched, workflowErrorToApiError } from './run-workflow.ts';

/** How long a caller waits; a large mailbox takes longer. */
const WAIT_MS = 30_000;
/** How long Temporal may take to start it, and a worker to say how it stands. */
const START_MS = 3_000;

/** Starts parsing the stored mail of an account again, or joins the run that is under way, and waits for it for a while. */
export async function reparseMailbox(
  { client, db, waitMs = WAIT_MS }: { client: Client; db: Db; waitMs?: number },
  accountId: string,
): Promise<MailboxReparse> {
  const workflowId = reparseWorkflowId(accountId);
  const about = { object: 'MailboxReparse' as const, account_id: accountId, workflow_id: workflowId };
  try {
    const handle = await client.withDeadline(Date.now() + START_MS, () =>
      client.workflow.start<typeof reparse>(WORKFLOWS.reparse, {
        taskQueue: QUEUES.commands,
        workflowId,
        args: [{ accountId }],
        workflowIdConflictPolicy: 'USE_EXISTING',
        typedSearchAttributes: searchableBy(accountId),
        staticSummary: `parse the stored mail of ${accountId} again`,
      }),
    );
    const wait = { workflowId, deadlineMs: waitMs, hasWorker: () => hasWorker(db) };
    try {
      return { ...about, status: 'completed', ...(await watched(client, wait, () => handle.result())) };
    } catch (error) {
      if (!(error instanceof StillRunning)) throw error;
      return { ...about, status: 'running', ...NONE, ...(await countsSoFar(client, handle)) };
    }
  } catch (error) {
    throw workflowErrorToApiError(error, 'the emails are not parsed again');
  }
}

const NONE = { unchanged: 0, changed: 0, incomplete: 0, unreadable: 0 };

/** Nothing when no worker says it in time: the run goes on nevertheless. */
async function countsSoFar(client: Client, handle: WorkflowHandle): Promise<Record<string, number>> {
  try {
    const ask = () => handle.query<RunState>(QUERIES.state);
    return (await client.withDeadline(Date.now() + START_MS, ask)).counts;
  } catch {
    return {};
  }
}
