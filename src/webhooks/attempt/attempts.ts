import type { Db } from '../../db/driver/client.ts';
import { disableGoneEndpoint } from '../../db/queries/endpoints.ts';
import type { Logger } from '../../runtime/logger.ts';
import type { Secrets } from '../../security/secrets.ts';
import { deliveryWorkflowId } from '../../workflows/names.ts';
import type { AttemptedDeliveries, AttemptInput } from './attempted-deliveries.ts';
import { callEndpoint, describeStatus, isDelivered, openTarget, type OpenTarget } from './call-endpoint.ts';
import { type CallSlots, createCallSlots } from './call-slots.ts';
import { type AttemptResult, releaseDeliveries, reopenDeliveries, skipDeliveries } from '../log/delivery-state.ts';
import type { RunEnd } from '../dispatch/turns.ts';
import {
  type DeliveryTarget,
  type DueDelivery,
  isWithdrawn,
  loadDueDeliveries,
  loadEventData,
} from './due-deliveries.ts';
import { OPEN_AFTER, outcomeOf } from './endpoint-health.ts';
import { noteAttempt, noteSkipped } from './metrics.ts';
import { isLongResponse, type Poster, type PostOutcome } from './post.ts';
import { putBackReplayed } from '../log/replay-state.ts';
import { nextDelay, parseRetryAfter } from './retry-schedule.ts';

export interface DeliverDeps {
  db: Db;
  secrets: Pick<Secrets, 'open'>;
  poster: Pick<Poster, 'post'>;
  slots: CallSlots;
  logger: Logger;
  /** milliseconds; see Config.webhook */
  webhook: { retryScheduleMs: readonly number[]; timeoutMs: number };
  /**
   * Aborted when the worker shuts down: no further call is begun, and a call without a response soon after is left to
   * another worker. Temporal does not tell local activities.
   */
  shutdown?: AbortSignal;
  /**
   * Called when a run begins attempts, and when it has ended them, however they went: others may be due by that.
   */
  onAttempts?(workflowId: string, are: 'begun' | 'ended', end?: RunEnd): void;
  /** Has runs that wait for their next attempt make it now. */
  hurry?(workflowIds: readonly string[]): Promise<void>;
}

/** When to begin no further call, and when to cancel those under way. */
export interface AttemptLimits {
  mayBegin(): boolean;
  /** why calls are cancelled: the activity was cancelled, or the worker shuts down */
  reason(): Error | undefined;
  cancelCalls: AbortSignal;
}

/** Stores results; resolves when that is done. */
export interface ResultStore {
  add(result: AttemptResult, target: DeliveryTarget): Promise<void>;
  /** until when the breaker of an endpoint is open, as results stored since it was loaded have left it; see EndpointHealth */
  openUntil(target: DeliveryTarget): number;
}

/**
 * Objects of one run whose deliveries are made at the same time, as far as the endpoint's slots allow. More than those: while
 * what was delivered is being stored, others are called. So many deliveries are made once more after a crash, at most.
 */
const CONCURRENCY = 20;
/** Calls of a run of a replay at a time: live events have the other slots of the endpoint. */
const REPLAY_CALLS = 5;
/** Event data up to this length is read for the whole run at once. */
const INLINE_BYTES = 64 * 1024;
/** Runs of one endpoint that wait for a next attempt; what fails beyond that waits in the store. */
const MAX_RETRYING_RUNS = 5;
/**
 * The same for one that had failed before, or has never succeeded: many endpoints that fail together would all be called anew at the
 * same time, and a run started for each retry of a batch costs more than its attempt.
 */
const MAX_RETRYING_OF_COSTLY = 1;

interface Identity {
  workflowId: string;
  runId: string;
}

/** The next attempt of each delivery of one run: events of one object in their order, different objects in parallel. */
export class AttemptRound {
  readonly #deps;
  readonly #store;
  readonly #run;
  readonly #input;
  readonly #limits;
  readonly #result: AttemptedDeliveries;
  /** endpoints that answered 410 */
  readonly #disabled = new Set<string>();
  readonly #opened = new Map<string, OpenTarget | undefined>();
  /** released at the end */
  readonly #heldBack: string[] = [];
  readonly #replayCalls = createCallSlots(() => REPLAY_CALLS);
  #retryingHere = 0;
  #isCostly = false;

  constructor(deps: DeliverDeps, store: ResultStore, run: Identity & { input: AttemptInput }, limits: AttemptLimits) {
    this.#deps = deps;
    this.#store = store;
    this.#run = run;
    this.#input = run.input;
    this.#limits = limits;
    this.#result = {
      runId: run.runId,
      delivered: 0,
      skipped: 0,
      retrying: [],
      waiting: 0,
      failed: [],
      notAttempted: [],
    };
  }

  /** Whether a response was longer than what is kept of it. */
  get isCostly(): boolean {
    return this.#isCostly;
  }

  /** Whether something was delivered, and nothing else came of it. */
  get isDelivered(): boolean {
    const { delivered, retrying, waiting, failed, notAttempted } = this.#result;
    return delivered > 0 && retrying.length + waiting + failed.length + notAttempted.length === 0;
  }

  async run(): Promise<AttemptedDeliveries> {
    const { db } = this.#deps;
    const { deliveryIds, reset } = this.#input;
    if (reset) await this.#reopen(deliveryIds);
    const { deliveries, targets } = await loadDueDeliveries(db, deliveryIds, INLINE_BYTES);
    const due = deliveries.filter((delivery) => {
      const state = this.#dueState(delivery);
      if (state === 'attempted') this.#noteEarlierAttempt(delivery);
      return state === 'due';
    });
    await this.#attemptAll([...(await this.#wanted(due, targets)).values()], targets);
    if (this.#heldBack.length > 0) await releaseDeliveries(db, this.#heldBack, this.#run.workflowId);
    const reason = this.#limits.reason();
    if (reason && this.#result.notAttempted.length > 0) throw reason;
    return this.#result;
  }

  /** What is to be attempted, by object; the rest gets the status that says why not. */
  async #wanted(
    due: readonly DueDelivery[],
    targets: Map<string, DeliveryTarget>,
  ): Promise<Map<string, DueDelivery[]>> {
    const byObject = new Map<string, DueDelivery[]>();
    const withdrawn: string[] = [];
    const unwanted: Record<'deleted' | 'disabled', string[]> = { deleted: [], disabled: [] };
    for (const delivery of due) {
      const target = targets.get(delivery.endpointId);
      if (delivery.isWithdrawn) withdrawn.push(delivery.id);
      else if (!target?.enabled) unwanted[target ? 'disabled' : 'deleted'].push(delivery.id);
      else byObject.set(delivery.objectId, [...(byObject.get(delivery.objectId) ?? []), delivery]);
    }
    for (const [why, ids] of Object.entries(unwanted))
      await this.#skip(due[0]?.endpointId ?? '', ids, `the endpoint is ${why}`);
    if (withdrawn.length > 0) await this.#putBack(withdrawn);
    return byObject;
  }

  async #putBack(withdrawn: string[]): Promise<void> {
    await putBackReplayed(this.#deps.db, withdrawn, this.#run.workflowId);
    // what was retried by hand just now is left pending
    await releaseDeliveries(this.#deps.db, withdrawn, this.#run.workflowId);
    this.#result.skipped += withdrawn.length;
  }

  /** What has ended is pending again, but for what this execution has attempted. */
  async #reopen(deliveryIds: string[]): Promise<void> {
    const { deliveries } = await loadDueDeliveries(this.#deps.db, deliveryIds, 0);
    const ended = deliveries.filter(({ runId, status }) => status !== 'pending' && runId !== this.#run.runId);
    const ids = ended.map(({ id }) => id);
    if (ids.length > 0) await reopenDeliveries(this.#deps.db, ids, this.#run.workflowId);
  }

  /** Whether the attempt is due, or was made by an earlier execution of the activity, or is another run's. */
  #dueState(delivery: DueDelivery): 'due' | 'attempted' | 'other run' {
    const { status, attemptsCount, workflowId, runId } = delivery;
    const { after } = this.#input;
    const isOwn = workflowId === this.#run.workflowId;
    const isNext = after === undefined ? runId !== this.#run.runId && !this.#isEarly(delivery) : attemptsCount <= after;
    if (isOwn && status === 'pending' && isNext) return 'due';
    return isOwn || runId === this.#run.runId ? 'attempted' : 'other run';
  }

  /** A run that goes on after a batch has its first attempt to wait for. */
  #isEarly({ dueInMs, isForced }: DueDelivery): boolean {
    return !this.#input.reset && !isForced && dueInMs !== null && dueInMs > 0;
  }

  #noteEarlierAttempt(delivery: DueDelivery): void {
    const { id, status, attemptsCount, dueInMs, workflowId } = delivery;
    if (status === 'failed') this.#result.failed.push(id);
    else if (status !== 'pending') this.#result[status]++;
    else if (workflowId === null) this.#noteWaiting('its next attempt');
    else this.#noteRetry({ ...delivery, workflowId }, attemptsCount, dueInMs);
  }

  #noteRetry(
    { id, workflowId, scheduleFrom }: { id: string; workflowId: string; scheduleFrom: number },
    attempts: number,
    dueInMs: number | null,
  ): void {
    const retriesLeft = this.#deps.webhook.retryScheduleMs.length + 1 - (attempts - scheduleFrom);
    const delayMs = Math.max(0, dueInMs ?? 0);
    this.#result.retrying.push({ id, workflowId, attempts, retriesLeft, delayMs });
  }

  #noteWaiting(what: string): void {
    this.#result.waiting += 1;
    this.#result.waitingFor = what;
  }

  #holdBack(delivery: DueDelivery, why: string): void {
    this.#heldBack.push(delivery.id);
    this.#noteWaiting(why);
  }

  async #skip(endpointId: string, ids: string[], why: string): Promise<void> {
    if (ids.length === 0) return;
    await skipDeliveries(this.#deps.db, ids, why);
    this.#result.skipped += ids.length;
    noteSkipped({ endpointId, count: ids.length });
  }

  /** Lets every call finish, whatever fails meanwhile: a repeated activity must not call in parallel with it. */
  async #attemptAll(groups: DueDelivery[][], targets: Map<string, DeliveryTarget>): Promise<void> {
    const waiting = groups.values();
    const parallel = Array.from({ length: Math.min(CONCURRENCY, groups.length) }, async () => {
      for (const group of waiting) await this.#attemptInOrder(group, targets);
    });
    const failed = (await Promise.allSettled(parallel)).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }

  /** Deliveries of one object: one that is to be attempted again holds back those after it. */
  async #attemptInOrder(group: readonly DueDelivery[], targets: Map<string, DeliveryTarget>): Promise<void> {
    let goesOn = true;
    for (const delivery of group) {
      const target = targets.get(delivery.endpointId);
      if (!goesOn || delivery.isHeldBack) this.#holdBack(delivery, 'an earlier event of the same object');
      else if (!target) this.#result.notAttempted.push(delivery.id);
      else goesOn = await this.#attemptInTime(delivery, target);
    }
  }

  /** Whether the next delivery of the object may go on. */
  async #attemptInTime(delivery: DueDelivery, target: DeliveryTarget): Promise<boolean> {
    if (!this.#limits.mayBegin()) {
      this.#result.notAttempted.push(delivery.id);
      return true;
    }
    const giveBack = await this.#acquireCall(delivery, target);
    try {
      if (this.#disabled.has(target.id))
        await this.#skip(delivery.endpointId, [delivery.id], 'the endpoint is disabled');
      else if (this.#isAway(delivery, target)) {
        this.#holdBack(delivery, 'the endpoint, which does not respond');
        return false;
      } else if (!this.#limits.mayBegin()) this.#result.notAttempted.push(delivery.id);
      else if (delivery.isReplay && (await isWithdrawn(this.#deps.db, delivery.id))) await this.#putBack([delivery.id]);
      else return await this.#attempt(delivery, target, giveBack);
      return true;
    } finally {
      giveBack();
    }
  }

  /** Waits for the right to call; resolves with what gives it back, once. */
  async #acquireCall({ isReplay }: DueDelivery, { id }: DeliveryTarget): Promise<() => void> {
    const held = [...(isReplay ? [await this.#replayCalls.acquire(id)] : []), await this.#deps.slots.acquire(id)];
    return () => {
      for (const giveBack of held.splice(0)) giveBack();
    };
  }

  #isAway({ isForced }: DueDelivery, target: DeliveryTarget): boolean {
    return !isForced && this.#store.openUntil(target) > performance.now();
  }

  /** `endCall`: called once the endpoint has taken it. What it refuses counts for the breaker before the next call. */
  async #attempt(delivery: DueDelivery, target: DeliveryTarget, endCall: () => void): Promise<boolean> {
    const { db, poster, webhook } = this.#deps;
    const data = delivery.data ?? (await loadEventData(db, delivery.eventId));
    if (data === undefined) {
      await this.#skip(delivery.endpointId, [delivery.id], 'the event is no longer stored');
      return true;
    }
    const at = new Date();
    const outcome = await callEndpoint(poster, {
      delivery,
      target: this.#open(target),
      data,
      at,
      timeoutMs: webhook.timeoutMs,
      signal: this.#limits.cancelCalls,
    });
    if (isLongResponse(outcome)) this.#noteLongResponse(target.id);
    if (outcome.httpStatus === 410) await this.#disable(target.id);
    const result = this.#resultOf({ delivery, target, at, outcome });
    if (result.status === 'delivered') endCall();
    await this.#record(result, delivery, target);
    return result.status !== 'pending';
  }

  #noteLongResponse(endpointId: string): void {
    this.#isCostly = true;
    this.#deps.slots.noteLongResponse(endpointId);
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

  #resultOf(attempt: { delivery: DueDelivery; target: DeliveryTarget; at: Date; outcome: PostOutcome }): AttemptResult {
    const { delivery, target, at, outcome } = attempt;
    const { httpStatus, responseBody, durationMs } = outcome;
    const number = delivery.attemptsCount + 1;
    const delivered = isDelivered(httpStatus);
    const isLast = delivered || httpStatus === 410;
    const delayMs = isLast ? undefined : this.#retryDelay(number - delivery.scheduleFrom, outcome);
    const willRetry = delayMs !== undefined;
    return {
      deliveryId: delivery.id,
      endpointId: target.id,
      number,
      at,
      url: target.url,
      httpStatus,
      responseBody,
      error: outcome.error ?? describeStatus(httpStatus),
      errorKind: outcome.errorKind ?? (delivered ? null : 'status'),
      durationMs,
      status: delivered ? 'delivered' : willRetry ? 'pending' : 'failed',
      nextAttemptInMs: delayMs ?? null,
      runId: this.#run.runId,
      attemptedBy: this.#run.workflowId,
      ...this.#runAfter(delivery, target, willRetry && outcome),
    };
  }

  /** The run that has the delivery from now on. A retry is made by a run of its own, unless the endpoint is away. */
  #runAfter(
    delivery: DueDelivery,
    target: DeliveryTarget,
    toRetry: PostOutcome | false,
  ): Pick<AttemptResult, 'workflowId' | 'runs'> {
    const { id, runs, isReplay } = delivery;
    const { workflowId } = this.#run;
    if (!toRetry) return { workflowId, runs };
    const isAway =
      outcomeOf(toRetry.httpStatus) === 'away' &&
      (target.breakerUntil !== null || target.failuresInARow >= OPEN_AFTER - 1 || this.#isAway(delivery, target));
    const isOneOfMany = this.#input.deliveryIds.length > 1;
    // one that has waited in this run for its attempt is counted already
    const isFirstRetry = isOneOfMany || delivery.dueInMs === null;
    const isCostly = target.failuresInARow > 0 || target.lastSuccessAt === null;
    const mostRetrying = isCostly ? MAX_RETRYING_OF_COSTLY : MAX_RETRYING_RUNS;
    const tooMany = isFirstRetry && target.retryingRuns + this.#retryingHere >= mostRetrying;
    if (isAway || tooMany || isReplay) return { workflowId: null, runs };
    if (isFirstRetry) this.#retryingHere += 1;
    // the number that this run took for a delivery that is one of many names the run of its own
    return { workflowId: isOneOfMany ? deliveryWorkflowId(id, runs - 1) : workflowId, runs };
  }

  #retryDelay(attemptsMade: number, { retryAfter }: PostOutcome): number | undefined {
    const { retryScheduleMs } = this.#deps.webhook;
    return nextDelay(retryScheduleMs, attemptsMade, parseRetryAfter(retryAfter, new Date()), Math.random());
  }

  async #record(result: AttemptResult, delivery: DueDelivery, target: DeliveryTarget): Promise<void> {
    const { deliveryId, number, httpStatus, error, status, nextAttemptInMs, workflowId } = result;
    await this.#store.add(result, target);
    noteAttempt({
      endpointId: target.id,
      outcome: status === 'pending' ? 'retrying' : status,
      httpStatus,
      durationMs: result.durationMs,
      sinceCommitMs: Date.now() - delivery.eventCreatedAt.getTime(),
    });
    this.#result.last = { number, at: result.at.toISOString(), httpStatus, error };
    if (status === 'delivered') this.#result.delivered++;
    else if (status === 'failed') {
      this.#result.failed.push(deliveryId);
      this.#deps.logger.warn({ deliveryId, endpointId: target.id, httpStatus, number }, 'gave up a webhook delivery');
    } else if (workflowId === null) this.#noteWaiting('its next attempt');
    else this.#noteRetry({ ...delivery, workflowId }, number, nextAttemptInMs);
  }
}
