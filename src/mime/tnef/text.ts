import { isUtf8 } from 'node:buffer';
import iconv from 'iconv-lite';

/** The code page of text where none is named: Windows-1252. */
export const ANSI = 'cp1252';

/**
 * Decodes a text up to its U+0000. `charset` is utf-16le, or `cp` with the number of a code page. An unknown code page is
 * read as UTF-8 or Windows-1252, without a detector.
 */
export function decodeText(bytes: Buffer, charset: string): string {
  const known = iconv.encodingExists(charset) ? charset : isUtf8(bytes) ? 'utf-8' : ANSI;
  const text = iconv.decode(bytes, known);
  const end = text.indexOf('\0');
  return end < 0 ? text : text.slice(0, end);
}
