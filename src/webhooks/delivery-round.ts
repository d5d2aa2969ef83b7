import type { Db } from '../db/client.ts';
import type { Logger } from '../logger.ts';
import type { Secrets } from '../secrets.ts';
import { envelopeText } from '../contract/events.ts';
import { deliveryWorkflowId } from '../workflows/names.ts';
import {
  type DeliveryTarget,
  disableGoneEndpoint,
  type DueDelivery,
  loadDue,
  loadEventData,
  skipDeliveries,
  type AttemptResult,
} from './delivery-state.ts';
import type { Poster, PostOutcome } from './post.ts';
import type { RecordQueue } from './record-queue.ts';
import { nextDelay, parseRetryAfter } from './schedule.ts';
import { type CallHeader, callHeaders } from './sign.ts';

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

/** When to begin no further call, and when to give up those under way. */
export interface End {
  mayBegin(): boolean;
  /** why calls are given up: the activity was cancelled, or the worker ends */
  reason(): Error | undefined;
  giveUp: AbortSignal;
  stop(): void;
}

/** Calls under way at a time for one run. */
const CONCURRENCY = 10;
/** Event data up to this length is read for the whole run at once. */
const INLINE_BYTES = 64 * 1024;

/** An endpoint that can be called. */
interface OpenTarget {
  url: string;
  headers: CallHeader[];
  secret: string;
  previousSecret: string | undefined;
}

/** One run of `tryDeliveries`. */
export class DeliveryRound {
  readonly #deps;
  readonly #queue;
  readonly #workflowId;
  readonly #input;
  readonly #end;
  readonly #result: TriedDeliveries;
  readonly #gone = new Set<string>();
  readonly #opened = new Map<string, OpenTarget | null>();

  constructor(deps: DeliverDeps, queue: RecordQueue<AttemptResult>, workflowId: string, input: TryInput, end: End) {
    this.#deps = deps;
    this.#queue = queue;
    this.#workflowId = workflowId;
    this.#input = input;
    this.#end = end;
    const retries = deps.webhook.retryScheduleMs.length;
    this.#result = { delivered: 0, skipped: 0, again: [], failed: [], left: [], retries };
  }

  async run(): Promise<TriedDeliveries> {
    const { deliveries, targets } = await loadDue(this.#deps.db, this.#input.deliveryIds, INLINE_BYTES);
    const byObject = new Map<string, DueDelivery[]>();
    const unwanted: Record<'deleted' | 'disabled', string[]> = { deleted: [], disabled: [] };
    for (const delivery of deliveries) {
      if (!this.#isDue(delivery)) continue;
      const target = targets.get(delivery.endpointId);
      if (!target?.enabled) unwanted[target ? 'disabled' : 'deleted'].push(delivery.id);
      else byObject.set(delivery.objectId, [...(byObject.get(delivery.objectId) ?? []), delivery]);
    }
    for (const [why, ids] of Object.entries(unwanted)) await this.#skip(ids, `the endpoint is ${why}`);
    await this.#tryAll([...byObject.values()], targets);
    const reason = this.#end.reason();
    if (reason && this.#result.left.length > 0) throw reason;
    return this.#result;
  }

  /** Whether the try is still to be made; notes the outcome of one that has been made. */
  #isDue(delivery: DueDelivery): boolean {
    const { id, status, attemptsCount, workflowId } = delivery;
    const { attemptsBefore, triesMade, deliveryIds } = this.#input;
    const ours = workflowId === this.#workflowId;
    // one that failed its first try in a batch belongs to its own run from then on, which the batch still has to start
    const oursToStart = !ours && deliveryIds.length > 1 && workflowId === deliveryWorkflowId(id) && attemptsCount > 0;
    if (!ours && !oursToStart) return false;
    const made = attemptsCount - attemptsBefore;
    if (status === 'pending' && made <= triesMade && ours) return true;
    if (status === 'pending') this.#again(id, made, delivery.nextAttemptAt);
    else if (status === 'failed') this.#result.failed.push(id);
    else this.#result[status]++;
    return false;
  }

  #again(id: string, triesMade: number, at: Date | null): void {
    const delayMs = Math.max(0, (at?.getTime() ?? 0) - Date.now());
    this.#result.again.push({ id, triesMade, delayMs });
  }

  async #skip(ids: string[], why: string): Promise<void> {
    if (ids.length === 0) return;
    await skipDeliveries(this.#deps.db, ids, why);
    this.#result.skipped += ids.length;
  }

  /** Every group is let finish, whatever happens in another: a call under way must not be repeated beside itself. */
  async #tryAll(groups: DueDelivery[][], targets: Map<string, DeliveryTarget>): Promise<void> {
    const waiting = groups.values();
    const lanes = Array.from({ length: Math.min(CONCURRENCY, groups.length) }, async () => {
      for (const group of waiting) {
        for (const delivery of group) {
          const target = targets.get(delivery.endpointId);
          if (!target || !this.#end.mayBegin()) this.#result.left.push(delivery.id);
          else if (this.#gone.has(target.id)) await this.#skip([delivery.id], 'the endpoint is disabled');
          else await this.#tryOne(delivery, target);
        }
      }
    });
    const failed = (await Promise.allSettled(lanes)).find((lane) => lane.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async #tryOne(delivery: DueDelivery, sealed: DeliveryTarget): Promise<void> {
    const data = delivery.data ?? (await loadEventData(this.#deps.db, delivery.eventId));
    if (data === undefined) return this.#skip([delivery.id], 'the event is no longer stored');
    const at = new Date();
    const outcome = await this.#call(delivery, data, sealed, at);
    const gone = outcome.httpStatus === 410;
    if (gone && !this.#gone.has(sealed.id)) {
      this.#gone.add(sealed.id);
      const changed = await disableGoneEndpoint(this.#deps.db, sealed.id);
      if (changed) this.#deps.logger.warn({ endpointId: sealed.id }, 'disabled a webhook endpoint that answered 410');
    }
    await this.#store(delivery, sealed.url, at, outcome);
  }

  async #call(delivery: DueDelivery, data: string, sealed: DeliveryTarget, at: Date): Promise<PostOutcome> {
    const target = this.#open(sealed);
    if (!target) {
      const error = 'the stored secret of the endpoint cannot be read';
      return { httpStatus: null, responseBody: null, retryAfter: undefined, error, durationMs: 0 };
    }
    const { accountId, eventType: type, sequence, eventId } = delivery;
    const event = { id: eventId, type, createdAt: delivery.eventCreatedAt, accountId, sequence, data };
    const body = Buffer.from(envelopeText(event, sealed.id));
    const { secret, previousSecret } = target;
    return this.#deps.poster.post({
      url: target.url,
      headers: callHeaders(target.headers, {
        eventId,
        type,
        deliveryId: delivery.id,
        body,
        at,
        secret,
        previousSecret,
      }),
      body,
      timeoutMs: this.#deps.webhook.timeoutMs,
      signal: this.#end.giveUp,
    });
  }

  /** The endpoint with its secrets; null when they cannot be opened. */
  #open(sealed: DeliveryTarget): OpenTarget | null {
    const known = this.#opened.get(sealed.id);
    if (known !== undefined) return known;
    const open = (column: string, value: Buffer) =>
      this.#deps.secrets.open({ table: 'webhook_endpoints', column, id: sealed.id }, value);
    let target: OpenTarget | null;
    try {
      target = {
        url: sealed.url,
        headers: JSON.parse(open('headers', sealed.headers)) as CallHeader[],
        secret: open('secret', sealed.secret),
        previousSecret: sealed.previousSecret ? open('previous_secret', sealed.previousSecret) : undefined,
      };
    } catch (err) {
      this.#deps.logger.error({ err, endpointId: sealed.id }, 'cannot open the secrets of a webhook endpoint');
      target = null;
    }
    this.#opened.set(sealed.id, target);
    return target;
  }

  async #store(delivery: DueDelivery, url: string, at: Date, outcome: PostOutcome): Promise<void> {
    const { id, attemptsCount, endpointId } = delivery;
    const { httpStatus, responseBody, durationMs } = outcome;
    const number = attemptsCount + 1;
    const triesMade = number - this.#input.attemptsBefore;
    const delivered = httpStatus !== null && httpStatus >= 200 && httpStatus < 300;
    const delayMs = delivered || httpStatus === 410 ? undefined : this.#delay(triesMade, outcome);
    const status = delivered ? 'delivered' : delayMs === undefined ? 'failed' : 'pending';
    const nextAttemptAt = delayMs === undefined ? null : new Date(Date.now() + delayMs);
    const batch = this.#input.deliveryIds.length > 1;
    await this.#queue.add(id, {
      deliveryId: id,
      ...{ number, at, url, httpStatus, responseBody, durationMs, status, nextAttemptAt },
      error: outcome.error ?? (delivered ? null : explainAnswer(httpStatus)),
      workflowId: batch && !delivered ? deliveryWorkflowId(id) : this.#workflowId,
    });
    if (delivered) this.#result.delivered++;
    else if (status === 'pending') this.#again(id, triesMade, nextAttemptAt);
    else this.#result.failed.push(id);
    if (status === 'failed') {
      this.#deps.logger.warn({ deliveryId: id, endpointId, httpStatus, number }, 'gave up a webhook delivery');
    }
  }

  #delay(triesMade: number, { retryAfter }: PostOutcome): number | undefined {
    const { retryScheduleMs } = this.#deps.webhook;
    return nextDelay(retryScheduleMs, triesMade, parseRetryAfter(retryAfter, new Date()), Math.random());
  }
}

function explainAnswer(httpStatus: number | null): string {
  const redirect = httpStatus !== null && httpStatus >= 300 && httpStatus < 400;
  return `the endpoint answered ${httpStatus}${redirect ? ': redirects are not followed' : ''}`;
}
