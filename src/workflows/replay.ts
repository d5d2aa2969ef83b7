import {
  ActivityCancellationType,
  CancellationScope,
  continueAsNew,
  isCancellation,
  proxyActivities,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { ReplayActivities, ReplayProgress } from '../activities/replay.ts';
import { waitAfter } from './backoff.ts';
import { QUEUES } from './names.ts';
import { type StateTracker, trackState } from './run-state.ts';

/*
 * state      what happens                                                next
 * queueing   deliveries are queued as earlier ones are attempted         waiting    nothing has moved for some seconds
 *                                                                        completed  none is pending
 *                                                                        cancelled  by the API, or this run was cancelled
 * waiting    a timer, longer each time                                   queueing
 *
 * The store holds what is queued, and its results; see src/webhooks/log/replay-state.ts.
 */

const { feedReplay, cancelReplay } = proxyActivities<ReplayActivities>({
  taskQueue: QUEUES.webhooks,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '60s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1s', maximumInterval: '1m' },
});

/** Between two checks while nothing moves. */
const BACKOFF = { firstMs: 2_000, longestMs: 60_000 };

/** Repeats deliveries of one endpoint. A cancellation restores the ones that were not attempted. */
export async function replay({ replayId }: { replayId: string }): Promise<ReplayProgress> {
  const shown = trackState('queueing');
  try {
    let idle = 0;
    while (!workflowInfo().continueAsNewSuggested) {
      const progress = await feedReplay({ replayId });
      if (progress.status !== 'running') return conclude(progress, shown);
      idle = progress.moved ? 0 : idle + 1;
      const waitMs = waitAfter(idle, BACKOFF);
      shown.enter(progress.moved ? 'queueing' : 'waiting', {
        counts: countsOf(progress),
        ...(progress.moved ? {} : { nextAttemptMs: waitMs }),
      });
      if (!progress.moved) await sleep(waitMs, { summary: 'for deliveries to be attempted' });
    }
  } catch (error) {
    if (!isCancellation(error)) throw error;
    conclude(await CancellationScope.nonCancellable(() => cancelReplay({ replayId })), shown);
    throw error;
  }
  return continueAsNew<typeof replay>({ replayId });
}

function conclude(progress: ReplayProgress, shown: StateTracker): ReplayProgress {
  shown.enter(progress.status, { counts: countsOf(progress) });
  return progress;
}

function countsOf({ total, pending, delivered, failed, skipped }: ReplayProgress): Record<string, number> {
  const left = Math.max(0, total - pending - delivered - failed - skipped);
  return { total, delivered, failed, skipped, 'queued or retrying': pending, 'not queued': left };
}
