import Type from 'typebox';
import { CreatedAt, DateTime, IdOf, Nullable, ObjectName, OneOf } from './common.ts';

/** Fixed limits of an email to send: lengths in characters, and the number of headers. */
export const SEND_BOUNDS = {
  name: 998,
  address: 320,
  fileName: 255,
  cid: 255,
  messageId: 998,
  domain: 259,
  headers: 100,
  headerName: 76,
  headerValue: 16 * 1024,
} as const;

const Address = (description: string) =>
  Type.String({ format: 'idn-email', maxLength: SEND_BOUNDS.address, description });
const Name = Type.String({ maxLength: SEND_BOUNDS.name, description: 'name beside the address' });

/** A person to send to. */
export const Recipient = Type.Object(
  { email: Address('email address'), display_name: Type.Optional(Name) },
  { $id: 'Recipient', description: 'a person to send to' },
);
export type Recipient = Type.Static<typeof Recipient>;

/** Which opens and clicks to report, for one send. */
export const TrackingOptions = Type.Object(
  {
    opens: Type.Optional(Type.Boolean({ description: 'reports opens, by a picture; needs `html`; default: false' })),
    links: Type.Optional(
      Type.Boolean({
        description: 'reports clicks on http(s) links, except to unsubscribe; needs `html`; default: false',
      }),
    ),
    label: Type.Optional(Type.String({ maxLength: 255, description: 'returned in the events of this email' })),
    custom_domain: Type.Optional(
      Type.String({
        maxLength: SEND_BOUNDS.domain,
        description: 'host of the tracking URLs; default: the host of `PUBLIC_URL`',
      }),
    ),
  },
  { $id: 'TrackingOptions', description: 'which opens and clicks to report' },
);
export type TrackingOptions = Type.Static<typeof TrackingOptions>;

/** A file to send. */
export const SendAttachment = Type.Object(
  {
    content: Type.Optional(
      Type.String({ description: 'base64; or a stored file: `email_id` and `attachment_id`, or `upload_id`' }),
    ),
    email_id: Type.Optional(
      Type.String({ maxLength: 64, description: 'an email of this account: one of its files is attached' }),
    ),
    attachment_id: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'the file of that email; `filename` and `content_type` are its own unless you give them',
      }),
    ),
    upload_id: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          'a complete upload of this key, as it is at the time of the call; `filename` and `content_type` are its own ' +
          'unless you give them',
      }),
    ),
    filename: Type.Optional(Type.String({ maxLength: SEND_BOUNDS.fileName, description: 'name of the file' })),
    content_type: Type.Optional(Type.String({ description: 'media type; omitted: by the ending of `filename`' })),
    cid: Type.Optional(
      Type.String({
        maxLength: SEND_BOUNDS.cid,
        description: 'Content-ID: makes the file an inline part that the HTML references as `cid:…`',
      }),
    ),
  },
  { $id: 'SendAttachment', description: 'a file to send' },
);
export type SendAttachment = Type.Static<typeof SendAttachment>;

const RECIPIENTS = 'at most 500 across `to`, `cc` and `bcc` (`MAX_RECIPIENTS`)';

const CustomHeader = Type.Object({
  name: Type.String({ maxLength: SEND_BOUNDS.headerName, description: 'one of the allowed names' }),
  value: Type.String({ maxLength: SEND_BOUNDS.headerValue, description: 'its value, in one line' }),
});

/**
 * An email to send, or to save as a draft. src/api/send-input.ts checks what a schema cannot: configurable limits, line
 * breaks in fields that become headers, base64, allowed headers.
 */
export const SendInput = Type.Object(
  {
    to: Type.Optional(Type.Array(Recipient, { description: RECIPIENTS })),
    cc: Type.Optional(Type.Array(Recipient, { description: RECIPIENTS })),
    bcc: Type.Optional(Type.Array(Recipient, { description: RECIPIENTS })),
    reply_to: Type.Optional(
      Type.Array(Recipient, { description: 'where replies go; a custom header `Reply-To` wins' }),
    ),
    from: Type.Optional(
      Type.Object(
        {
          display_name: Type.Optional(Name),
          email: Type.Optional(Address('a send-as alias of the mailbox')),
        },
        { description: 'the sender; omitted: the address and name of the account' },
      ),
    ),
    subject: Type.Optional(Type.String({ description: 'at most 998 characters (`MAX_SUBJECT_LENGTH`)' })),
    html: Type.Optional(Type.String({ description: 'the body as HTML' })),
    plain_text: Type.Optional(Type.String({ description: 'derived from `html` when omitted' })),
    reply_to_message_id: Type.Optional(
      Type.String({
        maxLength: SEND_BOUNDS.messageId,
        description: 'the email to reply to: its Message-ID or its `email_…` id',
      }),
    ),
    forward_message_id: Type.Optional(
      Type.String({
        maxLength: SEND_BOUNDS.messageId,
        description:
          'the email of this account to forward: its `email_…` id or its Message-ID; its subject after `Fwd:` is the ' +
          'subject, unless you give one. Not with `reply_to_message_id`, and not in an update of a draft',
      }),
    ),
    forward_as: Type.Optional(
      Type.Union([Type.Literal('inline'), Type.Literal('attachment')], {
        description:
          '`inline` (default): the text of the original follows yours, below From, Date, Subject, To and Cc, and its ' +
          'files are attached; `attachment`: the whole original is attached (`message/rfc822`), without its `Bcc`',
      }),
    ),
    custom_headers: Type.Optional(
      Type.Array(CustomHeader, {
        maxItems: SEND_BOUNDS.headers,
        description: 'allowed names: `X-…`, `List-Unsubscribe`, `List-Unsubscribe-Post`, `Auto-Submitted`, `Reply-To`',
      }),
    ),
    metadata: Type.Optional(
      Type.String({ maxLength: 1000, description: 'a private note, not part of the email; returned in `sent_by`' }),
    ),
    tracking_options: Type.Optional(TrackingOptions),
    attachments: Type.Optional(
      Type.Array(SendAttachment, {
        description: 'at most 100 files, 25 MiB in total (`MAX_ATTACHMENTS`, `MAX_ATTACHMENT_BYTES`)',
      }),
    ),
  },
  { $id: 'SendInput', description: 'an email to send, or to save as a draft' },
);
export type SendInput = Type.Static<typeof SendInput>;

const Rejected = Type.Array(Type.String(), {
  description: 'recipients that the mail server rejected; it accepted the others',
});

/** Response to a send. */
export const EmailSent = Type.Object(
  {
    object: ObjectName('EmailSent'),
    id: Type.String({ description: '`email_…`; the copy in Sent has this id' }),
    account_id: IdOf('account'),
    message_id: Type.String({ description: 'Message-ID with its angle brackets' }),
    tracking_id: Nullable(Type.String({ description: '`trk_…`; null: not tracked' })),
    rejected: Type.Optional(Rejected),
  },
  { $id: 'EmailSent', description: 'the email was sent' },
);
export type EmailSent = Type.Static<typeof EmailSent>;

/** Response to saving a draft. */
export const DraftResult = Type.Object(
  {
    object: Type.Union([Type.Literal('DraftCreated'), Type.Literal('DraftUpdated')], {
      description: 'whether it is a new draft or replaces one',
    }),
    id: Type.String({ description: '`drf_…`' }),
    account_id: IdOf('account'),
    draft_id: Type.String({ description: 'the same as `id`' }),
    previous_draft_id: Type.Optional(
      Type.String({ description: 'after an update: the previous id, which no longer works' }),
    ),
    message_id: Type.String({ description: 'Message-ID with its angle brackets' }),
    tracking_id: Nullable(Type.String({ description: '`trk_…`; null: not tracked' })),
  },
  { $id: 'DraftResult', description: 'the draft was saved' },
);
export type DraftResult = Type.Static<typeof DraftResult>;

/** Response to sending a draft; `rejected` has the meaning that EmailSent describes. */
export const DraftSent = Type.Object(
  {
    object: ObjectName('DraftSent'),
    draft_id: IdOf('draft'),
    rejected: Type.Optional(Rejected),
  },
  { $id: 'DraftSent', description: 'the draft was sent' },
);
export type DraftSent = Type.Static<typeof DraftSent>;

/** Response to trashing an email. */
export const EmailDeleted = Type.Object(
  { object: ObjectName('EmailDeleted'), id: Type.String({ description: '`email_…`' }) },
  { $id: 'EmailDeleted', description: 'the email is in Trash' },
);
export type EmailDeleted = Type.Static<typeof EmailDeleted>;

export const UPLOAD_STATUSES = ['uploading', 'complete'] as const;

/** How long an upload can be attached, hours. */
export const UPLOAD_HOURS = 24;

/** A file that attachments of sends and drafts name. */
export const Upload = Type.Object(
  {
    object: ObjectName('Upload'),
    id: Type.String({ description: '`upl_…`' }),
    status: OneOf(UPLOAD_STATUSES, { description: '`uploading`: bytes are missing; `complete`: it can be attached' }),
    size: Type.Integer({ description: 'bytes of the whole file' }),
    received: Type.Integer({ description: 'bytes that are stored: the next part begins at this offset' }),
    filename: Nullable(Type.String({ description: 'name of the file; null: none was given' })),
    content_type: Nullable(Type.String({ description: 'media type; null: by the ending of the file name' })),
    created_at: CreatedAt,
    expires_at: DateTime('when it is deleted: 24 hours after it was created'),
  },
  { $id: 'Upload', description: 'a file to attach to emails and drafts' },
);
export type Upload = Type.Static<typeof Upload>;
