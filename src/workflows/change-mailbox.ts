import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow';
import type { ChangeEmailActivities, ChangeFolderActivities, EmailUpdate } from '../activities/change-mailbox.ts';
import { QUEUES } from './names.ts';
import { refuseLateStart } from './late-start.ts';
import { trackState } from './run-state.ts';

/*
 * state     what happens                                          next
 * changing  the provider makes the change, then it is stored      done; or the run fails with the caller's error
 * done      final
 */

export type { EmailUpdate };

/** One change of a mailbox that the API requests. */
export type MailboxChange = { accountId: string } & (
  | { kind: 'read' | 'unread' | 'trash'; emailId: string }
  | { kind: 'move'; emailId: string; folderId: string }
  | ({ kind: 'update'; emailId: string } & EmailUpdate)
  | { kind: 'createFolder'; folderId: string; name: string; parentId: string | null }
  | { kind: 'changeFolder'; folderId: string; name?: string; parentId?: string | null }
  | { kind: 'deleteFolder'; folderId: string }
);

/**
 * The caller waits: these run within the workflow task, which saves three round trips to Temporal. After the loss of a
 * worker another one continues when the task times out, after 10 s. Permanent failures are not retried.
 */
const WAITED_FOR = {
  startToCloseTimeout: '30s',
  retry: { initialInterval: '300ms', maximumInterval: '3s', maximumAttempts: 3 },
} as const;

const emails = proxyLocalActivities<ChangeEmailActivities>(WAITED_FOR);
const { createFolder, changeFolder } = proxyLocalActivities<ChangeFolderActivities>(WAITED_FOR);
/** Moves all of its emails to Trash first, which may take long. */
const { deleteFolder } = proxyActivities<ChangeFolderActivities>({
  ...WAITED_FOR,
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '1h',
  heartbeatTimeout: '6s',
});

/** Makes one change, at the provider first, then in the store with its event. */
export async function changeMailbox(change: MailboxChange, { startBy }: { startBy?: number } = {}): Promise<void> {
  const shown = trackState('changing');
  refuseLateStart(startBy);
  await make(change);
  shown.enter('done');
}

/** Makes a change of kind `update`, under a separate name: workers of versions before it would complete the run without it. */
export async function updateEmail(change: MailboxChange, { startBy }: { startBy?: number } = {}): Promise<void> {
  const shown = trackState('changing');
  refuseLateStart(startBy);
  await make(change);
  shown.enter('done');
}

function make(change: MailboxChange): Promise<void> {
  const summary = { summary: change.kind };
  switch (change.kind) {
    case 'read':
    case 'unread': {
      const { accountId, emailId, kind } = change;
      return emails.markEmail.executeWithOptions(summary, [{ accountId, emailId, seen: kind === 'read' }]);
    }
    case 'move':
      return emails.moveEmail.executeWithOptions(summary, [change]);
    case 'trash':
      return emails.trashEmail.executeWithOptions(summary, [change]);
    case 'update':
      return emails.updateEmail.executeWithOptions(summary, [change]);
    case 'createFolder':
      return createFolder.executeWithOptions(summary, [change]);
    case 'changeFolder':
      return changeFolder.executeWithOptions(summary, [change]);
    case 'deleteFolder':
      return deleteFolder.executeWithOptions(summary, [change]);
  }
}
