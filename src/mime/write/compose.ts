import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import libmime from 'libmime';
import MailComposer, { type MailComposerAttachment, type MailComposerOptions } from 'nodemailer/lib/mail-composer';
import type { Recipient } from '../../contract/sending.ts';
import { normalAddress } from '../../mail-wire/addresses.ts';
import { htmlToPlain } from '../html.ts';
import { writableId } from '../message-ids.ts';
import {
  encodeAddresses,
  encodeText,
  encodeValue,
  headerLine,
  parseAddresses,
  plainAddress,
  toCrlf,
  withDecodedName,
} from './encoding.ts';
import { cappedReferences, type Envelope, type OutgoingMessage, type OutgoingAttachment } from './outgoing-message.ts';

/** Longer texts are sent in base64, piece by piece: encoding them as quoted-printable would block the thread. */
const LONG_TEXT = 256 * 1024;
/** A multiple of the 57 bytes of a base64 line. */
const PIECE = 57 * 4096;
const MAX_CID = 900;

/**
 * The bytes of a message (RFC 5322, MIME by nodemailer): lines of at most 998 octets that end in CRLF. The same message
 * gives the same bytes. Without `keepBcc`, for delivery, they do not name the Bcc recipients; the Sent copy and drafts do.
 */
export async function compose(message: OutgoingMessage, options: { keepBcc: boolean }): Promise<Buffer> {
  const node = new MailComposer(structureOf(message)).compile();
  const chunks: Buffer[] = [];
  for await (const chunk of node.createReadStream() as AsyncIterable<Buffer>) chunks.push(chunk);
  const [start, body] = splitAtBody(chunks);
  const structure = start
    .toString('latin1')
    .split(/\r\n(?![ \t])/)
    .filter((line) => /^content-/i.test(line));
  const fields = [...fieldsOf(message, options.keepBcc), 'MIME-Version: 1.0', ...structure];
  return Buffer.concat([Buffer.from(`${fields.join('\r\n')}\r\n\r\n`), ...body]);
}

/** Sender and recipients for SMTP: To, Cc and Bcc, each address once. Reply-To may need SMTPUTF8 as well. */
export function envelopeOf(message: Addressed): Envelope {
  const to = new Map<string, string>();
  const beyondAscii = isLocalPartAscii(message.from.email) ? [] : ['from.email'];
  const replyTo = replyToOf(message).findIndex(({ email }) => !isLocalPartAscii(email));
  if (replyTo >= 0) beyondAscii.push(`reply_to.${replyTo}.email`);
  let withoutAddress: string | undefined;
  for (const field of ['to', 'cc', 'bcc'] as const) {
    for (const [index, { email, display_name: name }] of message[field].entries()) {
      if (email.trim() === '') {
        withoutAddress ??= `${field}: "${name ?? ''}" has no address`;
        continue;
      }
      const key = normalAddress(email);
      if (!to.has(key)) to.set(key, plainAddress(email));
      if (!isLocalPartAscii(email)) beyondAscii.push(`${field}.${index}.email`);
    }
  }
  const [needsUtf8] = beyondAscii;
  return {
    ...{ from: plainAddress(message.from.email), to: [...to.values()] },
    ...(needsUtf8 ? { needsUtf8 } : {}),
    ...(withoutAddress === undefined ? {} : { withoutAddress }),
  };
}

const isLocalPartAscii = (email: string): boolean => !/[^\0-\x7f]/.test(email.slice(0, email.lastIndexOf('@')));

type Addressed = Pick<OutgoingMessage, 'from' | 'to' | 'cc' | 'bcc'> &
  Partial<Pick<OutgoingMessage, 'replyTo' | 'headers'>>;

/** The addresses of Reply-To: a header of this name replaces `replyTo`. */
function replyToOf({ replyTo = [], headers = [] }: Addressed): Recipient[] {
  const named = headers.filter(({ name }) => /^reply-to$/i.test(name));
  return named.length > 0 ? named.flatMap(({ value }) => parseAddresses(value).map(withDecodedName)) : replyTo;
}

/** Headers that OutgoingMessage has fields for, or that compose writes. */
const OWN = /^(date|from|to|cc|bcc|reply-to|subject|message-id|in-reply-to|references|mime-version|content-.*)$/i;

function fieldsOf(message: OutgoingMessage, keepBcc: boolean): string[] {
  const lines = [
    headerLine('Date', message.date.toUTCString().replace('GMT', '+0000')),
    headerLine('From', encodeAddresses([message.from])),
    headerLine('To', encodeAddresses(message.to)),
    headerLine('Cc', encodeAddresses(message.cc)),
    keepBcc ? headerLine('Bcc', encodeAddresses(message.bcc)) : '',
    headerLine('Reply-To', encodeAddresses(replyToOf(message))),
    headerLine('Subject', encodeText(message.subject)),
    headerLine('Message-ID', encodeValue(message.messageId)),
    headerLine('In-Reply-To', writableId(message.inReplyTo) ?? ''),
    headerLine('References', cappedReferences(message.references).join(' ')),
    ...message.headers
      .filter(({ name }) => !OWN.test(name) && /^[!-9;-~]+$/.test(name))
      .map(({ name, value }) => headerLine(name, encodeValue(value))),
  ];
  return lines.filter((line) => line !== '');
}

/** Texts and files for nodemailer: the texts as alternatives, images of the HTML related to it, the other files around. */
function structureOf(message: OutgoingMessage): MailComposerOptions {
  const html = message.html === null ? null : toCrlf(message.html);
  const plain = message.plainText ?? (message.html === null ? null : htmlToPlain(message.html));
  const invites = message.attachments.filter(isInvite);
  const files = message.attachments.filter((attachment) => !isInvite(attachment));
  // Many programs cannot show a message that is only a file: an empty text goes before it.
  const text = plain || html !== null || files.length === 0 ? toCrlf(plain ?? '') : '\r\n';
  return {
    text: contentOf(text),
    html: contentOf(html ?? ''),
    alternatives: invites.map(({ content, contentType }) => ({
      content,
      contentType: contentType ?? 'text/calendar',
      contentTransferEncoding: 'base64',
    })),
    attachments: files.map((attachment, index) => partOf(attachment, index + 1)),
    baseBoundary: boundaryOf(message),
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** A calendar part without a name is an alternative of the text, for calendars (RFC 6047). */
function isInvite({ filename, contentType, cid }: OutgoingAttachment): boolean {
  return filename === null && cid === null && /^text\/calendar\b/i.test(contentType ?? '');
}

function contentOf(text: string): string | { content: Readable; contentTransferEncoding: string } {
  return text.length > LONG_TEXT ? { content: inPieces(Buffer.from(text)), contentTransferEncoding: 'base64' } : text;
}

function partOf(attachment: OutgoingAttachment, number: number): MailComposerAttachment {
  const { filename, cid: givenCid, inline } = attachment;
  const cid = givenCid !== null && givenCid.length <= MAX_CID ? givenCid : null;
  const type = typeOf(attachment);
  const content = /^message\//i.test(type) ? Buffer.from(toCrlf(attachment.content)) : attachment.content;
  const encoding = /^message\//i.test(type) ? messageEncoding(content) : 'base64';
  return {
    filename: filename ?? (cid !== null && isKnownAsFile(type) ? false : `attachment-${number}.${endingOf(type)}`),
    // a message that cannot be sent as a message is sent as plain bytes
    contentType: encoding === null ? 'application/octet-stream' : type,
    contentTransferEncoding: encoding ?? 'base64',
    contentDisposition: inline ? 'inline' : 'attachment',
    // nodemailer relates a part with a `cid` to the HTML; a file that is not inline stays among the files
    ...(cid === null ? {} : inline ? { cid } : { headers: { 'Content-ID': `<${cid}>` } }),
    content: content.length > PIECE ? inPieces(content) : content,
  };
}

/** Whether readers take a part without a name for a file: not for a text of the body, as an invalid type counts too (RFC 2045 5.2). */
function isKnownAsFile(type: string): boolean {
  return /^(?!text\/(?:plain|html)\b)[\w!#$&^.+-]+\/[\w!#$&^.+-]/i.test(type);
}

const endingOf = (type: string): string => libmime.detectExtension(type.replace(/;.*/s, '').trim());

/** The media type that is declared, else that of the file name's ending. */
function typeOf({ contentType, filename }: OutgoingAttachment): string {
  if (contentType !== null && !/^multipart\//i.test(contentType)) return contentType;
  const ending = /\.([^.]+)$/.exec(filename ?? '')?.[1];
  return ending === undefined ? 'application/octet-stream' : libmime.detectMimeType(ending);
}

/** An embedded message is not encoded (RFC 2046 5.2.1): 7bit or 8bit; null when it cannot be sent without encoding. */
function messageEncoding(bytes: Buffer): '7bit' | '8bit' | null {
  let start = 0;
  let isAscii = true;
  if (bytes.includes(0)) return null;
  while (start < bytes.length) {
    const newline = bytes.indexOf(0x0a, start);
    const end = newline < 0 ? bytes.length : newline;
    if (end - start > 998) return null;
    start = end + 1;
  }
  for (let at = 0; at < bytes.length && isAscii; at += 1) isAscii = (bytes[at] ?? 0) < 0x80;
  return isAscii ? '7bit' : '8bit';
}

/** Yields to other work between pieces. */
function inPieces(bytes: Buffer): Readable {
  async function* pieces(): AsyncGenerator<Buffer> {
    for (let start = 0; start < bytes.length; start += PIECE) {
      yield bytes.subarray(start, start + PIECE);
      await setImmediate();
    }
  }
  return Readable.from(pieces(), { objectMode: false });
}

/** A boundary that is equal for equal messages and never part of their content: a digest of all but the base64 parts. */
function boundaryOf(message: OutgoingMessage): string {
  const hash = createHash('sha256').update(`${message.messageId}\0${message.html ?? ''}\0${message.plainText ?? ''}\0`);
  for (const { contentType, content } of message.attachments) {
    if (/^message\//i.test(contentType ?? '')) hash.update(content);
  }
  return hash.digest('hex').slice(0, 24);
}

/** Cuts a composed message at the empty line that ends its header. */
function splitAtBody(chunks: Buffer[]): [Buffer, Buffer[]] {
  const last = Math.max(
    0,
    chunks.findIndex((chunk) => chunk.includes('\r\n\r\n')),
  );
  const start = Buffer.concat(chunks.slice(0, last + 1));
  const end = start.indexOf('\r\n\r\n');
  return [start.subarray(0, end), [start.subarray(end + 4), ...chunks.slice(last + 1)]];
}
