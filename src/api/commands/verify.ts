import type { MailboxVerification } from '../../contract/account.ts';
import { verifyWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import type { verifyMailbox as verifyMailboxWorkflow } from '../../workflows/verify-mailbox.ts';
import { StillRunning, workflowErrorToApiError } from './run-errors.ts';
import { execute, type RunDeps } from './run-workflow.ts';

/** How long a caller waits; a large mailbox takes longer. */
const WAIT_MS = 30_000;

/** Starts the verification of a mailbox, or joins the present one, and waits for it for a limited time. */
export async function verifyMailbox(deps: RunDeps, accountId: string): Promise<MailboxVerification> {
  const workflowId = verifyWorkflowId(accountId);
  const about = { object: 'MailboxVerification' as const, account_id: accountId, workflow_id: workflowId };
  try {
    const { sample, ...counts } = await execute<Awaited<ReturnType<typeof verifyMailboxWorkflow>>>(deps, {
      type: WORKFLOWS.verifyMailbox,
      workflowId,
      accountId,
      args: [{ accountId }],
      summary: `compare what is stored of ${accountId} with its mailbox`,
      repeats: true,
      deadlineMs: WAIT_MS,
      until: ({ handle }) => handle.result(),
    });
    return {
      ...about,
      status: 'completed',
      // one that an older version made has none
      ...{ kinds: {}, resolved: {} },
      ...counts,
      sample: sample.map(({ folderId, kind, uid }) => ({ folder_id: folderId, kind, uid })),
    };
  } catch (error) {
    if (error instanceof StillRunning) {
      const none = { differences: 0, left: 0, kinds: {}, resolved: {}, sample: [] };
      return { ...about, status: 'running', folders: 0, messages: 0, ...none };
    }
    throw workflowErrorToApiError(error, 'the verification did not begin');
  }
}
