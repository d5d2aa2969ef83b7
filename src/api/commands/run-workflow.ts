import { withRenewal } from '../../async.ts';
import { type Client, WorkflowExecutionAlreadyStartedError, type WorkflowHandle } from '@temporalio/client';
import { sleep, withDeadline } from '../../async.ts';
import type { FinishedRuns } from '../../db/coordination/finished-runs.ts';
import { PartUnavailable } from '../../outage.ts';
import { QUEUES, searchableBy } from '../../workflows/names.ts';
import { CallOutage, isTerminated, outageOf, StillRunning } from './run-errors.ts';
import type { Turns } from './turns.ts';

/*
 * How a call of the API waits for a workflow. In reading order:
 *
 * execute  waits for the turn of the call, where it has one (turns.ts)
 * run      starts the workflow, or attaches to it, and waits for the first of three: what the caller wants of it, the
 *          notification that its work is stored, and the rejection of `watch`
 * watch    checks that Temporal, the database and a worker respond; stops a workflow that no worker takes
 * run-errors.ts  converts failures of the wait into the caller's errors
 *
 * The notification comes from Postgres (src/db/coordination/finished-runs.ts) as soon as the work
 * is committed. The result of an update with start comes when Temporal has stored the end of the run: a mark as read then took
 * 62 ms in place of 42 (docs/performance.md).
 */

/** The dependencies of each wait. */
export interface RunDeps {
  client: Client;
  /** whether a worker is available; rejects when the database is unavailable */
  hasWorker: () => Promise<boolean>;
  /** left out: callers wait until runs have ended */
  finished?: Pick<FinishedRuns, 'waitFor'>;
  /** milliseconds between two renewals of a row; for tests */
  renewMs?: number;
}

/** A workflow that a caller waits for. */
export interface WorkflowCall<T> {
  type: string;
  workflowId: string;
  /** by default `commands` */
  taskQueue?: string;
  /** undefined: of no account yet */
  accountId?: string;
  /** further ids by which operators find the run; unknown ones are left out */
  resourceIds?: readonly (string | null | undefined)[];
  args: unknown[];
  /** shown in Temporal's UI; no mail text, no address */
  summary: string;
  /** a signal to the run, also to one that has begun before */
  signal?: string;
  /** start again after completion; otherwise the call gets the earlier result */
  repeats?: boolean;
  /** leave it to a later worker when none takes it; otherwise it is terminated */
  isKept?: boolean;
  /** the call waits for its turn first, at most for this part of the deadline, by default TURN_PART */
  turn?: { turns: Turns; key: string; part?: number };
  /** renews the row of the work until the call ends: while it waits for its turn no run stands for it */
  renew?: () => Promise<void>;
  /** ms that the caller waits */
  deadlineMs: number;
  /** called once after that time; returns further ms to wait */
  extendMs?: () => Promise<number>;
  /** ends the wait; by default the result of the run, or the notification that its work is stored */
  until?: (waiting: Waiting) => Promise<T>;
}

interface Waiting {
  handle: WorkflowHandle;
  /** resolves with the notification, or never */
  stored: Promise<void>;
  /** aborts at the end of the wait */
  over: AbortSignal;
}

/** A start that reaches Temporal later than this after the call, because Temporal was frozen, is refused, ms. */
export const START_WITHIN_MS = 60_000;
/** The part of the deadline that a call may wait for its turn; the rest is for its work. */
const TURN_PART = 0.7;
/** For Temporal to confirm the start, and for a worker to take the workflow, ms. */
const TAKEN_MS = 3_000;
/** A workflow that waits longer than this for a worker, however busy the workers are, is stopped, and its call refused, ms. */
const UNTAKEN_MS = 5_000;
/** Interval of checks after a worker has taken the workflow, and before, ms. */
const CHECK_MS = { begun: 3_000, untaken: 1_000 };
/** The reason of the termination, in Temporal's UI. */
const UNTAKEN = 'no worker took it in time; the caller got that response';
/** The detail for the caller of a run that was terminated while it worked. */
const TERMINATED = 'the run of this call was terminated';
/** How long Temporal may take to respond to a check, ms. */
const TEMPORAL_MS = 1_500;
/** How long the result of a terminated workflow may take to arrive, ms. */
const RESULT_MS = 500;
/** The client's own deadline passes this much late while it waits before repeating a request, ms. */
const GRACE_MS = 200;

/**
 * Starts a workflow, or attaches to the one with that id, and waits. A failed one is started again: its steps are safe to
 * repeat. Rejects with the failure of the run, which `workflowErrorToApiError` reads.
 * @throws CallOutage within 5 s of an outage
 * @throws StillRunning at the deadline
 * @throws NotBegun when its turn did not come
 */
export async function execute<T = void>(deps: RunDeps, call: WorkflowCall<T>): Promise<T> {
  return call.renew ? withRenewal(call.renew, () => runInTurn(deps, call), deps.renewMs) : runInTurn(deps, call);
}

async function runInTurn<T>(deps: RunDeps, call: WorkflowCall<T>): Promise<T> {
  if (!call.turn) return run(deps, call);
  const { turns, key, part = TURN_PART } = call.turn;
  const until = performance.now() + call.deadlineMs;
  return turns.inTurn(key, part * call.deadlineMs, () => run(deps, { ...call, deadlineMs: until - performance.now() }));
}

async function run<T>(deps: RunDeps, call: WorkflowCall<T>): Promise<T> {
  const began = performance.now();
  const { client, finished } = deps;
  const { until = resultOrStored } = call;
  const over = new AbortController();
  // before the start: the work may be stored before Temporal has confirmed it
  const stored = finished?.waitFor(call.workflowId, over.signal) ?? new Promise<void>(() => {});
  try {
    const wait = async (handle: WorkflowHandle): Promise<T> => {
      const wanted = client.withAbortSignal(over.signal, () => until({ handle, stored, over: over.signal }));
      try {
        return await Promise.race([wanted, watch(deps, { ...call, began, handle }, over.signal)]);
      } catch (error) {
        const next = isTerminated(error) ? await successorOf(client, handle).catch(() => undefined) : undefined;
        return next ? wait(next) : failed(client, handle, error);
      }
    };
    return await wait(await start(client, call));
  } finally {
    over.abort();
  }
}

function resultOrStored<T>({ handle, stored }: Waiting): Promise<T> {
  return Promise.race<T>([handle.result(), stored as Promise<T>]);
}

async function start<T>(client: Client, call: WorkflowCall<T>): Promise<WorkflowHandle> {
  const {
    type,
    workflowId,
    taskQueue = QUEUES.commands,
    accountId,
    resourceIds,
    args,
    summary: staticSummary,
    repeats,
    signal,
  } = call;
  const options = {
    ...{ taskQueue, workflowId, args, staticSummary },
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: repeats ? 'ALLOW_DUPLICATE' : 'ALLOW_DUPLICATE_FAILED_ONLY',
    typedSearchAttributes: searchableBy(accountId, resourceIds),
  } as const;
  try {
    if (signal !== undefined) {
      const { signaledRunId } = await within(client, TAKEN_MS, () =>
        client.workflow.signalWithStart(type, { ...options, signal }),
      );
      return client.workflow.getHandle(workflowId, signaledRunId);
    }
    const started = await within(client, TAKEN_MS, () => client.workflow.start(type, options));
    return client.workflow.getHandle(workflowId, started.firstExecutionRunId);
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return client.workflow.getHandle(workflowId);
    throw outageOf(error, 'unknown') ?? error;
  }
}

/** The run that took the place of a terminated one: an operator has reset it. */
async function successorOf(client: Client, handle: WorkflowHandle): Promise<WorkflowHandle | undefined> {
  const latest = client.workflow.getHandle(handle.workflowId);
  const [ended, { runId }] = await within(client, TEMPORAL_MS, () =>
    Promise.all([handle.describe(), latest.describe()]),
  );
  return runId === ended.runId ? undefined : client.workflow.getHandle(handle.workflowId, runId);
}

/** Rejects with the error, or with the outage that it shows. */
async function failed(client: Client, handle: WorkflowHandle, error: unknown): Promise<never> {
  if (!isTerminated(error)) throw outageOf(error, 'yes') ?? error;
  // by an operator; or by a caller, since no worker took it
  const mayBeBegun = await isBegun(client, handle).catch(() => true);
  throw mayBeBegun ? new CallOutage('worker', 'unknown', error, TERMINATED) : new CallOutage('worker', 'no', error);
}

/** Rejects when a part of the installation is unavailable, or when the wait is over; never resolves. */
async function watch<T>(
  { client, hasWorker }: RunDeps,
  { began, handle, ...call }: WorkflowCall<T> & { began: number; handle: WorkflowHandle },
  over: AbortSignal,
): Promise<never> {
  let until = began + call.deadlineMs;
  let { extendMs } = call;
  await sleep(Math.min(began + TAKEN_MS, until) - performance.now(), over);
  for (;;) {
    over.throwIfAborted();
    const [isTaken, isThere] = await Promise.all([isBegun(client, handle), hasWorker()]);
    over.throwIfAborted();
    const isLate = performance.now() >= until;
    const isOverloaded = performance.now() - began >= UNTAKEN_MS;
    if (!isTaken && (isLate || isOverloaded || !isThere)) {
      if (!call.isKept) await within(client, TEMPORAL_MS, () => handle.terminate(UNTAKEN)).catch(() => undefined);
      // the result of a terminated workflow says whether a worker was faster
      if (!call.isKept) await sleep(RESULT_MS, over);
      throw new CallOutage('worker', 'unknown');
    }
    if (isLate) {
      if (!isThere) throw new CallOutage('worker', 'yes');
      until += (await extendMs?.()) ?? 0;
      extendMs = undefined;
      if (performance.now() >= until) throw new StillRunning('the deadline passed');
    }
    const checkMs = isTaken ? CHECK_MS.begun : CHECK_MS.untaken;
    await sleep(Math.min(checkMs, until - performance.now()), over);
  }
}

/** Whether a worker has ever taken a workflow: before that, only its start, first task and termination are events. */
async function isBegun(client: Client, handle: WorkflowHandle): Promise<boolean> {
  const { status, historyLength } = await within(client, TEMPORAL_MS, () => handle.describe());
  return historyLength > (status.name === 'TERMINATED' ? 3 : 2);
}

function within<T>(client: Client, ms: number, call: () => Promise<T>): Promise<T> {
  const late = () => new PartUnavailable('temporal');
  return withDeadline(ms + GRACE_MS, client.withDeadline(Date.now() + ms, call), late);
}
