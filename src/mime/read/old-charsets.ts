/*
 * Charsets of old mail that iconv-lite lacks. Each is another form of one that it has.
 */

type Decode = (bytes: Buffer, charset: string) => string;

/** HZ (RFC 1843): GB 2312 in seven bits, between `~{` and `~}`. */
export function decodeHz(bytes: Buffer, decode: Decode): string {
  return bytes
    .toString('latin1')
    .replace(/~\r?\n/g, '')
    .split(/~\{/)
    .map((piece, index) => {
      const [coded = '', ...plain] = index === 0 ? [''].concat(piece) : piece.split('~}');
      const text = decode(withHighBits(coded.replace(/(?<![\r\n])[\r\n]+$/, '')), 'gb2312');
      return text + plain.join('~}').replaceAll('~~', '~');
    })
    .join('');
}

/** ISO-2022-KR (RFC 1557): KS X 1001 in seven bits, between SO and SI. */
export function decodeIso2022Kr(bytes: Buffer, decode: Decode): string {
  return bytes
    .toString('latin1')
    .replace(/\x1b\$\)C\r?\n?/g, '')
    .split('\x0e')
    .map((piece, index) => {
      if (index === 0) return piece.replaceAll('\x0f', '');
      const [coded = '', ...plain] = piece.split('\x0f');
      return decode(withHighBits(coded), 'euc-kr') + plain.join('');
    })
    .join('');
}

function withHighBits(coded: string): Buffer {
  return Buffer.from(
    coded.replace(/[\x21-\x7e]/g, (char) => String.fromCharCode(char.charCodeAt(0) | 0x80)),
    'latin1',
  );
}

/** Jamo of KS X 1001 Johab by their five bits: index of the initial, medial and final one; -1 for none, -2 for invalid. */
const INITIAL = [-2, -1, ...Array.from({ length: 19 }, (_, i) => i)];
const MEDIAL = [
  -2, -2, -1, 0, 1, 2, 3, 4, -2, -2, 5, 6, 7, 8, 9, 10, -2, -2, 11, 12, 13, 14, 15, 16, -2, -2, 17, 18, 19, 20,
];
const FINAL = [
  -2,
  0,
  ...Array.from({ length: 16 }, (_, i) => i + 1),
  -2,
  ...Array.from({ length: 11 }, (_, i) => i + 17),
];
const INITIALS = 'ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ';

/** Johab (KS X 1001 annex 3): a Hangul syllable is three groups of five bits. Hanja and signs are converted to EUC-KR. */
export function decodeJohab(bytes: Buffer, decode: Decode): string {
  let text = '';
  for (let at = 0; at < bytes.length; at++) {
    const first = bytes[at] as number;
    const second = bytes[at + 1];
    if (first < 0x80 || second === undefined) {
      text += String.fromCharCode(first);
      continue;
    }
    at += 1;
    text += first < 0xd4 ? syllable((first << 8) | second) : decode(fromRows(first, second), 'euc-kr');
  }
  return text;
}

function syllable(code: number): string {
  const initial = INITIAL[(code >> 10) & 0x1f] ?? -2;
  const medial = MEDIAL[(code >> 5) & 0x1f] ?? -2;
  const final = FINAL[code & 0x1f] ?? -2;
  if (initial >= 0 && medial >= 0 && final >= 0)
    return String.fromCodePoint(0xac00 + (initial * 21 + medial) * 28 + final);
  if (initial >= 0 && medial === -1 && final === 0) return INITIALS[initial] ?? '\ufffd';
  if (initial === -1 && medial >= 0 && final === 0) return String.fromCodePoint(0x314f + medial);
  return '\ufffd';
}

/** Signs are in rows D9 to DE, Hanja in E0 to F9; two rows of EUC-KR share each. */
function fromRows(first: number, second: number): Buffer {
  const base = first >= 0xe0 ? 0xca + (first - 0xe0) * 2 : 0xa1 + (first - 0xd9) * 2;
  const offset = second >= 0x91 ? second - 0x91 + 0x4e : second - 0x31;
  return Buffer.from([base + (offset >= 94 ? 1 : 0), 0xa1 + (offset % 94)]);
}
