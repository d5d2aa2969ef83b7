import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { sleep, withDeadline } from '../../async.ts';
import { ApiError, type ErrorCode, ERRORS } from '../../contract/errors.ts';
import type { FinishedRuns } from '../../db/coordination/finished-runs.ts';
import { type InstallationPart, PartUnavailable, unavailablePart } from '../../outage.ts';
import { QUEUES, searchableBy } from '../../workflows/names.ts';
import { notTaken, stopUntaken, waitingFor, wasTaken } from './untaken.ts';

/** A workflow that a caller waits for. */
export interface WorkflowCall extends Wait {
  type: string;
  workflowId: string;
  /** undefined: of no account yet */
  accountId?: string;
  /** what else it is about: ids by which operators find it; those that are not known are left out */
  resourceIds?: readonly (string | null | undefined)[];
  args: unknown[];
  /** shown in Temporal's UI; no mail text, no address */
  summary?: string;
}

/** How long a caller waits, and for what else. */
export interface Wait {
  /** ms that the caller waits */
  deadlineMs: number;
  /** whether the database knows of a worker; rejects when it is away: the worker gets no further then */
  hasWorker?: () => Promise<boolean>;
  /** resolves when its work is stored, before its run has ended; without it the end is waited for */
  finished?: Pick<FinishedRuns, 'waitFor'>;
}

/**
 * A part of the installation is away, so the caller does not learn what became of the workflow. `begun`: whether a worker
 * has begun it; `unknown`: Temporal did not confirm the start.
 */
export class CallOutage extends PartUnavailable {
  readonly begun: 'no' | 'yes' | 'unknown';
  constructor(part: InstallationPart, begun: CallOutage['begun'], cause?: unknown) {
    super(part, { cause });
    this.begun = begun;
  }
}

/** The workflow did not end while the caller waited, though everything of ours responds. */
export class StillRunning extends Error {
  override readonly name = 'StillRunning';
}

/** A workflow that Temporal, or a worker, does not take by then is not waited for, ms. */
const TAKEN_MS = 3_000;
/** How often Temporal and the database are asked while a caller waits, and how long Temporal may take to respond, ms. */
const CHECK_EVERY_MS = 3_000;
const TEMPORAL_MS = 1_500;
/** A start that reaches Temporal later than this after the call, since Temporal was frozen, is not made any more, ms. */
export const START_WITHIN_MS = 60_000;

/**
 * Starts a workflow, unless one of that id is running or has completed, and waits until its work is stored, or for its end.
 * One that failed is started again: its steps are safe to repeat. One that no worker takes is ended.
 * @throws CallOutage within 5 s of an outage
 */
export async function execute(client: Client, run: WorkflowCall): Promise<void> {
  const takenBy = Date.now() + TAKEN_MS;
  const stored = run.finished?.waitFor(run.workflowId);
  try {
    const started = await onceOnly(
      within(client, TAKEN_MS, () => client.workflow.start(run.type, optionsOf(run))),
    ).catch((error: unknown) => {
      throw outageOf(error, 'unknown') ?? error;
    });
    if (started) await awaitResult(client, run.workflowId, { ...run, takenBy }, stored?.done);
  } finally {
    stored?.stop();
  }
}

/** Waits as `execute` does, for a workflow that was started before. @throws CallOutage */
export async function awaitWorkflow(client: Client, workflowId: string, wait: Wait): Promise<void> {
  const stored = wait.finished?.waitFor(workflowId);
  try {
    await awaitResult(client, workflowId, { ...wait, takenBy: Date.now() + TAKEN_MS }, stored?.done);
  } finally {
    stored?.stop();
  }
}

function awaitResult(
  client: Client,
  workflowId: string,
  wait: Wait & { takenBy: number },
  stored: Promise<void> | undefined,
): Promise<void> {
  return watched(client, { workflowId, ...wait }, async () => {
    const result = client.workflow.getHandle(workflowId).result();
    await (stored ? Promise.race([result, stored]) : result);
  });
}

/** What is waited for. */
export interface Watched extends Wait {
  workflowId: string;
  /** when a worker must have taken it, ms since the epoch */
  takenBy?: number;
  /** it is not ended when no worker takes it, but done later */
  stays?: boolean;
}

/**
 * The result of a call to Temporal that lasts until a workflow has got somewhere; meanwhile it is seen to that Temporal,
 * the database and a worker are there. @throws CallOutage
 */
export async function watched<T>(client: Client, wait: Watched, call: () => Promise<T>): Promise<T> {
  const over = new AbortController();
  const calls = new AbortController();
  const until = Date.now() + wait.deadlineMs;
  // the watch decides what the deadline means
  const result = client
    .withDeadline(until + 2 * TEMPORAL_MS, () => client.withAbortSignal(calls.signal, call))
    .catch((error: unknown) => ended(client, wait.workflowId, error));
  try {
    return await Promise.race([result, watch(client, wait, { until, over: over.signal })]);
  } catch (error) {
    if (error instanceof CallOutage || error instanceof StillRunning) throw error;
    const away = outageOf(error, 'yes');
    throw away ?? error;
  } finally {
    over.abort();
    const left = setTimeout(() => calls.abort(), LEFT_MS).unref();
    void result.catch(() => {}).finally(() => clearTimeout(left));
  }
}

/** Never resolves; rejects when a part of the installation is away, or at the end of the wait. */
async function watch(
  client: Client,
  { workflowId, hasWorker, takenBy = Date.now() + TAKEN_MS, stays = false }: Watched,
  { until, over }: { until: number; over: AbortSignal },
): Promise<never> {
  await sleep(Math.min(takenBy, until) - Date.now(), over);
  for (;;) {
    // the sleep ends with the call: there is nothing left to ask
    if (over.aborted) return new Promise<never>(() => {});
    const [now, isBusy] = await Promise.all([
      ask(client, () => waitingFor(client, workflowId)),
      // within its own patience
      hasWorker?.(),
    ]).catch((error: unknown) => {
      throw outageOf(error, 'yes') ?? error;
    });
    if (over.aborted) return new Promise<never>(() => {});
    // one that is there and has much to do takes it in time, or not at all
    if (now === notTaken && isBusy && Date.now() < until) {
      await sleep(BUSY_MS, over);
      continue;
    }
    if (now === notTaken) {
      if (!stays) {
        await ask(client, () => stopUntaken(client, workflowId)).catch(() => undefined);
        // the result of the workflow says whether a worker was faster
        await sleep(RESULT_MS, over);
      }
      throw new CallOutage('worker', 'unknown');
    }
    // the worker that had begun is gone, and no other took it over while the caller waited
    if (now !== undefined && Date.now() >= until) throw new CallOutage('worker', 'yes');
    if (Date.now() >= until) throw new StillRunning('the deadline passed');
    await sleep(Math.min(CHECK_EVERY_MS, Math.max(until - Date.now(), 1)), over);
  }
}

/** How often it is asked whether a worker that is there has taken it, ms. */
const BUSY_MS = 1_000;
/** For the end of a workflow to arrive, ms. */
const RESULT_MS = 500;
/**
 * A call that is not waited for any more may end by itself, ms. Where it is cancelled just when Temporal reads for it, SQLite's
 * driver may interrupt every later statement, too (src/embedded/temporal.ts).
 */
const LEFT_MS = 2_000;

/** A workflow that was ended while it was waited for, by this caller or another one of the same. */
async function ended(client: Client, workflowId: string, error: unknown): Promise<never> {
  const isTerminated =
    error instanceof Error && error.cause instanceof Error && error.cause.name === 'TerminatedFailure';
  if (!isTerminated) throw error;
  const taken = await ask(client, () => wasTaken(client, workflowId)).catch(() => true);
  throw new CallOutage('worker', taken ? 'unknown' : 'no', error);
}

function ask<T>(client: Client, call: () => Promise<T>): Promise<T> {
  return within(client, TEMPORAL_MS, call);
}

/** The client's own deadline passes late while it waits to try again. */
function within<T>(client: Client, ms: number, call: () => Promise<T>): Promise<T> {
  const late = () => new PartUnavailable('temporal');
  return withDeadline(ms + GRACE_MS, client.withDeadline(Date.now() + ms, call), late);
}

const GRACE_MS = 200;

function outageOf(error: unknown, begun: CallOutage['begun']): CallOutage | undefined {
  const away = unavailablePart(error);
  return away && new CallOutage(away.part, begun, error);
}

function optionsOf({ workflowId, accountId, resourceIds, args, summary }: WorkflowCall) {
  return {
    taskQueue: QUEUES.commands,
    workflowIdConflictPolicy: 'USE_EXISTING' as const,
    workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' as const,
    workflowId,
    args,
    ...(summary === undefined ? {} : { staticSummary: summary }),
    typedSearchAttributes: searchableBy(accountId, resourceIds),
  };
}

/** False: a workflow of that id has completed already. */
async function onceOnly(starting: Promise<unknown>): Promise<boolean> {
  try {
    await starting;
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
}

/** The detail for a caller when something of the installation is away. */
export interface OutageTexts {
  /** it is known that nothing was done, and that nothing will be */
  notDone: string;
  mayBeDone: string;
}

const OUTAGE: OutageTexts = { notDone: 'nothing was done', mayBeDone: 'it may still be done' };

/**
 * What a failed workflow means to the caller: the code and the detail that the activity gave (see
 * src/activities/failures.ts). `late` is the detail when the deadline passed though everything of ours responds.
 */
export function workflowErrorToApiError(error: unknown, late: string, outage: OutageTexts = OUTAGE): ApiError {
  const { notDone, mayBeDone } = outage;
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (at instanceof CallOutage) return unavailable(at.detail, at.begun === 'no' ? notDone : mayBeDone, error);
    if (LATE.has(at.name)) return new ApiError('provider_error', late, { cause: error });
    const given = at.name === 'ApplicationFailure' ? failureToApiError(at, mayBeDone, error) : undefined;
    if (given) return given;
  }
  const away = unavailablePart(error);
  if (away) return unavailable(away.detail, mayBeDone, error);
  return new ApiError('unexpected_error', 'something unexpected happened', { cause: error });
}

function unavailable(detail: string, what: string, cause: unknown): ApiError {
  return new ApiError('service_unavailable', `${detail}: ${what}`, { cause });
}

/** Undefined for a failure that the activity gave no code of the contract. */
function failureToApiError(failure: Error, mayBeDone: string, cause: unknown): ApiError | undefined {
  const { details } = failure as Error & { details?: { code?: string; detail?: string }[] };
  const { code, detail } = details?.[0] ?? {};
  if (code === 'lease_lost') return new ApiError('not_found', 'there is no account with that id', { cause });
  if (code === 'unavailable' && detail) return unavailable(detail, mayBeDone, cause);
  if (code && Object.hasOwn(ERRORS, code) && detail) return new ApiError(code as ErrorCode, detail, { cause });
  return undefined;
}

/** Whether the workflow itself failed: any other error says nothing about it. */
export function isWorkflowFailure(error: unknown): boolean {
  let failed = false;
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (at.name === 'TerminatedFailure') return false;
    failed ||= at.name === 'ApplicationFailure' || at.name === 'TimeoutFailure' || at.name === 'WorkflowFailedError';
  }
  return failed;
}

const LATE = new Set(['TimeoutFailure', 'StillRunning', 'WorkflowUpdateRPCTimeoutOrCancelledError']);
