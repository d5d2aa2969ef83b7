import { ApiError } from '../contract/errors.ts';
import { LeaseLost } from '../db/coordination/lease.ts';
import type { SessionPool } from '../imap/pool.ts';
import { openSession } from '../imap/session.ts';
import type { Logger } from '../runtime/logger.ts';
import { type LoginDeps, withLoginConfirmed } from './confirm-login.ts';
import type { SyncContext } from './context.ts';
import type { UndeliveredMessages } from './ingest/undelivered.ts';
import { createFolderRefusals } from './refusals.ts';
import { loginOf, withLogin } from './logins.ts';
import { loadSyncSettings, type SyncSettings } from './settings.ts';
import type { MailParser } from '../mime/parser.ts';
import type { Tokens } from '../oauth/tokens.ts';
import type { Outbound } from '../security/outbound.ts';
import type { Secrets } from '../security/secrets.ts';
import type { Storage } from '../storage/storage.ts';

/** What a change of a mailbox needs. */
export interface MailboxDeps extends LoginDeps {
  storage: Storage;
  parser: MailParser;
  logger: Logger;
  secrets: Secrets;
  tokens: Tokens;
  outbound: Outbound;
  sessions: SessionPool;
  undelivered: UndeliveredMessages;
  /** directory for messages that are too large for memory */
  tempDir: string;
}

/**
 * Runs `work` on a connection of the account, alongside the watching activity: its commits must be correct if the watch
 * saw the change first. A refused login is confirmed on a new connection and makes the account `disconnected`. `loaded`:
 * the account's settings, if they were read a moment ago.
 * @throws MailError; ApiError not_found when the account is removed before or during the work
 */
export async function withMailbox<T>(
  deps: MailboxDeps,
  accountId: string,
  work: (ctx: SyncContext) => Promise<T>,
  loaded?: SyncSettings,
): Promise<T> {
  let known = loaded;
  return withLoginConfirmed(deps, accountId, 'imap', {
    attempt: async () => {
      const settings = known ?? (await settingsOf(deps, accountId));
      // a second attempt reads them again: other credentials may have been stored
      known = undefined;
      return attempt(deps, { accountId, settings }, work);
    },
    drop: () => deps.sessions.drop(accountId),
    tried: async () => (await settingsOf(deps, accountId)).credentials,
  });
}

async function settingsOf(deps: MailboxDeps, accountId: string): Promise<SyncSettings> {
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings) throw accountGone();
  return settings;
}

async function attempt<T>(
  deps: MailboxDeps,
  { accountId, settings }: { accountId: string; settings: SyncSettings },
  work: (ctx: SyncContext) => Promise<T>,
): Promise<T> {
  const imap = await loginOf(deps, accountId, settings, 'imap');
  const reopen = () => openSession(imap, { outbound: deps.outbound });
  try {
    return await withLogin(deps, accountId, imap, () =>
      deps.sessions.use(accountId, imap, (session) =>
        // Whether the baseline is known is not looked up for each write; syncOnce does.
        work(
          syncContext(deps, settings, { reopen, session, lease: { accountId, watchEpoch: null }, baselineKnown: NO }),
        ),
      ),
    );
  } catch (error) {
    if (error instanceof LeaseLost) throw accountGone();
    throw error;
  }
}

const NO = () => false;

/** The context of a session of an account under a lease. */
export function syncContext(
  {
    db,
    storage,
    parser,
    logger,
    tempDir,
    undelivered,
  }: Pick<MailboxDeps, 'db' | 'storage' | 'parser' | 'logger' | 'tempDir' | 'undelivered'>,
  { ownAddresses, connectedAt, choice }: SyncSettings,
  own: Pick<SyncContext, 'session' | 'lease' | 'baselineKnown' | 'reopen'>,
): SyncContext {
  const account = { id: own.lease.accountId, ownAddresses, connectedAt, choice };
  const refusals = createFolderRefusals(account.id, logger);
  return { db, storage, parser, logger, tempDir, account, refusals, undelivered, ...own };
}

function accountGone(): ApiError {
  return new ApiError('not_found', 'no account has this id');
}
