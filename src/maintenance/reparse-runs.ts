import type { Client } from '@temporalio/client';
import type { Db } from '../db/driver/client.ts';
import { accountsWithDueReparses } from '../mailbox/reparse/reparses.ts';
import { QUEUES, reparseWorkflowId, searchableBy, WORKFLOWS } from '../workflows/names.ts';

/** Started by one check: each keeps a thread busy, and no caller waits for it. */
const AT_ONCE = 5;

/** Starts the workflows that reparse emails whose parsing timed out, where due and not running. */
export async function startDueReparses(client: Client, db: Db): Promise<void> {
  for (const accountId of await accountsWithDueReparses(db, AT_ONCE)) {
    await client.workflow.start(WORKFLOWS.reparse, {
      taskQueue: QUEUES.commands,
      workflowId: reparseWorkflowId(accountId, 'incomplete'),
      args: [{ accountId, only: 'incomplete' }],
      typedSearchAttributes: searchableBy(accountId),
      staticSummary: `parse what was cut short of ${accountId} again`,
      workflowIdConflictPolicy: 'USE_EXISTING',
    });
  }
}
