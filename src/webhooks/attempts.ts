import type { Db } from '../db/client.ts';
import { disableGoneEndpoint } from '../db/endpoints.ts';
import type { Logger } from '../logger.ts';
import type { Secrets } from '../secrets.ts';
import { deliveryWorkflowId } from '../workflows/names.ts';
import { callEndpoint, describeStatus, isDelivered, openTarget, type OpenTarget } from './call-endpoint.ts';
import { type AttemptResult, skipDeliveries } from './delivery-state.ts';
import { type DeliveryTarget, type DueDelivery, loadDueDeliveries, loadEventData } from './due-deliveries.ts';
import type { Poster, PostOutcome } from './post.ts';
import type { RecordQueue } from './record-queue.ts';
import { nextDelay, parseRetryAfter } from './retry-schedule.ts';

export interface DeliverDeps {
  db: Db;
  secrets: Pick<Secrets, 'open'>;
  poster: Pick<Poster, 'post'>;
  logger: Logger;
  /** milliseconds; see Config.webhook */
  webhook: { retryScheduleMs: readonly number[]; timeoutMs: number };
  /**
   * Aborted when the worker shuts down: no further call is begun, and a call without a response soon after is left to
   * another worker. Temporal does not tell local activities.
   */
  shutdown?: AbortSignal;
  /** called when the first attempts of a run have ended, however they went */
  onFirstAttemptsEnded?(workflowId: string): void;
}

export interface AttemptInput {
  /** of one endpoint */
  deliveryIds: string[];
  /** attempts that the delivery had before its run began */
  attemptsBefore: number;
  /** attempts that the run has made; the next one is asked for */
  attemptsMade: number;
  /** no call is begun later than this, ms; deliveries that remain are returned as `notAttempted` */
  beginWithinMs: number;
}

/** A delivery that will be attempted again. */
export interface NextAttempt {
  id: string;
  /** attempts that its run has made by now */
  attemptsMade: number;
  delayMs: number;
}

export interface AttemptedDeliveries {
  delivered: number;
  skipped: number;
  retrying: NextAttempt[];
  /** given up */
  failed: string[];
  /** for lack of time */
  notAttempted: string[];
  /** retries that the schedule has */
  retries: number;
}

/** When to begin no further call, and when to cancel those under way. */
export interface AttemptLimits {
  mayBegin(): boolean;
  /** why calls are cancelled: the activity was cancelled, or the worker shuts down */
  reason(): Error | undefined;
  cancelCalls: AbortSignal;
}

/** Calls under way at a time for one run. */
const CONCURRENCY = 10;
/** Event data up to this length is read for the whole run at once. */
const INLINE_BYTES = 64 * 1024;

/** The next attempt of each delivery of one run: events of one object in their order, different objects in parallel. */
export class AttemptRound {
  readonly #deps;
  readonly #queue;
  readonly #workflowId;
  readonly #input;
  readonly #limits;
  readonly #result: AttemptedDeliveries;
  /** endpoints that answered 410 */
  readonly #disabled = new Set<string>();
  readonly #opened = new Map<string, OpenTarget | undefined>();

  constructor(
    deps: DeliverDeps,
    queue: RecordQueue<AttemptResult>,
    run: { workflowId: string; input: AttemptInput },
    limits: AttemptLimits,
  ) {
    this.#deps = deps;
    this.#queue = queue;
    this.#workflowId = run.workflowId;
    this.#input = run.input;
    this.#limits = limits;
    const retries = deps.webhook.retryScheduleMs.length;
    this.#result = { delivered: 0, skipped: 0, retrying: [], failed: [], notAttempted: [], retries };
  }

  async run(): Promise<AttemptedDeliveries> {
    const { deliveries, targets } = await loadDueDeliveries(this.#deps.db, this.#input.deliveryIds, INLINE_BYTES);
    const byObject = new Map<string, DueDelivery[]>();
    const unwanted: Record<'deleted' | 'disabled', string[]> = { deleted: [], disabled: [] };
    for (const delivery of deliveries) {
      const due = this.#dueState(delivery);
      if (due === 'attempted') this.#noteEarlierAttempt(delivery);
      if (due !== 'due') continue;
      const target = targets.get(delivery.endpointId);
      if (!target?.enabled) unwanted[target ? 'disabled' : 'deleted'].push(delivery.id);
      else byObject.set(delivery.objectId, [...(byObject.get(delivery.objectId) ?? []), delivery]);
    }
    for (const [why, ids] of Object.entries(unwanted)) await this.#skip(ids, `the endpoint is ${why}`);
    await this.#attemptAll([...byObject.values()], targets);
    const reason = this.#limits.reason();
    if (reason && this.#result.notAttempted.length > 0) throw reason;
    return this.#result;
  }

  /** Whether the attempt is still due, or was made by an earlier execution of the activity, or is another run's. */
  #dueState({ id, status, attemptsCount, workflowId }: DueDelivery): 'due' | 'attempted' | 'other run' {
    const { attemptsBefore, attemptsMade, deliveryIds } = this.#input;
    const isOwn = workflowId === this.#workflowId;
    if (isOwn) return status === 'pending' && attemptsCount - attemptsBefore <= attemptsMade ? 'due' : 'attempted';
    // One that failed its first attempt in a batch belongs to its own run, which the batch has yet to start.
    const isToStart = deliveryIds.length > 1 && workflowId === deliveryWorkflowId(id) && attemptsCount > 0;
    return isToStart ? 'attempted' : 'other run';
  }

  #noteEarlierAttempt({ id, status, attemptsCount, nextAttemptAt }: DueDelivery): void {
    if (status === 'pending') this.#noteRetry(id, attemptsCount - this.#input.attemptsBefore, nextAttemptAt);
    else if (status === 'failed') this.#result.failed.push(id);
    else this.#result[status]++;
  }

  #noteRetry(id: string, attemptsMade: number, at: Date | null): void {
    const delayMs = Math.max(0, (at?.getTime() ?? 0) - Date.now());
    this.#result.retrying.push({ id, attemptsMade, delayMs });
  }

  async #skip(ids: string[], why: string): Promise<void> {
    if (ids.length === 0) return;
    await skipDeliveries(this.#deps.db, ids, why);
    this.#result.skipped += ids.length;
  }

  /** Lets every call finish, whatever fails meanwhile: a repeated activity must not call in parallel with it. */
  async #attemptAll(groups: DueDelivery[][], targets: Map<string, DeliveryTarget>): Promise<void> {
    const waiting = groups.values();
    const parallel = Array.from({ length: Math.min(CONCURRENCY, groups.length) }, async () => {
      for (const group of waiting) for (const delivery of group) await this.#attemptInTime(delivery, targets);
    });
    const failed = (await Promise.allSettled(parallel)).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }

  async #attemptInTime(delivery: DueDelivery, targets: Map<string, DeliveryTarget>): Promise<void> {
    const target = targets.get(delivery.endpointId);
    if (!target || !this.#limits.mayBegin()) this.#result.notAttempted.push(delivery.id);
    else if (this.#disabled.has(target.id)) await this.#skip([delivery.id], 'the endpoint is disabled');
    else await this.#attempt(delivery, target);
  }

  async #attempt(delivery: DueDelivery, target: DeliveryTarget): Promise<void> {
    const { db, poster, webhook } = this.#deps;
    const data = delivery.data ?? (await loadEventData(db, delivery.eventId));
    if (data === undefined) return this.#skip([delivery.id], 'the event is no longer stored');
    const at = new Date();
    const outcome = await callEndpoint(poster, {
      delivery,
      target: this.#open(target),
      data,
      at,
      timeoutMs: webhook.timeoutMs,
      signal: this.#limits.cancelCalls,
    });
    if (outcome.httpStatus === 410) await this.#disable(target.id);
    await this.#record(this.#resultOf(delivery, target.url, at, outcome), delivery.endpointId);
  }

  #open(target: DeliveryTarget): OpenTarget | undefined {
    if (!this.#opened.has(target.id)) this.#opened.set(target.id, openTarget(this.#deps, target));
    return this.#opened.get(target.id);
  }

  async #disable(endpointId: string): Promise<void> {
    if (this.#disabled.has(endpointId)) return;
    this.#disabled.add(endpointId);
    const changed = await disableGoneEndpoint(this.#deps.db, endpointId);
    if (changed) this.#deps.logger.warn({ endpointId }, 'disabled a webhook endpoint that answered 410');
  }

  #resultOf(delivery: DueDelivery, url: string, at: Date, outcome: PostOutcome): AttemptResult {
    const { httpStatus, responseBody, durationMs } = outcome;
    const number = delivery.attemptsCount + 1;
    const delivered = isDelivered(httpStatus);
    const isLast = delivered || httpStatus === 410;
    const delayMs = isLast ? undefined : this.#retryDelay(number - this.#input.attemptsBefore, outcome);
    const isBatch = this.#input.deliveryIds.length > 1;
    return {
      deliveryId: delivery.id,
      number,
      at,
      url,
      httpStatus,
      responseBody,
      error: outcome.error ?? describeStatus(httpStatus),
      durationMs,
      status: delivered ? 'delivered' : delayMs === undefined ? 'failed' : 'pending',
      nextAttemptAt: delayMs === undefined ? null : new Date(Date.now() + delayMs),
      workflowId: isBatch && !delivered ? deliveryWorkflowId(delivery.id) : this.#workflowId,
    };
  }

  #retryDelay(attemptsMade: number, { retryAfter }: PostOutcome): number | undefined {
    const { retryScheduleMs } = this.#deps.webhook;
    return nextDelay(retryScheduleMs, attemptsMade, parseRetryAfter(retryAfter, new Date()), Math.random());
  }

  async #record(result: AttemptResult, endpointId: string): Promise<void> {
    const { deliveryId, number, httpStatus, status, nextAttemptAt } = result;
    await this.#queue.add(deliveryId, result);
    if (status === 'delivered') this.#result.delivered++;
    else if (status === 'pending') this.#noteRetry(deliveryId, number - this.#input.attemptsBefore, nextAttemptAt);
    else {
      this.#result.failed.push(deliveryId);
      this.#deps.logger.warn({ deliveryId, endpointId, httpStatus, number }, 'gave up a webhook delivery');
    }
  }
}
