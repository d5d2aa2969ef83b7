import addressparser from 'nodemailer/lib/addressparser';
import { encodeWord } from 'nodemailer/lib/mime-funcs';
import MimeNode from 'nodemailer/lib/mime-node';
import type { Recipient } from '../../contract/sending.ts';

/*
 * Header fields as they are sent: ASCII, folded (RFC 5322 2.2.3), encoded words where needed (RFC 2047). nodemailer
 * leaves long words, and text that looks like an encoded word, as they are: such lines may be longer than the 998
 * octets that SMTP takes, and such subjects would be read as something else.
 */

const LINE = 76;
/** Words up to this long stay as they are: with any name before them the line is within 998 octets. */
const MAX_WORD = 800;
const ENCODED_WORD = 52;
// biome-ignore lint/suspicious/noControlCharactersInRegex: what no header may hold
const CONTROL = /[\0-\x1f\x7f]+/g;

/** One field, folded, without the line break at its end; '' when there is no value. */
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

/** Unstructured text, as of a subject: it is read just as it is given. */
export function encodeText(text: string): string {
  const clean = text.replace(CONTROL, ' ');
  return needsEncoding(clean) || clean.includes('=?') || clean !== clean.trim() ? encoded(clean) : clean;
}

/** The value of a header that may have structure or be encoded already: changed only where it cannot be sent. */
export function encodeValue(value: string): string {
  const clean = value.replace(CONTROL, ' ').trim();
  return needsEncoding(clean) ? encoded(clean) : clean;
}

/** The value of an address header; domains beyond ASCII in punycode. */
export function encodeAddresses(people: readonly Recipient[]): string {
  return people
    .filter(({ email }) => email.trim() !== '')
    .map(encodeAddress)
    .join(', ');
}

/** An address as the header and SMTP are told it: the domain in punycode, the local part quoted where it must be. */
export function plainAddress(email: string): string {
  const value = MimeNode.encodeHeaderValue('To', [{ address: email, name: '' }]);
  return value.startsWith('<') && value.endsWith('>') ? value.slice(1, -1) : value;
}

/** The mailboxes of an address header (undecoded), groups flattened; what holds no address is left out. */
export function parseAddresses(value: string): Recipient[] {
  const flat = addressparser(value, { flatten: true });
  return flat.flatMap(({ address, name }) =>
    address ? [{ email: address, ...(name ? { display_name: name } : {}) }] : [],
  );
}

function encodeAddress({ email, display_name: name = '' }: Recipient): string {
  const address = plainAddress(email);
  const clean = name.replace(CONTROL, ' ').replace(/ {2,}/g, ' ').trim();
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

function longestWord(text: string): number {
  let longest = 0;
  let start = 0;
  while (start <= text.length) {
    const space = text.indexOf(' ', start);
    const end = space < 0 ? text.length : space;
    longest = Math.max(longest, end - start);
    start = end + 1;
  }
  return longest;
}

/** Encoded words: Q where most of it is Latin, so that it can be read, else B. */
function encoded(text: string): string {
  const latin = text.match(/[a-z]/gi)?.length ?? 0;
  const other = text.match(/[^\x20-\x7e]/g)?.length ?? 0;
  return encodeWord(text, other < latin ? 'Q' : 'B', ENCODED_WORD);
}
