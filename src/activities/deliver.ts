import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import {
  type DeliverDeps,
  DeliveryRound,
  type End,
  type TriedDeliveries,
  type TryInput,
} from '../webhooks/delivery-round.ts';
import { recordAttempts, type AttemptResult } from '../webhooks/delivery-state.ts';
import { createRecordQueue } from '../webhooks/record-queue.ts';

export type { DeliverDeps, TriedDeliveries, TryAgain, TryInput } from '../webhooks/delivery-round.ts';

export type DeliverActivities = ReturnType<typeof createDeliverActivities>;

/** What a call that is under way is given when the worker has to end, ms. */
const LAST_CALLS_MS = 2_000;
const HEARTBEAT_MS = 5_000;

/** Activities of the `deliverWebhooks` workflow. */
export function createDeliverActivities(deps: DeliverDeps) {
  const { db, logger } = deps;
  const queue = createRecordQueue<AttemptResult>({
    write: (results) => recordAttempts(db, results),
    onError: (err, count) => logger.warn({ err, count }, 'could not store the results of deliveries yet'),
  });

  /**
   * Makes one try of each delivery that is still to have it and belongs to the calling run, and stores the outcome soon
   * after each answer. Safe to run again: what has been stored is told, not tried. Events of one object go one after
   * another, in their order; those of different objects side by side.
   */
  async function tryDeliveries(input: TryInput): Promise<TriedDeliveries> {
    const context = Context.current();
    const { workflowId } = context.info.workflowExecution ?? {};
    if (workflowId === undefined) throw new Error('deliveries are tried from a workflow');
    const end = untilEnd(context, input.beginWithinMs, deps.ending);
    try {
      // results of an earlier run of this activity may still be on their way to the store
      for (const id of input.deliveryIds) await queue.pending(id);
      return await new DeliveryRound(deps, queue, workflowId, input, end).run();
    } finally {
      end.stop();
      if (input.triesMade === 0) deps.onFirstTryEnded?.(workflowId);
    }
  }

  return { tryDeliveries };
}

function untilEnd(context: Context, beginWithinMs: number, ending: AbortSignal | undefined): End {
  const began = performance.now();
  const giveUp = new AbortController();
  let last: NodeJS.Timeout | undefined;
  let reason: Error | undefined;
  const { cancellationSignal } = context;
  const begin = (why: Error) => {
    reason ??= why;
    last ??= setTimeout(() => giveUp.abort(why), LAST_CALLS_MS);
  };
  const onCancel = () => begin(new CancelledFailure('the delivery was cancelled'));
  const onEnding = () => begin(workerEnds());
  cancellationSignal.addEventListener('abort', onCancel);
  ending?.addEventListener('abort', onEnding);
  if (ending?.aborted) onEnding();
  const beat = setInterval(() => context.heartbeat(), HEARTBEAT_MS);
  return {
    mayBegin: () => !reason && performance.now() - began < beginWithinMs,
    reason: () => reason,
    giveUp: giveUp.signal,
    stop() {
      clearTimeout(last);
      clearInterval(beat);
      cancellationSignal.removeEventListener('abort', onCancel);
      ending?.removeEventListener('abort', onEnding);
    },
  };
}

/** Another worker does the rest. */
function workerEnds(): ApplicationFailure {
  const category = ApplicationFailureCategory.BENIGN;
  return ApplicationFailure.create({ message: 'the worker ends', type: 'worker_ends', category });
}
