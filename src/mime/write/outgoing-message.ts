import type { Header } from '../../contract/email.ts';
import type { Recipient, SendAttachment, SendInput } from '../../contract/sending.ts';
import { readMessageId, readMessageIds, writableId } from '../message-ids.ts';

/** Sender and recipients for SMTP (RFC 5321 3.3): bare addresses. */
export interface Envelope {
  from: string;
  to: string[];
  /** the field of the first address, also in a header, whose local part is not ASCII (RFC 6531): `to.0.email` */
  needsUtf8?: string;
  /** says which entry of the recipients is a name alone, as other mail programs store unfinished drafts */
  withoutAddress?: string;
}

/** A file of a message. */
export interface OutgoingAttachment {
  filename: string | null;
  /** media type, with its parameters; null: from the ending of the file name */
  contentType: string | null;
  /** Content-ID without its angle brackets */
  cid: string | null;
  /** shown within the body; with a `cid`, by the HTML that refers to it as `cid:…` */
  inline: boolean;
  content: Buffer;
}

/** A message as values, before it is composed (compose.ts). */
export interface OutgoingMessage {
  from: Recipient;
  to: Recipient[];
  cc: Recipient[];
  bcc: Recipient[];
  replyTo: Recipient[];
  subject: string;
  html: string | null;
  /** null: made from `html` when the message is composed */
  plainText: string | null;
  attachments: OutgoingAttachment[];
  /** further headers; a `Reply-To` among them replaces `replyTo` */
  headers: Header[];
  /** with its angle brackets */
  messageId: string;
  date: Date;
  /** with its angle brackets */
  inReplyTo: string | null;
  /** the chain, oldest first, with their angle brackets */
  references: string[];
}

/** The mail that is replied to: its Message-ID and the References chain that leads to it. */
export interface RepliedTo {
  messageId: string;
  references: readonly string[];
}

/** Values that the service adds to the caller's input. */
export interface MessageContext {
  from: Recipient;
  /** with its angle brackets */
  messageId: string;
  date: Date;
  /** the email that it answers or forwards: mail programs put both into its conversation */
  reply: RepliedTo | null;
}

/** Limits of a References header, in ids and characters: the first and the last ids stay (RFC 5537 3.4.4). */
const MAX_REFERENCES = 100;
const MAX_REFERENCES_LENGTH = 8000;

/** The message of a SendInput that has passed `checkSendInput`. */
export function messageFromInput(input: SendInput, given: MessageContext): OutgoingMessage {
  return {
    from: given.from,
    to: input.to ?? [],
    cc: input.cc ?? [],
    bcc: input.bcc ?? [],
    replyTo: input.reply_to ?? [],
    subject: input.subject ?? '',
    html: textOf(input.html),
    plainText: textOf(input.plain_text),
    attachments: (input.attachments ?? []).map(attachmentFrom),
    headers: input.custom_headers ?? [],
    messageId: given.messageId,
    date: given.date,
    ...threadingOf(given.reply),
  };
}

/**
 * Replaces the fields of a draft's message that `input` has; the others stay. HTML without `plain_text` gets a new plain
 * text. `reply` undefined keeps the threading, null removes it.
 */
export function mergeInput(
  message: OutgoingMessage,
  input: SendInput,
  given: Omit<MessageContext, 'reply'> & { reply?: RepliedTo | null | undefined },
): OutgoingMessage {
  const own = messageFromInput(input, { ...given, reply: given.reply ?? null });
  const isGiven = (field: keyof SendInput): boolean => input[field] !== undefined;
  return {
    from: isGiven('from') || message.from.email === '' ? given.from : message.from,
    to: isGiven('to') ? own.to : message.to,
    cc: isGiven('cc') ? own.cc : message.cc,
    bcc: isGiven('bcc') ? own.bcc : message.bcc,
    replyTo: isGiven('reply_to') ? own.replyTo : message.replyTo,
    subject: isGiven('subject') ? own.subject : message.subject,
    html: isGiven('html') ? own.html : message.html,
    plainText: isGiven('html') || isGiven('plain_text') ? own.plainText : message.plainText,
    attachments: isGiven('attachments') ? own.attachments : message.attachments,
    headers: mergeHeaders(message.headers, input),
    messageId: given.messageId,
    date: given.date,
    ...(given.reply === undefined
      ? { inReplyTo: message.inReplyTo, references: message.references }
      : threadingOf(given.reply)),
  };
}

/** Headers that callers can set. A draft keeps all others. */
const SETTABLE = /^(x-.*|list-unsubscribe|list-unsubscribe-post|auto-submitted|reply-to)$/i;

/** Whether callers may set a header with this name in SendInput. */
export function isSettableHeader(name: string): boolean {
  return SETTABLE.test(name);
}

function mergeHeaders(headers: Header[], input: SendInput): Header[] {
  if (input.custom_headers) return [...headers.filter(({ name }) => !isSettableHeader(name)), ...input.custom_headers];
  return input.reply_to ? headers.filter(({ name }) => name.toLowerCase() !== 'reply-to') : headers;
}

/** In-Reply-To and References of a reply to that mail (RFC 5322 3.6.4). */
function threadingOf(reply: RepliedTo | null): Pick<OutgoingMessage, 'inReplyTo' | 'references'> {
  const parent = reply && readMessageId(reply.messageId);
  if (!reply || !parent) return { inReplyTo: null, references: [] };
  const chain = readMessageIds(reply.references.join(' ')).filter((id) => id !== parent);
  return { inReplyTo: parent, references: cappedReferences([...chain, parent]) };
}

/** A References chain that a header can have, within the limits: of a longer one, the first id and the last ones. */
export function cappedReferences(ids: readonly string[]): string[] {
  const [first, ...rest] = ids.filter((id) => writableId(id) !== null);
  if (first === undefined) return [];
  const last: string[] = [];
  let length = first.length;
  for (const id of rest.reverse()) {
    length += id.length + 1;
    if (last.length + 1 >= MAX_REFERENCES || length > MAX_REFERENCES_LENGTH) break;
    last.unshift(id);
  }
  return [first, ...last];
}

function attachmentFrom({ content, filename, content_type: type, cid }: SendAttachment): OutgoingAttachment {
  const id = textOf(cid?.replace(/^<|>$/g, ''));
  return {
    filename: textOf(filename),
    contentType: textOf(type),
    cid: id,
    inline: id !== null,
    // a stored file is filled in where the message is composed
    content: Buffer.from(content ?? '', 'base64'),
  };
}

function textOf(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}
