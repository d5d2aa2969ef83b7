import type { MailingList } from '../../contract/email.ts';
import { storable } from '../../runtime/storable.ts';
import { decodeHeader, rawValues } from './headers.ts';
import type { RawHeader } from './raw-header.ts';

/** Longer fields are cut (in characters): they are more likely an attack than a list. */
const MAX_FIELD = 16 * 1024;
const MAX_ID = 255;
const MAX_URIS = 10;
const MAX_URI = 2_000;

/** The mailing list of a message: List-Id (RFC 2919), List-Unsubscribe (RFC 2369) and one-click (RFC 8058); null: none. */
export function readMailingList(headers: readonly RawHeader[]): MailingList | null {
  const raw = (key: string) => (rawValues(headers, key)[0] ?? '').slice(0, MAX_FIELD);
  const value = (key: string) => withoutComments(decodeHeader(raw(key), null));
  const id = listIdOf(withoutComments(raw('list-id')));
  const unsubscribe = urisOf(value('list-unsubscribe'));
  if (id === null && unsubscribe.length === 0) return null;
  const isOneClick = /^\s*List-Unsubscribe\s*=\s*One-Click\s*$/i.test(value('list-unsubscribe-post'));
  const unsubscribe_post = isOneClick && unsubscribe.some((uri) => /^https:/i.test(uri));
  return { id, unsubscribe, unsubscribe_post };
}

/** In lower case: ids are case-insensitive (RFC 2919 6). Some programs omit the angle brackets. */
function listIdOf(value: string): string | null {
  const inner = (text: string): string => /<([^<>]*)>[^<>]*$/.exec(text)?.[1] ?? text;
  const bracketed = inner(value);
  // the brackets may be in encoded words, as those in the name are
  const id = inner(decodeHeader(bracketed, null)).replace(/\s+/g, '').toLowerCase();
  const isId = id.length <= MAX_ID && /^[^\s<>@:,;"()]+$/.test(id) && (id.includes('.') || bracketed !== value);
  return isId ? id : null;
}

/** The http(s) and mailto URIs in angle brackets, in the order of the sender's preference; white space is ignored (RFC 2369 2). */
function urisOf(value: string): string[] {
  return [...value.matchAll(/<([^<>]*)>/g)]
    .map(([, uri = '']) => storable(uri.replace(/\s+/g, '')))
    .filter((uri) => uri.length <= MAX_URI && /^(?:https?:\/\/[^/]|mailto:.)/i.test(uri))
    .slice(0, MAX_URIS);
}

/** Comments outside of quotes, closed or not, and angle brackets (RFC 5322 3.2.2) are removed. Takes linear time. */
function withoutComments(value: string): string {
  if (!value.includes('(')) return value;
  return value.replace(/<[^<>]*>|"(?:[^"\\]|\\.)*(?:"|\\?$)|\([^()]*\)/g, (piece) =>
    piece.startsWith('(') ? ' ' : piece,
  );
}
