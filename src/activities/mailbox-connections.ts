import { sleep } from '../async.ts';
import type { Db } from '../db/driver/client.ts';
import { type Lease, type LeaseNotifications, requestRoom } from '../db/coordination/lease.ts';
import { MINUTE } from '../duration.ts';
import { openInTurn } from '../imap/room.ts';
import { type ImapSession, openSession } from '../imap/session.ts';
import type { Admission } from '../mailbox/admission.ts';
import type { UndeliveredMessages } from '../mailbox/ingest/undelivered.ts';
import { isScanned } from '../mailbox/baseline.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { createTokenEnds, loginOf, withLogin } from '../mailbox/logins.ts';
import type { RunningWatches } from '../mailbox/running-watches.ts';
import { saveWatchFailure, type SyncSettings } from '../mailbox/settings.ts';
import { loadFolders } from '../mailbox/store/folders.ts';
import { syncContext } from '../mailbox/with-mailbox.ts';
import type { MailParser } from '../mime/parser.ts';
import type { Tokens } from '../oauth/tokens.ts';
import type { Logger } from '../runtime/logger.ts';
import type { Outbound } from '../security/outbound.ts';
import type { Secrets } from '../security/secrets.ts';
import type { Storage } from '../storage/storage.ts';
import { detailOf } from './failures.ts';
import { type LoginTurns, obeyPause } from './login-turns.ts';

export interface WatchDeps {
  db: Db;
  storage: Storage;
  /** holds large messages while they are read; see Config.dataDir */
  tempDir: string;
  parser: MailParser;
  logger: Logger;
  secrets: Secrets;
  tokens: Tokens;
  outbound: Outbound;
  /** milliseconds; see Config.sync */
  sync: { pollMs: number; loginCheckMs: number };
  undelivered: UndeliveredMessages;
  logins: LoginTurns;
  leases: LeaseNotifications;
  /** of this process; see maintenance/lost-watches.ts */
  workerId?: string;
  /** lists each watch while it runs */
  watches?: Pick<RunningWatches, 'add'>;
  /** lets watches begin; left out: all at once */
  admission?: Admission;
  /** signals the account's workflow that its mailbox is connected and in sync */
  signalConnected(accountId: string): Promise<void>;
  /** milliseconds between two heartbeats; for tests */
  heartbeatMs?: number;
}

/** How long a connection that another task needs is used at least, and how long the pause after its release is. */
const TURN_MS = 2_000;
const PAUSE_MS = 2_000;
/** How long a connection may be idle, beyond the timeout of a command: usually longer than the interval of polls. */
const QUIET_MS = 5 * MINUTE;

/** An account to whose mailbox an activity opens connections. */
export interface Mailbox {
  deps: WatchDeps;
  lease: Lease;
  settings: SyncSettings;
  /** whether the baseline of every folder has been scanned; set by the scan */
  baseline: { scanned: boolean };
  /** Opens a connection; the signal that ends the activity closes it. */
  connect(): Promise<ImapSession>;
}

/** Stores why the account is not in sync. */
export async function noteFailure({ db, logger }: WatchDeps, accountId: string, error: unknown): Promise<void> {
  await saveWatchFailure(db, accountId, detailOf(error)).catch((err: unknown) => {
    logger.warn({ err, accountId }, 'could not store the failure of a watch');
  });
}

/** @param signal closes every connection to the mailbox when it aborts */
export async function openMailbox(
  deps: WatchDeps,
  lease: Lease,
  settings: SyncSettings,
  signal: AbortSignal,
): Promise<Mailbox> {
  const { accountId } = lease;
  const { host } = settings.imap;
  const open = async () => {
    await deps.logins.wait(host, signal);
    const imap = await loginOf(deps, accountId, settings, 'imap');
    const options = { outbound: deps.outbound, signal, idleMs: QUIET_MS };
    return withLogin(deps, accountId, imap, () => openSession(imap, options)).catch(async (error: unknown) => {
      const onPause = () => noteFailure(deps, accountId, error);
      await deps.logins.obeyRefusal({ host, error, onPause }, signal);
      throw error;
    });
  };
  const connect = () =>
    openInTurn(open, {
      signal,
      makeRoom: () => requestRoom(deps.db, accountId),
    });
  const baseline = { scanned: isScanned(await loadFolders(deps.db, accountId)) };
  return { deps, lease, settings, baseline, connect };
}

export async function openContext({ deps, lease, settings, baseline, connect }: Mailbox): Promise<SyncContext> {
  const session = await connect();
  return syncContext(deps, settings, { reopen: connect, session, lease, baselineKnown: () => baseline.scanned });
}

/**
 * Does resumable work on separate connections: when another task needs a connection and the server allows no further one, it
 * closes its own for a while. Returns when the work is done, or `signal` is aborted.
 */
export async function inTurns(
  mailbox: Mailbox,
  signal: AbortSignal,
  work: (ctx: SyncContext, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { deps, lease } = mailbox;
  const isTokenEnd = createTokenEnds();
  for (let isDone = false; !isDone && !signal.aborted; ) {
    const turn = new AbortController();
    const ctx = await openContext(mailbox);
    const began = performance.now();
    let timer: NodeJS.Timeout | undefined;
    const stopListening = deps.leases.onRoomWanted((accountId) => {
      if (accountId !== lease.accountId) return;
      timer ??= setTimeout(() => turn.abort(), Math.max(0, began + TURN_MS - performance.now()));
    });
    try {
      await work(ctx, AbortSignal.any([signal, turn.signal]));
      isDone = !turn.signal.aborted;
    } catch (error) {
      // continues with the next token, or when the server allows it
      if (!(await obeyPause(error, signal)) && !isTokenEnd(ctx.session.token, error)) throw error;
    } finally {
      stopListening();
      clearTimeout(timer);
      await ctx.session.end();
    }
    if (!isDone) await sleep(PAUSE_MS, signal);
  }
}
