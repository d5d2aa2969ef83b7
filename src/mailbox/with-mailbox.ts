import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../contract/errors.ts';
import type { Db } from '../db/client.ts';
import { type Lease, LeaseLost } from '../db/lease.ts';
import type { SessionPool } from '../imap/pool.ts';
import { type ImapSession, openSession } from '../imap/session.ts';
import type { ServerLogin } from '../contract/account.ts';
import type { Logger } from '../logger.ts';
import { MailError, type MailSide } from '../mail-error.ts';
import type { SyncContext } from './context.ts';
import { loadSyncSettings, openCredentials, type SyncSettings } from './settings.ts';
import type { MailParser } from '../mime/parser.ts';
import type { Outbound } from '../outbound.ts';
import type { Secrets } from '../secrets.ts';
import type { Storage } from '../storage/storage.ts';

/** What confirms that a login is refused. */
export interface LoginDeps {
  db: Db;
  /** makes the account `disconnected`, with what the provider said */
  markDisconnected(accountId: string, detail: string): Promise<void>;
}

/** What it takes to change a mailbox. */
export interface MailboxDeps extends LoginDeps {
  storage: Storage;
  parser: MailParser;
  /** where mail may be put while it is read */
  tempDir: string;
  logger: Logger;
  secrets: Secrets;
  outbound: Outbound;
  sessions: SessionPool;
}

/** A refused login is tried once more, since some servers refuse while they are busy. */
const SECOND_TRY_MS = 500;

/**
 * Runs `work` on a connection of the account's, beside the watching activity: what it commits must hold whoever saw the
 * change first. A refused login is confirmed by a second try on a fresh connection and makes the account `disconnected`.
 * @throws MailError; ApiError not_found when the account is gone, before or meanwhile
 */
export async function withMailbox<T>(
  deps: MailboxDeps,
  accountId: string,
  work: (ctx: SyncContext) => Promise<T>,
): Promise<T> {
  return withLoginConfirmed(deps, accountId, 'imap', {
    attempt: () => attempt(deps, accountId, work),
    drop: () => deps.sessions.drop(accountId),
    tried: async () => (await settingsOf(deps, accountId)).credentials,
  });
}

/**
 * Tries what needs a login, and once more on a fresh connection when the login was refused. One that is refused again
 * makes the account `disconnected`.
 */
export async function withLoginConfirmed<T>(
  deps: LoginDeps,
  accountId: string,
  side: MailSide,
  login: {
    attempt(): Promise<T>;
    /** ends the connections that are kept */
    drop(): void | Promise<void>;
    /** the sealed credentials that the second try uses */
    tried(): Promise<Buffer>;
  },
): Promise<T> {
  const isRefused = (error: unknown): error is MailError =>
    error instanceof MailError && error.code === 'invalid_credentials' && error.side === side;
  try {
    return await login.attempt();
  } catch (error) {
    if (!isRefused(error)) throw error;
  }
  await login.drop();
  await sleep(SECOND_TRY_MS);
  const tried = await login.tried();
  try {
    return await login.attempt();
  } catch (error) {
    if (isRefused(error)) await refusedLogin(deps, accountId, error, tried);
    throw error;
  }
}

/**
 * Notes that a login was refused for the second time: the account is `disconnected`, and its workflow lets go of the
 * mailbox. `tried` are the sealed credentials that were refused: where others are stored by now, the account was connected
 * again meanwhile.
 */
async function refusedLogin(deps: LoginDeps, accountId: string, error: MailError, tried: Buffer): Promise<void> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (settings?.credentials.equals(tried)) await deps.markDisconnected(accountId, error.detail);
}

async function settingsOf(deps: MailboxDeps, accountId: string): Promise<SyncSettings> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings) throw accountGone();
  return settings;
}

/** The baseline is not looked up for each write; see lookOnce. */
const BESIDE_THE_WATCH = { freshSession: false, baselineKnown: () => false };

async function attempt<T>(deps: MailboxDeps, accountId: string, work: (ctx: SyncContext) => Promise<T>): Promise<T> {
  const settings = await settingsOf(deps, accountId);
  const { imapPassword: password } = openCredentials(deps.secrets, accountId, settings.credentials);
  const imap = { ...settings.imap, password };
  try {
    return await deps.sessions.use(accountId, imap, (session) =>
      work(syncContext(deps, { accountId, watchEpoch: null }, settings, imap, session, BESIDE_THE_WATCH)),
    );
  } catch (error) {
    if (error instanceof LeaseLost) throw accountGone();
    throw error;
  }
}

/** What a session of an account is used with, under a lease. */
export function syncContext(
  {
    db,
    storage,
    parser,
    tempDir,
    logger,
    outbound,
  }: Pick<MailboxDeps, 'db' | 'storage' | 'parser' | 'tempDir' | 'logger' | 'outbound'>,
  lease: Lease,
  { ownAddresses, connectedAt }: SyncSettings,
  imap: ServerLogin,
  session: ImapSession,
  known: Pick<SyncContext, 'freshSession' | 'baselineKnown'>,
): SyncContext {
  const account = { id: lease.accountId, ownAddresses, connectedAt };
  const reopen = () => openSession(imap, { outbound });
  return { db, storage, parser, tempDir, logger, session, reopen, lease, account, ...known };
}

function accountGone(): ApiError {
  return new ApiError('not_found', 'there is no account with that id');
}
