import type { Client } from '@temporalio/client';
import type { MailboxVerification } from '../../contract/account.ts';
import type { Db } from '../../db/driver/client.ts';
import { hasWorker } from '../../db/coordination/workers.ts';
import { QUEUES, searchableBy, verifyWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import type { verifyMailbox as verifyMailboxWorkflow } from '../../workflows/verify-mailbox.ts';
import { StillRunning, watched, workflowErrorToApiError } from './run-workflow.ts';

/** How long a caller waits; a large mailbox takes longer. */
const WAIT_MS = 30_000;
/** How long Temporal may take to start it. */
const START_MS = 3_000;

/** Starts the verification of a mailbox, or joins the one that is under way, and waits for it for a while. */
export async function verifyMailbox(
  { client, db }: { client: Client; db: Db },
  accountId: string,
): Promise<MailboxVerification> {
  const workflowId = verifyWorkflowId(accountId);
  const about = { object: 'MailboxVerification' as const, account_id: accountId, workflow_id: workflowId };
  try {
    const handle = await client.withDeadline(Date.now() + START_MS, () =>
      client.workflow.start<typeof verifyMailboxWorkflow>(WORKFLOWS.verifyMailbox, {
        taskQueue: QUEUES.commands,
        workflowId,
        args: [{ accountId }],
        workflowIdConflictPolicy: 'USE_EXISTING',
        typedSearchAttributes: searchableBy(accountId),
        staticSummary: `compare what is stored of ${accountId} with its mailbox`,
      }),
    );
    const wait = { workflowId, deadlineMs: WAIT_MS, hasWorker: () => hasWorker(db) };
    const result = await watched(client, wait, () => handle.result());
    const { sample, ...counts } = result;
    return {
      ...about,
      status: 'completed',
      ...counts,
      sample: sample.map(({ folderId, kind, uid }) => ({ folder_id: folderId, kind, uid })),
    };
  } catch (error) {
    if (error instanceof StillRunning) {
      return { ...about, status: 'running', folders: 0, messages: 0, differences: 0, left: 0, sample: [] };
    }
    throw workflowErrorToApiError(error, 'the verification did not begin');
  }
}
