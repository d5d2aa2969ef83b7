import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { MailboxSync } from '../../contract/account.ts';
import { accountWorkflowId, SIGNALS, syncWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import { StillRunning, workflowErrorToApiError } from './run-errors.ts';
import { execute, type RunDeps } from './run-workflow.ts';

/** How long a caller waits; a large mailbox takes longer. */
const WAIT_MS = 30_000;
const SIGNAL_MS = 5_000;
const STORED = 'the change is stored: repeat the call, so that it applies';

/** Starts a sync of a mailbox, or has the present one repeated, and waits for it for a limited time. */
export async function syncMailbox(deps: RunDeps, accountId: string): Promise<MailboxSync> {
  const workflowId = syncWorkflowId(accountId);
  const about = { object: 'MailboxSync' as const, account_id: accountId, workflow_id: workflowId };
  try {
    await execute(deps, {
      type: WORKFLOWS.syncMailbox,
      workflowId,
      accountId,
      args: [{ accountId }],
      summary: `bring ${accountId} in sync with its mailbox`,
      repeats: true,
      signal: SIGNALS.syncWanted,
      deadlineMs: WAIT_MS,
      until: ({ handle }) => handle.result(),
    });
    return { ...about, status: 'completed' };
  } catch (error) {
    if (error instanceof StillRunning) return { ...about, status: 'running' };
    throw workflowErrorToApiError(error, 'the sync did not begin');
  }
}

/** Has the workflow of an account load it again. One that does not run does so once a worker has started it. */
export async function reloadAccount(client: Client, accountId: string): Promise<void> {
  try {
    await client.withDeadline(Date.now() + SIGNAL_MS, () =>
      client.workflow.getHandle(accountWorkflowId(accountId)).signal(SIGNALS.reconnected),
    );
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return;
    throw workflowErrorToApiError(error, STORED, { notDone: STORED, mayBeDone: STORED });
  }
}
