import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
  uniqueIndex,
} from 'drizzle-orm/pg-core';
import type {
  Attachment,
  Attendee,
  Authentication,
  AutoReply,
  Bounce,
  Calendar,
  Complaint,
  Header,
  MailingList,
  SentBy,
} from '../../contract/email.ts';
import { at, json } from './columns.ts';

export const threads = pgTable(
  'threads',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** set once a late parent has joined this thread to an older one: the id still resolves */
    mergedInto: text('merged_into'),
  },
  (t) => [index('threads_account').on(t.accountId), index('threads_merged').on(t.mergedInto)],
);

/** Threads that are part of another, and have rows that do not name it yet; see src/db/queries/mail/merging-threads.ts. */
export const mergingThreads = pgTable(
  'merging_threads',
  {
    threadId: text('thread_id').primaryKey(),
    accountId: text('account_id').notNull(),
    mergedInto: text('merged_into').notNull(),
  },
  (t) => [index('merging_threads_account').on(t.accountId, t.threadId), index('merging_threads_into').on(t.mergedInto)],
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

/**
 * What the list of threads shows of each, without drafts. Triggers on `emails` and `merging_threads` keep it, in the
 * statements that change those. Its ids are those that threads have now: see src/db/queries/mail/merging-threads.ts.
 */
export const threadSummaries = pgTable(
  'thread_summaries',
  {
    threadId: text('thread_id').primaryKey(),
    accountId: text('account_id').notNull(),
    lastDate: at('last_date').notNull(),
    lastEmailId: text('last_email_id').notNull(),
    emails: integer().notNull(),
    unread: integer().notNull(),
    starred: integer().notNull(),
    withAttachments: integer('with_attachments').notNull(),
  },
  (t) => [
    index('thread_summaries_list').on(t.accountId, t.lastDate, t.threadId),
    index('thread_summaries_unread').on(t.accountId, t.lastDate, t.threadId).where(sql`unread > 0`),
  ],
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
    /** further flags and keywords, see src/contract/flags.ts; null: stored by an earlier version, and not read since */
    flags: text().array(),
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
    list: jsonb().$type<MailingList>(),
    authentication: jsonb().$type<Authentication>(),
    /** parsing was not cut short */
    isComplete: boolean('is_complete').notNull().default(true),
    /** how many times it was reparsed since parsing was cut short; see src/mailbox/reparse/reparses.ts */
    reparses: smallint().notNull().default(0),
    /** bytes of the raw message */
    size: bigint({ mode: 'number' }).notNull(),
    internalDate: at('internal_date').notNull(),
    /** see src/mime/threads.ts: messages without reference headers find their thread by it */
    subjectKey: text('subject_key'),
    storageKey: text('storage_key').notNull(),
    /** it has no location: moved or deleted, decided when every folder has been checked */
    missingSince: at('missing_since'),
    /** folder ids in its last event, if readers have seen others since; null: the same */
    reportedFolders: text('reported_folders').array(),
    createdAt: at('created_at').notNull(),
  },
  (t) => [
    index('emails_list').on(t.accountId, t.date, t.id).where(sql`not is_draft`),
    index('emails_drafts').on(t.accountId, t.date, t.id).where(sql`is_draft`),
    index('emails_unread').on(t.accountId, t.date, t.id).where(sql`is_unread and not is_draft`),
    index('emails_starred').on(t.accountId, t.date, t.id).where(sql`flags @> array['\\flagged']`),
    index('emails_flags').using('gin', t.accountId, t.flags).where(sql`flags <> '{}'`),
    index('emails_with_attachments').on(t.accountId, t.date, t.id).where(sql`has_attachments and not is_draft`),
    // those to distrust; the others are most of the mail
    index('emails_unaligned').on(t.accountId, t.date, t.id).where(sql`authentication ->> 'from_aligned' = 'false'`),
    index('emails_of_list').on(t.accountId, sql`(list ->> 'id')`, t.date, t.id).where(sql`list is not null`),
    index('emails_thread').on(t.threadId, t.date, t.id),
    index('emails_message_id').on(t.accountId, t.messageId),
    // whose storage key does not contain the email's id; see src/db/coordination/stored-objects.ts
    index('emails_api_storage_key').on(t.storageKey).where(sql`origin = 'api'`),
    index('emails_subject_key').on(t.accountId, t.subjectKey, t.date).where(sql`subject_key is not null`),
    // to be reparsed with more time
    index('emails_incomplete').on(t.accountId, t.id).where(sql`not is_complete`),
    index('emails_missing').on(t.accountId).where(sql`missing_since is not null`),
    uniqueIndex('emails_draft_id').on(t.draftId).where(sql`draft_id is not null`),
    // bounces whose original is unknown
    index('emails_untied_bounces')
      .on(t.accountId, sql`(bounce ->> 'message_id')`)
      .where(sql`bounce is not null and bounce ->> 'email_id' is null`),
  ],
);

/**
 * The immutable and large parts of an email, as pieces of the responses' JSON. Compressed with lz4 or, where the server
 * lacks it, not at all (see migrations): pglz took two thirds of the time of a list.
 */
export const emailContents = pgTable(
  'email_contents',
  {
    emailId: text('email_id').primaryKey(),
    accountId: text('account_id').notNull(),
    body: json<string>('body').notNull(),
    bodyPlain: json<string>('body_plain').notNull(),
    bodyNew: json<string>('body_new'),
    /** the members that depend on the message alone (`headText`); null: stored before this column existed */
    head: text(),
    /** null: stored before this column existed; reads make it of the text then */
    snippet: json<string>('snippet'),
    headers: json<Header[]>('headers').notNull(),
    attachments: json<Attachment[]>('attachments').notNull(),
  },
  (t) => [index('email_contents_account').on(t.accountId)],
);

/**
 * The searched texts; written once, so a change of flags never touches the indexes. The GIN indexes include the account:
 * searches do not read other accounts' entries.
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
    // no gin_pending_list_limit here: see src/db/coordination/search-index.ts
    index('email_search_text').using('gin', t.accountId, t.text.op('gin_trgm_ops')),
    index('email_search_subject').using('gin', t.accountId, t.subject.op('gin_trgm_ops')),
    index('email_search_from').on(t.accountId, t.fromAddress, t.date, t.emailId),
    index('email_search_to').using('gin', t.accountId, t.toAddresses),
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

/** People found in messages; updated as messages arrive and vanish. */
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
