import type { TransferEncoding } from './field-value.ts';

/** Decodes a transfer encoding piece by piece, in constant memory and linear time. */
export interface TransferDecoder {
  write(piece: Buffer): Buffer;
  end(): Buffer;
}

const NOTHING = Buffer.alloc(0);

/** A decoder for the content of a file; null when its bytes stay unchanged. */
export function decoderOf(encoding: TransferEncoding): TransferDecoder | null {
  if (encoding === 'base64') return createBase64();
  if (encoding === 'quoted-printable') return createQuotedPrintable();
  return encoding === 'uuencode' ? createUuencode() : null;
}

/** RFC 2045 6.8: characters outside of the alphabet are ignored. Several padded runs may follow one another. */
function createBase64(): TransferDecoder {
  let carry = '';
  return {
    write(piece) {
      const digits = carry + piece.toString('latin1').replace(/[^A-Za-z0-9+/=]/g, '');
      const open = digits.lastIndexOf('=') + 1;
      const end = digits.length - ((digits.length - open) % 4);
      carry = digits.slice(end);
      return decodedRuns(digits.slice(0, end));
    },
    end: () => Buffer.from(carry, 'base64'),
  };
}

const TAB = 0x09;
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const EQUALS = 0x3d;
/** A longer run of white space is content: RFC 2045 6.7 allows 76 characters in a line. */
const MAX_RUN = 1000;

const HEX = new Int8Array(256).fill(-1);
for (const [value, digit] of [...'0123456789abcdef'].entries()) {
  HEX[digit.charCodeAt(0)] = value;
  HEX[digit.toUpperCase().charCodeAt(0)] = value;
}
const hexOf = (byte: number | undefined): number => (byte === undefined ? -1 : (HEX[byte] as number));

/** RFC 2045 6.7; invalid escapes stay unchanged, as the RFC proposes. */
function createQuotedPrintable(): TransferDecoder {
  let carry: Buffer = NOTHING;

  const decode = (piece: Buffer, isLast: boolean): Buffer => {
    const data = carry.length > 0 ? Buffer.concat([carry, piece]) : piece;
    const out = Buffer.allocUnsafe(data.length);
    let length = 0;
    let at = 0;
    while (at < data.length) {
      const byte = data[at] as number;
      // Most white space is one blank between two words.
      if ((byte !== EQUALS && byte !== SPACE && byte !== TAB) || (byte === SPACE && (data[at + 1] ?? 0) > EQUALS)) {
        out[length++] = byte;
        at += 1;
        continue;
      }
      const step = byte === EQUALS ? readEscape(data, at, isLast) : readSpaces(data, at, isLast);
      if (step === null) break;
      for (const value of step.bytes) out[length++] = value;
      at = step.next;
    }
    carry = Buffer.from(data.subarray(at));
    return out.subarray(0, length);
  };
  return { write: (piece) => decode(piece, false), end: () => decode(NOTHING, true) };
}

type Step = { bytes: Iterable<number>; next: number } | null;

/** `=3D`, or a soft line break with the white space before its line end; null: more bytes are needed. */
function readEscape(data: Buffer, at: number, isLast: boolean): Step {
  const [high, low] = [hexOf(data[at + 1]), hexOf(data[at + 2])];
  if (high >= 0 && low >= 0) return { bytes: [high * 16 + low], next: at + 3 };
  if (data.length - at < 3 && !isLast) return null;
  const end = afterSpaces(data, at + 1);
  if (end - at > MAX_RUN) return { bytes: [EQUALS], next: at + 1 };
  if (end >= data.length) return isLast ? { bytes: [], next: data.length } : null;
  if (data[end] === LF) return { bytes: [], next: end + 1 };
  if (data[end] !== CR) return { bytes: [EQUALS], next: at + 1 };
  if (end + 1 >= data.length && !isLast) return null;
  return { bytes: [], next: data[end + 1] === LF ? end + 2 : end + 1 };
}

/** Reads white space, which is dropped at the end of a line. */
function readSpaces(data: Buffer, at: number, isLast: boolean): Step {
  const end = afterSpaces(data, at);
  const isEnd = end >= data.length;
  if (isEnd && !isLast && end - at <= MAX_RUN) return null;
  const isTrailing = isEnd ? isLast : data[end] === LF || data[end] === CR;
  return { bytes: isTrailing && end - at <= MAX_RUN ? [] : data.subarray(at, end), next: end };
}

function afterSpaces(data: Buffer, at: number): number {
  let end = at;
  while (data[end] === SPACE || data[end] === TAB) end += 1;
  return end;
}

const BEGIN = /^begin(|-base64) [0-7]{3,4} /;

/** uuencode, as mail programs of the 1990s sent files: the lines between `begin` and `end`. */
function createUuencode(): TransferDecoder {
  let carry = '';
  let state: 'before' | 'inside' | 'base64' | 'after' = 'before';

  const decodeLine = (line: string): Buffer => {
    const [, variant] = (state === 'before' && BEGIN.exec(line)) || [];
    if (variant !== undefined) state = variant === '' ? 'inside' : 'base64';
    else if (state === 'inside' && /^end\s*$/.test(line)) state = 'after';
    else if (state === 'inside') return uudecoded(line);
    // POSIX uuencode -m
    else if (state === 'base64' && /^====\s*$/.test(line)) state = 'after';
    else if (state === 'base64') return Buffer.from(line, 'base64');
    return NOTHING;
  };
  return {
    write(piece) {
      const lines = (carry + piece.toString('latin1')).split(/\r?\n/);
      carry = lines.pop() ?? '';
      return Buffer.concat(lines.map(decodeLine));
    },
    end: () => decodeLine(carry),
  };
}

function uudecoded(line: string): Buffer {
  const six = (at: number): number => ((line.charCodeAt(at) || SPACE) - SPACE) & 0x3f;
  const length = six(0);
  const out = Buffer.alloc(length);
  for (let at = 1, to = 0; to < length; at += 4) {
    const bits = (six(at) << 18) | (six(at + 1) << 12) | (six(at + 2) << 6) | six(at + 3);
    out[to++] = (bits >> 16) & 0xff;
    if (to < length) out[to++] = (bits >> 8) & 0xff;
    if (to < length) out[to++] = bits & 0xff;
  }
  return out;
}

const FOREIGN = /[^A-Za-z0-9+/=\s]/g;
/** Percentage of bytes outside base64 from which a text counts as not encoded. */
const MOST_FOREIGN = 5;
const ENCODED_LINE = /[A-Za-z0-9+/]{4,}[ \t]*\r?\n/y;
const LAST_ENCODED_LINE = /[A-Za-z0-9+/]*={0,2}[ \t]*(?:\r?\n|$)/y;

/** The base64 lines before the first other line. One expression for all of them would exhaust the stack. */
function encodedHead(text: string): string {
  let at = /^\s*/.exec(text)?.[0].length ?? 0;
  for (ENCODED_LINE.lastIndex = at; ENCODED_LINE.test(text); ) at = ENCODED_LINE.lastIndex;
  LAST_ENCODED_LINE.lastIndex = at;
  return LAST_ENCODED_LINE.test(text) ? text.slice(0, LAST_ENCODED_LINE.lastIndex) : '';
}

/**
 * Decodes a text in base64. Several padded runs may follow one another; a text that is not base64, or follows the encoded
 * lines (the footer of a mailing list), stays unchanged.
 */
export function decodeBase64Text(encoded: Buffer): Buffer {
  const text = encoded.toString('latin1');
  const foreign = text.match(FOREIGN)?.length ?? 0;
  if (foreign === 0) return decodedRuns(text);
  const head = encodedHead(text);
  const digits = head.replace(/\s+/g, '').length;
  if (digits >= 8 && digits % 4 === 0) return Buffer.concat([decodedRuns(head), encoded.subarray(head.length)]);
  return foreign * 100 > text.length * MOST_FOREIGN ? encoded : decodedRuns(text);
}

function decodedRuns(text: string): Buffer {
  const padding = text.indexOf('=');
  if (padding < 0 || /^=+\s*$/.test(text.slice(padding))) return Buffer.from(text, 'base64');
  return Buffer.concat(text.split(/=+/).map((run) => Buffer.from(run, 'base64')));
}
