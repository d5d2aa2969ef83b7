import { ActivityCancellationType, continueAsNew, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { AccountActivities } from '../activities/account.ts';
import type { MailboxActivities } from '../activities/mailbox.ts';
import { waitAfter } from './backoff.ts';
import { type Failed, readFailure } from './failure.ts';
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

const MAX_FAILURES = 5;
const BACKOFF = { firstMs: 2_000, factor: 3, longestMs: 60_000 };
/** Most outages are short, such as the replacement of a worker. */
const OUTAGE_BACKOFF = { firstMs: 500, longestMs: 60_000 };
/** At most: only a missing heartbeat shows that the worker of an import is lost. */
const HEARTBEAT_TIMEOUT_MS = 30_000;

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
    const waitMs = pace * (outages === 0 ? waitAfter(failures, BACKOFF) : waitAfter(outages, OUTAGE_BACKOFF));
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

/** Counts failures and outages in a row: an outage keeps the count of failures, a failure resets the count of outages. */
function countFailure(before: { failures: number; outages: number }, failed: Failed): typeof before {
  return countsAsAttempt(failed)
    ? { failures: before.failures + 1, outages: 0 }
    : { failures: before.failures, outages: before.outages + 1 };
}

/** Whether a failure counts as a failed attempt: an outage of this installation does not, a full storage does. */
function countsAsAttempt(failed: Failed): boolean {
  if (failed.kind === 'timeout') return true;
  return failed.kind === 'failed' && failed.code !== 'unavailable' && failed.code !== 'not_found';
}
