import { ERASED } from '../../db/coordination/removal.ts';
import type { Db } from '../../db/driver/client.ts';
import { disableGoneEndpoint } from '../../db/queries/endpoints.ts';
import type { Logger } from '../../runtime/logger.ts';
import { measured } from '../../runtime/measure.ts';
import type { Secrets } from '../../security/secrets.ts';
import { deliveryWorkflowId } from '../../workflows/names.ts';
import { attemptInOrder } from './attempt-queue.ts';
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
import { OPEN_AFTER, outcomeOf, returnProbe } from './endpoint-health.ts';
import { isLongResponse, type Poster, type PostOutcome } from './post.ts';
import { putBackReplayed } from '../log/replay-state.ts';
import { nextDelay, parseRetryAfter } from './retry-schedule.ts';
import { RoundResult } from './round-result.ts';
import { RoundTargets } from './round-targets.ts';
import { runAfter } from './run-after.ts';

export interface DeliverDeps {
  db: Db;
  secrets: Pick<Secrets, 'open'>;
  poster: Pick<Poster, 'post'>;
  slots: CallSlots;
  logger: Logger;
  /** milliseconds; see Config.webhook */
  webhook: { retryScheduleMs: readonly number[]; timeoutMs: number };
  /**
   * Aborted when the worker shuts down: no further call begins, and a call that gets no response soon after is left to
   * another worker. Temporal does not cancel local activities then.
   */
  shutdown?: AbortSignal;
  /**
   * Called when a run begins its attempts and when it has ended them, whatever their results: its line may get its next turn.
   */
  onAttempts?(workflowId: string, are: 'begun' | 'ended', end?: RunEnd): void;
  /** Makes a run that waits for its next attempt attempt now; rejects when it could not be signalled. */
  hurry?(workflowId: string): Promise<unknown>;
}

/** Says when no further call may begin, and when calls under way are cancelled. */
export interface AttemptLimits {
  mayBegin(): boolean;
  /** why calls are cancelled: the activity was cancelled, or the worker is shutting down */
  reason(): Error | undefined;
  cancelCalls: AbortSignal;
}

/** Stores results of attempts. */
export interface ResultStore {
  /** Resolves when the result is stored. */
  add(result: AttemptResult, target: DeliveryTarget): Promise<void>;
  /** until when the breaker of an endpoint is open, with the results stored since it was loaded; see EndpointHealth */
  openUntil(target: DeliveryTarget): number;
}

/** Concurrent calls of one run of a replay: half the slots of an endpoint, the others are left to live events. */
const REPLAY_CALLS = 5;
/** Event data up to this length is read for the whole run at once: 3 MB for a batch. Longer data is read before its call. */
const INLINE_BYTES = 64 * 1024;

interface Identity {
  workflowId: string;
  runId: string;
}

/** Makes the next attempt of each delivery of one run: events of one object in their order, different objects concurrently. */
export class AttemptRound {
  readonly #deps;
  readonly #store;
  readonly #run;
  readonly #input;
  readonly #limits;
  readonly #result: RoundResult;
  readonly #targets: RoundTargets;
  readonly #opened = new Map<DeliveryTarget, OpenTarget | undefined>();
  /** deliveries that are released at the end */
  readonly #heldBack: string[] = [];
  readonly #replayCalls = createCallSlots(() => REPLAY_CALLS);
  #retryingHere = 0;
  #isCostly = false;
  #hasCalled = false;

  constructor(deps: DeliverDeps, store: ResultStore, run: Identity & { input: AttemptInput }, limits: AttemptLimits) {
    this.#deps = deps;
    this.#store = store;
    this.#run = run;
    this.#input = run.input;
    this.#limits = limits;
    this.#targets = new RoundTargets(deps.db);
    this.#result = new RoundResult(run.runId, deps.webhook.retryScheduleMs.length);
  }

  /** Whether a response was longer than what is kept of it. */
  get isCostly(): boolean {
    return this.#isCostly;
  }

  async run(): Promise<AttemptedDeliveries> {
    const { db } = this.#deps;
    const { deliveryIds, reset } = this.#input;
    if (reset) await this.#reopen(deliveryIds);
    const { deliveries, targets } = await loadDueDeliveries(db, deliveryIds, INLINE_BYTES);
    const due = deliveries.filter((delivery) => {
      const state = this.#dueState(delivery);
      if (state === 'attempted')
        this.#result.attemptedEarlier({ ...delivery, workflowId: this.#retryingRun(delivery) });
      return state === 'due';
    });
    const wanted = await this.#wanted(due, targets);
    this.#targets.begin(targets);
    await attemptInOrder(wanted.values(), {
      attempt: (delivery) => this.#attemptOf(delivery),
      holdBack: (delivery) => this.#holdBack(delivery, 'an earlier event of the same object'),
    });
    await this.#returnProbe(due, targets);
    if (this.#heldBack.length > 0) await releaseDeliveries(db, this.#heldBack, this.#run.workflowId);
    const reason = this.#limits.reason();
    if (reason && this.#result.value.notAttempted.length > 0) throw reason;
    return this.#result.value;
  }

  /** The deliveries to attempt, by object; the others get the status that says why they are not attempted. */
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

  /** A run that has made no call was no probe. */
  async #returnProbe([probe]: readonly DueDelivery[], targets: Map<string, DeliveryTarget>): Promise<void> {
    if (!probe?.claimedAt || !targets.get(probe.endpointId)?.breakerUntil) return;
    if (this.#hasCalled || this.#result.value.notAttempted.length > 0) return;
    await returnProbe(this.#deps.db, probe.endpointId, probe.claimedAt);
  }

  async #putBack(withdrawn: string[]): Promise<void> {
    await putBackReplayed(this.#deps.db, withdrawn, this.#run.workflowId);
    // a delivery that was retried by hand in the meantime stays pending
    await releaseDeliveries(this.#deps.db, withdrawn, this.#run.workflowId);
    this.#result.skipped(withdrawn.length);
  }

  /** Makes deliveries that have ended pending again, except those that this execution has attempted. */
  async #reopen(deliveryIds: string[]): Promise<void> {
    const { deliveries } = await loadDueDeliveries(this.#deps.db, deliveryIds, 0);
    const ended = deliveries.filter(({ runId, status }) => status !== 'pending' && runId !== this.#run.runId);
    const ids = ended.map(({ id }) => id);
    if (ids.length > 0) await reopenDeliveries(this.#deps.db, ids, this.#run.workflowId);
  }

  /** The run of this one that waits for the next attempt, see `#runAfter`; null: none does, or a claim gave the delivery to another. */
  #retryingRun({ id, workflowId, runs }: DueDelivery): string | null {
    const isSame = workflowId === this.#run.workflowId;
    const isOwn = this.#input.deliveryIds.length > 1 && workflowId === deliveryWorkflowId(id, runs - 1);
    return isSame || isOwn ? workflowId : null;
  }

  /** Whether the attempt is due, was made by an earlier execution of the activity, or belongs to another run. */
  #dueState(delivery: DueDelivery): 'due' | 'attempted' | 'other run' {
    const { status, attemptsCount, workflowId, runId } = delivery;
    const { after } = this.#input;
    const isOwn = workflowId === this.#run.workflowId;
    const isNext = after === undefined ? runId !== this.#run.runId && !this.#isEarly(delivery) : attemptsCount <= after;
    if (isOwn && status === 'pending' && isNext) return 'due';
    return isOwn || runId === this.#run.runId ? 'attempted' : 'other run';
  }

  /** Whether a run that continues after a batch has to wait for its first attempt. */
  #isEarly({ dueInMs, isForced }: DueDelivery): boolean {
    return !this.#input.reset && !isForced && dueInMs !== null && dueInMs > 0;
  }

  #holdBack(delivery: DueDelivery, why: string): void {
    this.#heldBack.push(delivery.id);
    this.#result.waitsFor(why);
  }

  async #skip(endpointId: string, ids: string[], why: string): Promise<void> {
    if (ids.length === 0) return;
    await skipDeliveries(this.#deps.db, ids, why);
    this.#result.skipped(ids.length);
    measured('webhookSkipped', { endpointId, count: ids.length });
  }

  /** Attempts one delivery once its endpoint has a slot. Resolves with whether the next delivery of its object may follow. */
  async #attemptOf(delivery: DueDelivery): Promise<boolean> {
    const { id, endpointId } = delivery;
    if (!this.#limits.mayBegin()) {
      this.#result.notAttempted(id);
      return true;
    }
    const giveBack = await this.#acquireCall(delivery);
    try {
      const target = await this.#targets.get(endpointId);
      if (delivery.isReplay && (await isWithdrawn(this.#deps.db, id))) await this.#putBack([id]);
      else if (!target?.enabled)
        await this.#skip(endpointId, [id], `the endpoint is ${target ? 'disabled' : 'deleted'}`);
      else if (this.#isAway(delivery, target)) {
        this.#holdBack(delivery, 'the endpoint, which does not respond');
        return false;
      } else if (!this.#limits.mayBegin()) this.#result.notAttempted(id);
      else return await this.#attempt(delivery, target, giveBack);
      return true;
    } finally {
      giveBack();
    }
  }

  /** Waits for the slots of a call; resolves with the function that gives them back once. */
  async #acquireCall({ isReplay, endpointId: id }: DueDelivery): Promise<() => void> {
    const held = [...(isReplay ? [await this.#replayCalls.acquire(id)] : []), await this.#deps.slots.acquire(id)];
    return () => {
      for (const giveBack of held.splice(0)) giveBack();
    };
  }

  #isAway({ isForced }: DueDelivery, target: DeliveryTarget): boolean {
    return !isForced && this.#store.openUntil(target) > performance.now();
  }

  /** `endCall` is called when the endpoint has taken the call. A failure is stored before the next call: the breaker counts it. */
  async #attempt(delivery: DueDelivery, target: DeliveryTarget, endCall: () => void): Promise<boolean> {
    const { db, poster, webhook } = this.#deps;
    const data = delivery.data ?? (await loadEventData(db, delivery.eventId));
    if (data === undefined || data === ERASED) {
      const why = data === undefined ? 'the event is no longer stored' : 'the content of the event was erased';
      await this.#skip(delivery.endpointId, [delivery.id], why);
      return true;
    }
    const at = new Date();
    this.#hasCalled = true;
    const outcome = await callEndpoint(poster, {
      delivery,
      target: this.#open(target),
      data,
      at,
      timeoutMs: webhook.timeoutMs,
      signal: this.#limits.cancelCalls,
    });
    if (isLongResponse(outcome)) this.#noteLongResponse(target.id);
    if (outcome.httpStatus === 410) await this.#disable(target);
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
    if (!this.#opened.has(target)) this.#opened.set(target, openTarget(this.#deps, target));
    return this.#opened.get(target);
  }

  /** Disables the endpoint that answered 410, unless it has got another URL since. */
  async #disable(target: DeliveryTarget): Promise<void> {
    const { id: endpointId } = target;
    const changed = await disableGoneEndpoint(this.#deps.db, target);
    this.#targets.expire();
    if (changed) this.#deps.logger.warn({ endpointId }, 'disabled webhook endpoint: it answered 410');
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

  /** The run that has the delivery from now on; null: it waits in the queue. */
  #runAfter(
    delivery: DueDelivery,
    target: DeliveryTarget,
    toRetry: PostOutcome | false,
  ): Pick<AttemptResult, 'workflowId' | 'runs'> {
    const { id, runs, isReplay } = delivery;
    const { workflowId } = this.#run;
    if (!toRetry) return { workflowId, runs };
    const isOneOfMany = this.#input.deliveryIds.length > 1;
    const isFirstRetry = isOneOfMany || delivery.dueInMs === null;
    const after = runAfter({
      isAway: outcomeOf(toRetry.httpStatus) === 'away' && this.#isGoingAway(delivery, target),
      isReplay,
      isOneOfMany,
      isFirstRetry,
      isPoor: target.failuresInARow > 0 || target.lastSuccessAt === null,
      retryingRuns: target.retryingRuns + this.#retryingHere,
    });
    if (after === 'queue') return { workflowId: null, runs };
    if (isFirstRetry) this.#retryingHere += 1;
    // a delivery of a batch has already counted its batch: the number before names its own run
    return { workflowId: after === 'own' ? deliveryWorkflowId(id, runs - 1) : workflowId, runs };
  }

  /** Whether the breaker of the endpoint is open, or this failure opens it. */
  #isGoingAway(delivery: DueDelivery, target: DeliveryTarget): boolean {
    return target.breakerUntil !== null || target.failuresInARow >= OPEN_AFTER - 1 || this.#isAway(delivery, target);
  }

  #retryDelay(attemptsMade: number, { retryAfter }: PostOutcome): number | undefined {
    const { retryScheduleMs } = this.#deps.webhook;
    return nextDelay(retryScheduleMs, attemptsMade, parseRetryAfter(retryAfter, new Date()), Math.random());
  }

  async #record(result: AttemptResult, delivery: DueDelivery, target: DeliveryTarget): Promise<void> {
    const { deliveryId, number, httpStatus, error, status, nextAttemptInMs, workflowId } = result;
    await this.#store.add(result, target);
    measured('webhookAttempt', {
      endpointId: target.id,
      outcome: status === 'pending' ? 'retrying' : status,
      httpStatus,
      durationMs: result.durationMs,
      sinceCommitMs: isLive(delivery) ? Date.now() - delivery.eventCreatedAt.getTime() : null,
    });
    const last = { number, at: result.at.toISOString(), httpStatus, error };
    if (status === 'delivered') this.#result.delivered(last);
    else if (status === 'pending') this.#result.toRetry({ ...delivery, workflowId }, last, nextAttemptInMs);
    else {
      this.#result.failed(deliveryId, last);
      this.#deps.logger.warn({ deliveryId, endpointId: target.id, httpStatus, number }, 'gave up webhook delivery');
    }
  }
}

/** Whether it is made for the first time: a replay or a retry by hand says nothing of how fast events are delivered. */
const isLive = ({ isReplay, isForced, scheduleFrom }: DueDelivery) => !isReplay && !isForced && scheduleFrom === 0;
