import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import {
  type AttemptedDeliveries,
  type AttemptInput,
  type AttemptLimits,
  AttemptRound,
  type DeliverDeps,
} from '../webhooks/attempts.ts';
import { type AttemptResult, recordAttemptResults } from '../webhooks/delivery-state.ts';
import { createRecordQueue } from '../webhooks/record-queue.ts';
import { isUnavailable } from '../outage.ts';

export type { AttemptedDeliveries, AttemptInput, DeliverDeps, NextAttempt } from '../webhooks/attempts.ts';

export type DeliverActivities = ReturnType<typeof createDeliverActivities>;

/** What a call that is under way is given when the worker has to shut down, ms. */
const LAST_CALLS_MS = 2_000;
const HEARTBEAT_MS = 5_000;

/** Activities of the `deliverWebhooks` workflow. */
export function createDeliverActivities(deps: DeliverDeps) {
  const { db, logger } = deps;
  const queue = createRecordQueue<AttemptResult>({
    write: (results) => recordAttemptResults(db, results),
    isTemporary: isUnavailable,
    onError: (err, count) => logger.warn({ err, count }, 'could not store the results of deliveries yet'),
    onGivenUp: (err, { deliveryId, number }) =>
      logger.error({ err, deliveryId, number }, 'gave up storing the result of a delivery'),
  });

  /**
   * Makes one attempt of each delivery that is due and belongs to the calling run, and stores the outcome soon after each
   * response. Safe to run again: an attempt that has been stored is returned, not repeated. Events of one object go in
   * their order; those of different objects in parallel.
   */
  async function attemptDeliveries(input: AttemptInput): Promise<AttemptedDeliveries> {
    const context = Context.current();
    const { workflowId } = context.info.workflowExecution ?? {};
    if (workflowId === undefined) throw new Error('deliveries are attempted from a workflow');
    const limits = startLimits(context, input.beginWithinMs, deps.shutdown);
    try {
      // results of an earlier execution of this activity may not be stored yet
      for (const id of input.deliveryIds) await queue.pending(id);
      return await new AttemptRound(deps, queue, { workflowId, input }, limits).run();
    } finally {
      limits.stop();
      if (input.attemptsMade === 0) deps.onFirstAttemptsEnded?.(workflowId);
    }
  }

  return { attemptDeliveries };
}

/** Heartbeats until it is stopped; cancels calls some time after the activity is cancelled or the worker shuts down. */
function startLimits(
  context: Context,
  beginWithinMs: number,
  shutdown: AbortSignal | undefined,
): AttemptLimits & { stop(): void } {
  const began = performance.now();
  const cancelCalls = new AbortController();
  let lastCalls: NodeJS.Timeout | undefined;
  let reason: Error | undefined;
  const { cancellationSignal } = context;
  const end = (why: Error) => {
    reason ??= why;
    lastCalls ??= setTimeout(() => cancelCalls.abort(why), LAST_CALLS_MS);
  };
  const onCancel = () => end(new CancelledFailure('the delivery was cancelled'));
  const onShutdown = () => end(workerShutsDown());
  cancellationSignal.addEventListener('abort', onCancel);
  shutdown?.addEventListener('abort', onShutdown);
  if (shutdown?.aborted) onShutdown();
  const heartbeat = setInterval(() => context.heartbeat(), HEARTBEAT_MS);
  return {
    mayBegin: () => !reason && performance.now() - began < beginWithinMs,
    reason: () => reason,
    cancelCalls: cancelCalls.signal,
    stop() {
      clearTimeout(lastCalls);
      clearInterval(heartbeat);
      cancellationSignal.removeEventListener('abort', onCancel);
      shutdown?.removeEventListener('abort', onShutdown);
    },
  };
}

/** Another worker does the rest. */
function workerShutsDown(): ApplicationFailure {
  const category = ApplicationFailureCategory.BENIGN;
  return ApplicationFailure.create({ message: 'the worker shuts down', type: 'worker_shutdown', category });
}
