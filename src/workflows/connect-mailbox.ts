import { CancellationScope, proxyActivities, setCurrentDetails } from '@temporalio/workflow';
import type { AccountActivities } from '../activities/account.ts';
import type { ConnectActivities } from '../activities/connect.ts';
import { QUEUES } from './names.ts';
import { setSearchAttributes } from './search-attributes.ts';

/** Tried again only when the worker or our own store failed: the caller hears of anything else at once. */
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
const { startAccount, forgetIntent } = proxyActivities<AccountActivities & ConnectActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '30s' },
});

/**
 * Connects a mailbox, or connects it again: tries the logins that lie sealed in the intent, saves the account, and has
 * its workflow watch it. Fails with what the caller is to be told.
 */
export async function connectMailbox({ intentId }: { intentId: string }): Promise<{ accountId: string }> {
  try {
    setCurrentDetails('trying the logins');
    const { accountId } = await verifyMailbox({ intentId });
    setSearchAttributes(accountId);
    setCurrentDetails('connected');
    await startAccount({ accountId });
    return { accountId };
  } catch (error) {
    await CancellationScope.nonCancellable(() => forgetIntent({ intentId }));
    throw error;
  }
}
