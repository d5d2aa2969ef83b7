import { createHmac, timingSafeEqual } from 'node:crypto';

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
