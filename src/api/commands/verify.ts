import { type Client, WorkflowFailedError } from '@temporalio/client';
import type { MailboxVerification } from '../../contract/account.ts';
import { QUEUES, SEARCH_KEYS, verifyWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import type { verifyMailbox as verifyMailboxWorkflow } from '../../workflows/verify-mailbox.ts';
import { isDeadline, workflowErrorToApiError } from './run-workflow.ts';

/** How long a caller waits; a large mailbox takes longer. */
const WAIT_MS = 30_000;

/** Starts the verification of a mailbox, or joins the one that is under way, and waits for it for a while. */
export async function verifyMailbox(client: Client, accountId: string): Promise<MailboxVerification> {
  const workflowId = verifyWorkflowId(accountId);
  const about = { object: 'MailboxVerification' as const, account_id: accountId, workflow_id: workflowId };
  try {
    const result = await client.withDeadline(Date.now() + WAIT_MS, async () => {
      const handle = await client.workflow.start<typeof verifyMailboxWorkflow>(WORKFLOWS.verifyMailbox, {
        taskQueue: QUEUES.commands,
        workflowId,
        args: [{ accountId }],
        workflowIdConflictPolicy: 'USE_EXISTING',
        typedSearchAttributes: [{ key: SEARCH_KEYS.mailAccount, value: accountId }],
      });
      return handle.result();
    });
    const { sample, ...counts } = result;
    return {
      ...about,
      status: 'completed',
      ...counts,
      sample: sample.map(({ folderId, kind, uid }) => ({ folder_id: folderId, kind, uid })),
    };
  } catch (error) {
    if (isDeadline(error) && !(error instanceof WorkflowFailedError)) {
      return { ...about, status: 'running', folders: 0, messages: 0, differences: 0, left: 0, sample: [] };
    }
    throw workflowErrorToApiError(error, 'the verification did not begin');
  }
}
