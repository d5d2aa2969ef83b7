import { sql } from 'drizzle-orm';
import { bigint, boolean, check, index, integer, jsonb, pgTable, text } from 'drizzle-orm/pg-core';
import type { Attendee, Email } from '../../contract/email.ts';
import type { TrackingOptions } from '../../contract/sending.ts';
import { at, bytea, json } from './columns.ts';

/** `drf_…` ids: their emails, and which ids no longer work. See src/outgoing/draft-state.ts. */
export const drafts = pgTable(
  'drafts',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** null while it is being saved, and once its email has left Drafts */
    emailId: text('email_id'),
    messageId: text('message_id'),
    state: text().notNull().default('active'),
    /** the id that replaced it when the draft was saved again */
    supersededBy: text('superseded_by'),
    /** the `drf_…` id or the send that has reserved it, and alone may replace it */
    heldBy: text('held_by'),
    /** storage key of the OutgoingInput that it is saved from; null for drafts of other mail programs and once saved */
    inputKey: text('input_key'),
    /** `metadata` for the email that is sent from it; never in the message itself */
    metadata: text(),
    trackingId: text('tracking_id'),
    tracking: jsonb().$type<TrackingOptions>(),
    /** id of the email that it forwards */
    forwardedId: text('forwarded_id'),
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

/** A message sent through this API; its id is the `email_…` id that the Sent copy gets. See src/outgoing/send-state.ts. */
export const sends = pgTable(
  'sends',
  {
    id: text().primaryKey(),
    accountId: text('account_id').notNull(),
    /** null until it is composed */
    messageId: text('message_id'),
    /** the Message-ID that the SMTP server gave the message in place of ours; null: none that we know of */
    serverMessageId: text('server_message_id'),
    draftId: text('draft_id'),
    apiKeyId: text('api_key_id').notNull(),
    apiKeyName: text('api_key_name').notNull(),
    metadata: text(),
    trackingId: text('tracking_id'),
    tracking: jsonb().$type<TrackingOptions>(),
    /** id of the email that it forwards */
    forwardedId: text('forwarded_id'),
    state: text().notNull().default('queued'),
    /** storage key of the OutgoingInput; null for a draft, and once its Sent copy has been ingested */
    inputKey: text('input_key'),
    /** storage key of the message as it goes into Sent, from when it is composed until that copy has been ingested */
    storageKey: text('storage_key'),
    /** the provisional Email, shown until the Sent copy has synced */
    email: json<Email>('email'),
    /** the caller's result */
    result: jsonb().$type<SendResult>(),
    /** when its Sent copy was ingested under its id; later copies get other ids, even after that one is deleted */
    copyIngestedAt: at('copy_ingested_at'),
    createdAt: at('created_at').notNull(),
    /** last change of its state, or sign of life of an attempt */
    updatedAt: at('updated_at').notNull(),
  },
  (t) => [
    index('sends_message_id').on(t.accountId, t.messageId),
    index('sends_server_message_id').on(t.accountId, t.serverMessageId).where(sql`server_message_id is not null`),
    // work remains for a run or for housekeeping
    index('sends_unfinished')
      .on(t.updatedAt)
      .where(sql`state <> 'sent' or storage_key is not null or input_key is not null`),
    index('sends_created').on(t.createdAt),
    check('sends_state', sql`state in ('queued', 'submitting', 'sent', 'unknown', 'failed')`),
  ],
);

/** The result of a send. */
export interface SendResult {
  /** recipients that the SMTP server refused though it accepted the message */
  rejected: string[];
  /** the Bcc of the message, which is missing in a copy that the provider files itself */
  bcc?: Attendee[];
  /** the stored email that is its copy, where that has another id: it was sent before the store was set back */
  emailId?: string;
  /** when the mail server confirmed the APPEND of a copy that it did not show then, ISO 8601 */
  appendedAt?: string;
}

/** A message whose opens and clicks are reported. */
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
    /** hits in that minute, with those above the rate; see src/db/queries/tracking.ts */
    hitsInMinute: integer('hits_in_minute').notNull().default(0),
    createdAt: at('created_at').notNull(),
  },
  (t) => [index('tracking_records_account').on(t.accountId), index('tracking_records_created').on(t.createdAt)],
);

/** Files that attachments of sends and drafts name, until they expire. See src/outgoing/uploads.ts. */
export const uploads = pgTable(
  'uploads',
  {
    id: text().primaryKey(),
    /** the key or the person that made it */
    apiKeyId: text('api_key_id').notNull(),
    filename: text(),
    contentType: text('content_type'),
    /** bytes of the whole file; the most that it may have as long as that is not known */
    size: bigint({ mode: 'number' }).notNull(),
    /** bytes that are stored */
    received: bigint({ mode: 'number' }).notNull().default(0),
    /** storage keys of its bytes, in their order */
    parts: text().array().notNull().default([]),
    /** sealed: the key that encrypts its stored bytes; null: none was needed */
    dataKey: bytea('data_key'),
    createdAt: at('created_at').notNull(),
    expiresAt: at('expires_at').notNull(),
  },
  (t) => [
    index('uploads_api_key').on(t.apiKeyId),
    index('uploads_expires').on(t.expiresAt),
    check('uploads_received', sql`received <= size`),
  ],
);
