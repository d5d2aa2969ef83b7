import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import { currentRun } from './current-run.ts';
import type { AttemptedDeliveries, AttemptInput } from '../webhooks/attempt/attempted-deliveries.ts';
import { type AttemptLimits, AttemptRound, type DeliverDeps } from '../webhooks/attempt/attempts.ts';
import { failDeliveries } from '../webhooks/log/delivery-state.ts';
import { attemptWaiting } from '../webhooks/dispatch/retry-delivery.ts';
import { createResultStore } from '../webhooks/log/result-store.ts';

export type {
  AttemptedDeliveries,
  AttemptInput,
  DeliverInput,
  NextAttempt,
} from '../webhooks/attempt/attempted-deliveries.ts';
export type { DeliverDeps } from '../webhooks/attempt/attempts.ts';

export type DeliverActivities = ReturnType<typeof createDeliverActivities>;

/** What a call that is under way is given when the worker has to shut down, ms. */
const LAST_CALLS_MS = 2_000;
const HEARTBEAT_MS = 5_000;

/** Activities of the `deliverWebhooks` workflow. */
export function createDeliverActivities(deps: DeliverDeps) {
  // other results do not wait for what is waiting at an endpoint that is back
  const store = createResultStore({
    ...deps,
    onRecovered: (endpointId, successBefore) =>
      void attemptWaiting(deps, endpointId, { successBefore, retryScheduleMs: deps.webhook.retryScheduleMs }),
  });
  /** rounds under way, by run */
  const rounds = new Map<string, Promise<unknown>>();

  /**
   * Makes one attempt of each delivery that is due and belongs to the calling run, and stores the outcome soon after each
   * response. Safe to run again: an attempt that has been stored is returned, not repeated. Events of one object go in
   * their order; those of different objects in parallel.
   */
  async function attemptDeliveries(input: AttemptInput): Promise<AttemptedDeliveries> {
    const context = Context.current();
    const { workflowId, runId } = currentRun();
    const limits = startLimits(context, input.beginWithinMs, deps.shutdown);
    deps.onAttempts?.(workflowId, 'begun');
    let isDone = true;
    let round: AttemptRound | undefined;
    try {
      // an earlier execution of this activity, which Temporal has given up, may still be calling or storing
      await rounds.get(workflowId)?.catch(() => {});
      for (const id of input.deliveryIds) await store.pending(id);
      round = new AttemptRound(deps, store, { workflowId, runId, input }, limits);
      const running = round.run();
      rounds.set(workflowId, running);
      const attempted = await running.finally(() => {
        if (rounds.get(workflowId) === running) rounds.delete(workflowId);
      });
      isDone = attempted.notAttempted.length === 0;
      return attempted;
    } finally {
      limits.stop();
      if (isDone) deps.onAttempts?.(workflowId, 'ended', { isCostly: round?.isCostly ?? false });
    }
  }

  /** The calling run was cancelled: what it has not delivered has failed, and can be retried. */
  async function endDeliveries(deliveryIds: string[]): Promise<void> {
    const { workflowId = '', runId = '' } = Context.current().info.workflowExecution ?? {};
    // a round that is still calling or storing would not know
    for (const id of deliveryIds) await store.pending(id);
    await failDeliveries(deps.db, deliveryIds, { workflowId, runId, error: 'its run was cancelled' });
  }

  return { attemptDeliveries, endDeliveries };
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
