import { ActivityCancellationType, continueAsNew, proxyActivities, sleep, workflowInfo } from '@temporalio/workflow';
import type { BatchActivities, BatchProgress } from '../activities/change-emails.ts';
import type { ErrorCode } from '../contract/errors.ts';
import { type Failed, readFailure } from './failure.ts';
import { QUEUES } from './names.ts';
import { classOf, trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state     what happens                                                    next
 * changing  changeEmailsOf, in bounded steps                                done     no email is pending
 *                                                                           waiting  a part of this installation is away
 *                                                                           done     it fails: what is pending fails
 * waiting   a timer                                                         changing
 * done      final: the counts of the emails
 *
 * The store has the emails and their results: a lost run is started again, and changes what is pending.
 */

const { changeEmailsOf } = proxyActivities<BatchActivities>({
  taskQueue: QUEUES.background,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '10s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1s', maximumInterval: '30s', maximumAttempts: 6 },
});
const { failBatch } = proxyActivities<BatchActivities>({
  taskQueue: QUEUES.background,
  startToCloseTimeout: '1m',
  retry: { initialInterval: '1s', maximumInterval: '1m' },
});

/** Not the fault of the batch or of its mail server. */
const OUTAGES: readonly string[] = ['unavailable', 'storage_full', 'lease_lost'];
const OUTAGE_MS = 30_000;

/** Changes the emails of one batch. */
export async function changeEmails(input: { accountId: string; batchId: string }): Promise<BatchProgress> {
  const { accountId, batchId } = input;
  const shown = trackState('changing');
  setSearchAttributes(accountId, undefined, [batchId]);
  const done = (progress: BatchProgress) => {
    shown.enter('done', { counts: { ...progress } });
    return progress;
  };
  while (!workflowInfo().continueAsNewSuggested) {
    try {
      const progress = await changeEmailsOf(input);
      if (progress.pending === 0) return done(progress);
      shown.enter('changing', { counts: { ...progress }, lastError: null });
    } catch (error) {
      const failed = readFailure(error);
      if (failed.kind === 'cancelled') throw error;
      if (failed.kind === 'failed' && !OUTAGES.includes(failed.code)) {
        return done(await failBatch({ batchId, error: { code: codeOf(failed), detail: failed.detail } }));
      }
      shown.enter('waiting', { lastError: classOf(failed), nextAttemptMs: OUTAGE_MS });
      await sleep(OUTAGE_MS, { summary: 'for this installation to be available' });
      shown.enter('changing');
    }
  }
  return continueAsNew<typeof changeEmails>(input);
}

const codeOf = ({ code }: Failed & { kind: 'failed' }) => code as ErrorCode;
