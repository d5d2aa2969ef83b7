import { isUtf8 } from 'node:buffer';
import iconv from 'iconv-lite';

/*
 * Invalid UTF-8 (RFC 3629): counts its valid bytes, and decodes it with the others read as Windows-1252.
 */

/** The length in bytes of a sequence with this first byte. */
function lengthOf(first: number): number {
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}

/** The length of the sequence at `at`; 0 without one. */
function sequenceAt(bytes: Buffer, at: number): number {
  const first = bytes[at] as number;
  if (first < 0x80) return 1;
  const length = lengthOf(first);
  const isWhole = first >= 0xc2 && at + length <= bytes.length;
  return isWhole && isUtf8(bytes.subarray(at, at + length)) ? length : 0;
}

/** Whether the bytes end with an incomplete sequence, cut within a character. */
function isCutOff(bytes: Buffer, at: number): boolean {
  const first = bytes[at] as number;
  const length = lengthOf(first);
  if (at === 0 || first < 0xc2 || first > 0xf4 || at + length <= bytes.length) return false;
  return bytes.subarray(at + 1).every((byte) => (byte & 0xc0) === 0x80);
}

/** Counts valid sequences beyond ASCII and invalid bytes. One cut off at the end does not count if others are valid. */
export function countUtf8(bytes: Buffer): { valid: number; invalid: number } {
  let valid = 0;
  let invalid = 0;
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceAt(bytes, at);
    if (length === 0 && valid > 0 && isCutOff(bytes, at)) break;
    if (length > 1) valid += 1;
    else if (length === 0) invalid += 1;
    at += Math.max(1, length);
  }
  return { valid, invalid };
}

/** Decodes UTF-8, with invalid bytes read as Windows-1252. */
export function decodeMixedUtf8(bytes: Buffer): string {
  const pieces: string[] = [];
  let start = 0;
  let at = 0;
  while (at < bytes.length) {
    const length = sequenceAt(bytes, at);
    if (length === 0 && isCutOff(bytes, at)) break;
    if (length === 0) {
      pieces.push(bytes.toString('utf8', start, at), iconv.decode(bytes.subarray(at, at + 1), 'windows-1252'));
      start = at + 1;
    }
    at += Math.max(1, length);
  }
  pieces.push(bytes.toString('utf8', start, at));
  return pieces.join('');
}
