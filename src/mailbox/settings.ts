import { eq, sql } from 'drizzle-orm';
import type { AccountStatus, Encryption, ServerSettings } from '../contract/account.ts';
import type { OAuth2Credentials } from '../contract/oauth.ts';
import { normalAuthservId } from '../mime/authentication/results.ts';
import { normalAddress } from '../mail-wire/addresses.ts';
import type { Queryable } from '../db/driver/client.ts';
import { type Lease, LeaseLost } from '../db/coordination/lease.ts';
import { columnsOf, fromRow } from '../db/driver/rows.ts';
import { statement } from '../db/driver/statement.ts';
import { accounts } from '../db/schema/index.ts';
import type { SealedAt, Secrets } from '../security/secrets.ts';
import type { AccountChoice } from './folders/choice.ts';

/** The settings of an account that a sync needs. */
export interface SyncSettings {
  imap: ServerSettings;
  smtp: ServerSettings;
  /** see sealCredentials */
  credentials: Buffer;
  /** lower-cased addresses of the mailbox's owner */
  ownAddresses: string[];
  /** see authservIdOf */
  authservId: string | null;
  /** the mailbox's address as From shows it */
  owner: { email: string; display_name?: string };
  connectedAt: Date;
  initialSync: { days: number } | null;
  /** which folders are stored */
  choice: AccountChoice;
  status: AccountStatus;
  /** false: no connection is held open */
  isWatched: boolean;
}

const settingsOfAccount = statement(
  'settings_of_account',
  (accountId: string) =>
    sql`select ${columnsOf(accounts)} from accounts where id = ${accountId} and removed_at is null`,
);

/**
 * The name with which the provider's Authentication-Results begin: the configured one, else Gmail's, which removes foreign
 * fields with its name; null: unknown.
 */
export function authservIdOf(row: Pick<typeof accounts.$inferSelect, 'authservId' | 'imapHost'>): string | null {
  if (row.authservId !== null) return normalAuthservId(row.authservId);
  return /^imap\.(gmail|googlemail)\.com$/i.test(row.imapHost) ? 'mx.google.com' : null;
}

/** Undefined when the account does not exist, or is being removed. */
export async function loadSyncSettings(db: Queryable, accountId: string): Promise<SyncSettings | undefined> {
  const [found] = (await db.execute(settingsOfAccount(accountId))).rows;
  if (!found) return undefined;
  const row = fromRow(accounts, found);
  const own = [row.userId, row.imapUser, row.smtpUser].map(normalAddress);
  return {
    imap: { host: row.imapHost, port: row.imapPort, user: row.imapUser, encryption: row.imapEncryption as Encryption },
    smtp: { host: row.smtpHost, port: row.smtpPort, user: row.smtpUser, encryption: row.smtpEncryption as Encryption },
    credentials: row.credentials,
    owner: { email: row.userId, ...(row.name === row.userId ? {} : { display_name: row.name }) },
    ownAddresses: [...new Set(own.filter((address) => address.includes('@')))],
    authservId: authservIdOf(row),
    connectedAt: row.connectedAt,
    initialSync: row.initialSyncStatus ? { days: row.initialSyncDays ?? 30 } : null,
    choice: { folders: row.folderChoice, isApplied: row.choiceApplied },
    status: row.status as AccountStatus,
    isWatched: row.watch,
  };
}

const touched = statement(
  'touch_synced',
  ({ accountId, watchEpoch }: Lease, now: Date, failure: string) => sql`
      update accounts set watch_failure = ${failure},
        last_synced_at = ${now.toISOString()}::timestamptz
      where id = ${accountId} and removed_at is null and watch_epoch = coalesce(${watchEpoch}::bigint, watch_epoch)
      returning exists (
        select from emails e where e.account_id = ${accountId} and e.missing_since is not null) as missing`,
);

/**
 * Records that the account was in sync with its mailbox just now, but for what `failure` says, which its `status_detail` shows. Returns
 * whether emails have left a folder about which nothing is decided yet, as the watch or a call has seen.
 * @throws LeaseLost
 */
export async function touchSynced(db: Queryable, lease: Lease, now: Date, failure = ''): Promise<boolean> {
  const { rows } = await db.execute<{ missing: boolean }>(touched(lease, now, failure));
  const [row] = rows;
  if (!row) throw new LeaseLost(lease.accountId);
  return row.missing;
}

/** Stores the failure of a watch, which the account's `status_detail` shows. */
export async function saveWatchFailure(db: Queryable, accountId: string, failure: string): Promise<void> {
  await db.update(accounts).set({ watchFailure: failure }).where(eq(accounts.id, accountId));
}

/** Stores the result of a verification. */
export async function saveVerification(db: Queryable, accountId: string, differences: number): Promise<void> {
  await db
    .update(accounts)
    .set({ verifiedAt: sql`now()`, differencesFound: sql`${accounts.differencesFound} + ${differences}` })
    .where(eq(accounts.id, accountId));
}

/** Adds to the number of emails that the initial sync has imported. */
export async function addImported(db: Queryable, accountId: string, count: number): Promise<void> {
  if (count === 0) return;
  await db
    .update(accounts)
    .set({ initialSyncImported: sql`${accounts.initialSyncImported} + ${count}` })
    .where(eq(accounts.id, accountId));
}

/** What an account logs in with, as it is sealed in `accounts.credentials`. */
export interface Credentials {
  /** undefined: `oauth2` applies */
  imapPassword: string | undefined;
  smtpPassword: string | undefined;
  /** how access tokens are obtained, for the sides without a password */
  oauth2?: OAuth2Credentials | undefined;
}

const sealedAt = (accountId: string): SealedAt => ({ table: 'accounts', column: 'credentials', id: accountId });

/** Seals the credentials for the account's row. */
export function sealCredentials(secrets: Secrets, accountId: string, credentials: Credentials): Buffer {
  const { imapPassword, smtpPassword, oauth2 } = credentials;
  return secrets.seal(
    sealedAt(accountId),
    JSON.stringify({ imap_password: imapPassword, smtp_password: smtpPassword, oauth2 }),
  );
}

/** Opens a value of `sealCredentials` for the same account. Throws CredentialsUnreadable. */
export function openCredentials(secrets: Secrets, accountId: string, sealed: Buffer): Credentials {
  const stored = JSON.parse(unsealed(secrets, accountId, sealed)) as {
    imap_password?: string;
    smtp_password?: string;
    oauth2?: OAuth2Credentials;
  };
  return {
    imapPassword: stored.imap_password,
    smtpPassword: stored.smtp_password,
    ...(stored.oauth2 ? { oauth2: stored.oauth2 } : {}),
  };
}

/** The credentials of an account cannot be opened: they were sealed with another key. */
export class CredentialsUnreadable extends Error {
  override readonly name = 'CredentialsUnreadable';
}

function unsealed(secrets: Secrets, accountId: string, sealed: Buffer): string {
  try {
    return secrets.open(sealedAt(accountId), sealed);
  } catch (cause) {
    throw new CredentialsUnreadable(
      'the stored credentials cannot be opened with ENCRYPTION_KEY or ENCRYPTION_KEY_PREVIOUS: connect the account again',
      {
        cause,
      },
    );
  }
}
