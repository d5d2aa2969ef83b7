import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  isCancellation,
  ParentClosePolicy,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import type { AccountActivities } from '../activities/account.ts';
import type { FailureDetail } from '../activities/failures.ts';
import type { AccountStatus } from '../contract/account.ts';
import { type Failed, readFailure } from './failure.ts';
import { initialSyncWorkflowId, QUEUES, SIGNALS, WORKFLOWS } from './names.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * One mailbox for life. What the store calls `running` is two states here.
 *
 * state         what happens                            next
 * connecting    watchMailbox has been started           running       the activity signals `mailboxConnected`
 *                                                       errored       3 failures in a row
 *                                                       disconnected  2 refused logins in a row
 * running       watchMailbox holds the connection       connecting    it failed, or ended to move to another worker
 * errored       watchMailbox is tried, with backoff     running       `mailboxConnected`
 *                                                       disconnected  2 refused logins in a row
 * disconnected  nothing                                 connecting    `reconnected`
 * any                                                   connecting    `reconnected`: new settings are stored
 * any                                                   removing      cancelled by removeAccount: the activity ends
 *
 * The status in the store and its event are committed together by setAccountStatus.
 */

export interface AccountInput {
  accountId: string;
  /** how long watchMailbox may be silent before another worker takes it over, ms */
  heartbeatTimeoutMs?: number;
  /** factor on every wait; tests use a small one */
  pace?: number;
  /** from the run before */
  carried?: Counts;
}

/** Failures in a row, refused logins in a row, and how far the backoff has grown. */
interface Counts {
  failures: number;
  refusals: number;
  backoff: number;
}

/** The activities that hold a mailbox; each runs on the queue `mailboxes`. */
export interface MailboxActivities {
  /** Connects and watches; ends by itself about once an hour. */
  watchMailbox(input: { accountId: string }): Promise<void>;
  /** Imports a part of the mail that was there before; `done: false` when there is more. */
  importMailbox(input: { accountId: string }): Promise<{ done: boolean }>;
}

export const reconnected = defineSignal(SIGNALS.reconnected);
export const mailboxConnected = defineSignal(SIGNALS.mailboxConnected);

const FAILURES_TO_ERRORED = 3;
const REFUSALS_TO_DISCONNECTED = 2;
/** Waits after the first, second, … failure in a row; the last one repeats. */
const BACKOFF_MS = [1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000];
/** Before a refused login is tried once more, and before a mailbox that another worker took is taken back. */
const SHORT_WAIT_MS = 500;
/** A connection that held this long starts all counts anew; a shorter one only does when it got in step. */
const STEADY_MS = 60_000;
const HEARTBEAT_TIMEOUT_MS = 30_000;
/** More than the hour after which watchMailbox ends by itself. */
const WATCH_TIMEOUT = '75m';
/** Types of failures (see src/activities/failures.ts) that Temporal does not retry by itself. */
const DECIDED_HERE = ['provider_error', 'provider_rejected', 'unexpected_error', 'unavailable'];

const { loadAccount, setAccountStatus } = proxyActivities<AccountActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '15s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});

/** Keeps one account connected until it is removed. */
export async function account(input: AccountInput): Promise<void> {
  const told: Told = { reconnects: 0, connects: 0 };
  setHandler(reconnected, () => {
    told.reconnects += 1;
  });
  setHandler(mailboxConnected, () => {
    told.connects += 1;
  });
  const { accountId } = input;
  let counts = input.carried ?? NO_FAILURES;
  try {
    for (;;) {
      const generation = told.reconnects;
      const row = await loadAccount({ accountId });
      if (!row) return;
      const importing = row.initialSync === 'pending' || row.initialSync === 'running';
      if (importing && row.status !== 'disconnected') await startInitialSync(input);
      await hold({ input, told, generation, status: row.status, ...counts });
      counts = NO_FAILURES;
    }
  } catch (error) {
    if (isCancellation(error)) show(accountId, 'removing');
    throw error;
  }
}

const NO_FAILURES: Counts = { failures: 0, refusals: 0, backoff: 0 };

/** What the signals have told so far. */
interface Told {
  reconnects: number;
  connects: number;
}

interface Holding extends Counts {
  readonly input: AccountInput;
  readonly told: Told;
  /** `told.reconnects` when the account was loaded: another value means that there are new settings */
  readonly generation: number;
  /** as in the store */
  status: AccountStatus;
}

/** Holds the mailbox with the settings of now. Returns when the account has to be loaded again. */
async function hold(holding: Holding): Promise<void> {
  const { input, told, generation } = holding;
  const outdated = () => told.reconnects !== generation;
  while (!outdated()) {
    if (workflowInfo().continueAsNewSuggested) {
      const { failures, refusals, backoff } = holding;
      await continueAsNew<typeof account>({ ...input, carried: { failures, refusals, backoff } });
    }
    if (holding.status === 'disconnected') {
      show(input.accountId, 'disconnected');
      await condition(outdated);
      return;
    }
    const end = await watchOnce(holding, outdated);
    if (outdated()) return;
    const wait = end === undefined ? 0 : await takeFailure(holding, end);
    if (wait === 'reload') return;
    if (wait > 0) await condition(outdated, wait * (input.pace ?? 1));
  }
}

/** Runs the activity to its end, or until there are new settings. Undefined: it ended well, to be run again at once. */
async function watchOnce(holding: Holding, outdated: () => boolean): Promise<Failed | undefined> {
  const { accountId, heartbeatTimeoutMs = HEARTBEAT_TIMEOUT_MS } = holding.input;
  const { told } = holding;
  const { watchMailbox } = proxyActivities<MailboxActivities>({
    taskQueue: QUEUES.mailboxes,
    heartbeatTimeout: heartbeatTimeoutMs,
    startToCloseTimeout: WATCH_TIMEOUT,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    // What went wrong with the mailbox is decided here; a worker that went away is replaced by Temporal itself.
    retry: { initialInterval: '500ms', maximumInterval: '10s', nonRetryableErrorTypes: DECIDED_HERE },
    summary: `watch ${accountId}`,
  });
  show(accountId, holding.status === 'errored' ? 'errored' : 'connecting');
  const startedAt = Date.now();
  const before = told.connects;
  let connects = before;
  let end: { failed?: Failed } | undefined;
  const scope = new CancellationScope();
  const running = scope
    .run(() => watchMailbox({ accountId }))
    .then(
      () => (end = {}),
      (error: unknown) => (end = { failed: readFailure(error) }),
    );
  try {
    while (!end) {
      await condition(() => end !== undefined || outdated() || told.connects !== connects);
      if (told.connects !== connects) {
        connects = told.connects;
        holding.failures = 0;
        holding.refusals = 0;
        if (holding.status !== 'running') await changeStatus(holding, 'running', {});
        show(accountId, 'running');
      }
      if (outdated()) {
        scope.cancel();
        await running;
      }
    }
  } catch (error) {
    // Cancelled: the mailbox is let go of before the run ends.
    await CancellationScope.nonCancellable(() => running);
    throw error;
  }
  const { failed } = end;
  const connected = told.connects !== before || failed?.kind !== 'failed' || failed.connected === true;
  if (connected && Date.now() - startedAt >= STEADY_MS) Object.assign(holding, NO_FAILURES);
  return failed;
}

/** Counts a failure and changes the status where it is due. Milliseconds to wait, or that the account is to be loaded. */
async function takeFailure(holding: Holding, end: Failed): Promise<number | 'reload'> {
  if (end.kind !== 'failed') return SHORT_WAIT_MS;
  switch (end.code) {
    case 'not_found':
    case 'lease_lost':
      await sleep(SHORT_WAIT_MS);
      return 'reload';
    case 'unavailable':
      return backOff(holding);
    case 'invalid_credentials':
      holding.refusals += 1;
      if (holding.refusals >= REFUSALS_TO_DISCONNECTED) await changeStatus(holding, 'disconnected', end);
      return SHORT_WAIT_MS;
    default:
      holding.failures += 1;
      if (holding.failures >= FAILURES_TO_ERRORED && holding.status === 'running') {
        await changeStatus(holding, 'errored', end);
      }
      return backOff(holding);
  }
}

/** Jittered, so that the mailboxes of one provider do not all come back at the same moment. */
function backOff(holding: Holding): number {
  const wait = BACKOFF_MS[Math.min(holding.backoff, BACKOFF_MS.length - 1)] ?? 0;
  holding.backoff += 1;
  return wait * (0.8 + 0.4 * Math.random());
}

async function changeStatus(holding: Holding, status: AccountStatus, end: Partial<FailureDetail>): Promise<void> {
  const { accountId } = holding.input;
  const { detail = '', watchEpoch } = end;
  const now = await setAccountStatus({
    accountId,
    status,
    detail,
    ...(watchEpoch === undefined ? {} : { watchEpoch }),
  });
  if (now) holding.status = now;
}

async function startInitialSync({ accountId, heartbeatTimeoutMs, pace }: AccountInput): Promise<void> {
  try {
    await startChild(WORKFLOWS.initialSync, {
      taskQueue: QUEUES.commands,
      workflowId: initialSyncWorkflowId(accountId),
      args: [{ accountId, heartbeatTimeoutMs, pace }],
      // It outlives the end of this run, which goes on as a new one; removeAccount cancels it.
      parentClosePolicy: ParentClosePolicy.ABANDON,
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    throw error;
  }
}

/** Tells operators, in the list of runs and on the run itself. */
function show(accountId: string, state: string): void {
  setCurrentDetails(state);
  setSearchAttributes(accountId, state);
}
