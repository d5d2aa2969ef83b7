import { CancellationScope, proxyActivities } from '@temporalio/workflow';
import type { AccountActivities } from '../activities/account.ts';
import type { ConnectActivities } from '../activities/connect.ts';
import { readFailure } from './failure.ts';
import { QUEUES } from './names.ts';
import { classOf, trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/** Retried only after a failure of the worker or of our own store: the caller gets any other failure immediately. */
const { verifyMailbox } = proxyActivities<ConnectActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '45s',
  scheduleToCloseTimeout: '60s',
  retry: {
    initialInterval: '500ms',
    maximumInterval: '5s',
    nonRetryableErrorTypes: ['provider_error', 'unexpected_error'],
  },
});
const { startAccount, deleteIntent } = proxyActivities<AccountActivities & ConnectActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '30s' },
});

/**
 * Connects or reconnects a mailbox: verifies the logins that are sealed in the intent, saves the account, and starts the
 * workflow that watches it. Fails with the caller's error.
 */
export async function connectMailbox({ intentId }: { intentId: string }): Promise<{ accountId: string }> {
  const shown = trackState('verifying the logins');
  try {
    const { accountId, isStarted } = await verifyMailbox({ intentId });
    setSearchAttributes(accountId);
    shown.enter('connected');
    if (!isStarted) await startAccount({ accountId });
    return { accountId };
  } catch (error) {
    shown.enter('failed', { lastError: classOf(readFailure(error)) });
    await CancellationScope.nonCancellable(() => deleteIntent({ intentId }));
    throw error;
  }
}
