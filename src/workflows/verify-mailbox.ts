import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow';
import type { MailboxActivities, Verification } from '../activities/mailbox.ts';
import { QUEUES } from './names.ts';
import { trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state      what happens                                                    next
 * verifying  the store is compared with the whole mailbox, and repaired      done; or the run fails
 * done       final: the result says what differed
 */

const { verifyStore } = proxyActivities<MailboxActivities>({
  taskQueue: QUEUES.mailboxes,
  startToCloseTimeout: '6h',
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '10s', maximumInterval: '10m', maximumAttempts: 3 },
});

/** Compares the store with the mailbox of one account and repairs differences. */
export async function verifyMailbox({ accountId }: { accountId: string }): Promise<Verification> {
  const shown = trackState('verifying');
  setSearchAttributes(accountId);
  const result = await verifyStore({ accountId });
  const { folders, messages, differences, left } = result;
  shown.enter('done', { counts: { folders, messages, differences, left } });
  return result;
}
