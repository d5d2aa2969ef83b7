import type { Client } from '@temporalio/client';
import type { Db } from '../db/driver/client.ts';
import { type HeldSend, heldSends } from '../outgoing/send-state.ts';
import { finishSendWorkflowId, QUEUES, searchableBy, sendWorkflowId, WORKFLOWS } from '../workflows/names.ts';

/*
 * A send whose run was terminated, or lost with Temporal's store, gets another one. That of one that was being submitted sends
 * nothing: it finds out whether the message has left. A run that is under way stays the only one.
 */

/** An attempt renews its send every 10 s; the copy of one that was sent is filed by its first run, as a rule. */
const LOST_AFTER_MS = { submitting: 30_000, sent: 10 * 60_000 };
const PAGE = 100;

/** Sees to sends that are `submitting`, or `sent` without a copy in the store, and have no run. */
export async function resumeLostSends(client: Client, db: Db, state: keyof typeof LOST_AFTER_MS): Promise<void> {
  const before = new Date(Date.now() - LOST_AFTER_MS[state]);
  for (let afterId = ''; ; ) {
    const page = await heldSends(db, state, { before, afterId, limit: PAGE });
    for (const send of page) await startAgain(client, state, send);
    if (page.length < PAGE) return;
    afterId = page.at(-1)?.id ?? afterId;
  }
}

async function startAgain(
  client: Client,
  state: keyof typeof LOST_AFTER_MS,
  { id, accountId, draftId }: HeldSend,
): Promise<void> {
  const isSent = state === 'sent';
  await client.workflow.start(isSent ? WORKFLOWS.finishSend : WORKFLOWS.sendEmail, {
    taskQueue: QUEUES.sends,
    workflowId: isSent ? finishSendWorkflowId(id) : sendWorkflowId(id),
    args: [{ accountId, sendId: id }],
    typedSearchAttributes: searchableBy(accountId, [id, draftId]),
    staticSummary: isSent ? `file the copy of ${id}, whose run was lost` : `find out whether ${id} was sent`,
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
}
