import {
  ActivityCancellationType,
  continueAsNew,
  patched,
  proxyActivities,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { BatchActivities, BatchProgress } from '../activities/change-emails.ts';
import type { ErrorCode } from '../contract/errors.ts';
import { waitAfter } from './backoff.ts';
import { type Failed, readFailure } from './failure.ts';
import { QUEUES } from './names.ts';
import { classOf, type StateTracker, trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * state     what happens                                                    next
 * changing  changeEmailsOf, in bounded steps                                done     no email is pending
 *                                                                           waiting  an earlier batch comes first, the mail
 *                                                                                    server asks for a pause, or it or a part
 *                                                                                    of this installation is away
 *                                                                           done     it fails: what is pending fails
 * waiting   a timer                                                         changing
 * done      final: the counts of the emails
 *
 * The store has the emails and their results: a lost run is started again, and changes what is pending.
 */

const { changeEmailsOf } = proxyActivities<BatchActivities>({
  taskQueue: QUEUES.background,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '10s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { initialInterval: '1s', maximumInterval: '30s', maximumAttempts: 6 },
});
const { failBatch } = proxyActivities<BatchActivities>({
  taskQueue: QUEUES.background,
  startToCloseTimeout: '1m',
  retry: { initialInterval: '1s', maximumInterval: '1m' },
});

/** Not the fault of the batch or of its mail server. */
const OUTAGES: readonly string[] = ['unavailable', 'storage_full', 'lease_lost'];
const OUTAGE_MS = 30_000;
/** Between steps that fail for the mail server, in addition to the attempts of each. */
const SERVER_BACKOFF = { firstMs: 1_000, longestMs: 60_000 };
/** How long a mail server may fail, or ask for pauses without a change in between, until what is pending fails. */
const PATIENCE_MS = 3_600_000;
/** Between two looks at whether an earlier batch has ended. */
const TURN_BACKOFF = { firstMs: 500, longestMs: 15_000 };

export interface ChangeEmailsInput {
  accountId: string;
  batchId: string;
  /** left out: an hour; short in tests */
  patienceMs?: number;
  /** factor on every wait; small in tests */
  pace?: number;
  /** from the previous execution */
  carried?: Paused;
}

/**
 * Since when, in epoch milliseconds, the mail server has asked for pauses while so many emails stay pending, without an outage of
 * this installation in between.
 */
interface Paused {
  since: number;
  pending: number;
}

/** A server that throttles may ask for no time at all. */
const SHORTEST_PAUSE_MS = 1_000;

/** Changes the emails of one batch. */
export async function changeEmails(input: ChangeEmailsInput): Promise<BatchProgress> {
  const shown = trackState('changing');
  setSearchAttributes(input.accountId, undefined, [input.batchId]);
  const run = new Run(input, shown);
  while (!workflowInfo().continueAsNewSuggested) {
    const progress = await run.step();
    if (!progress) continue;
    shown.enter('done', { counts: { ...progress } });
    return progress;
  }
  return continueAsNew<typeof changeEmails>({ ...input, ...(run.paused ? { carried: run.paused } : {}) });
}

/** One execution of the workflow. */
class Run {
  readonly #input: ChangeEmailsInput;
  readonly #shown: StateTracker;
  /** looks in a row that found an earlier batch */
  #looks = 0;
  /** steps in a row that failed for the mail server */
  #failures = 0;
  /** when a step was last made without a failure */
  #workedAt = Date.now();
  /** when the first of the present failures of the mail server was seen */
  #failsSince: number | undefined;
  paused: Paused | undefined;

  constructor(input: ChangeEmailsInput, shown: StateTracker) {
    this.#input = input;
    this.paused = input.carried;
    this.#shown = shown;
  }

  /** One step, and the wait after it; returns the counts of the emails when the batch has ended. */
  async step(): Promise<BatchProgress | undefined> {
    const { accountId, batchId } = this.#input;
    try {
      const { isBehind, pauseMs, pauseDetail, ...progress } = await changeEmailsOf({
        accountId,
        batchId,
        sleeps: true,
      });
      if (progress.pending === 0) return progress;
      this.#shown.enter('changing', { counts: { ...progress }, lastError: null });
      this.#failures = 0;
      this.#workedAt = Date.now();
      this.#failsSince = undefined;
      this.#looks = isBehind ? this.#looks + 1 : 0;
      // a worker of an earlier version continues at once
      if (!(isBehind || pauseMs !== undefined) || !patched('await-turn')) return undefined;
      if (isBehind) await this.#wait(waitAfter(this.#looks, TURN_BACKOFF), 'for an earlier batch');
      return pauseMs === undefined ? undefined : await this.#pause(pauseMs, progress, pauseDetail);
    } catch (error) {
      const failed = readFailure(error);
      if (failed.kind === 'cancelled') throw error;
      return this.#afterFailure(failed);
    }
  }

  /** Waits as long as the mail server asks, unless it has for too long. */
  async #pause(
    ms: number,
    { pending }: BatchProgress,
    detail = 'the mail server asks for pauses',
  ): Promise<BatchProgress | undefined> {
    const { batchId, patienceMs = PATIENCE_MS } = this.#input;
    const { since } = (this.paused = this.paused?.pending === pending ? this.paused : { since: Date.now(), pending });
    if (Date.now() - since >= patienceMs && patched('patience-in-pauses')) {
      return failBatch({ batchId, error: { code: 'provider_error', detail } });
    }
    await this.#wait(Math.max(ms, SHORTEST_PAUSE_MS), 'as long as the mail server asks');
    return undefined;
  }

  async #afterFailure(failed: Failed): Promise<BatchProgress | undefined> {
    const { batchId, patienceMs = PATIENCE_MS } = this.#input;
    if (failed.kind !== 'failed' || OUTAGES.includes(failed.code)) {
      this.#failsSince = undefined;
      this.paused = undefined;
      await this.#wait(OUTAGE_MS, 'for this installation to be available', failed);
      return undefined;
    }
    const isPatient = failed.code === 'provider_error' && this.#serverFailsFor() < patienceMs;
    if (!isPatient || !patched('await-mail-server')) {
      return failBatch({ batchId, error: { code: failed.code as ErrorCode, detail: failed.detail } });
    }
    this.#failures += 1;
    await this.#wait(waitAfter(this.#failures, SERVER_BACKOFF), 'for the mail server', failed);
    return undefined;
  }

  /** How long the mail server has failed without a success or an outage of this installation in between, ms. */
  #serverFailsFor(): number {
    this.#failsSince ??= Date.now();
    // an earlier version counts from the last step that was made
    return Date.now() - (patched('patience-from-failure') ? this.#failsSince : this.#workedAt);
  }

  async #wait(ms: number, summary: string, failed?: Failed): Promise<void> {
    const lastError = failed ? { lastError: classOf(failed) } : {};
    const waitMs = ms * (this.#input.pace ?? 1);
    this.#shown.enter('waiting', { ...lastError, nextAttemptMs: waitMs });
    await sleep(waitMs, { summary });
    this.#shown.enter('changing');
  }
}
