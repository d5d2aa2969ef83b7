import { continueAsNew, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { AccountActivities } from '../activities/account.ts';
import type { HousekeepingActivities } from '../activities/housekeeping.ts';
import { readFailure } from './failure.ts';
import { QUEUES } from './names.ts';
import { classOf, trackState } from './run-state.ts';

/*
 * One run for the whole installation; every worker starts it, and Temporal lets it run once. Every hour it deletes
 * expired rows and repairs what was lost.
 */

const { deleteExpired, repairDeliveries } = proxyActivities<HousekeepingActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '5m',
  heartbeatTimeout: '60s',
  retry: { initialInterval: '10s', maximumInterval: '10m' },
});
const { ensureAccounts } = proxyActivities<AccountActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '10m',
  retry: { initialInterval: '10s', maximumInterval: '10m', maximumAttempts: 5 },
});

const HOUR_MS = 60 * 60 * 1000;

/** Deletes expired rows in bounded steps, finds deliveries and accounts without a run; never ends. */
export async function housekeeping(): Promise<void> {
  const shown = trackState('working');
  while (!workflowInfo().continueAsNewSuggested) {
    shown.enter('working', { lastError: null });
    while (!(await deleteExpired()).done);
    await repairDeliveries();
    try {
      await ensureAccounts();
    } catch (error) {
      shown.enter('working', { lastError: classOf(readFailure(error)) });
      // again in an hour; every worker does it at its start, too
    }
    shown.enter('waiting', { nextAttemptMs: HOUR_MS });
    await sleep(HOUR_MS, { summary: 'next round' });
  }
  await continueAsNew<typeof housekeeping>();
}
