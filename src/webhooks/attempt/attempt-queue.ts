import type { DueDelivery } from './due-deliveries.ts';

/**
 * Objects of one run whose deliveries are attempted concurrently, as far as the slots of the endpoint allow: twice as many as
 * slots, so calls continue while results are being stored. After a crash at most this many deliveries are repeated.
 */
const CONCURRENCY = 20;

/** The steps for each delivery of a run. */
export interface AttemptSteps {
  /** Resolves with whether the next delivery of its object may follow. */
  attempt(delivery: DueDelivery): Promise<boolean>;
  /** Called instead of `attempt` when an earlier delivery of its object will be attempted again. */
  holdBack(delivery: DueDelivery): void;
}

/**
 * Attempts deliveries of one object in their order, different objects in parallel. Every call finishes, even when another
 * fails: a repeated activity must not call concurrently with it. Rejects with the first failure.
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
