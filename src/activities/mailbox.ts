import { CancelledFailure, Context } from '@temporalio/activity';
import { sleep } from '../async.ts';
import type { ServerLogin } from '../contract/account.ts';
import { ApiError } from '../contract/errors.ts';
import type { Db } from '../db/driver/client.ts';
import { holdLogins, takeLogin } from '../db/coordination/login-budget.ts';
import { type Lease, type LeaseNotifications, requestRoom, takeLease } from '../db/coordination/lease.ts';
import { asksForPatience } from '../imap/response-codes.ts';
import { openInTurn } from '../imap/room.ts';
import { type ImapSession, openSession } from '../imap/session.ts';
import type { Logger } from '../runtime/logger.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { isScanned, scanBaseline } from '../mailbox/baseline.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { importMail } from '../mailbox/import.ts';
import {
  loadSyncSettings,
  openCredentials,
  saveVerification,
  saveWatchFailure,
  type SyncSettings,
} from '../mailbox/settings.ts';
import { loadFolders } from '../mailbox/store/folders.ts';
import { type Verification, verifyMailbox } from '../mailbox/verify.ts';
import { watch } from '../mailbox/watch.ts';
import { syncContext } from '../mailbox/with-mailbox.ts';
import type { MailParser } from '../mime/parser.ts';
import type { Outbound } from '../security/outbound.ts';
import type { Secrets } from '../security/secrets.ts';
import type { Storage } from '../storage/storage.ts';
import { detailOf, toFailure } from './failures.ts';
import { withHeartbeat } from './heartbeat.ts';
import type { RunningWatches } from '../mailbox/running-watches.ts';

export type { Verification } from '../mailbox/verify.ts';

export interface WatchDeps {
  db: Db;
  storage: Storage;
  /** where large messages are read; see Config.dataDir */
  tempDir: string;
  parser: MailParser;
  logger: Logger;
  secrets: Secrets;
  outbound: Outbound;
  /** milliseconds; see Config.sync */
  sync: { pollMs: number; loginCheckMs: number; loginsPerMinute: number };
  leases: LeaseNotifications;
  /** of this process; see maintenance/lost-watches.ts */
  workerId?: string;
  /** where each watch is listed while it runs */
  watches?: Pick<RunningWatches, 'add'>;
  /** signals the account's workflow that its mailbox is connected and in sync */
  signalConnected(accountId: string): Promise<void>;
  /** milliseconds between two heartbeats; for tests */
  heartbeatMs?: number;
}

export type MailboxActivities = ReturnType<typeof createMailboxActivities>;

const MINUTE = 60_000;
const HEARTBEAT_MS = 5_000;
/** A watch ends by itself after 80 to 112 minutes, so that mailboxes spread over the workers that there are. */
const WATCH_MS = 80 * MINUTE;
/** An import returns to its workflow this often, so that its history says how far it is. */
const IMPORT_MS = 10 * MINUTE;
const SCAN_RETRY_MS = MINUTE;
/** How long no mailbox of a provider logs in that asked for patience. */
const HOLD_MS = 30_000;
/** How long a connection is kept that somebody else needs, and left to others then. */
const TURN_MS = 2_000;
const PAUSE_MS = 2_000;
/** How long a connection may be quiet, beyond the silence that ends a command: longer than between two polls, as a rule. */
const QUIET_MS = 5 * MINUTE;

/** Long activities on the queue `mailboxes`: each holds IMAP connections of one account. */
export function createMailboxActivities(deps: WatchDeps) {
  const heartbeatMs = deps.heartbeatMs ?? HEARTBEAT_MS;

  async function withHeartbeats<T>(what: string, work: () => Promise<T>): Promise<T> {
    const result = await withHeartbeat(work, heartbeatMs);
    if (Context.current().cancellationSignal.aborted) throw new CancelledFailure(`the ${what} was ended`);
    return result;
  }

  /** Watches a mailbox for about one and a half hours; whoever watched it before can write no more. */
  async function watchMailbox({ accountId }: { accountId: string }): Promise<void> {
    await withHeartbeats('watch', () => watchUntilEnd(deps, accountId));
  }

  /** Imports mail from before the connect; goes on where the last execution stopped. `done` is false when there is more. */
  async function importMailbox({ accountId }: { accountId: string }): Promise<{ done: boolean }> {
    return { done: await withHeartbeats('import', () => importUntilEnd(deps, accountId)) };
  }

  /** Compares the store with the whole mailbox and repairs what differs. */
  async function verifyStore({ accountId }: { accountId: string }): Promise<Verification> {
    return withHeartbeats('verification', () => verifyWhole(deps, accountId));
  }

  return { watchMailbox, importMailbox, verifyStore };
}

/** An account whose mailbox an activity has connections to. */
interface Mailbox {
  deps: WatchDeps;
  lease: Lease;
  settings: SyncSettings;
  imap: ServerLogin;
  /** whether the baseline of every folder has been scanned; the scan sets it */
  baseline: { scanned: boolean };
  /** Opens a connection; closed, at any time, by the signal that ends the activity. */
  connect(): Promise<ImapSession>;
}

async function watchUntilEnd(deps: WatchDeps, accountId: string): Promise<void> {
  const lease = await takeLease(deps.db, accountId, deps.workerId ?? null);
  const settings = lease && (await loadSyncSettings(deps.db, accountId));
  if (!lease || !settings) throw toFailure(accountNotFound());
  const end = endSignal(WATCH_MS * (1 + Math.random() * 0.4));
  // A cancellation comes with the response to a heartbeat; new settings and a removal should not wait for that.
  const stopListening = deps.leases.onLost(lease, end.abort);
  const removeWatch = deps.watches?.add(end.abort);
  let connected = false;
  let parts: Promise<void>[] = [];
  try {
    const mailbox = await openMailbox(deps, lease, settings, end.signal);
    const ctx = await openContext(mailbox);
    connected = true;
    parts = [
      watch(ctx, {
        pollMs: deps.sync.pollMs,
        signal: end.signal,
        onInSync: () => deps.signalConnected(accountId),
        onRoomWanted: (wanted) => deps.leases.onRoomWanted((id) => id === accountId && wanted()),
      }),
      checkLogins(mailbox, end.signal),
      scanInParallel(mailbox, end.signal),
    ];
    await Promise.race(parts);
  } catch (error) {
    if (!end.signal.aborted) await noteFailure(deps, accountId, error);
    throw toFailure(error, { connected, ...(lease.watchEpoch === null ? {} : { watchEpoch: lease.watchEpoch }) });
  } finally {
    // The first part that ends, ends the others; none of them may go on writing once the activity has ended.
    end.stop();
    await Promise.allSettled(parts);
    stopListening();
    removeWatch?.();
  }
}

/** Stored for whoever asks why the account is not in sync. */
async function noteFailure({ db, logger }: WatchDeps, accountId: string, error: unknown): Promise<void> {
  await saveWatchFailure(db, accountId, detailOf(error)).catch((err: unknown) => {
    logger.warn({ err, accountId }, 'the failure of a watch could not be stored');
  });
}

/** Waits until the provider's budget has a login: all mailboxes of a provider come back one after the other. */
async function awaitLogin({ db, sync }: WatchDeps, host: string, signal: AbortSignal): Promise<void> {
  await sleep(await takeLogin(db, host, sync.loginsPerMinute), signal);
}

/** A provider that asks for patience gets it from every mailbox that can wait. */
function notedRefusal({ db, logger }: WatchDeps, host: string, error: unknown): unknown {
  if (asksForPatience(error)) {
    holdLogins(db, host, HOLD_MS).catch((err: unknown) => logger.warn({ err }, 'the logins could not be held back'));
  }
  return error;
}

/** False: there is more to import. */
async function importUntilEnd(deps: WatchDeps, accountId: string): Promise<boolean> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings?.initialSync) throw toFailure(accountNotFound());
  const { cancellationSignal } = Context.current();
  const end = endSignal(IMPORT_MS);
  try {
    const mailbox = await openMailbox(deps, { accountId, watchEpoch: null }, settings, cancellationSignal);
    const { days } = settings.initialSync;
    const since = new Date(settings.connectedAt.getTime() - days * 24 * 60 * MINUTE);
    await inTurns(mailbox, end.signal, (ctx, signal) => importMail(ctx, { since, signal, onProgress: () => {} }));
    return !end.signal.aborted;
  } catch (error) {
    if (cancellationSignal.aborted) throw new CancelledFailure('the import was ended');
    throw toFailure(error);
  } finally {
    end.stop();
  }
}

async function verifyWhole(deps: WatchDeps, accountId: string): Promise<Verification> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings) throw toFailure(accountNotFound());
  const { cancellationSignal } = Context.current();
  let ctx: SyncContext | undefined;
  try {
    const mailbox = await openMailbox(deps, { accountId, watchEpoch: null }, settings, cancellationSignal);
    ctx = await openContext(mailbox);
    const verification = await verifyMailbox(ctx, cancellationSignal);
    await saveVerification(deps.db, accountId, verification.differences);
    if (verification.differences > 0) {
      deps.logger.error({ accountId, ...verification }, 'the store differed from the mailbox');
    }
    return verification;
  } catch (error) {
    if (cancellationSignal.aborted) throw new CancelledFailure('the verification was ended');
    throw toFailure(error);
  } finally {
    await ctx?.session.end();
  }
}

/** Aborted after `ms`, or before that by `abort` or when the activity is cancelled. */
function endSignal(ms: number): { signal: AbortSignal; abort(): void; stop(): void } {
  const context = Context.current();
  const ended = new AbortController();
  const abort = () => ended.abort();
  const timer = setTimeout(abort, ms);
  context.heartbeat();
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

/** @param signal closes every connection to the mailbox */
async function openMailbox(
  deps: WatchDeps,
  lease: Lease,
  settings: SyncSettings,
  signal: AbortSignal,
): Promise<Mailbox> {
  const { imapPassword: password } = openCredentials(deps.secrets, lease.accountId, settings.credentials);
  const imap = { ...settings.imap, password };
  const open = async () => {
    await awaitLogin(deps, imap.host, signal);
    return openSession(imap, { outbound: deps.outbound, signal, idleMs: QUIET_MS }).catch((error: unknown) => {
      throw notedRefusal(deps, imap.host, error);
    });
  };
  const connect = () =>
    openInTurn(open, {
      signal,
      makeRoom: () => requestRoom(deps.db, lease.accountId),
    });
  const baseline = { scanned: isScanned(await loadFolders(deps.db, lease.accountId)) };
  return { deps, lease, settings, imap, baseline, connect };
}

async function openContext({ deps, lease, settings, imap, baseline, connect }: Mailbox): Promise<SyncContext> {
  const session = await connect();
  const ctx = syncContext(deps, settings, { imap, session, lease, baselineKnown: () => baseline.scanned });
  return { ...ctx, reopen: connect };
}

/**
 * Does work that can be continued on connections of its own: whenever somebody else needs a connection and the server
 * allows no further one, this one ends for a while. Returns when the work is done, or `signal` is aborted.
 */
async function inTurns(
  mailbox: Mailbox,
  signal: AbortSignal,
  work: (ctx: SyncContext, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { deps, lease } = mailbox;
  for (let isDone = false; !isDone && !signal.aborted; ) {
    const turn = new AbortController();
    const ctx = await openContext(mailbox);
    const began = Date.now();
    let timer: NodeJS.Timeout | undefined;
    const stopListening = deps.leases.onRoomWanted((accountId) => {
      if (accountId !== lease.accountId) return;
      timer ??= setTimeout(() => turn.abort(), Math.max(0, began + TURN_MS - Date.now()));
    });
    try {
      await work(ctx, AbortSignal.any([signal, turn.signal]));
      isDone = !turn.signal.aborted;
    } finally {
      stopListening();
      clearTimeout(timer);
      await ctx.session.end();
    }
    if (!isDone) await sleep(PAUSE_MS, signal);
  }
}

/**
 * Many servers keep a connection that is up when the password changes. A login on a fresh one shows within the setting
 * that the mailbox is closed to us; other failures are left to the watch.
 */
async function checkLogins({ deps, connect }: Mailbox, signal: AbortSignal): Promise<void> {
  if (deps.sync.loginCheckMs === 0) return untilAborted(signal);
  while (!signal.aborted) {
    // jittered, so that mailboxes connected at one moment are not checked at one moment for ever
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

/** Scans the mail from before the connect, on a connection of its own; tries again when that breaks. */
async function scanInParallel(mailbox: Mailbox, signal: AbortSignal): Promise<void> {
  const { deps, lease, baseline } = mailbox;
  while (!signal.aborted && !baseline.scanned) {
    try {
      await inTurns(mailbox, signal, scanBaseline);
      baseline.scanned = isScanned(await loadFolders(deps.db, lease.accountId));
    } catch (error) {
      if (!(error instanceof MailError)) throw error;
      if (!signal.aborted) {
        const { code } = error;
        deps.logger.warn({ accountId: lease.accountId, code }, 'the scan of older mail was interrupted');
      }
    }
    if (!baseline.scanned) await sleep(SCAN_RETRY_MS, signal);
  }
  return untilAborted(signal);
}

function accountNotFound(): ApiError {
  return new ApiError('not_found', 'there is no such account');
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return sleep(2 ** 31 - 1, signal);
}
