import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow';
import type { MailboxActivities } from '../activities/mailbox.ts';
import { QUEUES } from './names.ts';
import { trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state    what happens                                     next
 * syncing  the store is brought in sync with the mailbox    done; or the run fails
 * done     final
 */

const { syncStore } = proxyActivities<MailboxActivities>({
  taskQueue: QUEUES.mailboxes,
  startToCloseTimeout: '6h',
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '2s', maximumInterval: '1m', maximumAttempts: 3 },
});

/** Brings the store of one account in sync with its mailbox once. */
export async function syncMailbox({ accountId }: { accountId: string }): Promise<void> {
  const shown = trackState('syncing');
  setSearchAttributes(accountId);
  await syncStore({ accountId });
  shown.enter('done');
}
