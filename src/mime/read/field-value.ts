import libmime from 'libmime';

/** Value of a structured header field (RFC 2045 5.1, RFC 2183), its parameters decoded (RFC 2231). */
export interface FieldValue {
  /** lower case, without comments and quotes */
  value: string;
  params: Readonly<Record<string, string>>;
}

export type TransferEncoding = 'base64' | 'quoted-printable' | 'uuencode' | 'identity';

/** Longer fields are cut (in characters): their parameters are more likely an attack than a name. */
const MAX_FIELD = 256 * 1024;

/** Reads Content-Type or Content-Disposition: comments and quotes around the value are allowed (RFC 822 3.4). */
export function readFieldValue(raw: string): FieldValue {
  if (raw === '') return { value: '', params: {} };
  const text = withoutComments(raw.slice(0, MAX_FIELD));
  try {
    const { value, params } = libmime.parseHeaderValue(text);
    return { value: value.replace(/"/g, '').trim().toLowerCase(), params: unquoted(params) };
  } catch {
    return { value: (text.split(';')[0] ?? '').trim().toLowerCase(), params: {} };
  }
}

/** Removes a single unbalanced quote from values. */
function unquoted(params: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(params).map(([key, value]) => [
      key,
      /^"[^"]*$|^[^"]*"$/.test(value) ? value.replace('"', '') : value,
    ]),
  );
}

/** Reads Content-Transfer-Encoding, also where it is quoted, commented, misspelt or ends in a semicolon. */
export function readEncoding(raw: string): TransferEncoding {
  const word = (withoutComments(raw.slice(0, 1000)).split(/[;,]/)[0] ?? '').toLowerCase().replace(/[^a-z0-9]/g, '');
  if (word === 'base64') return 'base64';
  if (word === 'quotedprintable') return 'quoted-printable';
  return /^x?uue(ncode)?$/.test(word) ? 'uuencode' : 'identity';
}

/** A value without its comments, including nested ones; brackets in quotes and unclosed brackets stay. */
export function withoutComments(raw: string): string {
  if (!raw.includes('(')) return raw;
  let kept = '';
  let depth = 0;
  let opened = 0;
  let isQuoted = false;
  for (let at = 0; at < raw.length; at++) {
    const char = raw[at] as string;
    if (char === '\\') {
      if (depth === 0) kept += raw.slice(at, at + 2);
      at += 1;
    } else if (depth === 0 && char === '"') {
      isQuoted = !isQuoted;
      kept += char;
    } else if (!isQuoted && char === '(') {
      if (depth === 0) opened = at;
      depth += 1;
    } else if (depth > 0 && char === ')') depth -= 1;
    else if (depth === 0) kept += char;
  }
  return depth > 0 ? kept + raw.slice(opened) : kept;
}
