import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import type { Db } from '../db/client.ts';
import type { Logger } from '../logger.ts';
import type { Secrets } from '../secrets.ts';
import { DeliveryRound } from '../webhooks/delivery-round.ts';
import { recordTries, type TryResult } from '../webhooks/delivery-state.ts';
import type { Poster } from '../webhooks/post.ts';
import { createRecordQueue } from '../webhooks/record-queue.ts';

export interface DeliverDeps {
  db: Db;
  secrets: Pick<Secrets, 'open'>;
  poster: Pick<Poster, 'post'>;
  logger: Logger;
  /** milliseconds; see Config.webhook */
  webhook: { retryScheduleMs: readonly number[]; timeoutMs: number };
  /**
   * Aborted when the worker begins to end: nothing is begun any more, and what is not answered soon is left to another
   * worker. Temporal does not tell local activities.
   */
  ending?: AbortSignal;
  /** told when a first try of a run has ended, however it went */
  onFirstTryEnded?(workflowId: string): void;
}

export interface TryInput {
  /** of one endpoint */
  deliveryIds: string[];
  /** tries that the delivery had before its run began */
  attemptsBefore: number;
  /** tries that the run has made; the one wanted is the next */
  triesMade: number;
  /** no call is begun later than this, ms; what is left then is returned */
  beginWithinMs: number;
}

/** A delivery that is to be tried again. */
export interface TryAgain {
  id: string;
  /** tries that its run has made by now */
  triesMade: number;
  delayMs: number;
}

export interface TriedDeliveries {
  delivered: number;
  skipped: number;
  again: TryAgain[];
  /** given up */
  failed: string[];
  /** not tried for lack of time */
  left: string[];
  /** retries that the schedule has */
  retries: number;
}

export type DeliverActivities = ReturnType<typeof createDeliverActivities>;

/** What a call that is under way is given when the worker has to end, ms. */
const LAST_CALLS_MS = 2_000;
const HEARTBEAT_MS = 5_000;

/** Activities of the `deliverWebhooks` workflow. */
export function createDeliverActivities(deps: DeliverDeps) {
  const { db, logger } = deps;
  const queue = createRecordQueue<TryResult>({
    write: (results) => recordTries(db, results),
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

/** When to begin no further call, and when to give up those under way. */
export interface End {
  mayBegin(): boolean;
  /** why calls are given up: the activity was cancelled, or the worker ends */
  reason(): Error | undefined;
  giveUp: AbortSignal;
  stop(): void;
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
