import type { DueDelivery } from './due-deliveries.ts';

/**
 * Objects of one run whose deliveries are made at the same time, as far as the endpoint's slots allow. More than those: while
 * what was delivered is being stored, others are called. So many deliveries are made once more after a crash, at most.
 */
const CONCURRENCY = 20;

/** What is done with each delivery of a run. */
export interface AttemptSteps {
  /** Whether the next delivery of its object may follow. */
  attempt(delivery: DueDelivery): Promise<boolean>;
  /** An earlier one of its object is to be attempted again. */
  holdBack(delivery: DueDelivery): void;
}

/**
 * Attempts deliveries of one object in their order, different objects in parallel. Lets every call finish, whatever fails in
 * between: a repeated activity must not call in parallel with it. Rejects with the first failure.
 */
export async function attemptInOrder(objects: Iterable<readonly DueDelivery[]>, steps: AttemptSteps): Promise<void> {
  const waiting = [...objects].values();
  const parallel = Array.from({ length: CONCURRENCY }, async () => {
    for (const object of waiting) await attemptObject(object, steps);
  });
  const failed = (await Promise.allSettled(parallel)).find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
}

async function attemptObject(object: readonly DueDelivery[], { attempt, holdBack }: AttemptSteps): Promise<void> {
  let mayFollow = true;
  for (const delivery of object) {
    if (!mayFollow || delivery.isHeldBack) holdBack(delivery);
    else mayFollow = await attempt(delivery);
  }
}
