import Type from 'typebox';
import { CreatedAt, CursorListOf, DateTime, IdOf, Nullable, ObjectName, OneOf } from './common.ts';

/** A person in a From, To, Cc, Bcc or Reply-To header. */
export const Attendee = Type.Object(
  {
    identifier: Type.String({ description: 'email address' }),
    display_name: Type.String({ description: 'name beside the address; empty: none' }),
    identifier_type: Type.Literal('EMAIL_ADDRESS', { description: 'always `EMAIL_ADDRESS`' }),
  },
  { $id: 'Attendee', description: 'a person in a From, To, Cc, Bcc or Reply-To header' },
);
export type Attendee = Type.Static<typeof Attendee>;

export const Attachment = Type.Object(
  {
    id: Type.String({ description: '`att_…`' }),
    name: Type.String({ description: 'file name' }),
    extension: Type.String({ description: 'lower case, without the dot; empty when the name has none' }),
    size: Type.Integer({ description: 'bytes, decoded' }),
    mime: Type.String({ description: 'media type' }),
    cid: Nullable(Type.String({ description: 'Content-ID without its angle brackets; null: none' })),
    inline: Type.Boolean({ description: 'its disposition is inline, or the HTML shows it' }),
  },
  { $id: 'Attachment', description: 'a file of an email' },
);
export type Attachment = Type.Static<typeof Attachment>;

/** Lifetime of a link to a file, seconds. */
export const DOWNLOAD_LINK_SECONDS = 600;

export const DownloadLink = Type.Object(
  {
    object: ObjectName('DownloadLink'),
    url: Type.String({ description: 'downloads the file without an API key; supports range requests' }),
    expires_at: DateTime('ten minutes after the call; the link also ends with the key that made it'),
  },
  { $id: 'DownloadLink', description: 'a link to a file' },
);
export type DownloadLink = Type.Static<typeof DownloadLink>;

export const Header = Type.Object(
  { name: Type.String({ description: 'name of the header' }), value: Type.String({ description: 'its value' }) },
  { $id: 'Header', description: 'a header' },
);
export type Header = Type.Static<typeof Header>;

/** One recipient in a bounce report (RFC 3464 2.3). */
export const BouncedRecipient = Type.Object(
  {
    address: Nullable(Type.String({ description: 'null: not in the report' })),
    action: Nullable(Type.String({ description: 'failed, delayed, delivered, relayed or expanded' })),
    status: Nullable(Type.String({ description: 'enhanced status code, RFC 3463' })),
    diagnostic: Nullable(Type.String({ description: 'response of the mail server' })),
  },
  { $id: 'BouncedRecipient', description: 'one recipient in a bounce report (RFC 3464 2.3)' },
);
export type BouncedRecipient = Type.Static<typeof BouncedRecipient>;

/** Content of a bounce report (RFC 3464). */
export const Bounce = Type.Object(
  {
    recipient: Nullable(Type.String({ description: 'address of the first failed recipient' })),
    action: Nullable(Type.String({ description: 'failed, delayed, …' })),
    status: Nullable(Type.String({ description: 'enhanced status code, RFC 3463' })),
    diagnostic: Nullable(Type.String({ description: 'response of the mail server' })),
    recipients: Type.Optional(
      Type.Array(BouncedRecipient, {
        description:
          'every recipient in the report, failed ones first; the four fields above repeat the first. ' +
          '`action` distinguishes a delay notice (`delayed`) from a failure (`failed`)',
      }),
    ),
    message_id: Nullable(Type.String({ description: 'Message-ID of the email that bounced' })),
    email_id: Nullable(Type.String({ description: '`email_…` of the email that bounced; null: not known' })),
    tracking_id: Nullable(Type.String({ description: '`trk_…`; null: not tracked' })),
  },
  { $id: 'Bounce', description: 'present in bounces: content of the report (RFC 3464)' },
);
export type Bounce = Type.Static<typeof Bounce>;

/** Content of a feedback report (ARF, RFC 5965). */
export const Complaint = Type.Object(
  {
    feedback_type: Nullable(Type.String({ description: 'abuse, fraud, not-spam, opt-out, virus, other, …' })),
    recipient: Nullable(Type.String({ description: 'the recipient who complained; null: not in the report' })),
    source_ip: Nullable(Type.String({ description: 'address that the email was sent from' })),
    user_agent: Nullable(Type.String({ description: 'program that made the report' })),
    message_id: Nullable(Type.String({ description: 'Message-ID of the reported email' })),
    email_id: Nullable(Type.String({ description: '`email_…` of the reported email; null: not known' })),
    tracking_id: Nullable(Type.String({ description: '`trk_…`; null: not tracked' })),
  },
  { $id: 'Complaint', description: 'present in feedback reports: their content (ARF, RFC 5965)' },
);
export type Complaint = Type.Static<typeof Complaint>;

/** Set when a program wrote the email. */
export const AutoReply = Type.Union([Type.Literal('auto_reply'), Type.Literal('read_receipt')], {
  description: 'present when a program wrote the email: an automatic reply, or a read receipt',
});
export type AutoReply = Type.Static<typeof AutoReply>;

/** The event of an invitation (RFC 5545). */
export const Calendar = Type.Object(
  {
    method: Nullable(Type.String({ description: 'REQUEST, REPLY, CANCEL, …' })),
    uid: Nullable(Type.String({ description: 'UID of the event (RFC 5545 3.8.4.7)' })),
    summary: Nullable(Type.String({ description: 'the title' })),
    location: Nullable(Type.String({ description: 'the place, as text' })),
    status: Nullable(Type.String({ description: 'CONFIRMED, TENTATIVE, CANCELLED, …' })),
    start: Nullable(
      Type.String({ description: 'ISO 8601: a time in UTC, a date, or a local time if the invitation names no zone' }),
    ),
    end: Nullable(Type.String({ description: 'in the form of `start`' })),
    time_zone: Nullable(
      Type.String({
        description: 'IANA name of the zone of `start`: `Europe/Berlin`; null: a date, or a zone without a name',
      }),
    ),
    recurrence: Type.Array(Type.String({ description: 'an RRULE, RDATE or EXDATE with its value (RFC 5545 3.8.5)' }), {
      description: 'empty: the event does not recur',
    }),
    organizer: Nullable(Type.String({ description: 'email address' })),
    attendees: Type.Array(
      Type.Object({
        address: Type.String({ description: 'email address' }),
        status: Nullable(Type.String({ description: 'ACCEPTED, DECLINED, TENTATIVE, NEEDS-ACTION, …' })),
      }),
      { description: 'who is invited' },
    ),
  },
  { $id: 'Calendar', description: 'present in invitations: their event (RFC 5545)' },
);
export type Calendar = Type.Static<typeof Calendar>;

export const MailingList = Type.Object(
  {
    id: Nullable(Type.String({ description: 'List-Id in lower case (RFC 2919); null: the email has none' })),
    unsubscribe: Type.Array(Type.String(), {
      description: 'http(s) and mailto URIs of List-Unsubscribe (RFC 2369), the preferred one first; up to 10',
    }),
    unsubscribe_post: Type.Boolean({
      description:
        'one-click (RFC 8058): a POST of `List-Unsubscribe=One-Click` to the first https URI unsubscribes. The sender says ' +
        'so: call it for mail that you trust',
    }),
  },
  { $id: 'MailingList', description: 'present in mail of lists and newsletters' },
);
export type MailingList = Type.Static<typeof MailingList>;

/** RFC 8601 2.7, and `fail` of DMARC with its policy applied. */
export const AUTHENTICATION_RESULTS = [
  ...(['pass', 'fail', 'softfail', 'neutral', 'none', 'policy', 'temperror', 'permerror'] as const),
];
export type AuthenticationResult = (typeof AUTHENTICATION_RESULTS)[number];

const Checked = (description: string) => Nullable(OneOf(AUTHENTICATION_RESULTS), description);
export const Authentication = Type.Object(
  {
    spf: Checked('SPF of the envelope sender; null: not stated'),
    dkim: Checked('`pass` when one of the signatures did; null: not stated'),
    dmarc: Checked('DMARC of the domain of From; null: not stated'),
    from_aligned: Type.Boolean({
      description:
        'the domain of `from_attendee` is authenticated: by DMARC, or where that says neither `pass` nor `fail`, by an SPF ' +
        'or DKIM that passed for the same organisation',
    }),
  },
  {
    $id: 'Authentication',
    description:
      'how the mail server of the mailbox judged the sender, by the `Authentication-Results` (RFC 8601) that it has written ' +
      'itself; those of others are not believed',
  },
);
export type Authentication = Type.Static<typeof Authentication>;

export const SentBy = Type.Object(
  {
    api_key_id: Type.String({ description: '`pk_…` of the key, or `per_…` of the person' }),
    api_key_name: Type.String({ description: 'name of the key or of the person when it was sent' }),
    metadata: Nullable(Type.String({ description: '`metadata` of the send' })),
  },
  { $id: 'SentBy', description: 'present in email that the API sent: who sent it' },
);
export type SentBy = Type.Static<typeof SentBy>;

/** An email, or a draft when it is in Drafts. */
export const Email = Type.Object(
  {
    object: Type.Union([Type.Literal('Email'), Type.Literal('Draft')], {
      description: '`Draft` only in events about drafts',
    }),
    id: Type.String({ description: '`email_…`; does not change when the email moves' }),
    account_id: IdOf('account'),
    thread_id: Type.String({ description: '`thr_…`' }),
    message_id: Nullable(
      Type.String({ description: 'Message-ID with its angle brackets; null: the message has none' }),
    ),
    date: DateTime('its Date header; without one, when it arrived'),
    subject: Type.String({ description: 'decoded; may be empty' }),
    from_attendee: Attendee,
    to_attendees: Type.Array(Attendee, { description: 'To' }),
    cc_attendees: Type.Array(Attendee, { description: 'Cc' }),
    bcc_attendees: Type.Array(Attendee, { description: 'Bcc: of sent email and drafts only' }),
    reply_to_attendees: Type.Array(Attendee, { description: 'Reply-To' }),
    snippet: Type.Optional(
      Type.String({
        description:
          'the beginning of `body_new`, or of `body_plain` where that is empty: one line of up to 200 characters; with ' +
          '`meta_only` too',
      }),
    ),
    body: Type.String({ description: 'HTML, made from the text if the email has none; empty with `meta_only`' }),
    body_plain: Type.String({ description: 'text, made from the HTML if the email has none; empty with `meta_only`' }),
    body_new: Type.Optional(
      Nullable(
        Type.String({
          description: 'the text of the author, without quoted text and signature; null: not distinguishable',
        }),
      ),
    ),
    has_attachments: Type.Boolean({ description: 'at least one file is not part of the body' }),
    list: Type.Optional(MailingList),
    authentication: Type.Optional(
      Nullable(Authentication, 'null or omitted: it cannot be known; see `authserv_id` of the account'),
    ),
    attachments: Type.Array(Attachment, { description: 'its files; empty with `meta_only`' }),
    folders: Type.Array(Type.String({ description: '`fld_…`' }), { description: 'all folders that it is in' }),
    is_unread: Type.Boolean({ description: 'without the `\\Seen` flag' }),
    is_starred: Type.Optional(
      Type.Boolean({ description: 'the `\\Flagged` flag; events of earlier versions lack it' }),
    ),
    is_answered: Type.Optional(Type.Boolean({ description: 'the `\\Answered` flag' })),
    is_forwarded: Type.Optional(Type.Boolean({ description: 'the `$Forwarded` keyword' })),
    keywords: Type.Optional(
      Type.Array(Type.String(), {
        description:
          'every IMAP keyword, in lower case and sorted: `$label1`, `$junk`, …; mail programs show some as labels',
      }),
    ),
    is_complete: Type.Boolean({
      description: 'false: parsing hit a limit, and text or attachments may be missing; the source is complete',
    }),
    headers: Type.Array(Header, { description: 'every header, in the order of the message' }),
    origin: Type.Union([Type.Literal('api'), Type.Literal('external')], {
      description: '`api`: sent or saved by this API; `external`: all else',
    }),
    is_echo: Type.Boolean({ description: 'the mailbox owner is the sender' }),
    sent_by: Type.Optional(SentBy),
    tracking_id: Nullable(Type.String({ description: '`trk_…`; null: not tracked' })),
    draft_id: Type.Optional(Type.String({ description: 'drafts only' })),
    bounce: Type.Optional(Bounce),
    complaint: Type.Optional(Complaint),
    auto_reply: Type.Optional(AutoReply),
    calendar: Type.Optional(Calendar),
  },
  { $id: 'Email', description: 'an email, or a draft' },
);
export type Email = Type.Static<typeof Email>;

export const EmailList = CursorListOf('Emails', Email);
export type EmailList = Type.Static<typeof EmailList>;
export const DraftList = CursorListOf('Drafts', Email);
export type DraftList = Type.Static<typeof DraftList>;

export const Thread = Type.Object(
  {
    object: ObjectName('Thread'),
    id: IdOf('thread'),
    data: Type.Array(Email, { description: 'the emails of this page' }),
    has_more: Type.Boolean({ description: 'whether emails follow this page' }),
    cursor: Type.Optional(
      Type.String({ description: 'pass it as `cursor` to get the next page; absent: this is the last page' }),
    ),
  },
  { $id: 'Thread', description: 'a conversation with its emails' },
);
export type Thread = Type.Static<typeof Thread>;

/** Emails of one batch. */
export const MAX_BATCH = 10_000;

export const BATCH_STATUSES = ['running', 'completed'] as const;
export const BATCH_RESULTS = ['pending', 'changed', 'failed'] as const;
export type BatchResult = (typeof BATCH_RESULTS)[number];

/** One change of many emails. */
export const EmailBatch = Type.Object(
  {
    object: ObjectName('EmailBatch'),
    id: Type.String({ description: '`bat_…`' }),
    account_id: IdOf('account'),
    status: OneOf(BATCH_STATUSES, { description: 'whether emails are still to be changed' }),
    total: Type.Integer({ description: 'emails that were chosen when the call was accepted' }),
    pending: Type.Integer({ description: 'emails that are still to be changed' }),
    changed: Type.Integer({
      description: 'emails that are as the change wants them, at the provider and in the store',
    }),
    failed: Type.Integer({ description: 'emails that could not be changed; the results say why' }),
    workflow_id: Type.String({ description: 'the workflow in the Temporal UI' }),
    created_at: CreatedAt,
    completed_at: Nullable(DateTime('null: running')),
  },
  { $id: 'EmailBatch', description: 'a job that makes one change of many emails' },
);
export type EmailBatch = Type.Static<typeof EmailBatch>;

/** The result for one email of a batch. */
export const EmailBatchResult = Type.Object(
  {
    object: ObjectName('EmailBatchResult'),
    email_id: Type.String({ description: '`email_…`' }),
    status: OneOf(BATCH_RESULTS, { description: '`changed`: it is as the change wants it' }),
    error: Nullable(
      Type.Object({
        type: Type.String({ description: '`errors/…`, as a call for this email alone would return' }),
        detail: Type.String({ description: 'for people; may change' }),
      }),
      'null: it did not fail',
    ),
  },
  { $id: 'EmailBatchResult', description: 'the result for one email of a batch' },
);
export type EmailBatchResult = Type.Static<typeof EmailBatchResult>;

export const EmailBatchResultList = CursorListOf('EmailBatchResults', EmailBatchResult);
