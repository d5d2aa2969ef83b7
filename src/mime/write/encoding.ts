import libmime from 'libmime';
import addressparser from 'nodemailer/lib/addressparser';
import { encodeWord } from 'nodemailer/lib/mime-funcs';
import MimeNode from 'nodemailer/lib/mime-node';
import type { Recipient } from '../../contract/sending.ts';
import { replaceEncodedWords } from '../read/encoded-words.ts';
import { readFieldValue } from '../read/field-value.ts';

/*
 * Header fields as they are sent: ASCII, folded (RFC 5322 2.2.3), encoded words where needed (RFC 2047). nodemailer leaves
 * long words, and text that looks like an encoded word, unchanged: such lines may exceed the 998 octets of SMTP, and such
 * subjects would be decoded to another text.
 */

const LINE = 76;
/** Longer words are encoded: with any name before it, a word of this length, with the blanks behind it, fits in 998 octets. */
const MAX_WORD = 800;
const ENCODED_WORD = 52;
// biome-ignore lint/suspicious/noControlCharactersInRegex: forbidden in headers
const CONTROL = /[\0-\x1f\x7f]+/g;

/** One field, folded, without the line break at its end; '' without a value. */
export function headerLine(name: string, value: string): string {
  if (value.trim() === '') return '';
  const lines: string[] = [];
  let line = `${name}:`;
  for (const word of value.split(' ')) {
    const isFull = line.length + 1 + word.length > LINE && line !== `${name}:`;
    if (isFull && word !== '' && line.trim() !== '') {
      lines.push(line);
      line = ` ${word}`;
    } else {
      line += ` ${word}`;
    }
  }
  return [...lines, line].join('\r\n');
}

/** Encodes unstructured text such as a subject: readers decode exactly the given text. */
export function encodeText(text: string): string {
  const clean = text.replace(CONTROL, ' ');
  return needsEncoding(clean) || clean.includes('=?') || clean !== clean.trim() ? encoded(clean) : clean;
}

/** Encodes the value of a header that may be structured or already encoded: changed only if it cannot be sent. */
export function encodeValue(value: string): string {
  const clean = value.replace(CONTROL, ' ').trim();
  return needsEncoding(clean) ? encoded(clean) : clean;
}

/** Encodes the value of Content-Type or Content-Disposition, with parameters beyond ASCII or long ones by RFC 2231. */
export function encodeParameters(value: string): string {
  return libmime.buildHeaderValue(readFieldValue(value));
}

/** Encodes the value of an address header; domains beyond ASCII in punycode. An entry without an address is written by its name. */
export function encodeAddresses(people: readonly Recipient[]): string {
  return people
    .map(encodeAddress)
    .filter((entry) => entry !== '')
    .join(', ');
}

/**
 * An address for headers and SMTP: the domain in punycode, the local part quoted where it must be. One with an angle bracket in
 * its local part stays as it is: nodemailer would write another address, and refuses this one in SMTP.
 */
export function plainAddress(email: string): string {
  if (/[<>]/.test(email)) return email.replace(CONTROL, ' ');
  const value = MimeNode.encodeHeaderValue('To', [{ address: email, name: '' }]);
  return value.startsWith('<') && value.endsWith('>') ? value.slice(1, -1) : value;
}

/** The mailboxes of an address header (undecoded); groups are flattened. One that is a name alone has the `email` ''. */
export function parseAddresses(value: string): Recipient[] {
  const flat = addressparser(value, { flatten: true });
  return flat.flatMap(({ address, name }) =>
    address || name ? [{ email: address, ...(name ? { display_name: name } : {}) }] : [],
  );
}

/** A mailbox of parseAddresses with its name as readers see it: encoded words would be encoded a second time. */
export function withDecodedName({ email, display_name: name }: Recipient): Recipient {
  return { email, ...(name === undefined ? {} : { display_name: decodedWords(name) }) };
}

/** Text with its encoded words (RFC 2047) decoded. */
export const decodedWords = (text: string): string => replaceEncodedWords(text, (words) => words);

function encodeAddress({ email, display_name: name = '' }: Recipient): string {
  const address = email.trim() === '' ? '' : plainAddress(email);
  const clean = name.replace(CONTROL, ' ').replace(/ {2,}/g, ' ').trim();
  if (address === '') return clean === '' ? '' : encodeName(clean);
  if (clean === '') return /^[^\s"(),:;<>[\\\]]+$/.test(address) ? address : `<${address}>`;
  return `${encodeName(clean)} <${address}>`;
}

/** A display name as atoms, a quoted string, or encoded words. */
function encodeName(name: string): string {
  if (needsEncoding(name) || name.includes('=?') || longestWord(name) > LINE - 2) return encoded(name);
  return /^[\w ]*$/.test(name) ? name : `"${name.replace(/["\\]/g, '\\$&')}"`;
}

function needsEncoding(text: string): boolean {
  return /[^\x20-\x7e]/.test(text) || longestWord(text) > MAX_WORD;
}

/** The length of the longest word, with the blanks behind it but the one at which a line may be folded. */
function longestWord(text: string): number {
  let longest = 0;
  let start = 0;
  while (start <= text.length) {
    const space = text.indexOf(' ', start);
    let end = space < 0 ? text.length : space;
    while (text[end + 1] === ' ') end += 1;
    longest = Math.max(longest, end - start);
    start = end + 1;
  }
  return longest;
}

/** Encoded words: Q, which people can read, if most of the text is Latin; else B. */
function encoded(text: string): string {
  const latin = text.match(/[a-z]/gi)?.length ?? 0;
  const other = text.match(/[^\x20-\x7e]/g)?.length ?? 0;
  return encodeWord(text, other < latin ? 'Q' : 'B', ENCODED_WORD);
}

const CR = 0x0d;
const LF = 0x0a;
const MAX_LINE = 998;

/** Text or bytes with every line end as CRLF, including lone CR and LF. Bytes with only CRLF are not copied. */
export function toCrlf(text: string): string;
export function toCrlf(bytes: Buffer): Buffer;
export function toCrlf(content: string | Buffer): string | Buffer {
  if (typeof content === 'string') return content.replace(/\r\n|\r|\n/g, '\r\n');
  const bare = countBare(content);
  if (bare === 0) return content;
  const result = Buffer.allocUnsafe(content.length + bare);
  let to = 0;
  let from = 0;
  let lf = content.indexOf(LF);
  let cr = content.indexOf(CR);
  while (lf >= 0 || cr >= 0) {
    const at = lf < 0 || (cr >= 0 && cr < lf) ? cr : lf;
    to += content.copy(result, to, from, at);
    result[to++] = CR;
    result[to++] = LF;
    from = at + (content[at] === CR && content[at + 1] === LF ? 2 : 1);
    if (lf >= 0 && lf < from) lf = content.indexOf(LF, from);
    if (cr >= 0 && cr < from) cr = content.indexOf(CR, from);
  }
  content.copy(result, to, from);
  return result;
}

/** Whether a line of these bytes, which end in CRLF, is longer than SMTP allows (998 octets, RFC 5321 4.5.3.1.6). */
export function hasLongLine(bytes: Buffer): boolean {
  let start = 0;
  while (bytes.length - start > MAX_LINE) {
    const next = bytes.indexOf(LF, start);
    const end = next < 0 ? bytes.length : bytes[next - 1] === CR ? next - 1 : next;
    if (end - start > MAX_LINE) return true;
    if (next < 0) return false;
    start = next + 1;
  }
  return false;
}

/** Number of lone CRs and LFs. */
function countBare(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(LF); at >= 0; at = bytes.indexOf(LF, at + 1)) if (bytes[at - 1] !== CR) count += 1;
  for (let at = bytes.indexOf(CR); at >= 0; at = bytes.indexOf(CR, at + 1)) if (bytes[at + 1] !== LF) count += 1;
  return count;
}
