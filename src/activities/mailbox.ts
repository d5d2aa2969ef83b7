import { CancelledFailure, Context, heartbeat } from '@temporalio/activity';
import { sleep, untilAborted } from '../async.ts';
import { ApiError } from '../contract/errors.ts';
import { ImportStopped } from '../db/coordination/import-state.ts';
import { LeaseLost, takeLease } from '../db/coordination/lease.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { createTokenEnds } from '../mailbox/logins.ts';
import { isScanned, scanBaseline } from '../mailbox/baseline.ts';
import { type LoginDeps, withLoginConfirmed } from '../mailbox/confirm-login.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { syncFolders } from '../mailbox/folders/list-pass.ts';
import { importMail } from '../mailbox/import.ts';
import { importHistory } from '../mailbox/import-history.ts';
import { loadSyncSettings, saveVerification } from '../mailbox/settings.ts';
import { loadFolders } from '../mailbox/store/folders.ts';
import { loadImportRun } from '../mailbox/store/import-folders.ts';
import { syncOnce } from '../mailbox/sync-pass.ts';
import { type Verification, verifyMailbox } from '../mailbox/verify.ts';
import { watch } from '../mailbox/watch.ts';
import { toFailure } from './failures.ts';
import { withHeartbeat } from './heartbeat.ts';
import { obeyPause } from './login-turns.ts';
import { inTurns, type Mailbox, noteFailure, openContext, openMailbox, type WatchDeps } from './mailbox-connections.ts';

export type { Verification } from '../mailbox/verify.ts';
export type { WatchDeps } from './mailbox-connections.ts';

export type MailboxActivities = ReturnType<typeof createMailboxActivities>;

const MINUTE = 60_000;
/** A watch ends after 80 to 112 minutes, which spreads mailboxes over the workers. */
const WATCH_MS = 80 * MINUTE;
/** An import returns to its workflow this often, whose history then shows the progress. */
const IMPORT_MS = 10 * MINUTE;
/** Between two scans of older mail after one that was not completed; twice as long each time. */
const SCAN_RETRY_MS = MINUTE;
const SCAN_RETRY_MAX_MS = 60 * MINUTE;

/** What work on a mailbox needs that may find out about the login of its account. */
export type MailboxActivityDeps = WatchDeps &
  LoginDeps & {
    /** makes an account `running` that no watch follows: its mailbox was reached */
    markRunning(accountId: string): Promise<void>;
  };

/** What an attempt of watchMailbox leaves to the next one, which follows the loss of its worker. */
interface WatchProgress {
  /** the workflow knows that the mailbox is connected */
  isReported: boolean;
}

/** Long activities on the queue `mailboxes`: each holds IMAP connections of one account. */
export function createMailboxActivities(deps: MailboxActivityDeps) {
  async function withHeartbeats<T>(what: string, work: () => Promise<T>, details?: object): Promise<T> {
    const { info, cancellationSignal } = Context.current();
    // each costs a worker of many mailboxes some time, even those that the SDK does not send
    const everyMs = deps.heartbeatMs ?? (info.heartbeatTimeoutMs ?? 20_000) / 4;
    const result = await withHeartbeat(work, everyMs, details);
    if (cancellationSignal.aborted) throw new CancelledFailure(`the ${what} was cancelled`);
    return result;
  }

  /** Watches a mailbox for about one and a half hours; its previous watch can no longer write. */
  async function watchMailbox({ accountId }: { accountId: string }): Promise<void> {
    const previous = Context.current().info.heartbeatDetails as Partial<WatchProgress> | undefined;
    const progress: WatchProgress = { isReported: previous?.isReported === true };
    await withHeartbeats('watch', () => watchUntilEnd(deps, accountId, progress), progress);
  }

  /** Imports mail from before the connect; continues where the last execution stopped. `done` is false when more is left. */
  async function importMailbox({ accountId }: { accountId: string }): Promise<{ done: boolean }> {
    return { done: await withHeartbeats('import', () => importUntilEnd(deps, accountId)) };
  }

  /** Reads what is left of an import of older mail. `done` is false when more is left, or it is no longer running. */
  async function importOlderMail({ id }: { id: string }): Promise<{ done: boolean }> {
    return { done: await withHeartbeats('import', () => importOlder(deps, id)) };
  }

  /** Compares the store with the whole mailbox and repairs differences. */
  async function verifyStore({ accountId }: { accountId: string }): Promise<Verification> {
    return withHeartbeats('verification', () => verifyWhole(deps, accountId));
  }

  /** Brings the store in sync with the mailbox once. */
  async function syncStore({ accountId }: { accountId: string }): Promise<void> {
    await withHeartbeats('sync', () => syncWhole(deps, accountId));
  }

  return { watchMailbox, importMailbox, importOlderMail, verifyStore, syncStore };
}

async function watchUntilEnd(deps: WatchDeps, accountId: string, progress: WatchProgress): Promise<void> {
  const { cancellationSignal } = Context.current();
  const endFirstPass = (await deps.admission?.admit(cancellationSignal)) ?? (() => {});
  try {
    if (!cancellationSignal.aborted) await watchAdmitted(deps, accountId, { progress, endFirstPass });
  } finally {
    endFirstPass();
  }
}

async function watchAdmitted(
  deps: WatchDeps,
  accountId: string,
  { progress, endFirstPass }: { progress: WatchProgress; endFirstPass: () => void },
): Promise<void> {
  const lease = await takeLease(deps.db, accountId, deps.workerId ?? null);
  const settings = lease && (await loadSyncSettings(deps.db, accountId));
  if (!lease || !settings) throw toFailure(accountNotFound());
  // even without a signal, its workflow then loads the account again
  if (!settings.isWatched) throw toFailure(new LeaseLost(accountId));
  const end = endSignal(WATCH_MS * (1 + Math.random() * 0.4));
  // A cancellation arrives with the response to a heartbeat; new settings and a removal should not wait for one.
  const stopListening = deps.leases.onLost(lease, end.abort);
  const removeWatch = deps.watches?.add(end.abort);
  let connected = false;
  let parts: Promise<void>[] = [];
  try {
    const mailbox = await openMailbox(deps, lease, settings, end.signal);
    if (!settings.choice.isApplied) await applyChoice(mailbox);
    const ctx = await openContext(mailbox);
    connected = true;
    parts = [
      watch(ctx, {
        pollMs: deps.sync.pollMs,
        signal: end.signal,
        onInSync: async () => {
          endFirstPass();
          if (!progress.isReported) await deps.signalConnected(accountId);
          progress.isReported = true;
          heartbeat(progress);
        },
        onRoomWanted: (wanted) => deps.leases.onRoomWanted((id) => id === accountId && wanted()),
      }),
      checkLogins(mailbox, end.signal),
      scanInParallel(mailbox, end.signal),
    ];
    await Promise.race(parts);
  } catch (error) {
    // the mailbox has not failed: its connection was closed on purpose
    if (end.signal.aborted) return;
    await noteFailure(deps, accountId, error);
    await obeyPause(error, end.signal);
    throw toFailure(error, { connected, ...(lease.watchEpoch === null ? {} : { watchEpoch: lease.watchEpoch }) });
  } finally {
    // The first part that ends stops the others; none of them may write after the activity has ended.
    end.stop();
    await Promise.allSettled(parts);
    stopListening();
    removeWatch?.();
  }
}

/** Removes the folders that a new choice excludes, and stores those that it adds, before their mail is scanned. */
async function applyChoice(mailbox: Mailbox): Promise<void> {
  const { deps, lease, baseline } = mailbox;
  const ctx = await openContext(mailbox);
  try {
    await syncFolders(ctx, { freshSession: true });
  } finally {
    await ctx.session.end();
  }
  baseline.scanned = isScanned(await loadFolders(deps.db, lease.accountId));
}

/** False: more mail is left to import. */
async function importUntilEnd(deps: MailboxActivityDeps, accountId: string): Promise<boolean> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings?.initialSync) throw toFailure(accountNotFound());
  const { days } = settings.initialSync;
  const since = new Date(settings.connectedAt.getTime() - days * 24 * 60 * MINUTE);
  return importInTurns(deps, accountId, (ctx, signal) => importMail(ctx, { since, signal, onProgress: () => {} }));
}

/** False: more mail is left to import, or the import is no longer running. */
async function importOlder(deps: MailboxActivityDeps, id: string): Promise<boolean> {
  const run = await loadImportRun(deps.db, id);
  if (!run) return false;
  let isDone = false;
  await importInTurns(deps, run.accountId, async (ctx, signal) => {
    isDone = await importHistory(ctx, run, signal).catch((error: unknown) => {
      if (!(error instanceof ImportStopped)) throw error;
      return false;
    });
  });
  return isDone;
}

/** False: more mail is left to import. */
async function importInTurns(
  deps: MailboxActivityDeps,
  accountId: string,
  work: (ctx: SyncContext, signal: AbortSignal) => Promise<void>,
): Promise<boolean> {
  const end = endSignal(IMPORT_MS);
  try {
    await onMailbox(deps, accountId, (mailbox) => inTurns(mailbox, end.signal, work));
    return !end.signal.aborted;
  } finally {
    end.stop();
  }
}

async function verifyWhole(deps: MailboxActivityDeps, accountId: string): Promise<Verification> {
  const verification = await onMailbox(deps, accountId, (mailbox, signal) =>
    onSession(mailbox, (ctx) => verifyMailbox(ctx, signal)),
  );
  await saveVerification(deps.db, accountId, verification.differences);
  if (verification.differences > 0) {
    deps.logger.error({ accountId, ...verification }, 'verification found differences');
  }
  return verification;
}

/**
 * One thorough sync pass. Where no watch does so, mail from before the connect is recorded after it: until then an older
 * message that has moved is not treated as new.
 */
async function syncWhole(deps: MailboxActivityDeps, accountId: string): Promise<void> {
  const { isWatched, status } = await onMailbox(deps, accountId, async (mailbox, signal) => {
    if (!mailbox.settings.choice.isApplied) await applyChoice(mailbox);
    const { failure } = await onSession(mailbox, (ctx) => syncOnce(ctx, { thorough: true }));
    if (!mailbox.settings.isWatched && !mailbox.baseline.scanned) await inTurns(mailbox, signal, scanBaseline);
    if (failure !== undefined) throw new ApiError('provider_error', `the sync is not complete: ${failure}`);
    return mailbox.settings;
  });
  if (!isWatched && status !== 'running') await deps.markRunning(accountId);
}

/** Works on a mailbox once, beside its watch. A login that is refused twice makes the account `disconnected`. */
async function onMailbox<T>(
  deps: MailboxActivityDeps,
  accountId: string,
  work: (mailbox: Mailbox, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { cancellationSignal } = Context.current();
  const settingsOf = async () => {
    const settings = await loadSyncSettings(deps.db, accountId);
    if (!settings) throw accountNotFound();
    return settings;
  };
  try {
    return await withLoginConfirmed(deps, accountId, 'imap', {
      attempt: async () => {
        const lease = { accountId, watchEpoch: null };
        const mailbox = await openMailbox(deps, lease, await settingsOf(), cancellationSignal);
        return work(mailbox, cancellationSignal);
      },
      drop: () => {},
      tried: async () => (await settingsOf()).credentials,
    });
  } catch (error) {
    if (cancellationSignal.aborted) throw new CancelledFailure('the work on the mailbox was cancelled');
    throw toFailure(error);
  }
}

/** Works on one connection; begins again when the server ends the session with its token. */
async function onSession<T>(mailbox: Mailbox, work: (ctx: SyncContext) => Promise<T>): Promise<T> {
  const isTokenEnd = createTokenEnds();
  for (;;) {
    const ctx = await openContext(mailbox);
    try {
      return await work(ctx);
    } catch (error) {
      if (!isTokenEnd(ctx.session.token, error)) throw error;
    } finally {
      await ctx.session.end();
    }
  }
}

/** A signal that aborts after `ms`, or earlier by `abort` or when the activity is cancelled. */
function endSignal(ms: number): { signal: AbortSignal; abort(): void; stop(): void } {
  const context = Context.current();
  const ended = new AbortController();
  const abort = () => ended.abort();
  const timer = setTimeout(abort, ms);
  context.cancellationSignal.addEventListener('abort', abort, { once: true });
  if (context.cancellationSignal.aborted) abort();
  return {
    signal: ended.signal,
    abort,
    stop() {
      abort();
      clearTimeout(timer);
      context.cancellationSignal.removeEventListener('abort', abort);
    },
  };
}

/**
 * Logs in on a new connection every `loginCheckMs`: many servers keep existing connections open when the password changes.
 * Fails when the login is refused; leaves other failures to the watch.
 */
async function checkLogins({ deps, connect }: Mailbox, signal: AbortSignal): Promise<void> {
  if (deps.sync.loginCheckMs === 0) return untilAborted(signal);
  while (!signal.aborted) {
    // jittered: mailboxes that were connected together must not all be checked together
    await sleep(deps.sync.loginCheckMs * (0.8 + 0.4 * Math.random()), signal);
    if (signal.aborted) return;
    try {
      const session = await connect();
      await session.end();
    } catch (error) {
      if (error instanceof MailError && error.code === 'invalid_credentials') throw error;
    }
  }
}

/** Scans the mail from before the connect on a separate connection; opens a new one after a failure. */
async function scanInParallel(mailbox: Mailbox, signal: AbortSignal): Promise<void> {
  const { deps, lease, baseline } = mailbox;
  for (let retryMs = SCAN_RETRY_MS; !signal.aborted && !baseline.scanned; retryMs *= 2) {
    try {
      await inTurns(mailbox, signal, scanBaseline);
      baseline.scanned = isScanned(await loadFolders(deps.db, lease.accountId));
    } catch (error) {
      if (!(error instanceof MailError)) throw error;
      if (!signal.aborted) {
        const { code } = error;
        deps.logger.warn({ accountId: lease.accountId, code }, 'scan of older mail interrupted');
      }
    }
    if (!baseline.scanned) await sleep(Math.min(retryMs, SCAN_RETRY_MAX_MS), signal);
  }
  return untilAborted(signal);
}

function accountNotFound(): ApiError {
  return new ApiError('not_found', 'no account has this id');
}
