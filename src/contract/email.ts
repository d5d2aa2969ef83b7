import Type from 'typebox';
import { CursorListOf, DateTime, Nullable } from './common.ts';

/** A person in a From, To, Cc, Bcc or Reply-To header (SPEC "Attendee"). */
export const Attendee = Type.Object(
  {
    identifier: Type.String({ description: 'email address' }),
    display_name: Type.String(),
    identifier_type: Type.Literal('EMAIL_ADDRESS'),
  },
  { $id: 'Attendee' },
);
export type Attendee = Type.Static<typeof Attendee>;

export const Attachment = Type.Object(
  {
    id: Type.String({ description: '`att_…`' }),
    name: Type.String(),
    extension: Type.String({ description: 'lower case, without the dot; empty when the name has none' }),
    size: Type.Integer({ description: 'bytes, decoded' }),
    mime: Type.String(),
    cid: Nullable(Type.String({ description: 'Content-ID without its angle brackets' })),
    inline: Type.Boolean(),
  },
  { $id: 'Attachment' },
);
export type Attachment = Type.Static<typeof Attachment>;

export const Header = Type.Object({ name: Type.String(), value: Type.String() }, { $id: 'Header' });
export type Header = Type.Static<typeof Header>;

/** What a bounce report says of one recipient. */
export const BouncedRecipient = Type.Object(
  {
    address: Nullable(Type.String()),
    action: Nullable(Type.String({ description: 'failed, delayed, delivered, relayed or expanded' })),
    status: Nullable(Type.String({ description: 'enhanced status code, RFC 3463' })),
    diagnostic: Nullable(Type.String()),
  },
  { $id: 'BouncedRecipient' },
);
export type BouncedRecipient = Type.Static<typeof BouncedRecipient>;

/** What a bounce report says (RFC 3464), additive on Email. */
export const Bounce = Type.Object(
  {
    recipient: Nullable(Type.String()),
    action: Nullable(Type.String({ description: 'failed, delayed, …' })),
    status: Nullable(Type.String({ description: 'enhanced status code, RFC 3463' })),
    diagnostic: Nullable(Type.String()),
    recipients: Type.Optional(
      Type.Array(BouncedRecipient, {
        description:
          'every recipient that the report names, those that failed first; the four fields above are of the first. ' +
          '`action` tells a delay notice (`delayed`) from a failure (`failed`)',
      }),
    ),
    message_id: Nullable(Type.String({ description: 'Message-ID of the mail that bounced' })),
    email_id: Nullable(Type.String({ description: '`email_…` of the mail that bounced, once it is known' })),
    tracking_id: Nullable(Type.String()),
  },
  { $id: 'Bounce' },
);
export type Bounce = Type.Static<typeof Bounce>;

/** What a feedback report says (ARF, RFC 5965), additive on Email. */
export const Complaint = Type.Object(
  {
    feedback_type: Nullable(Type.String({ description: 'abuse, fraud, not-spam, opt-out, virus, other, …' })),
    recipient: Nullable(Type.String({ description: 'who complains, where the provider says it' })),
    source_ip: Nullable(Type.String()),
    user_agent: Nullable(Type.String()),
    message_id: Nullable(Type.String({ description: 'Message-ID of the mail that is complained of' })),
    email_id: Nullable(Type.String({ description: '`email_…` of that mail, where it is known' })),
    tracking_id: Nullable(Type.String()),
  },
  { $id: 'Complaint' },
);
export type Complaint = Type.Static<typeof Complaint>;

/** Why no person wrote a mail, additive on Email. */
export const AutoReply = Type.Union([Type.Literal('auto_reply'), Type.Literal('read_receipt')]);
export type AutoReply = Type.Static<typeof AutoReply>;

/** The event of an invitation (RFC 5545), additive on Email. */
export const Calendar = Type.Object(
  {
    method: Nullable(Type.String({ description: 'REQUEST, REPLY, CANCEL, …' })),
    uid: Nullable(Type.String()),
    start: Nullable(
      Type.String({ description: 'ISO 8601: a moment in UTC, a day, or a local time where no zone is given' }),
    ),
    end: Nullable(Type.String()),
    organizer: Nullable(Type.String({ description: 'email address' })),
    attendees: Type.Array(
      Type.Object({
        address: Type.String(),
        status: Nullable(Type.String({ description: 'ACCEPTED, DECLINED, TENTATIVE, NEEDS-ACTION, …' })),
      }),
    ),
  },
  { $id: 'Calendar' },
);
export type Calendar = Type.Static<typeof Calendar>;

export const SentBy = Type.Object(
  {
    api_key_id: Type.String(),
    api_key_name: Type.String(),
    metadata: Nullable(Type.String()),
  },
  { $id: 'SentBy' },
);
export type SentBy = Type.Static<typeof SentBy>;

/** An email, or a draft when it is in Drafts (SPEC "Email"). */
export const Email = Type.Object(
  {
    object: Type.Union([Type.Literal('Email'), Type.Literal('Draft')], {
      description: '`Draft` only in events about drafts',
    }),
    id: Type.String({ description: '`email_…`; stays the same when the email moves' }),
    account_id: Type.String(),
    thread_id: Type.String({ description: '`thr_…`' }),
    message_id: Nullable(Type.String({ description: 'Message-ID with its angle brackets' })),
    date: DateTime(),
    subject: Type.String(),
    from_attendee: Attendee,
    to_attendees: Type.Array(Attendee),
    cc_attendees: Type.Array(Attendee),
    bcc_attendees: Type.Array(Attendee),
    reply_to_attendees: Type.Array(Attendee),
    body: Type.String({ description: 'HTML' }),
    body_plain: Type.String(),
    body_new: Type.Optional(
      Nullable(
        Type.String({ description: '`body_plain` without quoted mail and signature; null where that is not known' }),
      ),
    ),
    has_attachments: Type.Boolean(),
    attachments: Type.Array(Attachment),
    folders: Type.Array(Type.String({ description: '`fld_…`' })),
    is_unread: Type.Boolean(),
    is_complete: Type.Boolean({
      description:
        'false: parsing was cut short by a limit, and text or attachments may be missing; the source has all',
    }),
    headers: Type.Array(Header),
    origin: Type.Union([Type.Literal('api'), Type.Literal('external')]),
    is_echo: Type.Boolean({ description: 'the mailbox owner is the sender' }),
    sent_by: Type.Optional(SentBy),
    tracking_id: Nullable(Type.String()),
    draft_id: Type.Optional(Type.String({ description: 'drafts only' })),
    bounce: Type.Optional(Bounce),
    complaint: Type.Optional(Complaint),
    auto_reply: Type.Optional(AutoReply),
    calendar: Type.Optional(Calendar),
  },
  { $id: 'Email' },
);
export type Email = Type.Static<typeof Email>;

export const EmailList = CursorListOf('Emails', Email);
export type EmailList = Type.Static<typeof EmailList>;
export const DraftList = CursorListOf('Drafts', Email);
export type DraftList = Type.Static<typeof DraftList>;

export const Thread = Type.Object(
  {
    object: Type.Literal('Thread'),
    id: Type.String(),
    data: Type.Array(Email),
    has_more: Type.Boolean(),
    cursor: Type.Optional(Type.String()),
  },
  { $id: 'Thread' },
);
export type Thread = Type.Static<typeof Thread>;
