import { ActivityCancellationType, defineSignal, proxyActivities, setHandler } from '@temporalio/workflow';
import type { MailboxActivities } from '../activities/mailbox.ts';
import { QUEUES, SIGNALS } from './names.ts';
import { trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state    what happens                                     next
 * syncing  the store is brought in sync with the mailbox    syncing  `syncWanted`: a call came while it was
 *                                                           done     no call did; or the run fails
 * done     final
 */

const { syncStore } = proxyActivities<MailboxActivities>({
  taskQueue: QUEUES.mailboxes,
  startToCloseTimeout: '6h',
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '2s', maximumInterval: '1m', maximumAttempts: 3 },
});

export const syncWanted = defineSignal(SIGNALS.syncWanted);

/** Brings the store of one account in sync with its mailbox as it is after the last call. */
export async function syncMailbox({ accountId }: { accountId: string }): Promise<void> {
  const shown = trackState('syncing');
  setSearchAttributes(accountId);
  // each call signals, the one that starts the run, too
  let isWanted = true;
  setHandler(syncWanted, () => {
    isWanted = true;
  });
  while (isWanted) {
    isWanted = false;
    await syncStore({ accountId });
  }
  shown.enter('done');
}
