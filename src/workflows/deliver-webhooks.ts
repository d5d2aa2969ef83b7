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
import type { DeliverActivities, TriedDeliveries, TryAgain, TryInput } from '../activities/deliver.ts';
import { deliveryWorkflowId, QUEUES, SIGNALS, WORKFLOWS } from './names.ts';

/*
 * Deliveries of one endpoint, given to this run by the relay.
 *
 * state    what happens                                      next
 * trying   a try of each delivery                            done      delivered, or the endpoint wants no calls
 *                                                            waiting   failed, and there are retries left
 *                                                            failed    HTTP 410, or that was the last one
 * waiting  a timer of the schedule                           trying    the timer, or `retryNow`
 *
 * Several deliveries: only the first try is made here, and those that failed it go on in a run of their own each.
 * The status in the delivery log is stored by the activity.
 */

export interface DeliverInput {
  deliveryIds: string[];
  /** tries that the deliveries had before: those of earlier runs. Absent: none */
  attemptsBefore?: number;
}

export const retryNow = defineSignal(SIGNALS.retryNow);

/** How long a local activity begins calls; a slow endpoint goes on in a regular one, which leaves the worker free. */
const FIRST_TRY_MS = 4_000;
const REGULAR_MS = 60_000;
/** More than the largest WEBHOOK_TIMEOUT after the last call was begun, with time to store its result. */
const LONGEST_CALL_MS = 330_000;

/** Without a retry: if it fails, the regular activity finds out what has been stored and does the rest. */
const { tryDeliveries: tryAtOnce } = proxyLocalActivities<DeliverActivities>({
  startToCloseTimeout: FIRST_TRY_MS + LONGEST_CALL_MS,
  retry: { maximumAttempts: 1 },
});
const { tryDeliveries } = proxyActivities<DeliverActivities>({
  taskQueue: QUEUES.webhooks,
  startToCloseTimeout: REGULAR_MS + LONGEST_CALL_MS,
  heartbeatTimeout: '30s',
  retry: { initialInterval: '1s', maximumInterval: '30s' },
});

export async function deliverWebhooks({ deliveryIds, attemptsBefore = 0 }: DeliverInput): Promise<void> {
  let hurry = false;
  setHandler(retryNow, () => {
    hurry = true;
  });
  const first = await firstTries({ deliveryIds, attemptsBefore, triesMade: 0 });
  if (deliveryIds.length > 1) return goOnAlone(first);

  const [id = ''] = deliveryIds;
  let tried = first;
  for (let open = tried.again[0]; open; open = tried.again[0]) {
    const { triesMade, delayMs } = open;
    const which = `retry ${triesMade} of ${tried.retries}`;
    setCurrentDetails(
      `${triesMade} failed; ${which} in about ${readable(delayMs)}, or on the signal ${SIGNALS.retryNow}`,
    );
    await condition(() => hurry, Math.max(1, delayMs), { summary: which });
    hurry = false;
    setCurrentDetails(which);
    tried = await tryDeliveries.executeWithOptions({ summary: which }, [
      { deliveryIds, attemptsBefore, triesMade, beginWithinMs: REGULAR_MS },
    ]);
  }
  if (tried.failed.length > 0) {
    setCurrentDetails('failed: no further try');
    throw ApplicationFailure.nonRetryable(`gave up ${id}`, 'delivery_failed');
  }
  setCurrentDetails(outcome(tried));
}

/** The first try of all of them, as fast as can be; what a slow endpoint leaves for later by regular activities. */
async function firstTries(input: Omit<TryInput, 'beginWithinMs'>): Promise<TriedDeliveries> {
  const { length } = input.deliveryIds;
  setCurrentDetails(length === 1 ? 'first try' : `first tries of ${length}`);
  let tried: TriedDeliveries | undefined;
  try {
    tried = await tryAtOnce({ ...input, beginWithinMs: FIRST_TRY_MS });
  } catch {
    // what it has stored stands
  }
  while (!tried || tried.left.length > 0) {
    setCurrentDetails(`first tries: ${tried?.left.length ?? length} of ${length} to go`);
    // all of them again: the answer is about all, and those that have been tried are only looked up
    tried = await tryDeliveries({ ...input, beginWithinMs: REGULAR_MS });
  }
  return tried;
}

/** Each delivery that failed its first try gets a run of its own, which finds in the store what has been tried. */
async function goOnAlone(tried: TriedDeliveries): Promise<void> {
  const failed = [...tried.again.map(({ id }: TryAgain) => id), ...tried.failed];
  await Promise.all(failed.map(startAlone));
  setCurrentDetails(`${outcome(tried)}${failed.length > 0 ? `, ${failed.length} go on in runs of their own` : ''}`);
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
      staticSummary: `${id}, after a first try in a batch`,
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

function outcome({ delivered, skipped }: TriedDeliveries): string {
  return skipped === 0 ? `${delivered} delivered` : `${delivered} delivered, ${skipped} skipped`;
}

function readable(ms: number): string {
  if (ms < 120_000) return `${Math.ceil(ms / 1000)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${Math.round(ms / 3_600_000)} h`;
}
