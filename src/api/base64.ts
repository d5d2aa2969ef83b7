/*
 * Base64 as RFC 4648 4 has it. Buffer drops what it does not know, so that a broken attachment would be sent
 * shortened. Contents are tens of megabytes: they are decoded piece by piece into one small buffer, and counted.
 */

const PIECE_CHARS = 256 * 1024;
const scratch = Buffer.alloc((PIECE_CHARS / 4) * 3);

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
/** Bits of the last character that stand for nothing, by how many characters the last group has. */
const UNUSED_BITS = [0, 0, 0b1111, 0b11];

/**
 * How many bytes a base64 text stands for; null when it is none: another character (line breaks and the URL alphabet
 * too), an impossible length, padding at the wrong place, or bits that would be dropped. The padding may be left out.
 */
export function base64Length(text: string): number | null {
  let length = text.length;
  if (text.endsWith('=')) {
    if (length % 4 !== 0) return null;
    length -= text.endsWith('==') ? 2 : 1;
  }
  const rest = length % 4;
  if (rest === 1 || text.includes('-') || text.includes('_')) return null;
  for (let start = 0; start < length; start += PIECE_CHARS) {
    const piece = text.slice(start, Math.min(start + PIECE_CHARS, length));
    // Buffer looks at the lower eight bits of each character: what is not ASCII may pass for base64
    if (Buffer.byteLength(piece) !== piece.length) return null;
    if (scratch.write(piece, 'base64') !== bytesOf(piece.length)) return null;
  }
  const unused = ALPHABET.indexOf(text.charAt(length - 1)) & (UNUSED_BITS[rest] as number);
  return unused === 0 ? bytesOf(length) : null;
}

function bytesOf(chars: number): number {
  return Math.floor((chars * 3) / 4);
}
