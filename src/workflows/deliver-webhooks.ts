import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ApplicationFailure,
  ChildWorkflowCancellationType,
  condition,
  defineSignal,
  ParentClosePolicy,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import type { AttemptedDeliveries, AttemptInput, DeliverActivities } from '../activities/deliver.ts';
import { deliveryWorkflowId, QUEUES, SIGNALS, WORKFLOWS } from './names.ts';

/*
 * Deliveries of one endpoint, given to this run by the relay.
 *
 * state       what happens                             next
 * attempting  an attempt of each delivery              done       delivered, or the endpoint wants no calls
 *                                                      waiting    failed, and there are retries left
 *                                                      failed     HTTP 410, or that was the last retry
 * waiting     a timer of the schedule                  attempting the timer fired, or the signal `retryNow`
 *
 * Several deliveries: only the first attempt is made here, and each one that failed it goes on in a run of its own.
 * The activity stores the status of each delivery; see src/webhooks/delivery-state.ts.
 */

export interface DeliverInput {
  deliveryIds: string[];
  /** attempts that the deliveries had before: those of earlier runs. Absent: none */
  attemptsBefore?: number;
}

export const retryNow = defineSignal(SIGNALS.retryNow);

/** How long a local activity begins calls; a slow endpoint goes on in a regular one, which leaves the worker free. */
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

/** Delivers; fails when the only delivery of the run was given up. */
export async function deliverWebhooks({ deliveryIds, attemptsBefore = 0 }: DeliverInput): Promise<void> {
  let isHurried = false;
  setHandler(retryNow, () => {
    isHurried = true;
  });
  const first = await firstAttempts({ deliveryIds, attemptsBefore, attemptsMade: 0 });
  if (deliveryIds.length > 1) return startRetriesAlone(first);

  const [id = ''] = deliveryIds;
  let result = first;
  for (let next = result.retrying[0]; next; next = result.retrying[0]) {
    const { attemptsMade, delayMs } = next;
    const which = `retry ${attemptsMade} of ${result.retries}`;
    setCurrentDetails(
      `${attemptsMade} failed; ${which} in about ${readable(delayMs)}, or on the signal ${SIGNALS.retryNow}`,
    );
    await condition(() => isHurried, Math.max(1, delayMs), { summary: which });
    isHurried = false;
    setCurrentDetails(which);
    result = await attemptDeliveries.executeWithOptions({ summary: which }, [
      { deliveryIds, attemptsBefore, attemptsMade, beginWithinMs: REGULAR_MS },
    ]);
  }
  if (result.failed.length > 0) {
    setCurrentDetails('failed: no retry is left');
    throw ApplicationFailure.nonRetryable(`gave up ${id}`, 'delivery_failed');
  }
  setCurrentDetails(describe(result));
}

/** The first attempt of all deliveries, at once; regular activities make those that a slow endpoint leaves over. */
async function firstAttempts(input: Omit<AttemptInput, 'beginWithinMs'>): Promise<AttemptedDeliveries> {
  const { length } = input.deliveryIds;
  setCurrentDetails(length === 1 ? 'first attempt' : `first attempts of ${length}`);
  let result: AttemptedDeliveries | undefined;
  try {
    result = await attemptAtOnce({ ...input, beginWithinMs: FIRST_ATTEMPTS_MS });
  } catch {
    // the results that it has stored stay
  }
  while (!result || result.notAttempted.length > 0) {
    setCurrentDetails(`first attempts: ${result?.notAttempted.length ?? length} of ${length} to go`);
    // all of them again: the result is about all, and those that have been attempted are only looked up
    result = await attemptDeliveries({ ...input, beginWithinMs: REGULAR_MS });
  }
  return result;
}

/** Each delivery that failed its first attempt gets a run of its own, which finds the attempts made in the store. */
async function startRetriesAlone(result: AttemptedDeliveries): Promise<void> {
  const failed = [...result.retrying.map(({ id }) => id), ...result.failed];
  await Promise.all(failed.map(startAlone));
  setCurrentDetails(`${describe(result)}${failed.length > 0 ? `, ${failed.length} go on in runs of their own` : ''}`);
}

async function startAlone(id: string): Promise<void> {
  const input: DeliverInput = { deliveryIds: [id] };
  try {
    await startChild(WORKFLOWS.deliverWebhooks, {
      workflowId: deliveryWorkflowId(id),
      taskQueue: QUEUES.webhooks,
      args: [input],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      cancellationType: ChildWorkflowCancellationType.ABANDON,
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      typedSearchAttributes: workflowInfo().typedSearchAttributes,
      staticSummary: `${id}, after a first attempt in a batch`,
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

function describe({ delivered, skipped }: AttemptedDeliveries): string {
  return skipped === 0 ? `${delivered} delivered` : `${delivered} delivered, ${skipped} skipped`;
}

function readable(ms: number): string {
  if (ms < 120_000) return `${Math.ceil(ms / 1000)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}
