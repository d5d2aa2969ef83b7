import { createHmac, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../contract/errors.ts';

/** Makes and checks the marks by which the API knows its own texts again. */
export interface Signer {
  /** The mark of a text, for one purpose. */
  sign(purpose: string, text: string): Buffer;
  /** Whether the mark is that of the text, under any of the keys. */
  isSigned(purpose: string, text: string, mark: Buffer): boolean;
}

/** A signer with HMAC-SHA256; the first key signs, all of them are accepted, so that keys can change. */
export function createSigner(keys: readonly [Buffer, ...Buffer[]]): Signer {
  const markOf = (key: Buffer, purpose: string, text: string) =>
    createHmac('sha256', key).update(`${purpose}\n${text}`).digest();
  return {
    sign: (purpose, text) => markOf(keys[0], purpose, text),
    isSigned: (purpose, text, mark) =>
      keys.some((key) => {
        const expected = markOf(key, purpose, text);
        return expected.length === mark.length && timingSafeEqual(expected, mark);
      }),
  };
}

/** The place of a row in a list that is ordered by date, then id. */
export interface Position {
  date: Date;
  id: string;
}

/** Cursors of the lists (CONTRACT "General"): opaque to callers, and no good for another list or other filters. */
export interface Cursors {
  write(list: ListIdentity, next: Position | null): string | null;
  /** @throws ApiError `invalid_parameters` for anything that `write` did not give for the same list */
  read(list: ListIdentity, cursor: string | undefined): Position | null;
}

/** What makes two requests pages of one list. */
export interface ListIdentity {
  name: string;
  accountId: string;
  /** the query; what does not change which rows there are is left aside */
  query: object;
}

const PURPOSE = 'cursor';
/** Do not belong to the identity of a list: the page, and how its items are shown. */
const ASIDE = new Set(['cursor', 'limit', 'meta_only']);

/** Cursors marked by `signer`: base64url of the mark, then of `<ms>:<id>`. */
export function createCursors(signer: Signer): Cursors {
  return {
    write(list, next) {
      if (!next) return null;
      const position = `${next.date.getTime()}:${next.id}`;
      const mark = signer.sign(PURPOSE, signedText(list, position));
      return `${mark.toString('base64url')}.${Buffer.from(position).toString('base64url')}`;
    },
    read(list, cursor) {
      if (cursor === undefined) return null;
      const [mark = '', text = ''] = cursor.split('.');
      const position = Buffer.from(text, 'base64url').toString();
      if (!signer.isSigned(PURPOSE, signedText(list, position), Buffer.from(mark, 'base64url'))) {
        throw new ApiError(
          'invalid_parameters',
          'cursor cannot be read: it was not given for this list and these filters',
        );
      }
      const colon = position.indexOf(':');
      return { date: new Date(Number(position.slice(0, colon))), id: position.slice(colon + 1) };
    },
  };
}

function signedText({ name, accountId, query }: ListIdentity, position: string): string {
  const filters = Object.entries(query)
    .filter(([key, value]) => !ASIDE.has(key) && value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([name, accountId, filters, position]);
}
