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

/** What a bounce report says (RFC 3464), additive on Email. */
export const Bounce = Type.Object(
  {
    recipient: Nullable(Type.String()),
    action: Nullable(Type.String({ description: 'failed, delayed, …' })),
    status: Nullable(Type.String({ description: 'enhanced status code, RFC 3463' })),
    diagnostic: Nullable(Type.String()),
    message_id: Nullable(Type.String({ description: 'Message-ID of the mail that bounced' })),
    email_id: Nullable(Type.String({ description: '`email_…` of the mail that bounced, once it is known' })),
    tracking_id: Nullable(Type.String()),
  },
  { $id: 'Bounce' },
);
export type Bounce = Type.Static<typeof Bounce>;

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
    has_attachments: Type.Boolean(),
    attachments: Type.Array(Attachment),
    folders: Type.Array(Type.String({ description: '`fld_…`' })),
    is_unread: Type.Boolean(),
    is_complete: Type.Boolean({ description: 'always true' }),
    headers: Type.Array(Header),
    origin: Type.Union([Type.Literal('api'), Type.Literal('external')]),
    is_echo: Type.Boolean({ description: 'the mailbox owner is the sender' }),
    sent_by: Type.Optional(SentBy),
    tracking_id: Nullable(Type.String()),
    draft_id: Type.Optional(Type.String({ description: 'drafts only' })),
    bounce: Type.Optional(Bounce),
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
