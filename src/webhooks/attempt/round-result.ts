import type { AttemptedDeliveries, LastAttempt } from './attempted-deliveries.ts';
import type { DueDelivery } from './due-deliveries.ts';

type Retried = Pick<DueDelivery, 'id' | 'scheduleFrom'> & { workflowId: string };

/** Collects the outcomes of the deliveries of a run for its workflow. */
export class RoundResult {
  readonly value: AttemptedDeliveries;
  readonly #retries: number;

  /** `retries`: the number of retries in the schedule. */
  constructor(runId: string, retries: number) {
    this.#retries = retries;
    this.value = { runId, delivered: 0, skipped: 0, retrying: [], waiting: 0, failed: [], notAttempted: [] };
  }

  delivered(last: LastAttempt): void {
    this.value.last = last;
    this.value.delivered += 1;
  }

  failed(id: string, last: LastAttempt): void {
    this.value.last = last;
    this.value.failed.push(id);
  }

  /** The delivery will be attempted again by its run, or, with `workflowId` null, by a later one. */
  toRetry(
    { workflowId, ...delivery }: Omit<Retried, 'workflowId'> & { workflowId: string | null },
    last: LastAttempt,
    delayMs: number | null,
  ): void {
    this.value.last = last;
    this.#retry({ ...delivery, workflowId }, last.number, delayMs);
  }

  skipped(count: number): void {
    this.value.skipped += count;
  }

  notAttempted(id: string): void {
    this.value.notAttempted.push(id);
  }

  /** The delivery goes to a later run. */
  waitsFor(what: string): void {
    this.value.waiting += 1;
    this.value.waitingFor = what;
  }

  /** An earlier execution of the activity has attempted the delivery. */
  attemptedEarlier(delivery: DueDelivery): void {
    const { id, status, attemptsCount, dueInMs } = delivery;
    if (status === 'failed') this.value.failed.push(id);
    else if (status === 'pending') this.#retry(delivery, attemptsCount, dueInMs);
    else this.value[status] += 1;
  }

  #retry(
    { id, workflowId, scheduleFrom }: Omit<Retried, 'workflowId'> & { workflowId: string | null },
    attempts: number,
    delayMs: number | null,
  ): void {
    if (workflowId === null) return this.waitsFor('its next attempt');
    const retriesLeft = this.#retries + 1 - (attempts - scheduleFrom);
    this.value.retrying.push({ id, workflowId, attempts, retriesLeft, delayMs: Math.max(0, delayMs ?? 0) });
  }
}
