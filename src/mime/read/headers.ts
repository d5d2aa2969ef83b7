import type { EmailAddress } from 'mailparser';
import { withUnicodeDomain } from '../../mail-wire/addresses.ts';
import type { Attendee, Header } from '../../contract/email.ts';
import type { AddressFields } from './address-fields.ts';
import { storable } from '../../runtime/storable.ts';
import { decodeHeaderBytes } from './charsets.ts';
import { replaceEncodedWords } from './encoded-words.ts';
import type { RawHeader } from './raw-header.ts';

const MAX_NAME = 998;

/** Reads one header field, folded or not; null for any other line. */
export function readHeaderLine(line: string): RawHeader | null {
  const colon = line.indexOf(':');
  const name = line.slice(0, Math.max(colon, 0)).trim();
  if (name === '' || name.length > MAX_NAME || /\s/.test(name)) return null;
  return { name, key: name.toLowerCase(), raw: unfold(line.slice(colon + 1)) };
}

/** Splits the header of a message, given as one character a byte; stops at the empty line that ends it. */
export function splitHeader(source: string): RawHeader[] {
  const headers: RawHeader[] = [];
  let field = '';
  const finish = (): void => {
    const header = readHeaderLine(field);
    if (header) headers.push(header);
    field = '';
  };
  let start = 0;
  while (start < source.length) {
    const newline = source.indexOf('\n', start);
    const end = newline < 0 ? source.length : newline;
    const line = source.slice(start, source[end - 1] === '\r' && end > start ? end - 1 : end);
    start = end + 1;
    if (line === '') break;
    if (line[0] !== ' ' && line[0] !== '\t') finish();
    field = field === '' ? line : `${field}\n${line}`;
  }
  finish();
  return headers;
}

/**
 * The value of a header as text in one line: encoded words (RFC 2047), which may hold line breaks, and charset decoded. `hint`
 * is the charset of the body.
 */
export function decodeHeader(raw: string, hint: string | null): string {
  const text = replaceEncodedWords(
    raw,
    (words) => words,
    (bytes) => decodeHeaderBytes(bytes, hint),
  );
  return storable(text.replace(/[\r\n]+[ \t]*/g, ' ')).trim();
}

/** All headers in order, as the API shows them. (mailparser returns them by name, some only once.) */
export function decodeHeaders(headers: readonly RawHeader[], hint: string | null): Header[] {
  return headers.map(({ name, raw }) => ({
    name: storable(decodeHeaderBytes(name, hint)),
    value: decodeHeader(raw, hint),
  }));
}

/** The raw values of all headers with this lower-case name, in order. */
export function rawValues(headers: readonly RawHeader[], key: string): string[] {
  return headers.filter((header) => header.key === key).map((header) => header.raw);
}

/** The decoded value of the first non-empty header with this lower-case name; '' without one. */
export function firstValue(headers: readonly RawHeader[], key: string, hint: string | null = null): string {
  const raw = headers.find((header) => header.key === key && header.raw !== '')?.raw;
  return raw === undefined ? '' : decodeHeader(raw, hint);
}

function unfold(value: string): string {
  return value.replace(/(?:\r?\n|\r)[ \t]*/g, ' ').trim();
}

const MAX_ADDRESS = 320;

export const NOBODY: Attendee = { identifier: '', display_name: '', identifier_type: 'EMAIL_ADDRESS' };

/** An address of four bytes takes eighty in JSON, and each page contains all of them. */
const MAX_ADDRESSES = 2_000;

/**
 * The first 2,000 mailboxes of the headers with this lower-case name; groups are flattened, entries without an address
 * omitted. The source has all of them.
 */
export function readAddresses(fields: AddressFields, key: string): Attendee[] {
  return attendees(fields, key)
    .filter((attendee) => attendee.identifier !== '')
    .slice(0, MAX_ADDRESSES);
}

/** All entries of the headers with this lower-case name, also those that are a name alone, with an empty identifier. */
export function readEntries(fields: AddressFields, key: string): Attendee[] {
  return attendees(fields, key).filter(({ identifier, display_name }) => identifier !== '' || display_name !== '');
}

/** Whether a message has more addresses under this lower-case header name than readAddresses returns. */
export function hasMoreAddresses(fields: AddressFields, key: string): boolean {
  const entries = fields.get(key) ?? [];
  return entries.reduce((sum, { group }) => sum + (group?.length ?? 1), 0) > MAX_ADDRESSES;
}

/** The author: the first mailbox of From; with the name and an empty identifier when it has no address. */
export function readFrom(fields: AddressFields): Attendee {
  const all = attendees(fields, 'from');
  return all.find((attendee) => attendee.identifier !== '') ?? all[0] ?? NOBODY;
}

function attendees(fields: AddressFields, key: string): Attendee[] {
  const entries = fields.get(key) ?? [];
  return entries.flatMap((entry) => entry.group ?? [entry]).map(toAttendee);
}

function toAttendee({ name: rawName, address = '' }: EmailAddress): Attendee {
  const name = rawName.replace(/\s+/g, ' ').trim();
  // `Undisclosed-Recipient:@host;` is an empty group in the wrong place
  if (/^[^"]*:@[^"]*;$/.test(address.trim())) return attendee('', name);
  if (address.trim() !== '') return attendee(address.trim(), name === address ? '' : name);
  // A local user: `From: root`.
  return name !== '' && !/\s/.test(name) ? attendee(name, '') : attendee('', name);
}

function attendee(address: string, name: string): Attendee {
  return {
    identifier: storable(address.length > MAX_ADDRESS ? '' : withUnicodeDomain(address)),
    display_name: storable(name),
    identifier_type: 'EMAIL_ADDRESS',
  };
}
