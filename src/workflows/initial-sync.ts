import { ActivityCancellationType, continueAsNew, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { AccountActivities } from '../activities/account.ts';
import type { MailboxActivities } from '../activities/mailbox.ts';
import { type Failed, readFailure } from './failure.ts';
import { countFailure, HEARTBEAT_TIMEOUT_MS, MAX_FAILURES, waitAfterFailure } from './import-attempts.ts';
import { QUEUES } from './names.ts';
import { classOf, trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state      what happens                         next
 * running    importMailbox, repeatedly            completed  all mail is imported
 *                                                 failed     5 failures in a row without progress
 * completed, failed: final
 *
 * A full storage counts as a failure. An outage of a part of this installation (database, storage, worker) does not: the
 * workflow waits until it is over, with growing waits.
 *
 * setInitialSync commits each of the three with its event. Imported mail stays imported: the account's workflow starts a
 * lost run again, which continues where it stopped.
 */

export interface InitialSyncInput {
  accountId: string;
  heartbeatTimeoutMs?: number;
  pace?: number;
  /** from the previous run: failures in a row */
  failures?: number;
  /** from the previous run: attempts in a row that an outage of this installation ended */
  outages?: number;
}

const { setInitialSync, countImported } = proxyActivities<AccountActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '15s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});

/** Imports the mail of the last days of one account. Fails after too many failures in a row without progress. */
export async function initialSync(input: InitialSyncInput): Promise<void> {
  const { accountId, heartbeatTimeoutMs = HEARTBEAT_TIMEOUT_MS, pace = 1 } = input;
  const shown = trackState('running');
  const { importMailbox } = proxyActivities<MailboxActivities>({
    taskQueue: QUEUES.mailboxes,
    heartbeatTimeout: Math.min(heartbeatTimeoutMs, HEARTBEAT_TIMEOUT_MS),
    startToCloseTimeout: '30m',
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    // One attempt: this workflow counts the failures.
    retry: { maximumAttempts: 1 },
    summary: `import ${accountId}`,
  });
  setSearchAttributes(accountId);
  if (!(await setInitialSync({ accountId, to: 'running' }))) return;
  let { failures = 0, outages = 0 } = input;
  let imported = await countImported({ accountId });

  for (;;) {
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof initialSync>({ ...input, failures, outages });
    const attempt = await attemptImport(() => importMailbox({ accountId }));
    if (attempt.failed === undefined) {
      if (attempt.done) break;
      failures = outages = 0;
      shown.enter('running', { lastError: null, counts: {} });
      continue;
    }
    const { failed, error } = attempt;
    const before = imported;
    imported = await countImported({ accountId });
    if (imported === null) return;
    if (before !== null && imported > before) failures = outages = 0;
    ({ failures, outages } = countFailure({ failures, outages }, failed));
    if (failures >= MAX_FAILURES) {
      await setInitialSync({ accountId, to: 'failed' });
      shown.enter('failed', { lastError: classOf(failed), counts: shownCounts(imported, failures) });
      throw error;
    }
    const waitMs = pace * waitAfterFailure({ failures, outages });
    const counts = shownCounts(imported, failures);
    shown.enter('running', { lastError: classOf(failed), nextAttemptMs: waitMs, counts });
    await sleep(waitMs);
  }
  await setInitialSync({ accountId, to: 'completed' });
  shown.enter('completed');
}

const shownCounts = (imported: number, failures: number) => ({ imported, 'failures in a row': failures });

async function attemptImport(
  work: () => Promise<{ done: boolean }>,
): Promise<{ failed?: undefined; done: boolean } | { failed: Failed; error: unknown }> {
  try {
    return { done: (await work()).done };
  } catch (error) {
    const failed = readFailure(error);
    if (failed.kind === 'cancelled') throw error;
    return { failed, error };
  }
}
