import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../contract/errors.ts';
import { LeaseLost } from '../db/outbox.ts';
import { loadSyncSettings, type SyncSettings } from '../db/sync-accounts.ts';
import type { Logger } from '../logger.ts';
import { refusalCode } from '../mail/command.ts';
import { MailError } from '../mail/errors.ts';
import type { MailParser } from '../mail/parse.ts';
import { type ImapSession, type ImapSettings, openSession } from '../mail/session.ts';
import type { SessionPool } from '../mail/session-pool.ts';
import type { Outbound } from '../outbound.ts';
import type { Secrets } from '../secrets.ts';
import type { Storage } from '../storage.ts';
import type { SyncContext } from '../sync/context.ts';
import { openCredentials } from '../sync/credentials.ts';
import { type AccountDeps, createAccountActivities } from './account.ts';
import { beating } from './heartbeat.ts';

/** What activities need that change a mailbox. */
export interface WriteDeps extends AccountDeps {
  storage: Storage;
  parser: MailParser;
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
export async function inMailbox<T>(
  deps: WriteDeps,
  accountId: string,
  work: (ctx: SyncContext) => Promise<T>,
): Promise<T> {
  try {
    return await attempt(deps, accountId, work);
  } catch (error) {
    if (!isRefusedLogin(error, 'imap')) throw error;
  }
  await deps.sessions.drop(accountId);
  await sleep(SECOND_TRY_MS);
  const { credentials } = await settingsOf(deps, accountId);
  try {
    return await attempt(deps, accountId, work);
  } catch (error) {
    if (isRefusedLogin(error, 'imap')) await refusedLogin(deps, accountId, error, credentials);
    throw error;
  }
}

/**
 * Runs the activity of a change that a caller waits for: the same, with signs of life; and a command that the provider
 * refuses is told as refused (CONTRACT "Errors").
 */
export function changeWaitedFor<T>(
  deps: WriteDeps,
  accountId: string,
  work: (ctx: SyncContext) => Promise<T>,
): Promise<T> {
  return beating(async () => {
    try {
      return await inMailbox(deps, accountId, work);
    } catch (error) {
      throw error instanceof MailError && isRefusal(error) ? rejected(error) : error;
    }
  });
}

/** Response codes (RFC 5530) of a NO that says "not now". */
const NOT_NOW = new Set<string | undefined>(['UNAVAILABLE', 'INUSE', 'LIMIT', 'SERVERBUG', 'CONTACTADMIN']);

function isRefusal(error: MailError): boolean {
  const { responseStatus } = (error.cause ?? {}) as { responseStatus?: string };
  return (
    error.refused && error.code === 'provider_error' && responseStatus === 'NO' && !NOT_NOW.has(refusalCode(error))
  );
}

function rejected(cause: MailError): MailError {
  return new MailError('provider_rejected', cause.side, cause.detail, { refused: true, cause });
}

/**
 * Notes that a login was refused for the second time: the account is `disconnected`, and its workflow lets go of the
 * mailbox. `tried` are the sealed credentials that were refused: where others are stored by now, the account was connected
 * again meanwhile.
 */
export async function refusedLogin(
  deps: AccountDeps,
  accountId: string,
  error: MailError,
  tried: Buffer,
): Promise<void> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings?.credentials.equals(tried)) return;
  const { setAccountStatus, startAccount } = createAccountActivities(deps);
  await setAccountStatus({ accountId, status: 'disconnected', detail: error.detail });
  await startAccount({ accountId });
}

/** Whether the mail server of that side refused the account's user name or password. */
export function isRefusedLogin(error: unknown, side: 'imap' | 'smtp'): error is MailError {
  return error instanceof MailError && error.code === 'invalid_credentials' && error.side === side;
}

async function settingsOf(deps: WriteDeps, accountId: string): Promise<SyncSettings> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings) throw accountGone();
  return settings;
}

async function attempt<T>(deps: WriteDeps, accountId: string, work: (ctx: SyncContext) => Promise<T>): Promise<T> {
  const settings = await settingsOf(deps, accountId);
  const { imapPassword: password } = openCredentials(deps.secrets, accountId, settings.credentials);
  const imap = { ...settings.imap, password };
  try {
    return await deps.sessions.use(accountId, imap, (session) =>
      work(contextOf(deps, accountId, settings, imap, session)),
    );
  } catch (error) {
    if (error instanceof LeaseLost) throw accountGone();
    throw error;
  }
}

function contextOf(
  { db, storage, parser, logger, outbound }: WriteDeps,
  accountId: string,
  { ownAddresses, connectedAt }: SyncSettings,
  imap: ImapSettings,
  session: ImapSession,
): SyncContext {
  return {
    db,
    storage,
    parser,
    logger,
    session,
    freshSession: false,
    reopen: () => openSession(imap, { outbound }),
    lease: { accountId, watchEpoch: null },
    account: { id: accountId, ownAddresses, connectedAt },
    // not looked up for each write; see lookOnce
    baselineKnown: () => false,
  };
}

function accountGone(): ApiError {
  return new ApiError('not_found', 'there is no account with that id');
}
