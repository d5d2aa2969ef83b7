import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  continueAsNew,
  defineSignal,
  isCancellation,
  proxyActivities,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { ImportHistoryActivities, ImportState } from '../activities/import-history.ts';
import type { MailboxActivities } from '../activities/mailbox.ts';
import { waitAfter } from './backoff.ts';
import { type Failed, readFailure } from './failure.ts';
import {
  countFailure,
  type Failures,
  HEARTBEAT_TIMEOUT_MS,
  MAX_FAILURES,
  waitAfterFailure,
} from './import-attempts.ts';
import { QUEUES, SIGNALS } from './names.ts';
import { classOf, type StateTracker, trackState } from './run-state.ts';

/*
 * state      what happens                                       next
 * queued     another import of the account comes first          running, asked again with growing waits
 * running    importOlderMail, repeatedly                        completed  all its mail is imported
 *                                                               waiting    an attempt failed
 *                                                               failed     5 failures in a row without progress
 * waiting    a timer; or the account is disconnected            running
 * paused     by a call                                          queued     by a call
 * completed, failed, cancelled: the run ends
 *
 * The store holds the state; see src/db/coordination/import-state.ts. The signal `importChanged` says that a call changed it.
 */

export interface ImportHistoryInput {
  /** `imp_…` */
  id: string;
  accountId: string;
  heartbeatTimeoutMs?: number;
  /** factor on every wait; small in tests */
  pace?: number;
  /** from the previous execution */
  carried?: Failures;
}

export const importChanged = defineSignal(SIGNALS.importChanged);

/** Between two looks at what comes first. */
const TURN_BACKOFF = { firstMs: 1_000, longestMs: 30_000 };
/** A paused import is woken by the call that continues it; this is for the case that Temporal was unavailable then. */
const WOKEN_MS = 5 * 60_000;

const { beginImport, holdImport, completeImport, failImport, cancelImport } = proxyActivities<ImportHistoryActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '15s',
  retry: { initialInterval: '500ms', maximumInterval: '30s' },
});

/** Imports older mail of one account. Fails after too many failures in a row without progress. */
export async function importHistory(input: ImportHistoryInput): Promise<void> {
  const { id, accountId } = input;
  const shown = trackState('queued');
  let changes = 0;
  setHandler(importChanged, () => {
    changes += 1;
  });
  try {
    await new Run(input, shown, () => changes).untilEnded();
  } catch (error) {
    if (isCancellation(error)) {
      await CancellationScope.nonCancellable(() => cancelImport({ id, accountId }));
      shown.enter('cancelled');
    }
    throw error;
  }
}

/** One execution of the workflow. */
class Run {
  readonly #input: ImportHistoryInput;
  readonly #shown: StateTracker;
  readonly #changes: () => number;
  readonly #ref: { id: string; accountId: string };
  #failures: Failures;
  /** messages that had been read when the last attempt began */
  #read = 0;

  constructor(input: ImportHistoryInput, shown: StateTracker, changes: () => number) {
    this.#input = input;
    this.#shown = shown;
    this.#changes = changes;
    this.#ref = { id: input.id, accountId: input.accountId };
    this.#failures = input.carried ?? { failures: 0, outages: 0 };
  }

  async untilEnded(): Promise<void> {
    for (let looks = 1; ; ) {
      if (workflowInfo().continueAsNewSuggested) {
        await continueAsNew<typeof importHistory>({ ...this.#input, carried: this.#failures });
      }
      const seen = this.#changes();
      const state = await beginImport(this.#ref);
      if (state === null) return;
      this.#show(state);
      switch (state.status) {
        case 'running':
          looks = 1;
          this.#read = state.messages_done;
          await this.#attempt(seen);
          break;
        case 'queued':
          await this.#unlessChanged(seen, waitAfter(looks, TURN_BACKOFF));
          looks += 1;
          break;
        case 'waiting':
          // for a reconnect, which wakes this
          await this.#unlessChanged(seen, WOKEN_MS);
          break;
        case 'paused':
          this.#failures = { failures: 0, outages: 0 };
          await this.#unlessChanged(seen, WOKEN_MS);
          break;
        default:
          return;
      }
    }
  }

  /** One attempt, and the wait after a failure. @throws the last failure, when there were too many */
  async #attempt(seen: number): Promise<void> {
    const { done, error } = await this.#import(seen);
    if (error === undefined) {
      this.#failures = { failures: 0, outages: 0 };
      const state = done ? await completeImport(this.#ref) : null;
      if (state) this.#show(state);
      return;
    }
    const failed = readFailure(error);
    if (failed.kind === 'cancelled') return;
    await this.#afterFailure(failed, error, seen);
  }

  async #afterFailure(failed: Failed, error: unknown, seen: number): Promise<void> {
    const next = countFailure(this.#failures, failed);
    const reason = reasonOf(failed);
    const waitMs = waitAfterFailure(next) * (this.#input.pace ?? 1);
    const state = await holdImport({ ...this.#ref, reason, waitMs });
    if (state === null) return;
    const hasProgressed = state.messages_done > this.#read;
    this.#failures = hasProgressed ? countFailure({ failures: 0, outages: 0 }, failed) : next;
    const { failures } = this.#failures;
    const counts = { ...countsOf(state), 'failures in a row': failures };
    if (failures >= MAX_FAILURES) {
      const ended = await failImport({ ...this.#ref, reason });
      if (ended?.status !== 'failed') return;
      this.#shown.enter('failed', { lastError: classOf(failed), counts });
      throw error;
    }
    this.#shown.enter(state.status, { lastError: classOf(failed), nextAttemptMs: waitMs, counts });
    await this.#unlessChanged(seen, waitMs / (this.#input.pace ?? 1));
  }

  /** Runs the activity; a call that changes the state of the import cancels it. */
  async #import(seen: number): Promise<{ done: boolean; error?: unknown }> {
    const { heartbeatTimeoutMs = HEARTBEAT_TIMEOUT_MS } = this.#input;
    const { importOlderMail } = proxyActivities<MailboxActivities>({
      taskQueue: QUEUES.mailboxes,
      heartbeatTimeout: Math.min(heartbeatTimeoutMs, HEARTBEAT_TIMEOUT_MS),
      startToCloseTimeout: '30m',
      cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
      // One attempt: this workflow counts the failures.
      retry: { maximumAttempts: 1 },
      summary: `import ${this.#ref.id}`,
    });
    const scope = new CancellationScope();
    let end: { done: boolean; error?: unknown } | undefined;
    scope
      .run(() => importOlderMail({ id: this.#ref.id }))
      .then(
        ({ done }) => (end = { done }),
        (error: unknown) => (end = { done: false, error }),
      );
    try {
      await condition(() => end !== undefined || this.#changes() !== seen);
    } finally {
      // also when this run is cancelled: it ends once the activity has closed its connections
      scope.cancel();
      await CancellationScope.nonCancellable(() => condition(() => end !== undefined));
    }
    return end ?? { done: false };
  }

  /** Waits, unless a call has changed the state since. */
  async #unlessChanged(seen: number, waitMs: number): Promise<void> {
    await condition(() => this.#changes() !== seen, waitMs * (this.#input.pace ?? 1));
  }

  #show(state: ImportState): void {
    const isRunning = state.status === 'running';
    this.#shown.enter(state.status, { ...(isRunning ? { lastError: null } : {}), counts: countsOf(state) });
  }
}

/** What callers see of a failure. */
function reasonOf(failed: Failed): string {
  return failed.kind === 'failed' ? failed.detail : (classOf(failed) ?? '');
}

function countsOf(state: ImportState): Record<string, number> {
  return {
    imported: state.imported,
    'messages read': state.messages_done,
    'messages left': state.messages_left,
    'folders read': state.folders_done,
    folders: state.folders_known,
  };
}
