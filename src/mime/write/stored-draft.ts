import { readFile } from 'node:fs/promises';
import type { Attendee, Header } from '../../contract/email.ts';
import type { Recipient } from '../../contract/sending.ts';
import { MailError } from '../../mail-wire/mail-error.ts';
import { inTempFolder } from '../../runtime/temp-dir.ts';
import { htmlToPlain } from '../html.ts';
import { newMessageId, readMessageId, readMessageIds } from '../message-ids.ts';
import { shownByCid, toAttachments } from '../read/attachments.ts';
import { htmlBody, plainBody, readTexts } from '../read/body.ts';
import { readDate } from '../read/dates.ts';
import { decodeHeader, firstValue, rawValues, readEntries, readFrom } from '../read/headers.ts';
import type { RawHeader } from '../read/raw-header.ts';
import type { Part } from '../read/part.ts';
import { type PartLimits, type ReadParts, readParts } from '../read/read-parts.ts';
import { untrackHtml } from '../tracking.ts';
import { compose, envelopeOf } from './compose.ts';
import { isContentHeader, privateHeadersIn } from './draft-headers.ts';
import type { ForwardedMessage } from './forward.ts';
import type { OutgoingMessage, OutgoingAttachment, MessageContext } from './outgoing-message.ts';
import { type PreparedDraft, prepareDraft } from './prepare-draft.ts';

export { type PreparedDraft, prepareDraft };

/** RFC 1847, RFC 8551 */
const PROTECTED = /^\s*(multipart\/(encrypted|signed)|application\/(x-)?pkcs7-mime)\b/i;

/**
 * Reads a draft of any mail program as a message. Missing HTML or text is null. Yields to other work while a large draft is
 * read. `given` has the From, Message-ID and Date for a draft without them; `tempDir` is for files over 256 KB.
 * @throws MailError provider_rejected when the draft cannot be parsed completely, or is encrypted or signed: some of it would be
 * lost
 */
export async function readDraftMessage(
  source: Buffer,
  given: Omit<MessageContext, 'reply'>,
  tempDir: string,
): Promise<OutgoingMessage> {
  return inTempFolder(tempDir, async (spillDir) => {
    // A rewritten draft keeps its winmail.dat unchanged.
    const limits = { spillDir, keepTnef: true };
    const read = await readWhole(source, limits, 'the draft cannot be parsed completely');
    if (PROTECTED.test(firstValue(read.headers, 'content-type', null)))
      throw new MailError('provider_rejected', 'imap', 'the draft is encrypted or signed, which a change would undo');
    return { ...readHeaders(read, given), ...(await readContents(read)) };
  });
}

/**
 * Reads a mail that is forwarded. Yields to other work while a large one is read; `tempDir` is for files over 256 KB.
 * @throws MailError provider_rejected when it cannot be parsed completely: some of it would be lost
 */
export async function readForwarded(source: Buffer, tempDir: string): Promise<ForwardedMessage> {
  return inTempFolder(tempDir, async (spillDir) => {
    const partial = 'the email cannot be parsed completely; forward it with forward_as "attachment"';
    const read = await readWhole(source, { spillDir }, partial);
    const { from, date, to, cc, subject } = readHeaders(read, MISSING);
    const known = Number.isNaN(date.getTime()) ? null : date;
    return { from, date: known, to, cc, subject, ...(await readContents(read)) };
  });
}

/** What a message without From, Message-ID and Date is read with. */
const MISSING = { from: { email: '' }, messageId: '', date: new Date(Number.NaN) };

/**
 * A mail that this API sent, without the tracking that it was delivered with; the same bytes when they have none. `links`
 * are the targets of its rewritten links.
 * @throws MailError provider_rejected when it cannot be parsed completely
 */
export async function withoutTracking(
  source: Buffer,
  { trackingId, links }: { trackingId: string; links: readonly string[] },
  tempDir: string,
): Promise<Buffer> {
  return inTempFolder(tempDir, async (spillDir) => {
    const read = await readWhole(source, { spillDir, keepTnef: true }, 'the email cannot be parsed completely');
    const { html, ...contents } = await readContents(read);
    const untracked = html && untrackHtml(html, trackingId, links);
    if (untracked === html) return source;
    return compose({ ...readHeaders(read, MISSING), ...contents, html: untracked }, { keepBcc: true });
  });
}

/** @throws MailError provider_rejected with the detail `partial` when it cannot be parsed completely */
async function readWhole(
  source: Buffer,
  limits: Pick<PartLimits, 'spillDir' | 'keepTnef'>,
  partial: string,
): Promise<ReadParts> {
  const read = await readParts(source, { isTimeUp: () => false, maxText: Number.POSITIVE_INFINITY, ...limits });
  if (read.isPartial) throw new MailError('provider_rejected', 'imap', partial);
  return read;
}

/** Texts and files. Missing HTML or text is null. */
async function readContents(read: ReadParts): Promise<Pick<OutgoingMessage, 'html' | 'plainText' | 'attachments'>> {
  const texts = readTexts(read);
  const hasHtml = texts.some(({ isHtml }) => isHtml);
  const { html, parts } = shownByCid(read.parts, hasHtml ? htmlBody(texts) : '');
  return {
    html: hasHtml ? html : null,
    plainText: texts.some(({ isHtml }) => !isHtml) ? plainBody(texts, htmlToPlain) : null,
    attachments: await readFiles(parts, html),
  };
}

/**
 * Prepares a draft for sending, by prepareDraft, or composes it again when its body has lines that cannot be sent.
 * `messageId` null keeps the draft's own.
 * @throws MailError provider_rejected when it must be composed again and cannot be parsed completely
 */
export async function draftForSending(
  source: Buffer,
  given: { from: Recipient; messageId: string | null; date: Date },
  tempDir: string,
): Promise<PreparedDraft> {
  const prepared = prepareDraft(source, given);
  if (!prepared.hasLongLine) return prepared;
  const { from, date } = given;
  const draft = await readDraftMessage(source, { from, date, messageId: newMessageId(from.email) }, tempDir);
  const message = withoutDraftHeaders({ ...draft, date, messageId: given.messageId ?? draft.messageId });
  const sentCopy = await compose(message, { keepBcc: true });
  const delivered = message.bcc.length > 0 ? await compose(message, { keepBcc: false }) : sentCopy;
  return { sentCopy, delivered, envelope: envelopeOf(message), messageId: message.messageId, hasLongLine: false };
}

/** The message as it is sent, without private headers of the mail program. */
export function withoutDraftHeaders(message: OutgoingMessage): OutgoingMessage {
  const unsent = privateHeadersIn(message.headers);
  return { ...message, headers: message.headers.filter(({ name }) => !unsent.isOfDraft(name)) };
}

type MessageHeaders = Omit<OutgoingMessage, 'html' | 'plainText' | 'attachments'>;

function readHeaders({ headers, addresses, charset }: ReadParts, given: Omit<MessageContext, 'reply'>): MessageHeaders {
  const value = (key: string): string => firstValue(headers, key, charset);
  const ids = (key: string): string[] => readMessageIds(decodeHeader(rawValues(headers, key).join(' '), charset));
  const people = (key: string): Recipient[] => readEntries(addresses, key).map(toRecipient);
  const from = readFrom(addresses);
  const unsent = privateHeadersIn(headers.map(({ name, raw: value }) => ({ name, value })));
  return {
    from: from.identifier.includes('@') ? toRecipient(from) : given.from,
    to: people('to'),
    cc: people('cc'),
    bcc: people('bcc'),
    replyTo: people('reply-to'),
    subject: value('subject'),
    messageId: readMessageId(value('message-id')) ?? given.messageId,
    date: readDate(value('date')) ?? given.date,
    inReplyTo: ids('in-reply-to')[0] ?? null,
    references: ids('references'),
    headers: headers
      .filter(({ name }) => !isContentHeader(name) && !unsent.isTrace(name))
      .map((header) => toHeader(header, charset)),
  };
}

function toRecipient({ identifier, display_name: name }: Attendee): Recipient {
  return { email: identifier, ...(name === '' ? {} : { display_name: name }) };
}

/** ASCII values stay unchanged: encoded words may be part of a structure. */
function toHeader({ name, raw }: RawHeader, charset: string | null): Header {
  return { name, value: /^[\x20-\x7e\t]*$/.test(raw) ? raw : decodeHeader(raw, charset) };
}

async function readFiles(parts: readonly Part[], html: string): Promise<OutgoingAttachment[]> {
  const files = parts.filter((part) => part.role === 'file');
  const attachments = toAttachments(files, html);
  return Promise.all(
    attachments.map(async ({ name, mime, cid, inline, content }, index) => ({
      filename: files[index]?.filename ? name : null,
      contentType: contentTypeOf(files[index], mime),
      cid,
      inline,
      content: 'path' in content ? await readFile(content.path) : content,
    })),
  );
}

/** The media type with its parameters (charset, method, …), without the parameters that name the file. */
function contentTypeOf(part: Part | undefined, mime: string): string {
  const declared = part?.declared ?? '';
  if (!declared.toLowerCase().startsWith(mime)) return mime;
  const parameters = [...declared.slice(mime.length).matchAll(/;\s*([\w.-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]+)/g)];
  const kept = parameters
    .filter(([, key = '']) => !/^(name|boundary)$/i.test(key))
    .map(([, key, value]) => `${key}=${value}`);
  return [mime, ...kept].join('; ');
}
