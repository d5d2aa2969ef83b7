import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  pgTable,
  smallint,
  text,
  uniqueIndex,
} from 'drizzle-orm/pg-core';
import type { FolderChoice } from '../../contract/mailbox-config.ts';
import { at, bytea } from './columns.ts';

export const accounts = pgTable(
  'accounts',
  {
    id: text().primaryKey(),
    userId: text('user_id').notNull(),
    name: text().notNull(),
    /** lower-cased `imap host|imap user`: identifies the mailbox */
    mailboxKey: text('mailbox_key').notNull(),
    status: text().notNull().default('running'),
    statusDetail: text('status_detail').notNull().default(''),
    metadata: jsonb().$type<Record<string, string>>().notNull().default({}),
    imapHost: text('imap_host').notNull(),
    imapPort: integer('imap_port').notNull(),
    imapUser: text('imap_user').notNull(),
    imapEncryption: text('imap_encryption').notNull(),
    smtpHost: text('smtp_host').notNull(),
    smtpPort: integer('smtp_port').notNull(),
    smtpUser: text('smtp_user').notNull(),
    smtpEncryption: text('smtp_encryption').notNull(),
    /** sealed JSON {imap_password, smtp_password, oauth2}; see src/mailbox/settings.ts */
    credentials: bytea().notNull(),
    /**
     * sealed, in base64: the key that encrypts its stored mail; null until the first message. See
     * src/security/data-keys.ts
     */
    dataKey: bytea('data_key'),
    createdAt: at('created_at').notNull(),
    /** when the baseline was read: mail from before is not new */
    connectedAt: at('connected_at').notNull(),
    lastSyncedAt: at('last_synced_at'),
    /** when it was last reconnected, or its `watch` last changed; null: never */
    followedSince: at('followed_since'),
    /** the failure of the watch since it was last in sync; empty: none */
    watchFailure: text('watch_failure').notNull().default(''),
    /** since when it has been reported as not in sync; null: not reported */
    notInSyncSince: at('not_in_sync_since'),
    /** when its last verification began or ended; null: never */
    verifiedAt: at('verified_at'),
    /** differences found by verifications so far */
    differencesFound: integer('differences_found').notNull().default(0),
    /** the provider's name in Authentication-Results, if it is configured; see src/mailbox/settings.ts */
    authservId: text('authserv_id'),
    /** stored mail that is older is deleted from the store, days; null: none. See src/maintenance/mail-retention.ts */
    retentionDays: smallint('retention_days'),
    /** null: all folders are stored; see src/mailbox/folders/choice.ts */
    folderChoice: jsonb('folder_choice').$type<FolderChoice>(),
    /** false: the choice has changed, and the folders that it adds are not stored yet */
    choiceApplied: boolean('choice_applied').notNull().default(true),
    /** false: no connection is held open; a call syncs it */
    watch: boolean().notNull().default(true),
    initialSyncStatus: text('initial_sync_status'),
    initialSyncStartedAt: at('initial_sync_started_at'),
    initialSyncCompletedAt: at('initial_sync_completed_at'),
    initialSyncDays: smallint('initial_sync_days'),
    initialSyncImported: integer('initial_sync_imported').notNull().default(0),
    /** fencing number of the watching activity: a holder with an older number may not write */
    watchEpoch: bigint('watch_epoch', { mode: 'number' }).notNull().default(0),
    /** id of the worker whose activity took it over last; null: none, or that worker was lost */
    watchedBy: text('watched_by'),
    /** when Temporal was last asked to run its workflow, unless it runs; see `findRunsToEnsure` */
    runEnsuredAt: at('run_ensured_at'),
    /** last `sequence` given to an event of this account */
    eventSequence: bigint('event_sequence', { mode: 'number' }).notNull().default(0),
    /** when its objects in storage were last compared with its rows; see src/db/coordination/stored-objects.ts */
    storageSweptAt: at('storage_swept_at'),
    /** the last key compared by the current sweep */
    storageSweepAfter: text('storage_sweep_after'),
    /** set when removal began; the account is not found from then on */
    removedAt: at('removed_at'),
  },
  (t) => [
    uniqueIndex('accounts_mailbox').on(t.mailboxKey).where(sql`removed_at is null`),
    index('accounts_created').on(t.createdAt, t.id),
    check('accounts_status', sql`status in ('running', 'errored', 'disconnected')`),
  ],
);

/** A connect in progress: what the caller sent, sealed; deleted with the response. */
export const connectIntents = pgTable('connect_intents', {
  id: text().primaryKey(),
  /** sealed JSON of the AuthIntent; empty once the account is saved */
  intent: bytea().notNull(),
  /** the saved account, written in the same transaction */
  accountId: text('account_id'),
  createdAt: at('created_at').notNull(),
});
