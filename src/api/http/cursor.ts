import { createHmac, timingSafeEqual } from 'node:crypto';
import { ApiError } from '../../contract/errors.ts';

/** Signs texts that callers return, and verifies them. */
export interface Signer {
  /** Signs a text for one purpose. */
  sign(purpose: string, text: string): Buffer;
  /** Whether any of the keys made this signature of the text. */
  isSigned(purpose: string, text: string, signature: Buffer): boolean;
}

/** Creates a signer (HMAC-SHA256). The first key signs; all are accepted, which allows rotation. */
export function createSigner(keys: readonly [Buffer, ...Buffer[]]): Signer {
  const signatureOf = (key: Buffer, purpose: string, text: string) =>
    createHmac('sha256', key).update(`${purpose}\n${text}`).digest();
  return {
    sign: (purpose, text) => signatureOf(keys[0], purpose, text),
    isSigned: (purpose, text, signature) =>
      keys.some((key) => {
        const expected = signatureOf(key, purpose, text);
        return expected.length === signature.length && timingSafeEqual(expected, signature);
      }),
  };
}

/** Position of a row in a list that is ordered by date, then id. */
export interface Position {
  date: Date;
  id: string;
}

/** Cursors of lists: opaque to callers, and rejected for another list or other filters. */
export interface Cursors {
  write(list: ListIdentity, next: Position | null): string | null;
  /** @throws ApiError `invalid_parameters` unless `write` returned the cursor for the same list */
  read(list: ListIdentity, cursor: string | undefined): Position | null;
}

/** Identifies a list: requests with the same identity page through the same list. */
export interface ListIdentity {
  name: string;
  accountId: string;
  /** the query; parameters that do not affect the rows are ignored */
  query: object;
}

const PURPOSE = 'cursor';
/** Parameters that do not identify a list: the page, and the form of its items. */
const NOT_IDENTITY = new Set(['cursor', 'limit', 'meta_only', 'fields']);

/** Creates cursors signed by `signer`: base64url of the signature, then of `<ms>:<id>`. */
export function createCursors(signer: Signer): Cursors {
  return {
    write(list, next) {
      if (!next) return null;
      const position = `${next.date.getTime()}:${next.id}`;
      const signature = signer.sign(PURPOSE, signedText(list, position));
      return `${signature.toString('base64url')}.${Buffer.from(position).toString('base64url')}`;
    },
    read(list, cursor) {
      if (cursor === undefined) return null;
      const [signature = '', text = ''] = cursor.split('.');
      const position = Buffer.from(text, 'base64url').toString();
      if (!signer.isSigned(PURPOSE, signedText(list, position), Buffer.from(signature, 'base64url'))) {
        throw new ApiError('invalid_parameters', 'invalid cursor: it belongs to another list or other filters');
      }
      const colon = position.indexOf(':');
      return { date: new Date(Number(position.slice(0, colon))), id: position.slice(colon + 1) };
    },
  };
}

function signedText({ name, accountId, query }: ListIdentity, position: string): string {
  const filters = Object.entries(query)
    .filter(([key, value]) => !NOT_IDENTITY.has(key) && value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([name, accountId, filters, position]);
}
