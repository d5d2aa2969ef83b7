/*
 * UTF-8 (RFC 3629) that is not whole: which of its bytes are valid, and its text where the others are read as
 * Windows-1252.
 */

/** Bytes of the sequence that begins there; 0 when none does. */
function sequenceAt(bytes: Buffer, at: number): number {
  const first = bytes[at] as number;
  if (first < 0x80) return 1;
  const length =
    first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  if (length === 0 || at + length > bytes.length) return 0;
  for (let next = at + 1; next < at + length; next++) if (((bytes[next] as number) & 0xc0) !== 0x80) return 0;
  const second = bytes[at + 1] as number;
  // Overlong forms, surrogates, and what is beyond U+10FFFF.
  if ((first === 0xe0 && second < 0xa0) || (first === 0xed && second > 0x9f)) return 0;
  return (first === 0xf0 && second < 0x90) || (first === 0xf4 && second > 0x8f) ? 0 : length;
}

/** Whether only the start of a sequence is there, at the end: what a cut left of a letter. */
function isCutOff(bytes: Buffer, at: number): boolean {
  const first = bytes[at] as number;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (at === 0 || first < 0xc2 || first > 0xf4 || at + length <= bytes.length) return false;
  return bytes.subarray(at + 1).every((byte) => (byte & 0xc0) === 0x80);
}

/** Sequences beyond ASCII that are valid, and bytes that belong to none. A sequence cut off at the end does not count. */
export function countUtf8(bytes: Buffer): { valid: number; invalid: number } {
  let valid = 0;
  let invalid = 0;
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceAt(bytes, at);
    if (length === 0 && isCutOff(bytes, at)) break;
    if (length > 1) valid += 1;
    else if (length === 0) invalid += 1;
    at += Math.max(1, length);
  }
  return { valid, invalid };
}

const windows1252 = new TextDecoder('windows-1252');

/** UTF-8, with the bytes that belong to no sequence read as Windows-1252. */
export function decodeMixedUtf8(bytes: Buffer): string {
  const pieces: string[] = [];
  let start = 0;
  let at = 0;
  while (at < bytes.length) {
    const length = sequenceAt(bytes, at);
    if (length === 0 && isCutOff(bytes, at)) break;
    if (length === 0) {
      pieces.push(bytes.toString('utf8', start, at), windows1252.decode(bytes.subarray(at, at + 1)));
      start = at + 1;
    }
    at += Math.max(1, length);
  }
  pieces.push(bytes.toString('utf8', start, at));
  return pieces.join('');
}
