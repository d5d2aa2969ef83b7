import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  customType,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  uniqueIndex,
} from 'drizzle-orm/pg-core';
import type { Permissions } from '../contract/api-key.ts';
import type { AuthLinkConfig } from '../contract/auth-link.ts';
import type {
  Attachment,
  Attendee,
  AutoReply,
  Bounce,
  Calendar,
  Complaint,
  Email,
  Header,
  SentBy,
} from '../contract/email.ts';
import type { TrackingOptions } from '../contract/sending.ts';
import type { ReplayFilter } from '../contract/replay.ts';

/*
 * Who owns what:
 *   accounts 1─n folders 1─n locations n─1 emails 1─1 email_contents, email_search; emails 1─n attachments
 *   accounts 1─n events 1─n deliveries n─1 webhook_endpoints; deliveries 1─n delivery_attempts
 *
 * `emails` holds what changes (folders' side: locations); `email_contents` and `email_search` are written once.
 * A location is one UID in one folder. Its email_id is null for mail that was there before the account connected
 * (baseline) and was not imported: it is known, so that a later move of it is not taken for new mail.
 *
 * Rows of an account are deleted in steps by the deleteAccount run, hence no cascades from accounts.
 */

const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' });
/**
 * `json` keeps its text as it was written: reads of emails put it into answers without parsing it. (drizzle's own type
 * would parse a JSON string twice.)
 */
const json = <T>(name: string) =>
  customType<{ data: T; driverData: string }>({ dataType: () => 'json', toDriver: (value) => JSON.stringify(value) })(
    name,
  );
const at = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: 'date' });

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
    /** sealed JSON {imap_password, smtp_password}; see src/secrets.ts */
    credentials: bytea().notNull(),
    /** sealed, in base64: what its mail in storage is encrypted with; null until the first. See src/data-keys.ts */
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
    /** last `sequence` given to an event of this account */
    eventSequence: bigint('event_sequence', { mode: 'number' }).notNull().default(0),
    /** when its objects in storage were last compared with its rows; see src/db/stored-objects.ts */
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

/** How many logins a provider gets: one row for each host, shared by all workers. See src/db/login-budget.ts. */
export const loginBudgets = pgTable('login_budgets', {
  host: text().primaryKey(),
  /** when the next login is due */
  nextAt: at('next_at').notNull(),
});

/** Worker processes that are there; see src/db/workers.ts. */
export const workers = pgTable('workers', {
  id: text().primaryKey(),
  seenAt: at('seen_at').notNull(),
  startedAt: at('started_at').notNull().defaultNow(),
  /** mailboxes that it watches */
  watches: integer().notNull().default(0),
});

/** A connect that is being tried: what the caller sent, sealed; gone when it has been answered. */
export const connectIntents = pgTable('connect_intents', {
  id: text().primaryKey(),
  /** sealed JSON of the AuthIntent; empty once the account is saved */
  intent: bytea().notNull(),
  /** the account that came of it, from the transaction that saved it on */
  accountId: text('account_id'),
  createdAt: at('created_at').notNull(),
});

export const folders = pgTable(
  'folders',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** full path as the server names it, decoded to Unicode */
    path: text().notNull(),
    delimiter: text(),
    name: text().notNull(),
    parentId: text('parent_id'),
    role: text().notNull().default('UNKNOWN'),
    /** false: \Noselect or \NonExistent, a parent without mail */
    selectable: boolean().notNull().default(true),
    uidValidity: bigint('uid_validity', { mode: 'number' }),
    /** first UID that was not there at connect: lower ones are baseline */
    baselineUidNext: bigint('baseline_uid_next', { mode: 'number' }),
    /** the sync cursor: UIDs below it have been ingested or are baseline */
    uidNext: bigint('uid_next', { mode: 'number' }),
    /** HIGHESTMODSEQ up to which flags and vanished mail are known; text, since it has 63 bits */
    highestModseq: text('highest_modseq'),
    /** baseline locations are known from this UID up (scanning goes downwards); 1: all of them */
    scannedFrom: bigint('scanned_from', { mode: 'number' }),
    totalCount: integer('total_count').notNull().default(0),
    unreadCount: integer('unread_count').notNull().default(0),
    /** locations of the folder that have not vanished, baseline included; counted by the statements that change them */
    knownCount: integer('known_count').notNull().default(0),
    /** its mail is being taken out in chunks; see src/mailbox/folders/vacate.ts */
    vacating: text().$type<Vacating>(),
    /** locations up to this UID were taken out */
    vacatedTo: bigint('vacated_to', { mode: 'number' }),
    /** its UIDs are being replaced in chunks; see src/mailbox/folders/uidvalidity.ts */
    renumbering: jsonb().$type<Renumbering>(),
    /** counts changes made through this API: what was read of the server before one of them is out of date */
    localRevision: bigint('local_revision', { mode: 'number' }).notNull().default(0),
    createdAt: at('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('folders_path').on(t.accountId, t.path),
    check('folders_vacating', sql`vacating in ('deletion', 'noselect')`),
  ],
);

/** Why a folder loses all its mail: the server has deleted it, or made it a parent without mail (\Noselect). */
export type Vacating = 'deletion' | 'noselect';

/** How far the replacement of a folder's UIDs has come. */
export interface Renumbering {
  /** the new UIDVALIDITY */
  uidValidity: number;
  /** of the numbers below zero that locations have meanwhile: 1, or one more than an earlier renumbering used */
  series: number;
  phase: 'freeing' | 'matching' | 'vanishing';
  /** UIDs up to this one are done in this phase */
  cursor: number;
  /** the lowest UID that is a new message */
  firstNew: number | null;
}

/**
 * Which folder has, or is about to get, a path: recorded before this API creates or renames one at the provider, so that
 * whoever sees it there first knows its id. Gone when the folder's own row says so.
 */
export const pathReservations = pgTable(
  'path_reservations',
  {
    accountId: text('account_id').notNull(),
    path: text().notNull(),
    folderId: text('folder_id').notNull(),
    createdAt: at('created_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.path] })],
);

export const threads = pgTable(
  'threads',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** set when a late parent joined this thread to an older one: the id keeps resolving */
    mergedInto: text('merged_into'),
  },
  (t) => [index('threads_account').on(t.accountId), index('threads_merged').on(t.mergedInto)],
);

/** Which thread a Message-ID (`mid:…`) or a server's thread id (`gm:…`, `oid:…`) belongs to. */
export const threadKeys = pgTable(
  'thread_keys',
  {
    accountId: text('account_id').notNull(),
    key: text().notNull(),
    threadId: text('thread_id').notNull(),
  },
  (t) => [primaryKey({ columns: [t.accountId, t.key] }), index('thread_keys_thread').on(t.threadId)],
);

export const emails = pgTable(
  'emails',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    threadId: text('thread_id').notNull(),
    date: at('date').notNull(),
    messageId: text('message_id'),
    subject: text().notNull(),
    fromAttendee: jsonb('from_attendee').$type<Attendee>().notNull(),
    toAttendees: jsonb('to_attendees').$type<Attendee[]>().notNull(),
    ccAttendees: jsonb('cc_attendees').$type<Attendee[]>().notNull(),
    bccAttendees: jsonb('bcc_attendees').$type<Attendee[]>().notNull(),
    replyToAttendees: jsonb('reply_to_attendees').$type<Attendee[]>().notNull(),
    hasAttachments: boolean('has_attachments').notNull(),
    isUnread: boolean('is_unread').notNull(),
    /** is in the folder whose role is DRAFTS */
    isDraft: boolean('is_draft').notNull().default(false),
    draftId: text('draft_id'),
    origin: text().notNull().default('external'),
    isEcho: boolean('is_echo').notNull().default(false),
    sentBy: jsonb('sent_by').$type<SentBy>(),
    trackingId: text('tracking_id'),
    bounce: jsonb().$type<Bounce>(),
    complaint: jsonb().$type<Complaint>(),
    autoReply: text('auto_reply').$type<AutoReply>(),
    calendar: jsonb().$type<Calendar>(),
    /** parsing was not cut short */
    isComplete: boolean('is_complete').notNull().default(true),
    /** how many times it was parsed again since it was cut short; see src/db/reparses.ts */
    reparses: smallint().notNull().default(0),
    /** bytes of the raw message */
    size: bigint({ mode: 'number' }).notNull(),
    internalDate: at('internal_date').notNull(),
    /** see src/mime/threads.ts: under which mails without reference headers find this one by subject */
    subjectKey: text('subject_key'),
    storageKey: text('storage_key').notNull(),
    /** no folder holds it just now: moved or deleted, decided when every folder has been looked at */
    missingSince: at('missing_since'),
    /** folder ids that its last event names, where readers see others since; null: the same */
    reportedFolders: text('reported_folders').array(),
    createdAt: at('created_at').notNull(),
  },
  (t) => [
    index('emails_list').on(t.accountId, t.date, t.id).where(sql`not is_draft`),
    index('emails_drafts').on(t.accountId, t.date, t.id).where(sql`is_draft`),
    index('emails_unread').on(t.accountId, t.date, t.id).where(sql`is_unread and not is_draft`),
    index('emails_with_attachments').on(t.accountId, t.date, t.id).where(sql`has_attachments and not is_draft`),
    index('emails_thread').on(t.threadId, t.date, t.id),
    index('emails_message_id').on(t.accountId, t.messageId),
    // whose storage key does not tell the email's id; see src/db/stored-objects.ts
    index('emails_api_storage_key').on(t.storageKey).where(sql`origin = 'api'`),
    index('emails_subject_key').on(t.accountId, t.subjectKey, t.date).where(sql`subject_key is not null`),
    // to be parsed again, with more time
    index('emails_incomplete').on(t.accountId, t.id).where(sql`not is_complete`),
    index('emails_missing').on(t.accountId).where(sql`missing_since is not null`),
    uniqueIndex('emails_draft_id').on(t.draftId).where(sql`draft_id is not null`),
    // bounces of which it is not known which email they are about
    index('emails_untied_bounces')
      .on(t.accountId, sql`(bounce ->> 'message_id')`)
      .where(sql`bounce is not null and bounce ->> 'email_id' is null`),
  ],
);

/**
 * The immutable part of an email, with all that is large, as pieces of the answers' JSON. Stored with lz4 or, where the server lacks it,
 * without compression (see migrations): Postgres' own pglz took two thirds of the time of a list.
 */
export const emailContents = pgTable(
  'email_contents',
  {
    emailId: text('email_id').primaryKey(),
    accountId: text('account_id').notNull(),
    body: json<string>('body').notNull(),
    bodyPlain: json<string>('body_plain').notNull(),
    bodyNew: json<string>('body_new'),
    /** what of the email's row the message alone decides (`headText`); null: stored before there was this column */
    head: text(),
    headers: json<Header[]>('headers').notNull(),
    attachments: json<Attachment[]>('attachments').notNull(),
  },
  (t) => [index('email_contents_account').on(t.accountId)],
);

/**
 * What searches look at; written once, so that a flag change never touches its indexes. The account is part of the GIN
 * indexes, so that other accounts' mail costs a search nothing.
 */
export const emailSearch = pgTable(
  'email_search',
  {
    emailId: text('email_id').primaryKey(),
    accountId: text('account_id').notNull(),
    date: at('date').notNull(),
    /** normalised subject, addresses, names and plain body; see src/contract/search-text.ts */
    text: text().notNull(),
    /** normalised subject */
    subject: text().notNull(),
    fromAddress: text('from_address').notNull(),
    /** lower-cased addresses of to, cc and bcc */
    toAddresses: text('to_addresses').array().notNull(),
  },
  (t) => [
    index('email_search_list').on(t.accountId, t.date, t.emailId),
    // no gin_pending_list_limit here: see src/db/search-index.ts
    index('email_search_text').using('gin', t.accountId, t.text.op('gin_trgm_ops')),
    index('email_search_subject').using('gin', t.accountId, t.subject.op('gin_trgm_ops')),
    index('email_search_from').on(t.accountId, t.fromAddress, t.date, t.emailId),
    index('email_search_to').using('gin', t.accountId, t.toAddresses),
  ],
);

/** One UID in one folder. */
export const locations = pgTable(
  'locations',
  {
    folderId: text('folder_id').notNull(),
    uid: bigint({ mode: 'number' }).notNull(),
    accountId: text('account_id').notNull(),
    /** null: baseline mail that was not ingested */
    emailId: text('email_id'),
    /** date of the email, for the folder's list; null for baseline */
    date: at('date'),
    seen: boolean().notNull(),
    /** \Deleted is set: on its way out */
    deleted: boolean().notNull().default(false),
    /** not there any more; kept until every other folder has been looked at, so that a move is not taken for new mail */
    vanishedAt: at('vanished_at'),
    /** when we began to move it by copying: on its way out, as \Deleted says for others; see src/mailbox/changes/move.ts */
    pendingRemovalSince: at('pending_removal_since'),
    /** see src/imap/identity.ts: the same message in another folder has the same value */
    identity: text().notNull(),
    /** the same without INTERNALDATE, for servers that do not keep it when they move */
    weakIdentity: text('weak_identity').notNull(),
    /** EMAILID or X-GM-MSGID, where the server has one */
    serverId: text('server_id'),
  },
  (t) => [
    primaryKey({ columns: [t.folderId, t.uid] }),
    index('locations_list').on(t.folderId, t.date, t.emailId).where(sql`email_id is not null`),
    index('locations_email').on(t.emailId),
    index('locations_identity').on(t.accountId, t.weakIdentity),
    index('locations_vanished').on(t.accountId).where(sql`vanished_at is not null`),
    index('locations_pending_removal').on(t.accountId).where(sql`pending_removal_since is not null`),
    index('locations_server_id').on(t.accountId, t.serverId).where(sql`server_id is not null`),
  ],
);

export const attachments = pgTable(
  'attachments',
  {
    id: text().primaryKey(),
    emailId: text('email_id').notNull(),
    accountId: text('account_id').notNull(),
    name: text().notNull(),
    mime: text().notNull(),
    size: bigint({ mode: 'number' }).notNull(),
    storageKey: text('storage_key').notNull(),
  },
  (t) => [index('attachments_email').on(t.emailId), index('attachments_account').on(t.accountId)],
);

/** `drf_…` ids: which email each one stands for, and which no longer work. See src/sending/draft-state.ts. */
export const drafts = pgTable(
  'drafts',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** null while it is being saved, and once its email has left Drafts */
    emailId: text('email_id'),
    messageId: text('message_id'),
    state: text().notNull().default('active'),
    /** the id that took its place when the draft was saved again */
    supersededBy: text('superseded_by'),
    /** the `drf_…` id or the send that has reserved it: only that one may take its place */
    heldBy: text('held_by'),
    /** storage key of the OutgoingInput that it is saved from; null for drafts of other mail programs and once saved */
    inputKey: text('input_key'),
    /** `metadata` for the email that is sent from it; never in the message itself */
    metadata: text(),
    trackingId: text('tracking_id'),
    tracking: jsonb().$type<TrackingOptions>(),
    createdAt: at('created_at').notNull(),
    /** last change of its state */
    updatedAt: at('updated_at').notNull().defaultNow(),
  },
  (t) => [
    index('drafts_email').on(t.emailId),
    index('drafts_account').on(t.accountId),
    index('drafts_message_id').on(t.accountId, t.messageId),
    index('drafts_reserved').on(t.heldBy).where(sql`held_by is not null`),
    // what housekeeping gives up or deletes
    index('drafts_not_active').on(t.updatedAt).where(sql`state <> 'active'`),
    check('drafts_state', sql`state in ('saving', 'active', 'superseded', 'sent', 'deleted', 'failed')`),
  ],
);

/** A message sent through this API; its id is the `email_…` id that the Sent copy gets. See src/sending/send-state.ts. */
export const sends = pgTable(
  'sends',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** null until it is composed */
    messageId: text('message_id'),
    draftId: text('draft_id'),
    apiKeyId: text('api_key_id').notNull(),
    apiKeyName: text('api_key_name').notNull(),
    metadata: text(),
    trackingId: text('tracking_id'),
    tracking: jsonb().$type<TrackingOptions>(),
    state: text().notNull().default('queued'),
    /** storage key of the OutgoingInput; null for a draft, and once its Sent copy has been ingested */
    inputKey: text('input_key'),
    /** storage key of the message as it goes into Sent, from when it is composed until that copy has been ingested */
    storageKey: text('storage_key'),
    /** the contract's Email of it, shown until the Sent copy has synced */
    email: json<Email>('email'),
    /** what the caller gets back */
    result: jsonb().$type<SendResult>(),
    /** when its Sent copy was ingested under its id, which no later copy gets, even when that one is deleted */
    copyIngestedAt: at('copy_ingested_at'),
    createdAt: at('created_at').notNull(),
    /** last change of its state */
    updatedAt: at('updated_at').notNull(),
  },
  (t) => [
    index('sends_message_id').on(t.accountId, t.messageId),
    index('sends_unsent').on(t.updatedAt).where(sql`state in ('queued', 'failed', 'unknown')`),
    index('sends_created').on(t.createdAt),
    check('sends_state', sql`state in ('queued', 'submitting', 'sent', 'unknown', 'failed')`),
  ],
);

/** What became of a send. */
export interface SendResult {
  /** recipients that the SMTP server refused though it accepted the message */
  rejected: string[];
  /** the Bcc of the message, which is missing in a copy that the provider files itself */
  bcc?: Attendee[];
}

/** A message whose opens and clicks are reported (CONTRACT "Tracking"). */
export const trackingRecords = pgTable(
  'tracking_records',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** the `email_…` id of the sent email */
    emailId: text('email_id').notNull(),
    messageId: text('message_id').notNull(),
    label: text(),
    opens: boolean().notNull(),
    /** targets of the rewritten links, by their number in the URL */
    links: jsonb().$type<string[]>().notNull(),
    /** the minute of the last hit */
    hitMinute: at('hit_minute'),
    /** hits in that minute, with those above the rate; see src/db/tracking.ts */
    hitsInMinute: integer('hits_in_minute').notNull().default(0),
    createdAt: at('created_at').notNull(),
  },
  (t) => [index('tracking_records_account').on(t.accountId), index('tracking_records_created').on(t.createdAt)],
);

/** Somebody seen in mail; kept up to date as mail comes and goes. */
export const contacts = pgTable(
  'contacts',
  {
    accountId: text('account_id').notNull(),
    address: text().notNull(),
    displayName: text('display_name'),
    lastContactedAt: at('last_contacted_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.accountId, t.address] }),
    index('contacts_recent').on(t.accountId, t.lastContactedAt, t.address),
  ],
);

export const apiKeys = pgTable('api_keys', {
  id: text().primaryKey(),
  name: text().notNull(),
  /** the look-up part, in clear */
  prefix: text().notNull().unique(),
  /** SHA-256 of the whole key */
  digest: bytea().notNull().unique(),
  /** the id of the key that created it, which may be revoked by now; null: the installation */
  createdBy: text('created_by'),
  permissions: text().$type<Permissions>().notNull().default('full'),
  /** the accounts that it is limited to; null: none */
  accountIds: text('account_ids').array(),
  issuedAt: at('issued_at').notNull(),
  expiresAt: at('expires_at'),
  lastUsedAt: at('last_used_at'),
});

/** Who changed what of keys, accounts and endpoints; written once. Ids only. See src/api/audit.ts. */
export const auditRecords = pgTable(
  'audit_records',
  {
    id: text().primaryKey(),
    at: at('at').notNull(),
    action: text().notNull(),
    /** status of the response */
    status: smallint().notNull(),
    /** null: the call bore no API key */
    apiKeyId: text('api_key_id'),
    address: text().notNull(),
    requestId: text('request_id').notNull(),
    /** what it was done to; null: nothing came of it */
    objectId: text('object_id'),
  },
  (t) => [
    index('audit_records_at').on(t.at, t.id),
    index('audit_records_action').on(t.action, t.at, t.id),
    index('audit_records_key').on(t.apiKeyId, t.at, t.id),
    index('audit_records_object').on(t.objectId, t.at, t.id),
  ],
);

/** Where people are signed in, by a key, in a browser. Revoking the key ends them. See src/db/sessions.ts. */
export const sessions = pgTable(
  'sessions',
  {
    /** SHA-256 of the token in the cookie */
    digest: bytea().primaryKey(),
    apiKeyId: text('api_key_id')
      .notNull()
      .references(() => apiKeys.id, { onDelete: 'cascade' }),
    createdAt: at('created_at').notNull(),
    expiresAt: at('expires_at').notNull(),
  },
  (t) => [index('sessions_api_key').on(t.apiKeyId), index('sessions_expires').on(t.expiresAt)],
);

/** Links to the page where the owner of a mailbox connects it. See src/db/auth-links.ts. */
export const authLinks = pgTable(
  'auth_links',
  {
    id: text().primaryKey(),
    /** SHA-256 of the token in the URL */
    digest: bytea().notNull().unique(),
    redirectUrl: text('redirect_url'),
    state: text(),
    /** what the account is called */
    name: text(),
    /** the account to connect again; null: a new one, or the one that has the mailbox */
    accountId: text('account_id'),
    config: jsonb().$type<AuthLinkConfig>().notNull(),
    apiKeyId: text('api_key_id').notNull(),
    createdAt: at('created_at').notNull(),
    expiresAt: at('expires_at').notNull(),
    /** logins that were tried, in the minute that began then */
    attempts: integer().notNull().default(0),
    attemptsFrom: at('attempts_from'),
    /** a login is being tried until then */
    busyUntil: at('busy_until'),
    /** when it was used; null: it may be */
    usedAt: at('used_at'),
    /** the account that came of it; null: the owner cancelled */
    connectedId: text('connected_id'),
  },
  (t) => [
    index('auth_links_expires').on(t.expiresAt),
    index('auth_links_created').on(t.createdAt, t.id),
    index('auth_links_open').on(t.createdAt, t.id).where(sql`${t.usedAt} is null`),
    index('auth_links_account').on(t.accountId).where(sql`${t.accountId} is not null`),
    index('auth_links_connected').on(t.connectedId).where(sql`${t.connectedId} is not null`),
  ],
);

/** First answers of calls that carried an Idempotency-Key, for 24 h. */
export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    apiKeyId: text('api_key_id').notNull(),
    key: text().notNull(),
    /** keyed digest of method, path and body */
    fingerprint: bytea().notNull(),
    /** the id of what the call makes: whoever makes the call again makes the same thing */
    reservedId: text('reserved_id'),
    /** null while the first call is under way */
    status: smallint(),
    /** sealed: the answer may hold a key or a secret */
    response: bytea(),
    /** the account that the response is about: gone with it */
    accountId: text('account_id'),
    createdAt: at('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.apiKeyId, t.key] }),
    index('idempotency_keys_created').on(t.createdAt),
    index('idempotency_keys_account').on(t.accountId).where(sql`account_id is not null`),
  ],
);

export const webhookEndpoints = pgTable('webhook_endpoints', {
  id: text().primaryKey(),
  url: text().notNull(),
  description: text(),
  enabled: boolean().notNull().default(true),
  disabledReason: text('disabled_reason'),
  triggerEvents: text('trigger_events').array().notNull(),
  accountIds: text('account_ids').array().notNull(),
  /** sealed JSON of Header[] */
  headers: bytea().notNull(),
  /** sealed secret */
  secret: bytea().notNull(),
  /** sealed; still signs until the time beside it */
  previousSecret: bytea('previous_secret'),
  previousSecretUntil: at('previous_secret_until'),
  /** failures in a row that say that the endpoint is away: no response, 5xx, 429 */
  failuresInARow: integer('failures_in_a_row').notNull().default(0),
  /** the circuit breaker is open: no call before then but a probe; null: closed */
  breakerUntil: at('breaker_until'),
  /** times in a row that the breaker opened */
  breakerOpenings: integer('breaker_openings').notNull().default(0),
  /** a probe is under way since */
  breakerProbeAt: at('breaker_probe_at'),
  /** first failed attempt since the last success, and how many there were */
  failingSince: at('failing_since'),
  failedAttempts: integer('failed_attempts').notNull().default(0),
  /** accurate to a minute */
  lastSuccessAt: at('last_success_at'),
  /** when the log warned that it will be disabled */
  warnedAt: at('warned_at'),
  createdAt: at('created_at').notNull(),
  updatedAt: at('updated_at').notNull(),
});

/** The outbox: what happened, written in the transaction that made it happen. */
export const events = pgTable(
  'events',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    type: text().notNull(),
    /** per account, without gaps; 0 for a test event */
    sequence: bigint({ mode: 'number' }).notNull(),
    /** what it is about: email, folder or account id; a test event is about itself, so that no other waits for it */
    objectId: text('object_id').notNull(),
    /** `data` of the envelope as JSON text, made once */
    data: text().notNull(),
    test: boolean().notNull().default(false),
    /**
     * Its place in the feed, see src/db/event-feed.ts: the number of its transaction, or the greatest of a transaction that
     * had ended before. null: a test event, which is not in the feed.
     */
    position: bigint({ mode: 'number' }).default(
      sql`greatest(pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)`,
    ),
    createdAt: at('created_at').notNull(),
  },
  (t) => [
    uniqueIndex('events_sequence').on(t.accountId, t.sequence).where(sql`not test`),
    index('events_feed').on(t.type, t.position, t.accountId, t.sequence),
    index('events_account_feed').on(t.accountId, t.type, t.position, t.sequence),
    index('events_created').on(t.createdAt, t.id),
    index('events_object').on(t.objectId),
  ],
);

/** One event to one endpoint: the delivery log and the work list of the relay. */
export const deliveries = pgTable(
  'deliveries',
  {
    id: text().primaryKey(),
    eventId: text('event_id').notNull(),
    endpointId: text('endpoint_id').notNull(),
    endpointUrl: text('endpoint_url').notNull(),
    accountId: text('account_id').notNull(),
    eventType: text('event_type').notNull(),
    objectId: text('object_id').notNull(),
    /** of the event: deliveries of one object to one endpoint are made in this order */
    sequence: bigint({ mode: 'number' }).notNull().default(0),
    test: boolean().notNull().default(false),
    status: text().notNull().default('pending'),
    attemptsCount: integer('attempts_count').notNull().default(0),
    /** attempts made before the retry schedule began that is in force now */
    scheduleFrom: integer('schedule_from').notNull().default(0),
    httpStatus: integer('http_status'),
    responseBody: text('response_body'),
    error: text(),
    errorKind: text('error_kind'),
    createdAt: at('created_at').notNull(),
    lastAttemptAt: at('last_attempt_at'),
    nextAttemptAt: at('next_attempt_at'),
    /** a manual retry: it is attempted even while the breaker of the endpoint is open */
    forced: boolean().notNull().default(false),
    /** claims pass over it until an earlier delivery of its object ends, see src/webhooks/claim-objects.ts */
    held: boolean().notNull().default(false),
    /** the run that has it; null: the relay has not given it to one */
    workflowId: text('workflow_id'),
    /** the last run that had it */
    lastWorkflowId: text('last_workflow_id'),
    /** the execution of that workflow that made the last attempt */
    runId: text('run_id'),
    /** runs that it has been given to */
    runs: integer().notNull().default(0),
    claimedAt: at('claimed_at'),
    /** the run is known to Temporal */
    startedAt: at('started_at'),
    /** the bulk replay that makes it again, and the status that it had before */
    replayId: text('replay_id'),
    statusBeforeReplay: text('status_before_replay'),
  },
  (t) => [
    uniqueIndex('deliveries_event').on(t.eventId, t.endpointId),
    // by endpoint first, so that the relay takes some of each, whatever one of them has waiting; live events apart from
    // replays; and what is not due apart from what is
    index('deliveries_unclaimed')
      .on(t.endpointId, sql`((replay_id is not null)::int)`, t.nextAttemptAt.asc().nullsFirst(), t.id)
      .where(sql`status = 'pending' and workflow_id is null and not held`),
    // which one the end of an earlier delivery lets go on; usually none
    index('deliveries_held').on(t.endpointId, t.objectId, t.sequence).where(sql`held and status = 'pending'`),
    // what an earlier event of the same object holds back
    index('deliveries_order').on(t.endpointId, t.objectId, t.sequence).where(sql`status = 'pending'`),
    // whether a later one of an object is in a run is asked for each head of a claim
    index('deliveries_under_way')
      .on(t.endpointId, t.objectId, t.sequence)
      .where(sql`status = 'pending' and workflow_id is not null`),
    index('deliveries_run').on(t.workflowId).where(sql`status = 'pending' and workflow_id is not null`),
    index('deliveries_forced')
      .on(t.endpointId, t.id)
      .where(sql`forced and status = 'pending' and workflow_id is null and not held`),
    index('deliveries_retrying')
      .on(t.endpointId)
      .where(sql`status = 'pending' and workflow_id is not null and next_attempt_at is not null`),
    index('deliveries_replay').on(t.replayId, t.status, t.held).where(sql`replay_id is not null`),
    index('deliveries_object').on(t.objectId, t.createdAt, t.id),
    index('deliveries_unstarted').on(t.claimedAt).where(sql`status = 'pending' and started_at is null`),
    index('deliveries_endpoint').on(t.endpointId, t.createdAt, t.id),
    index('deliveries_endpoint_type').on(t.endpointId, t.eventType, t.createdAt, t.id),
    index('deliveries_type').on(t.eventType, t.createdAt, t.id),
    index('deliveries_created').on(t.createdAt, t.id),
    // what operators look for: what waits, what failed
    index('deliveries_open').on(t.status, t.createdAt, t.id).where(sql`status <> 'delivered'`),
    index('deliveries_account').on(t.accountId, t.createdAt, t.id),
    check('deliveries_status', sql`status in ('pending', 'delivered', 'failed', 'skipped')`),
  ],
);

export const deliveryAttempts = pgTable(
  'delivery_attempts',
  {
    deliveryId: text('delivery_id').notNull(),
    number: integer().notNull(),
    at: at('at').notNull(),
    httpStatus: integer('http_status'),
    responseBody: text('response_body'),
    error: text(),
    errorKind: text('error_kind'),
    durationMs: integer('duration_ms').notNull(),
  },
  (t) => [primaryKey({ columns: [t.deliveryId, t.number] })],
);

/** What is true of this installation as a whole, by name. */
export const installation = pgTable('installation', { name: text().primaryKey(), value: text().notNull() });

/** Bulk replays of the delivery log. See src/webhooks/replay-state.ts. */
export const replays = pgTable(
  'replays',
  {
    id: text().primaryKey(),
    endpointId: text('endpoint_id').notNull(),
    filter: jsonb().$type<ReplayFilter>().notNull(),
    status: text().notNull().default('running'),
    /** deliveries that matched when it was created */
    total: integer().notNull().default(0),
    /** the counts when it ended */
    delivered: integer().notNull().default(0),
    failed: integer().notNull().default(0),
    skipped: integer().notNull().default(0),
    /** the last delivery that was queued: `created_at|account_id|sequence|id` */
    cursor: text(),
    /** every delivery that matches has been queued */
    queuedAllAt: at('queued_all_at'),
    createdAt: at('created_at').notNull(),
    completedAt: at('completed_at'),
  },
  (t) => [
    index('replays_created').on(t.createdAt, t.id),
    index('replays_running').on(t.endpointId).where(sql`status = 'running'`),
    check('replays_status', sql`status in ('running', 'completed', 'cancelled')`),
  ],
);
