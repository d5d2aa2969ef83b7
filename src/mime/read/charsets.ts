import { isUtf8 } from 'node:buffer';
import { analyse } from 'chardet';
import iconv from 'iconv-lite';
import libcharset from 'libmime/lib/charset.js';
import { decodeHz, decodeIso2022Kr, decodeJohab } from './old-charsets.ts';
import { countUtf8, decodeMixedUtf8 } from './utf8.ts';

/** Labels without information: the bytes decide. */
const UNLABELLED =
  /^(us-?ascii|ascii|ansi_x3\.4-19(68|86)|iso646-us|7-?bit|8-?bit|binary|unknown.*|x-unknown|default|none|undefined|user-defined|x-user-defined|charset|\?+)?$/;
const UTF8 = /^(utf-?8|unicode-1-1-utf-8|cp65001|65001|utf8mb4|utf-8-sig)$/;
/** Charsets whose text of ASCII or UTF-8 has bytes of zero, or is another: programs name them without using them. */
const WIDE = /^(utf-?(16|32)(le|be)?|ucs-?[24]|unicode)$/;
const ISO_2022_JP = /\x1b\$[@B]|\x1b\([JB]/;
const ASCII_BYTES = /^[\0-\x7f]*$/;

/** libmime refuses UTF-7, which smuggles tags into text that is shown as HTML unescaped. Here it is decoded first. */
const decodeUtf7 = (bytes: Buffer): string => iconv.decode(bytes, 'utf-7');

/** iconv-lite has the currency sign that the euro sign replaced in 1998. */
const decodeMacRoman = (bytes: Buffer): string => new TextDecoder('macintosh').decode(bytes);

/** Charsets that libmime does not decode, at least not under that name. */
const OWN: Record<string, (bytes: Buffer) => string> = {
  'hz-gb-2312': (bytes) => decodeHz(bytes, decodeAs),
  hz: (bytes) => decodeHz(bytes, decodeAs),
  'iso-2022-kr': (bytes) => decodeIso2022Kr(bytes, decodeAs),
  csiso2022kr: (bytes) => decodeIso2022Kr(bytes, decodeAs),
  johab: (bytes) => decodeJohab(bytes, decodeAs),
  cp1361: (bytes) => decodeJohab(bytes, decodeAs),
  ms1361: (bytes) => decodeJohab(bytes, decodeAs),
  'utf-7': decodeUtf7,
  utf7: decodeUtf7,
  'unicode-1-1-utf-7': decodeUtf7,
  'x-unicode-2-0-utf-7': decodeUtf7,
  macintosh: decodeMacRoman,
  mac: decodeMacRoman,
  macroman: decodeMacRoman,
  csmacintosh: decodeMacRoman,
  'x-mac-roman': decodeMacRoman,
};
const ALIASES: Record<string, string> = {
  unicode: 'utf-16',
  'x-mac-greek': 'macgreek',
  'x-mac-turkish': 'macturkish',
  'x-mac-centraleurroman': 'maccenteuro',
  'x-mac-croatian': 'maccroatian',
  'x-mac-romanian': 'macromania',
  'x-euc-kr': 'euc-kr',
  'x-big5': 'big5',
  'x-windows-949': 'cp949',
  uhc: 'cp949',
  'cn-gb': 'gb2312',
};

/**
 * Decodes bytes. Without a useful label, or with that of UTF-16 where they are UTF-8: UTF-8 when most bytes beyond ASCII are
 * valid UTF-8, else the first useful of `hints`, else the charset that a detector finds, else Windows-1252. Never throws, and
 * loses no byte: an unknown charset is treated like a missing one, and invalid bytes within UTF-8 are read as Windows-1252.
 */
export function decodeBytes(bytes: Buffer, label: string | null, ...hints: readonly (string | null)[]): string {
  const charset = nameOf(label);
  if (UNLABELLED.test(charset) || (WIDE.test(charset) && isNarrow(bytes))) return decodeUnlabelled(bytes, hints);
  if (!UTF8.test(charset)) {
    if (!isKnown(charset)) return decodeUnlabelled(bytes, hints);
    return withoutMark(isMislabelled(bytes, charset) ? bytes.toString('utf8') : decodeAs(bytes, charset));
  }
  if (isUtf8(bytes)) return withoutMark(bytes.toString('utf8'));
  const { valid, invalid } = countUtf8(bytes);
  return valid >= invalid ? withoutMark(decodeMixedUtf8(bytes)) : decodeLegacy(bytes, hints);
}

const CHINESE = /^(gb_?2312(-80)?|gbk|gb18030|cp936|ms936|x-gbk|euc-cn|chinese|big5(-hkscs)?|x-big5|cp950)$/;
/** Fewer characters of three bytes may be both. */
const MIN_UTF8 = 4;

/** UTF-8 that is labelled as another charset for Chinese: text of these is hardly ever valid UTF-8. */
function isMislabelled(bytes: Buffer, charset: string): boolean {
  if (!CHINESE.test(charset) || !isUtf8(bytes)) return false;
  let found = 0;
  for (const byte of bytes) if (byte >= 0xe0 && ++found >= MIN_UTF8) return true;
  return false;
}

/** Decodes a header value, given as one character a byte: ASCII, else as decodeBytes does. */
export function decodeHeaderBytes(binary: string, ...hints: readonly (string | null)[]): string {
  if (ASCII_BYTES.test(binary) && !binary.includes('\x1b') && !binary.includes('~{')) return binary;
  return decodeUnlabelled(Buffer.from(binary, 'latin1'), hints);
}

const isNarrow = (bytes: Buffer): boolean => isUtf8(bytes) && !bytes.includes(0);

/**
 * Whether a charset label names a charset other than ASCII and UTF-8, in which other texts of the mail may be. UTF-16 is none:
 * an HTML that could be read far enough to find this name is in another.
 */
export function isUsefulHint(label: string | null): boolean {
  const charset = nameOf(label);
  return ![UNLABELLED, UTF8, WIDE].some((names) => names.test(charset)) && isKnown(charset);
}

function nameOf(label: string | null): string {
  return (label ?? '')
    .trim()
    .toLowerCase()
    .replace(/^["']+/, '')
    .replace(/(?<!["';,])["';,]+$/, '');
}

function decodeUnlabelled(bytes: Buffer, hints: readonly (string | null)[]): string {
  if (bytes.includes(0x1b) && ISO_2022_JP.test(bytes.toString('latin1', 0, 64 * 1024)))
    return decodeAs(bytes, 'iso-2022-jp');
  if (isUtf8(bytes)) return withoutMark(bytes.toString('utf8'));
  const { valid, invalid } = countUtf8(bytes);
  return valid > invalid ? withoutMark(decodeMixedUtf8(bytes)) : decodeLegacy(bytes, hints);
}

function decodeLegacy(bytes: Buffer, hints: readonly (string | null)[]): string {
  const hint = hints.find(isUsefulHint) ?? detected(bytes) ?? 'windows-1252';
  return withoutMark(decodeAs(bytes, nameOf(hint)));
}

const MAX_DETECTED = 32 * 1024;
/** A detector cannot judge fewer bytes beyond ASCII. */
const MIN_HIGH = 6;
/** Of a hundred characters: Latin scripts have fewer beyond ASCII, all others more. */
const LATIN_SHARE = 40;
const MIN_CONFIDENCE = 20;

/** The charset that a detector finds; null where it cannot be trusted. */
function detected(bytes: Buffer): string | null {
  const sample = bytes.subarray(0, MAX_DETECTED);
  let high = 0;
  let latin = 0;
  for (const byte of sample) {
    if (byte >= 0x80) high += 1;
    else if ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a) latin += 1;
  }
  if (high < MIN_HIGH) return null;
  const isLatin = high * 100 < (high + latin) * LATIN_SHARE;
  const found = analyse(sample)
    .filter(({ name }) => !/^(utf-|ascii)/i.test(name))
    .filter(({ name }) => /^(iso-8859-[1-49]|iso-8859-1[0345]|windows-125[0247])$/i.test(name) === isLatin);
  const [best] = found;
  return best && best.confidence >= MIN_CONFIDENCE && isKnown(best.name.toLowerCase()) ? best.name : null;
}

/** Looking up an unknown charset is slow, and hostile mail names many. */
const known = new Map<string, boolean>();
const MAX_KNOWN = 1_000;
const MAX_NAME = 40;

function isKnown(charset: string): boolean {
  if (charset.length > MAX_NAME) return false;
  let is = known.get(charset);
  if (is === undefined) {
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(charset, (is = lookUp(charset)));
  }
  return is;
}

function lookUp(charset: string): boolean {
  if (charset in OWN || charset in ALIASES || /^(utf-?7|iso-?2022-?jp|jis|eucjp)/.test(charset)) return true;
  return iconv.encodingExists(charset) || iconv.encodingExists(libcharset.normalizeCharset(charset));
}

/** Its text is in 7 bits (RFC 1468). */
const JIS = /^(jis|(cs)?iso-?2022-?jp)/;

/** Another charset under the name of ISO-2022-JP. */
function decodeJapanese(bytes: Buffer): string {
  for (const charset of ['utf-8', 'euc-jp', 'shift_jis']) {
    try {
      return new TextDecoder(charset, { fatal: true }).decode(bytes);
    } catch {
      // try the next decoder
    }
  }
  return decodeUnlabelled(bytes, []);
}

function decodeAs(bytes: Buffer, charset: string): string {
  try {
    if (JIS.test(charset) && bytes.some((byte) => byte >= 0x80)) {
      if (!bytes.includes(0x1b)) return decodeJapanese(bytes);
      // the decoder would misread these
      return libcharset.decode(Buffer.from(bytes.map((byte) => (byte >= 0x80 ? 0x3f : byte))), charset);
    }
    const own = OWN[charset];
    return own ? own(bytes) : libcharset.decode(bytes, ALIASES[charset] ?? charset);
  } catch {
    return bytes.toString('latin1');
  }
}

function withoutMark(text: string): string {
  return text.startsWith('\ufeff') ? text.slice(1) : text;
}
