import { isUtf8 } from 'node:buffer';
import libcharset from 'libmime/lib/charset.js';

/** Labels that say nothing: the bytes themselves decide. */
const UNLABELLED =
  /^(us-?ascii|ascii|ansi_x3\.4-1968|7bit|8bit|binary|unknown.*|x-unknown|default|none|undefined|\?+)?$/;
const ISO_2022_JP = /\x1b\$[@B]|\x1b\([JB]/;
const ASCII_BYTES = /^[\0-\x7f]*$/;

/**
 * Bytes as text. Without a label: UTF-8 where the bytes are valid UTF-8, else `hint`, else Windows-1252. Never throws: an
 * unknown charset is treated like a missing one.
 */
export function decodeBytes(bytes: Buffer, label: string | null, hint: string | null = null): string {
  const charset = (label ?? '').trim().toLowerCase();
  if (UNLABELLED.test(charset)) return decodeUnlabelled(bytes, hint);
  if (/^utf-?8$/.test(charset)) return withoutMark(isUtf8(bytes) ? bytes.toString('utf8') : decodeBrokenUtf8(bytes));
  return withoutMark(decodeAs(bytes, charset));
}

/** A header value, given as one character a byte, as text: ASCII, else UTF-8, else `hint`, else Windows-1252. */
export function decodeHeaderBytes(binary: string, hint: string | null): string {
  if (ASCII_BYTES.test(binary) && !binary.includes('\x1b')) return binary;
  return decodeUnlabelled(Buffer.from(binary, 'latin1'), hint);
}

function decodeUnlabelled(bytes: Buffer, hint: string | null): string {
  if (bytes.includes(0x1b) && ISO_2022_JP.test(bytes.toString('latin1', 0, 64 * 1024)))
    return decodeAs(bytes, 'iso-2022-jp');
  if (isUtf8(bytes)) return withoutMark(bytes.toString('utf8'));
  const charset = (hint ?? '').trim().toLowerCase();
  const useful = charset !== '' && !UNLABELLED.test(charset) && !/^utf-?8$/.test(charset);
  return useful ? decodeAs(bytes, charset) : decodeBrokenUtf8(bytes);
}

/** UTF-8 with some broken bytes stays UTF-8; bytes without a single UTF-8 sequence are Windows-1252. */
function decodeBrokenUtf8(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  return /[\u0080-\ufffc]|\p{Cs}|[\u{10000}-\u{10ffff}]/u.test(text) ? text : decodeAs(bytes, 'windows-1252');
}

function decodeAs(bytes: Buffer, charset: string): string {
  try {
    return libcharset.decode(bytes, charset);
  } catch {
    return bytes.toString('latin1');
  }
}

function withoutMark(text: string): string {
  return text.startsWith('\ufeff') ? text.slice(1) : text;
}

const UNSTORABLE = /[\0\ud800-\udfff]/u;
const EACH_UNSTORABLE = /\0|[\ud800-\udfff]/gu;

/** Text without U+0000 and lone surrogates: Postgres refuses both in text and jsonb. */
export function storable(text: string): string {
  return UNSTORABLE.test(text) ? text.replace(EACH_UNSTORABLE, (char) => (char === '\0' ? '' : '\ufffd')) : text;
}
