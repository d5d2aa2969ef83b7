import type { Recipient } from '../../contract/sending.ts';
import { newMessageId, readMessageId, readMessageIds, writableId } from '../message-ids.ts';
import { decodeHeaderBytes } from '../read/charsets.ts';
import { decodeHeader, readHeaderLine } from '../read/headers.ts';
import { envelopeOf } from './compose.ts';
import { privateHeadersIn } from './draft-headers.ts';
import {
  decodedWords,
  encodeAddresses,
  encodeParameters,
  encodeValue,
  hasLongLine,
  headerLine,
  parseAddresses,
  toCrlf,
  withDecodedName,
} from './encoding.ts';
import { cappedReferences, type Envelope } from './outgoing-message.ts';

/** A draft, ready to be sent. */
export interface PreparedDraft {
  /** for the Sent folder: with Bcc */
  sentCopy: Buffer;
  /** for the recipients: without Bcc; the same buffer if the draft has none */
  delivered: Buffer;
  envelope: Envelope;
  /** with its angle brackets */
  messageId: string;
  /** the body has a line over 998 octets and cannot be sent unchanged; see draftForSending */
  hasLongLine: boolean;
}

/** A header field: its name and its lines as they are sent, without the last line break: ASCII, except for addresses. */
interface Field {
  /** lower-cased name */
  key: string;
  lines: string;
  value: string;
}

const IDS = /^(message-id|in-reply-to|references)$/;
const ADDRESSES = /^(from|sender|to|cc|bcc|reply-to)$/;
const MAX_LINE = 998;

/**
 * Prepares a draft for sending. Header: Date is new; missing From, Message-ID and MIME-Version are added; private headers of
 * the mail program are removed. The body stays unchanged, except bare line ends. `messageId` null keeps the draft's own.
 */
export function prepareDraft(
  source: Buffer,
  given: { from: Recipient; messageId: string | null; date: Date },
): PreparedDraft {
  const { fields: all, body: rawBody } = splitMessage(source);
  const body = toCrlf(rawBody);
  const unsent = privateHeadersIn(all.map(({ key: name, value }) => ({ name, value })));
  const kept = all.filter(({ key }) => !unsent.isOfDraft(key) && !unsent.isTrace(key));
  const from = kept.find(({ key, value }) => key === 'from' && authorIn(value));
  const ownId = writableId(readMessageId(kept.find(({ key }) => key === 'message-id')?.value ?? ''));
  const people = (name: string): Recipient[] =>
    kept.filter(({ key }) => key === name).flatMap(({ value }) => parseAddresses(value));
  const sender = (from && authorIn(from.value)) ?? given.from;
  const messageId = given.messageId ?? ownId ?? newMessageId(sender.email);
  const fields = replaced(kept, [
    field('Date', given.date.toUTCString().replace('GMT', '+0000')),
    from ?? field('From', encodeAddresses([given.from])),
    field('Message-ID', messageId),
    kept.find(({ key }) => key === 'mime-version') ?? field('MIME-Version', '1.0'),
  ]);
  const sentCopy = written(fields, body);
  const delivered = fields.some(({ key }) => key === 'bcc')
    ? written(
        fields.filter(({ key }) => key !== 'bcc'),
        body,
      )
    : sentCopy;
  const envelope = envelopeOf({
    ...{ from: sender, to: people('to'), cc: people('cc'), bcc: people('bcc') },
    replyTo: people('reply-to'),
  });
  return { sentCopy, delivered, envelope, messageId, hasLongLine: hasLongLine(body) };
}

/** The first mailbox of From that has an address. */
const authorIn = (value: string): Recipient | undefined => parseAddresses(value).find(({ email }) => email !== '');

/** Replaces fields by `replacements` of the same name; each of these names occurs once. */
function replaced(fields: readonly Field[], replacements: readonly Field[]): Field[] {
  const result: Field[] = [];
  const missing = new Map(replacements.map((one) => [one.key, one]));
  const names = new Set(missing.keys());
  for (const one of fields) {
    if (!names.has(one.key)) result.push(one);
    const replacement = missing.get(one.key);
    if (replacement) result.push(replacement);
    missing.delete(one.key);
  }
  return [...missing.values(), ...result];
}

function written(fields: readonly Field[], body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${fields.map(({ lines }) => `${lines}\r\n`).join('')}\r\n`), body]);
}

function field(name: string, value: string): Field {
  return { key: name.toLowerCase(), lines: headerLine(name, value), value };
}

/** Fields and body of a message, without the first line of an mbox file and invalid header lines. */
function splitMessage(source: Buffer): { fields: Field[]; body: Buffer } {
  const blank = endOfHeader(source);
  const lines = source.toString('latin1', 0, blank.start).split(/\r\n|\r|\n/);
  const fields: Field[] = [];
  let pending: string[] = [];
  const finish = (): void => {
    const one = pending.length > 0 ? readField(pending) : null;
    if (one) fields.push(one);
    pending = [];
  };
  for (const line of lines) {
    if (!/^[ \t]/.test(line)) finish();
    if (line.trim() !== '') pending.push(line);
  }
  finish();
  return { fields, body: source.subarray(blank.end) };
}

function readField(lines: string[]): Field | null {
  const header = readHeaderLine(lines.join('\n'));
  if (!header || !/^[!-9;-~]+$/.test(header.name)) return null;
  const { name, key, raw } = header;
  // an encoded word is no id (RFC 2047 5), but some programs write ids so
  const value = IDS.test(key) ? decodeHeader(raw, null) : decodeHeaderBytes(raw, null);
  // A header with encoded ids, bytes beyond ASCII or lines beyond the limit cannot be sent.
  const isSendable = value === raw && /^[\t\x20-\x7e]*$/.test(raw) && lines.every((line) => line.length <= MAX_LINE);
  if (isSendable) return { key, lines: lines.join('\r\n'), value };
  const encoded = encodedAs(key, value);
  return encoded === '' ? null : { key, lines: headerLine(name, encoded), value };
}

function encodedAs(key: string, value: string): string {
  if (ADDRESSES.test(key)) return encodeAddresses(parseAddresses(value).map(withDecodedName));
  if (/^(in-reply-to|references)$/.test(key)) return cappedReferences(readMessageIds(value)).join(' ');
  return /^content-(type|disposition)$/.test(key) ? encodeParameters(value) : encodeValue(decodedWords(value));
}

/** Where the empty line that ends the header begins and ends; both at the end of a message that is all header. */
function endOfHeader(source: Buffer): { start: number; end: number } {
  let start = 0;
  while (start < source.length) {
    const newline = source.indexOf(0x0a, start);
    if (newline < 0) break;
    if (newline === start || (newline === start + 1 && source[start] === 0x0d)) return { start, end: newline + 1 };
    start = newline + 1;
  }
  return { start: source.length, end: source.length };
}
