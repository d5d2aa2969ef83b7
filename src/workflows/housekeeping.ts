import { continueAsNew, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { AccountActivities } from '../activities/account.ts';
import type { HousekeepingActivities } from '../activities/housekeeping.ts';
import { readFailure } from './failure.ts';
import { QUEUES } from './names.ts';
import { classOf, trackState } from './run-state.ts';

/*
 * One run for the whole installation: every worker starts it, and Temporal runs it once. Every hour it deletes expired rows
 * and restarts lost workflows.
 */

const bounded = { taskQueue: QUEUES.commands, startToCloseTimeout: '5m', heartbeatTimeout: '60s' } as const;
const { deleteExpired } = proxyActivities<HousekeepingActivities>({
  ...bounded,
  retry: { initialInterval: '10s', maximumInterval: '10m', maximumAttempts: 5 },
});
const { repairDeliveries } = proxyActivities<HousekeepingActivities>({
  ...bounded,
  retry: { initialInterval: '10s', maximumInterval: '10m' },
});
const { ensureAccounts } = proxyActivities<AccountActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '10m',
  retry: { initialInterval: '10s', maximumInterval: '10m', maximumAttempts: 5 },
});

const HOUR_MS = 60 * 60 * 1000;

/** Deletes expired rows in bounded steps, starts the lost runs of deliveries and accounts; never ends. */
export async function housekeeping(): Promise<void> {
  const shown = trackState('working');
  while (!workflowInfo().continueAsNewSuggested) {
    shown.enter('working', { lastError: null });
    // repeated in an hour; what fails stops nothing else
    const onFailure = (error: unknown) => shown.enter('working', { lastError: classOf(readFailure(error)) });
    await deleteAllExpired().catch(onFailure);
    await repairDeliveries();
    // each worker does it too, when it starts
    await ensureAccounts().catch(onFailure);
    shown.enter('waiting', { nextAttemptMs: HOUR_MS });
    await sleep(HOUR_MS, { summary: 'next round' });
  }
  await continueAsNew<typeof housekeeping>();
}

async function deleteAllExpired(): Promise<void> {
  while (!(await deleteExpired()).done);
}
