import { CancelledFailure, Context } from '@temporalio/activity';
import { ApiError } from '../contract/errors.ts';
import type { Db } from '../db/client.ts';
import { type Lease, type LeaseNotifications, takeLease } from '../db/lease.ts';
import { type ImapSession, openSession } from '../imap/session.ts';
import type { ServerLogin } from '../contract/account.ts';
import type { Logger } from '../logger.ts';
import { MailError } from '../mail-error.ts';
import { isScanned, scanBaseline } from '../mailbox/baseline.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { importMail } from '../mailbox/import.ts';
import { loadSyncSettings, openCredentials, type SyncSettings } from '../mailbox/settings.ts';
import { loadFolders } from '../mailbox/store/folders.ts';
import { watch } from '../mailbox/watch.ts';
import type { MailParser } from '../mime/parser.ts';
import type { Outbound } from '../outbound.ts';
import type { Secrets } from '../secrets.ts';
import type { Storage } from '../storage/storage.ts';
import { toFailure } from './failures.ts';
import { syncContext } from '../mailbox/with-mailbox.ts';

export interface WatchDeps {
  db: Db;
  storage: Storage;
  parser: MailParser;
  tempDir: string;
  logger: Logger;
  secrets: Secrets;
  outbound: Outbound;
  /** milliseconds; see Config.sync */
  sync: { pollMs: number; loginCheckMs: number };
  leases: LeaseNotifications;
  /** tells the account's workflow that its mailbox is connected and in step */
  signalConnected(accountId: string): Promise<void>;
}

export type MailboxActivities = ReturnType<typeof createMailboxActivities>;

const MINUTE = 60_000;
const HEARTBEAT_MS = 5_000;
/** A watch ends by itself about once an hour, so that mailboxes spread over the workers that there are. */
const WATCH_MS = 50 * MINUTE;
/** An import returns to its workflow this often, so that its history says how far it is. */
const IMPORT_MS = 10 * MINUTE;
const SCAN_RETRY_MS = MINUTE;

/** Long activities on the queue `mailboxes`: each holds IMAP connections of one account. */
export function createMailboxActivities(deps: WatchDeps) {
  /** Watches a mailbox for about an hour; whoever watched it before can write no more. */
  async function watchMailbox({ accountId }: { accountId: string }): Promise<void> {
    const lease = await takeLease(deps.db, accountId);
    const settings = lease && (await loadSyncSettings(deps.db, accountId));
    if (!lease || !settings) throw toFailure(new ApiError('not_found', 'there is no such account'));
    const end = endSignal(WATCH_MS * (1 + Math.random() * 0.4));
    // A cancellation would come only with the answer to a heartbeat; new settings and a removal should not wait for it.
    const forget = deps.leases.onLost(lease, end.stop);
    let connected = false;
    try {
      const imap = imapSettings(deps, accountId, settings);
      const ctx = await openContext(deps, lease, settings, imap);
      connected = true;
      const onInStep = () => deps.signalConnected(accountId);
      const parts = [
        watch(ctx, { pollMs: deps.sync.pollMs, signal: end.signal, onInSync: onInStep }),
        checkLogins(deps, imap, end.signal),
        scanBeside(deps, ctx, settings, imap, end.signal),
      ];
      try {
        await Promise.race(parts);
      } finally {
        end.stop();
        await ctx.session.end();
        // None of them may go on writing once the activity has ended.
        await Promise.allSettled(parts);
      }
    } catch (error) {
      throw toFailure(error, { connected, ...(lease.watchEpoch === null ? {} : { watchEpoch: lease.watchEpoch }) });
    } finally {
      forget();
      end.stop();
    }
    if (Context.current().cancellationSignal.aborted) throw new CancelledFailure('the watch was ended');
  }

  /** Imports mail from before the connect; goes on where the last run stopped. `done` is false when there is more. */
  async function importMailbox({ accountId }: { accountId: string }): Promise<{ done: boolean }> {
    const settings = await loadSyncSettings(deps.db, accountId);
    if (!settings?.initialSync) throw toFailure(new ApiError('not_found', 'there is no such account'));
    const end = endSignal(IMPORT_MS);
    let imported = 0;
    let done = false;
    try {
      const imap = imapSettings(deps, accountId, settings);
      const ctx = await openContext(deps, { accountId, watchEpoch: null }, settings, imap);
      const stop = () => ctx.session.client.close();
      Context.current().cancellationSignal.addEventListener('abort', stop);
      try {
        const { days } = settings.initialSync;
        const since = new Date(settings.connectedAt.getTime() - days * 24 * 60 * MINUTE);
        await importMail(ctx, { since, signal: end.signal, onProgress: (count) => (imported += count) });
        done = !end.signal.aborted;
      } finally {
        Context.current().cancellationSignal.removeEventListener('abort', stop);
        await ctx.session.end();
      }
    } catch (error) {
      if (Context.current().cancellationSignal.aborted) throw new CancelledFailure('the import was ended');
      throw toFailure(error, { progress: imported > 0 });
    } finally {
      end.stop();
    }
    if (Context.current().cancellationSignal.aborted) throw new CancelledFailure('the import was ended');
    return { done };
  }

  return { watchMailbox, importMailbox };
}

/** Ends when the activity is cancelled, or after `ms`; beats meanwhile. */
function endSignal(ms: number): { signal: AbortSignal; stop(): void } {
  const context = Context.current();
  const ended = new AbortController();
  const abort = () => ended.abort();
  const timer = setTimeout(abort, ms);
  const beat = setInterval(() => context.heartbeat(), HEARTBEAT_MS);
  context.heartbeat();
  context.cancellationSignal.addEventListener('abort', abort, { once: true });
  if (context.cancellationSignal.aborted) abort();
  return {
    signal: ended.signal,
    stop() {
      abort();
      clearTimeout(timer);
      clearInterval(beat);
      context.cancellationSignal.removeEventListener('abort', abort);
    },
  };
}

function imapSettings({ secrets }: WatchDeps, accountId: string, { imap, credentials }: SyncSettings): ServerLogin {
  return { ...imap, password: openCredentials(secrets, accountId, credentials).imapPassword };
}

async function openContext(
  deps: WatchDeps,
  lease: Lease,
  settings: SyncSettings,
  imap: ServerLogin,
): Promise<SyncContext> {
  const scanned = isScanned(await loadFolders(deps.db, lease.accountId));
  const session = await openSession(imap, { outbound: deps.outbound });
  return syncContext(deps, lease, settings, imap, session, { freshSession: true, baselineKnown: () => scanned });
}

/**
 * Many servers keep a connection that is up when the password changes. A login on a fresh one tells within the setting
 * that the mailbox is closed to us; other failures are left to the watch.
 */
async function checkLogins(deps: WatchDeps, imap: ServerLogin, signal: AbortSignal): Promise<void> {
  if (deps.sync.loginCheckMs === 0) return forever(signal);
  while (!signal.aborted) {
    await pause(deps.sync.loginCheckMs, signal);
    if (signal.aborted) return;
    try {
      const session: ImapSession = await openSession(imap, { outbound: deps.outbound });
      await session.end();
    } catch (error) {
      if (error instanceof MailError && error.code === 'invalid_credentials') throw error;
    }
  }
}

/** Scans what lay in the mailbox before it was connected, on a connection of its own; tries again when that breaks. */
async function scanBeside(
  deps: WatchDeps,
  ctx: SyncContext,
  settings: SyncSettings,
  imap: ServerLogin,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted && !ctx.baselineKnown()) {
    let own: SyncContext | undefined;
    try {
      own = await openContext(deps, ctx.lease, settings, imap);
      await scanBaseline(own, signal);
      const scanned = isScanned(await loadFolders(deps.db, ctx.account.id));
      if (scanned) ctx.baselineKnown = () => true;
    } catch (error) {
      if (!(error instanceof MailError)) throw error;
      deps.logger.warn({ accountId: ctx.account.id, code: error.code }, 'the scan of older mail was interrupted');
    } finally {
      await own?.session.end();
    }
    if (!ctx.baselineKnown()) await pause(SCAN_RETRY_MS, signal);
  }
  return forever(signal);
}

/** Waits until the signal. */
function forever(signal: AbortSignal): Promise<void> {
  return pause(2 ** 31 - 1, signal);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    if (signal.aborted) done();
    else signal.addEventListener('abort', done, { once: true });
  });
}
