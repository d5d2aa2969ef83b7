import { sql } from 'drizzle-orm';
import type { Account, Encryption, InitialSync } from '../../contract/account.ts';
import type { accounts } from '../schema/index.ts';

/** The columns of `accounts` that an Account shows. */
export type AccountRow = Pick<
  typeof accounts.$inferSelect,
  | 'id'
  | 'userId'
  | 'name'
  | 'status'
  | 'statusDetail'
  | 'metadata'
  | 'imapHost'
  | 'imapPort'
  | 'imapUser'
  | 'imapEncryption'
  | 'smtpHost'
  | 'smtpPort'
  | 'smtpUser'
  | 'smtpEncryption'
  | 'createdAt'
  | 'lastSyncedAt'
  | 'retentionDays'
  | 'authservId'
  | 'folderChoice'
  | 'watch'
> &
  InitialSyncRow & {
    /** `failingAppOf`, where it was selected */
    failingApp?: string | null;
    watchFailure?: string;
  };

/** The beginning of a watch failure that leaves the account in sync but for a message. */
export const NOT_DELIVERED = 'message not delivered: ';

/**
 * What an account says while the OAuth app that it logs in with is failing; null: it is not. Read with the account and not stored in
 * it: an app may have thousands of accounts.
 */
export const failingAppOf = sql<string | null>`(
  select 'the OAuth app ' || a.id || ' is failing: ' || a.failure from oauth_tokens t join oauth_apps a on a.id = t.app_id
  where t.account_id = accounts.id and a.failing_since is not null)`;

/** The columns of `accounts` with the state of the initial sync. */
export type InitialSyncRow = Pick<
  typeof accounts.$inferSelect,
  'initialSyncStatus' | 'initialSyncStartedAt' | 'initialSyncCompletedAt' | 'initialSyncDays' | 'initialSyncImported'
>;

/** What an account says that is in sync. */
function runningDetail({ failingApp, watchFailure = '' }: AccountRow): string {
  return failingApp || (watchFailure.startsWith(NOT_DELIVERED) ? watchFailure : '');
}

/** The contract's Account from its row; used by reads and by account events. */
export function toAccount(row: AccountRow): Account {
  return {
    object: 'Account',
    id: row.id,
    user_id: row.userId,
    name: row.name,
    provider: 'imap',
    status: row.status as Account['status'],
    status_detail: row.statusDetail || (row.status === 'running' && runningDetail(row)) || '',
    is_locked: false,
    metadata: row.metadata,
    connection_params: {
      mail: {
        imap_host: row.imapHost,
        imap_port: row.imapPort,
        imap_user: row.imapUser,
        imap_encryption: row.imapEncryption as Encryption,
        smtp_host: row.smtpHost,
        smtp_port: row.smtpPort,
        smtp_user: row.smtpUser,
        smtp_encryption: row.smtpEncryption as Encryption,
      },
    },
    created_at: row.createdAt.toISOString(),
    last_synced_at: row.lastSyncedAt?.toISOString() ?? null,
    initial_sync: toInitialSync(row),
    authserv_id: row.authservId,
    retention_days: row.retentionDays,
    folders: row.folderChoice,
    watch: row.watch,
  };
}

/** The state of the initial sync; null when none was requested. */
export function toInitialSync(row: InitialSyncRow): InitialSync | null {
  if (row.initialSyncStatus === null) return null;
  return {
    status: row.initialSyncStatus as InitialSync['status'],
    started_at: row.initialSyncStartedAt?.toISOString() ?? null,
    completed_at: row.initialSyncCompletedAt?.toISOString() ?? null,
    days: row.initialSyncDays ?? 30,
    imported: row.initialSyncImported,
  };
}
