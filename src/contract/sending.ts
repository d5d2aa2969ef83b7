import Type from 'typebox';
import { Nullable } from './common.ts';

/** Limits of an email to send that are no settings: characters, and how many headers. */
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

const Address = (description?: string) =>
  Type.String({ format: 'email', maxLength: SEND_BOUNDS.address, ...(description ? { description } : {}) });
const Name = Type.String({ maxLength: SEND_BOUNDS.name });

/** A person to send to (SPEC "Recipient"). */
export const Recipient = Type.Object({ email: Address(), display_name: Type.Optional(Name) }, { $id: 'Recipient' });
export type Recipient = Type.Static<typeof Recipient>;

/** Which opens and clicks to report (CONTRACT "Tracking"). */
export const TrackingOptions = Type.Object(
  {
    opens: Type.Optional(Type.Boolean()),
    links: Type.Optional(Type.Boolean()),
    label: Type.Optional(Type.String({ maxLength: 255 })),
    custom_domain: Type.Optional(
      Type.String({
        maxLength: SEND_BOUNDS.domain,
        description: 'host of the tracking URLs instead of that of `PUBLIC_URL`',
      }),
    ),
  },
  { $id: 'TrackingOptions' },
);
export type TrackingOptions = Type.Static<typeof TrackingOptions>;

/** A file to send. */
export const SendAttachment = Type.Object(
  {
    content: Type.String({ description: 'base64' }),
    filename: Type.Optional(Type.String({ maxLength: SEND_BOUNDS.fileName })),
    content_type: Type.Optional(Type.String()),
    cid: Type.Optional(
      Type.String({
        maxLength: SEND_BOUNDS.cid,
        description: 'Content-ID: makes the file an inline part that the HTML shows by `cid:…`',
      }),
    ),
  },
  { $id: 'SendAttachment' },
);
export type SendAttachment = Type.Static<typeof SendAttachment>;

const RECIPIENTS = 'at most 500 over `to`, `cc` and `bcc` (`MAX_RECIPIENTS`)';

const CustomHeader = Type.Object({
  name: Type.String({ maxLength: SEND_BOUNDS.headerName }),
  value: Type.String({ maxLength: SEND_BOUNDS.headerValue }),
});

/**
 * An email to send, or to save as a draft (SPEC "SendInput"). src/api/send-input.ts checks what a schema cannot: limits that
 * are settings, line breaks in fields that become headers, base64, allowed headers.
 */
export const SendInput = Type.Object(
  {
    to: Type.Optional(Type.Array(Recipient, { description: RECIPIENTS })),
    cc: Type.Optional(Type.Array(Recipient, { description: RECIPIENTS })),
    bcc: Type.Optional(Type.Array(Recipient, { description: RECIPIENTS })),
    reply_to: Type.Optional(Type.Array(Recipient)),
    from: Type.Optional(
      Type.Object({
        display_name: Type.Optional(Name),
        email: Type.Optional(Address('a send-as alias')),
      }),
    ),
    subject: Type.Optional(Type.String({ description: 'at most 998 characters (`MAX_SUBJECT_LENGTH`)' })),
    html: Type.Optional(Type.String()),
    plain_text: Type.Optional(Type.String({ description: 'made from `html` when left out' })),
    reply_to_message_id: Type.Optional(
      Type.String({
        maxLength: SEND_BOUNDS.messageId,
        description: 'the email to reply to: its Message-ID or its `email_…` id',
      }),
    ),
    custom_headers: Type.Optional(
      Type.Array(CustomHeader, {
        maxItems: SEND_BOUNDS.headers,
        description:
          'names starting with `X-`, `List-Unsubscribe`, `List-Unsubscribe-Post`, `Auto-Submitted`, `Reply-To`',
      }),
    ),
    metadata: Type.Optional(
      Type.String({ maxLength: 1000, description: 'a note for you; not a part of the email; see `sent_by`' }),
    ),
    tracking_options: Type.Optional(TrackingOptions),
    attachments: Type.Optional(
      Type.Array(SendAttachment, {
        description: 'at most 100 files of 25 MiB together (`MAX_ATTACHMENTS`, `MAX_ATTACHMENT_BYTES`)',
      }),
    ),
  },
  { $id: 'SendInput' },
);
export type SendInput = Type.Static<typeof SendInput>;

/** Response to a send (CONTRACT "Emails"). */
export const EmailSent = Type.Object(
  {
    object: Type.Literal('EmailSent'),
    id: Type.String({ description: '`email_…`; the Sent copy gets this id' }),
    account_id: Type.String(),
    message_id: Type.String(),
    tracking_id: Nullable(Type.String()),
    rejected: Type.Optional(
      Type.Array(Type.String(), { description: 'recipients that the mail server refused; it accepted the others' }),
    ),
  },
  { $id: 'EmailSent' },
);
export type EmailSent = Type.Static<typeof EmailSent>;

/** Response to saving a draft (SPEC "DraftResult"). */
export const DraftResult = Type.Object(
  {
    object: Type.Union([Type.Literal('DraftCreated'), Type.Literal('DraftUpdated')]),
    id: Type.String({ description: '`drf_…`' }),
    account_id: Type.String(),
    draft_id: Type.String({ description: 'the same as `id`' }),
    previous_draft_id: Type.Optional(
      Type.String({ description: 'after an update: the old id, which no longer works' }),
    ),
    message_id: Type.String(),
    tracking_id: Nullable(Type.String()),
  },
  { $id: 'DraftResult' },
);
export type DraftResult = Type.Static<typeof DraftResult>;

/** Response to sending a draft (SPEC "DraftSent"); `rejected` as in EmailSent. */
export const DraftSent = Type.Object(
  {
    object: Type.Literal('DraftSent'),
    draft_id: Type.String(),
    rejected: Type.Optional(Type.Array(Type.String())),
  },
  { $id: 'DraftSent' },
);
export type DraftSent = Type.Static<typeof DraftSent>;

/** Response to trashing an email (SPEC "EmailDeleted"). */
export const EmailDeleted = Type.Object(
  { object: Type.Literal('EmailDeleted'), id: Type.String({ description: '`email_…`' }) },
  { $id: 'EmailDeleted' },
);
export type EmailDeleted = Type.Static<typeof EmailDeleted>;
