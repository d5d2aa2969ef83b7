import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  isCancellation,
  ParentClosePolicy,
  patched,
  proxyActivities,
  setHandler,
  sleep,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import type { AccountActivities, AccountState } from '../activities/account.ts';
import type { FailureDetail } from '../activities/failures.ts';
import type { MailboxActivities } from '../activities/mailbox.ts';
import type { AccountStatus } from '../contract/account.ts';
import { waitAfter } from './backoff.ts';
import { type Failed, readFailure } from './failure.ts';
import { initialSyncWorkflowId, QUEUES, searchableBy, SIGNALS, WORKFLOWS } from './names.ts';
import { classOf, type StateTracker, trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * One mailbox, from the connect to the removal. What the store calls `running` is two states here.
 *
 * state         what happens                            next
 * connecting    watchMailbox has been started           running       the activity signals `mailboxConnected`
 *                                                       errored       3 failures to connect or floods in a row, or 6 cuts
 *                                                       disconnected  2 refused logins in a row
 * running       watchMailbox holds the connection       connecting    it failed, or ended to move to another worker
 * errored       watchMailbox is run with backoff        running       `mailboxConnected`
 *                                                       disconnected  2 refused logins in a row
 * disconnected  nothing                                 connecting    `reconnected`
 * unwatched     nothing: `watch` is false               connecting    `reconnected`, with `watch` true
 *                                                       disconnected  `reconnected`: a call was refused the login twice
 * any                                                   connecting    `reconnected`: new settings are stored
 * any                                                   unwatched     `reconnected`, with `watch` false
 * connecting, running                                   connecting    `watchLost`: the worker is lost, by one of an earlier version
 * any                                                   removing      cancelled by removeAccount: the activity stops
 *
 * The status in the store and its event are committed together by setAccountStatus.
 */

export interface AccountInput {
  accountId: string;
  /** how long watchMailbox may go without a heartbeat before another worker takes it over, ms */
  heartbeatTimeoutMs?: number;
  /** factor on every wait; small in tests */
  pace?: number;
  /** as stored just before a start with the signal `reconnected` and the search attribute `connecting`; null: it was removed */
  initial?: AccountState | null;
  /** from the previous run */
  carried?: Counts & { lastError?: string | null };
}

/** Failures in a row, refused logins in a row, and how far the backoff has grown. */
interface Counts {
  failures: number;
  refusals: number;
  backoff: number;
  /** the server flooded the last connection: it counts as connected again when one lasts */
  flooded?: boolean;
}

export const reconnected = defineSignal(SIGNALS.reconnected);
export const mailboxConnected = defineSignal(SIGNALS.mailboxConnected);
export const watchLost = defineSignal(SIGNALS.watchLost);

const FAILURES_TO_ERRORED = 3;
const REFUSALS_TO_DISCONNECTED = 2;
/** A connection that was cut after its login counts half: the server is reachable, and the work resumes where it stopped. */
const CUT = 0.5;
const BACKOFF = { firstMs: 1_000, longestMs: 60_000 };
/** Before a refused login is repeated, and before a mailbox is taken back from another worker. */
const SHORT_WAIT_MS = 500;
/** A connection that lasted this long resets all counts; a shorter one does so only when the mailbox got in sync. */
const STEADY_MS = 60_000;
const HEARTBEAT_TIMEOUT_MS = 30_000;
/** Longer than a watchMailbox lasts (`WATCH_MS`). */
const WATCH_TIMEOUT = '2h';
/** Types of failures (see src/activities/failures.ts) that the workflow, not Temporal, decides whether to retry. */
const DECIDED_HERE = ['provider_error', 'provider_rejected', 'unexpected_error', 'unavailable', 'storage_full'];

const { loadAccount, setAccountStatus } = proxyActivities<AccountActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '15s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});

/** Keeps one account connected until it is removed. */
export async function account(input: AccountInput): Promise<void> {
  const shown = trackState('connecting');
  const signals: SignalCounts = { reconnected: 0, mailboxConnected: 0, watchLost: 0 };
  setHandler(reconnected, () => {
    signals.reconnected += 1;
  });
  setHandler(mailboxConnected, () => {
    signals.mailboxConnected += 1;
  });
  setHandler(watchLost, () => {
    signals.watchLost += 1;
  });
  const { initial, ...kept } = input;
  const { accountId } = input;
  const { lastError = null, ...carried } = input.carried ?? NO_CARRIED;
  const run: Shown = { input: kept, shown, ...(initial ? { listedAs: 'connecting' } : {}) };
  // not where settings may have changed since
  let loaded = signals.reconnected > 1 ? undefined : initial;
  shown.enter('connecting', { lastError });
  let counts: Counts = carried;
  try {
    for (;;) {
      const settingsVersion = signals.reconnected;
      const row = loaded ?? (await loadAccount({ accountId }));
      loaded = undefined;
      if (!row) return;
      const isImporting = row.initialSync === 'pending' || row.initialSync === 'running';
      if (isImporting && row.status !== 'disconnected') await startInitialSync(input);
      const isOutdated = () => signals.reconnected !== settingsVersion;
      const { status, watch: isWatched = true } = row;
      await stayConnected({ ...run, signals, isOutdated, status, isWatched, ...counts });
      delete run.listedAs;
      counts = NO_FAILURES;
    }
  } catch (error) {
    if (isCancellation(error)) show(run, 'removing');
    throw error;
  }
}

const NO_FAILURES: Counts = { failures: 0, refusals: 0, backoff: 0 };
const NO_CARRIED: NonNullable<AccountInput['carried']> = NO_FAILURES;

/** How often each signal has been received. */
interface SignalCounts {
  reconnected: number;
  mailboxConnected: number;
  watchLost: number;
}

/** An account and the tracker that shows its state to operators. */
interface Shown {
  readonly input: AccountInput;
  readonly shown: StateTracker;
  /** the state that the list of runs has from the start; not known after the first change */
  listedAs?: string;
}

/** One account with the settings that were loaded. */
interface Connection extends Counts, Shown {
  readonly signals: Readonly<SignalCounts>;
  /** whether newer settings than the loaded ones have been stored */
  readonly isOutdated: () => boolean;
  /** as in the store */
  status: AccountStatus;
  readonly isWatched: boolean;
}

/** Keeps the mailbox connected with the loaded settings. Returns when the account has to be loaded again. */
async function stayConnected(connection: Connection): Promise<void> {
  const { input, isOutdated } = connection;
  while (!isOutdated()) {
    if (workflowInfo().continueAsNewSuggested) {
      const { failures, refusals, backoff, flooded = false } = connection;
      const { lastError } = connection.shown.current;
      await continueAsNew<typeof account>({ ...input, carried: { failures, refusals, backoff, flooded, lastError } });
    }
    if (connection.status === 'disconnected' || !connection.isWatched) {
      show(connection, connection.status === 'disconnected' ? 'disconnected' : 'unwatched');
      await condition(isOutdated);
      return;
    }
    const failed = await watchOnce(connection);
    if (isOutdated()) return;
    const wait = failed === undefined ? 0 : await countFailure(connection, failed);
    if (wait === 'reload') return;
    if (failed !== undefined) showFailure(connection, failed, wait * (input.pace ?? 1));
    if (wait > 0) await condition(isOutdated, wait * (input.pace ?? 1));
  }
}

/**
 * Runs the activity until it ends, new settings are stored or its worker is lost. Undefined: it ended without a failure, or
 * its worker was lost, and it can run again immediately.
 */
async function watchOnce(connection: Connection): Promise<Failed | undefined> {
  const { input, signals, isOutdated } = connection;
  show(connection, connection.status === 'errored' ? 'errored' : 'connecting');
  const startedAt = Date.now();
  const connectsBefore = signals.mailboxConnected;
  let connects = connectsBefore;
  const watch = startWatch(input);
  const isConnected = () => signals.mailboxConnected !== connects;
  const lostBefore = signals.watchLost;
  const isOver = () => watch.end !== undefined || signals.watchLost !== lostBefore;
  try {
    while (!isOver()) {
      await condition(() => isOver() || isOutdated() || isConnected());
      if (isConnected()) {
        connects = signals.mailboxConnected;
        if (await isTrusted(connection, () => isOver() || isOutdated())) await markConnected(connection);
      }
      if (!isOutdated()) continue;
      watch.cancel();
      await condition(isOver);
    }
  } catch (error) {
    // Cancelled: the run waits until the activity has closed its connections.
    await CancellationScope.nonCancellable(() => condition(isOver));
    throw error;
  }
  // the activity of a lost worker never ends: cancelling it keeps Temporal from retrying it after the heartbeat timeout
  if (!watch.end) watch.cancel();
  const failed = watch.end?.failed;
  const wasConnected = connects !== connectsBefore || failed?.kind !== 'failed' || failed.connected === true;
  if (wasConnected && Date.now() - startedAt >= STEADY_MS) Object.assign(connection, NO_FAILURES);
  return failed;
}

/** An execution of watchMailbox. */
interface Watch {
  /** undefined while it runs; `failed` is undefined when it ended without a failure */
  end: { failed: Failed | undefined } | undefined;
  /** Cancels the activity. */
  cancel(): void;
}

function startWatch({ accountId, heartbeatTimeoutMs = HEARTBEAT_TIMEOUT_MS }: AccountInput): Watch {
  const { watchMailbox } = proxyActivities<MailboxActivities>({
    taskQueue: QUEUES.mailboxes,
    heartbeatTimeout: heartbeatTimeoutMs,
    startToCloseTimeout: WATCH_TIMEOUT,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    // This workflow handles failures of the mailbox; Temporal retries after the loss of a worker.
    retry: { initialInterval: '500ms', maximumInterval: '10s', nonRetryableErrorTypes: DECIDED_HERE },
    summary: `watch ${accountId}`,
  });
  const scope = new CancellationScope();
  const watch: Watch = { end: undefined, cancel: () => scope.cancel() };
  scope
    .run(() => watchMailbox({ accountId }))
    .then(
      () => void (watch.end = { failed: undefined }),
      (error: unknown) => void (watch.end = { failed: readFailure(error) }),
    );
  return watch;
}

/** Whether the server behaves: one that flooded the last connection has to do so for a minute. */
async function isTrusted(connection: Connection, isOver: () => boolean): Promise<boolean> {
  if (!connection.flooded) return true;
  if (await condition(isOver, STEADY_MS * (connection.input.pace ?? 1))) return false;
  connection.flooded = false;
  return true;
}

/** Records that the mailbox is connected and in sync. */
async function markConnected(connection: Connection): Promise<void> {
  connection.failures = 0;
  connection.refusals = 0;
  if (connection.status !== 'running') await changeStatus(connection, 'running', {});
  connection.shown.enter('running', { lastError: null, counts: {} });
  show(connection, 'running');
}

/**
 * Counts a failure and changes the status where it is due.
 * @returns milliseconds to wait; `reload`: the account has changed
 */
async function countFailure(connection: Connection, failed: Failed): Promise<number | 'reload'> {
  const isRefusal = failed.kind === 'failed' && failed.code === 'invalid_credentials' && !failed.connected;
  if (!isRefusal) forgetRefusals(connection);
  if (failed.kind !== 'failed') return SHORT_WAIT_MS;
  switch (failed.code) {
    case 'not_found':
    case 'lease_lost':
      await sleep(SHORT_WAIT_MS);
      return 'reload';
    case 'unavailable':
    case 'storage_full':
      return backOff(connection);
    case 'invalid_credentials':
      connection.refusals += 1;
      if (connection.refusals >= REFUSALS_TO_DISCONNECTED) await changeStatus(connection, 'disconnected', failed);
      return SHORT_WAIT_MS;
    default:
      connection.flooded = failed.flooded === true;
      connection.failures += failed.connected && !failed.flooded ? CUT : 1;
      if (connection.failures >= FAILURES_TO_ERRORED && connection.status === 'running') {
        await changeStatus(connection, 'errored', failed);
      }
      return backOff(connection);
  }
}

/** Only two refusals in a row disconnect the account: the server may have caused the first if anything else came between. */
function forgetRefusals(connection: Connection): void {
  if (connection.refusals > 0 && patched('refusals-in-a-row')) connection.refusals = 0;
}

/** Milliseconds to wait after one more failure. */
function backOff(connection: Connection): number {
  connection.backoff += 1;
  return waitAfter(connection.backoff, BACKOFF);
}

async function changeStatus(
  connection: Connection,
  status: AccountStatus,
  { detail = '', watchEpoch }: Partial<FailureDetail>,
): Promise<void> {
  const { accountId } = connection.input;
  const stored = await setAccountStatus({
    accountId,
    status,
    detail,
    ...(watchEpoch === undefined ? {} : { watchEpoch }),
  });
  if (stored) connection.status = stored;
}

async function startInitialSync({ accountId, heartbeatTimeoutMs, pace }: AccountInput): Promise<void> {
  try {
    await startChild(WORKFLOWS.initialSync, {
      taskQueue: QUEUES.commands,
      workflowId: initialSyncWorkflowId(accountId),
      args: [{ accountId, heartbeatTimeoutMs, pace }],
      typedSearchAttributes: searchableBy(accountId),
      staticSummary: `import the last days of ${accountId}`,
      // It outlives this run, which continues as new; removeAccount cancels it.
      parentClosePolicy: ParentClosePolicy.ABANDON,
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    throw error;
  }
}

/** Shows the state to operators, in the list of runs and on the run itself. */
function show(run: Shown, state: string): void {
  run.shown.enter(state);
  if (run.listedAs !== state) setSearchAttributes(run.input.accountId, state);
  delete run.listedAs;
}

/** Shows a failure on the run itself; the list of runs changes when the next attempt begins. */
function showFailure({ shown, status, failures, refusals }: Connection, failed: Failed, waitMs: number): void {
  shown.enter(status === 'running' ? 'connecting' : status, {
    lastError: classOf(failed),
    ...(status === 'disconnected' ? {} : { nextAttemptMs: waitMs }),
    counts: { 'failures in a row': failures, 'refused logins in a row': refusals },
  });
}
