import { type SearchAttributePair, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ApplicationFailure,
  CancellationScope,
  ChildWorkflowCancellationType,
  condition,
  defineSignal,
  isCancellation,
  ParentClosePolicy,
  patched,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import type {
  AttemptedDeliveries,
  AttemptInput,
  DeliverActivities,
  DeliverInput,
  NextAttempt,
} from '../activities/deliver.ts';
import { QUEUES, SEARCH_KEYS, SIGNALS, WORKFLOWS } from './names.ts';
import { type StateTracker, trackState } from './run-state.ts';

/*
 * Deliveries of one endpoint, given to this run by the relay.
 *
 * state       what happens                             next
 * attempting  an attempt of each delivery              done       delivered, or the endpoint wants no calls, or what
 *                                                                 is left waits in the store and goes to a later run
 *                                                      waiting    failed, and there are retries left
 *                                                      failed     HTTP 410, or that was the last retry
 * waiting     a timer of the schedule                  attempting the timer fired, or the signal `retryNow`
 *
 * Several deliveries: only the first attempt is made here, and each that failed it continues in its own run, or
 * waits in the store. The activity stores the status of each delivery; see src/webhooks/log/delivery-state.ts.
 *
 * Reset by an operator: another attempt, whatever had come of the last one. Cancelled: what is not delivered has failed.
 * Terminated: the same, found by src/webhooks/dispatch/lost-runs.ts.
 */

export const retryNow = defineSignal(SIGNALS.retryNow);

/** How long a local activity begins calls; a slow endpoint continues in a regular one, which leaves the worker free. */
const FIRST_ATTEMPTS_MS = 4_000;
const REGULAR_MS = 60_000;
/** More than the largest WEBHOOK_TIMEOUT after the last call was begun, with time to store its result. */
const LONGEST_CALL_MS = 330_000;

/** Without a retry: if it fails, the regular activity finds out what has been stored and does the rest. */
const { attemptDeliveries: attemptAtOnce } = proxyLocalActivities<DeliverActivities>({
  startToCloseTimeout: FIRST_ATTEMPTS_MS + LONGEST_CALL_MS,
  retry: { maximumAttempts: 1 },
});
const { attemptDeliveries } = proxyActivities<DeliverActivities>({
  taskQueue: QUEUES.webhooks,
  startToCloseTimeout: REGULAR_MS + LONGEST_CALL_MS,
  heartbeatTimeout: '30s',
  retry: { initialInterval: '1s', maximumInterval: '30s' },
});
const { endDeliveries } = proxyActivities<DeliverActivities>({
  taskQueue: QUEUES.webhooks,
  startToCloseTimeout: '30s',
  retry: { initialInterval: '1s', maximumInterval: '30s' },
});

/** Delivers; fails when the only delivery of the run was given up. */
export async function deliverWebhooks(input: DeliverInput): Promise<void> {
  const shown = trackState('attempting');
  try {
    await deliver(input, shown);
  } catch (error) {
    if (isCancellation(error)) await CancellationScope.nonCancellable(() => endDeliveries(input.deliveryIds));
    throw error;
  }
}

async function deliver({ deliveryIds, regular = false }: DeliverInput, shown: StateTracker): Promise<void> {
  let isHurried = false;
  setHandler(retryNow, () => {
    isHurried = true;
  });
  const { runId, firstExecutionRunId } = workflowInfo();
  const input = { deliveryIds, ...(runId === firstExecutionRunId ? {} : { reset: true }) };
  let result = await firstAttempts(input, regular, shown);
  // the outcome belongs to the execution before the reset: this one makes a further attempt
  if (deliveryIds.length > 1) {
    if (result.runId !== runId) result = await firstAttempts(input, true, shown);
    if (result.retrying.length === 0 || !patched('retries-not-cancelled')) return startRetriesAlone(result, shown);
    // cancelled in the meantime: a run that is started can be cancelled alone, one that is not would be missing
    return CancellationScope.nonCancellable(() => startRetriesAlone(result, shown));
  }
  for (;;) {
    for (let next = result.retrying[0]; next; next = result.retrying[0]) {
      const which = `attempt ${next.attempts + 1} of ${next.attempts + next.retriesLeft}`;
      shown.enter('waiting', {
        lastError: describeLast(result),
        nextAttemptMs: next.delayMs,
        counts: { attempts: next.attempts, 'retries left': next.retriesLeft },
      });
      await condition(() => isHurried, Math.max(1, next.delayMs), { summary: which });
      isHurried = false;
      shown.enter('attempting');
      result = await attemptUntilMade({ ...input, after: next.attempts }, which);
    }
    if (result.runId === runId) break;
    result = await attemptUntilMade(input, 'attempt after a reset');
  }
  conclude(deliveryIds[0] ?? '', result, shown);
}

function conclude(id: string, result: AttemptedDeliveries, shown: StateTracker): void {
  if (result.failed.length > 0) {
    shown.enter('failed', { lastError: describeLast(result), counts: countsOf(result) });
    throw ApplicationFailure.nonRetryable(`gave up ${id}: ${describeLast(result)}`, 'delivery_failed');
  }
  shown.enter(stateAfter(result), { counts: countsOf(result) });
}

function attemptRegularly(input: Omit<AttemptInput, 'beginWithinMs'>, summary: string): Promise<AttemptedDeliveries> {
  return attemptDeliveries.executeWithOptions({ summary }, [{ ...input, beginWithinMs: REGULAR_MS }]);
}

/** All call slots of the endpoint may be in use for longer than an activity waits. */
async function attemptUntilMade(
  input: Omit<AttemptInput, 'beginWithinMs'>,
  summary: string,
): Promise<AttemptedDeliveries> {
  for (;;) {
    const result = await attemptRegularly(input, summary);
    if (result.notAttempted.length === 0) return result;
  }
}

/** The first attempt of all deliveries, at once; regular activities make those that a slow endpoint leaves over. */
async function firstAttempts(
  input: Omit<AttemptInput, 'beginWithinMs'>,
  regular: boolean,
  shown: StateTracker,
): Promise<AttemptedDeliveries> {
  const { length } = input.deliveryIds;
  let result: AttemptedDeliveries | undefined;
  try {
    if (!regular) result = await attemptAtOnce({ ...input, beginWithinMs: FIRST_ATTEMPTS_MS });
  } catch (error) {
    if (isCancellation(error)) throw error;
    // the results that it has stored stay
  }
  while (!result || result.notAttempted.length > 0) {
    shown.enter('attempting', { counts: { deliveries: length, left: result?.notAttempted.length ?? length } });
    // all of them again: the result is about all, and those that have been attempted are only looked up
    result = await attemptRegularly(input, `first attempt of this run${length === 1 ? '' : `, ${length} deliveries`}`);
  }
  return result;
}

/** Starts a separate run for each delivery that will be retried; the store has its attempts so far. */
async function startRetriesAlone(result: AttemptedDeliveries, shown: StateTracker): Promise<void> {
  await Promise.all(result.retrying.map(startAlone));
  shown.enter(stateAfter(result), { counts: { ...countsOf(result), 'in separate runs': result.retrying.length } });
}

async function startAlone({ id, workflowId }: NextAttempt): Promise<void> {
  const input: DeliverInput = { deliveryIds: [id], regular: true };
  try {
    await startChild(WORKFLOWS.deliverWebhooks, {
      workflowId,
      taskQueue: QUEUES.webhooks,
      args: [input],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      cancellationType: ChildWorkflowCancellationType.ABANDON,
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      typedSearchAttributes: attributesOf(id),
      staticSummary: `${id}, after a first attempt in a batch`,
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

/** `attempt 2 at 2026-01-01T00:00:00.000Z: HTTP 503` */
function describeLast({ last }: AttemptedDeliveries): string {
  if (!last) return 'not attempted';
  return `attempt ${last.number} at ${last.at}: ${last.httpStatus === null ? last.error : `HTTP ${last.httpStatus}`}`;
}

function countsOf({ delivered, skipped, waiting, failed }: AttemptedDeliveries): Record<string, number> {
  return { delivered, skipped, failed: failed.length, waiting };
}

function stateAfter({ waiting, waitingFor }: AttemptedDeliveries): string {
  return waiting === 0 ? 'done' : `done; what is left goes to a later run, it waits for ${waitingFor}`;
}

/** Those of this run, but for its other deliveries. */
function attributesOf(deliveryId: string): SearchAttributePair[] {
  const attributes = workflowInfo().typedSearchAttributes.getAll();
  return attributes.map((pair) =>
    pair.key.name === SEARCH_KEYS.resourceIds.name
      ? {
          key: SEARCH_KEYS.resourceIds,
          value: [deliveryId, ...(pair.value as string[]).filter((id) => !id.startsWith('whc_'))],
        }
      : pair,
  );
}
