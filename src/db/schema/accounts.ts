import { sql } from 'drizzle-orm';
import { bigint, check, index, integer, jsonb, pgTable, smallint, text, uniqueIndex } from 'drizzle-orm/pg-core';
import { at, bytea } from './columns.ts';

export const accounts = pgTable(
  'accounts',
  {
    id: text().primaryKey(),
    userId: text('user_id').notNull(),
    name: text().notNull(),
    /** lower-cased `imap host|imap user`: what makes two connects the same mailbox */
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
    /** sealed JSON {imap_password, smtp_password}; see src/security/secrets.ts */
    credentials: bytea().notNull(),
    /** sealed, in base64: what its mail in storage is encrypted with; null until the first. See src/security/data-keys.ts */
    dataKey: bytea('data_key'),
    createdAt: at('created_at').notNull(),
    /** when the baseline was read: mail from before is not new */
    connectedAt: at('connected_at').notNull(),
    lastSyncedAt: at('last_synced_at'),
    /** what the watch failed with since it was in sync last; empty: nothing */
    watchFailure: text('watch_failure').notNull().default(''),
    /** since when it was not in sync when that was reported; null: nothing is reported */
    notInSyncSince: at('not_in_sync_since'),
    /** when it was last compared whole with the mailbox, or that was begun; null: never */
    verifiedAt: at('verified_at'),
    /** differences that verifications have found so far */
    differencesFound: integer('differences_found').notNull().default(0),
    initialSyncStatus: text('initial_sync_status'),
    initialSyncStartedAt: at('initial_sync_started_at'),
    initialSyncCompletedAt: at('initial_sync_completed_at'),
    initialSyncDays: smallint('initial_sync_days'),
    initialSyncImported: integer('initial_sync_imported').notNull().default(0),
    /** fencing number of the watching activity: a holder with an older one may not write */
    watchEpoch: bigint('watch_epoch', { mode: 'number' }).notNull().default(0),
    /** id of the worker whose activity took it over last; null: none did, or that one was found to be gone */
    watchedBy: text('watched_by'),
    /** when Temporal was last asked to run its workflow, unless it runs; see `findRunsToEnsure` */
    runEnsuredAt: at('run_ensured_at'),
    /** last `sequence` given to an event of this account */
    eventSequence: bigint('event_sequence', { mode: 'number' }).notNull().default(0),
    /** when its objects in storage were last compared with its rows; see src/db/coordination/stored-objects.ts */
    storageSweptAt: at('storage_swept_at'),
    /** the last key compared in a sweep that is under way */
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

/** A connect that is being tried: what the caller sent, sealed; gone when it has been answered. */
export const connectIntents = pgTable('connect_intents', {
  id: text().primaryKey(),
  /** sealed JSON of the AuthIntent; empty once the account is saved */
  intent: bytea().notNull(),
  /** the account that came of it, from the transaction that saved it on */
  accountId: text('account_id'),
  createdAt: at('created_at').notNull(),
});
