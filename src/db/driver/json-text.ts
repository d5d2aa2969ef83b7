declare const value: unique symbol;

/** JSON text of a value of that type: stored JSON is not parsed and serialised again. */
export type JsonOf<T> = string & { readonly [value]: T };

/**
 * JSON text of a value of that type as UTF-8, in consecutive pieces: bytes from Postgres go into the response unchanged,
 * copied once.
 */
export type JsonPieces<T> = Uint8Array[] & { readonly [value]: T };

/** The JSON text of an array, from that of its items. */
export function jsonArray<T>(items: readonly JsonOf<T>[]): JsonOf<T[]> {
  return `[${items.join(',')}]` as JsonOf<T[]>;
}

/** The JSON text of an object, some of whose members are JSON text already. It has at least one other; keys are plain names. */
export function jsonWith<T extends object, Written extends keyof T & string>(
  plain: Omit<T, Written>,
  written: { [Key in Written]: JsonOf<T[Key]> },
): JsonOf<T> {
  const members = Object.entries<string>(written).map(([key, text]) => `,"${key}":${text}`);
  return `${JSON.stringify(plain).slice(0, -1)}${members.join('')}}` as JsonOf<T>;
}

/** JSON text as pieces. */
export function jsonPieces<T>(text: JsonOf<T>): JsonPieces<T> {
  return [Buffer.from(text)] as unknown as JsonPieces<T>;
}

/** An object whose last member is an array of items that are pieces already. It has at least one other member. */
export function jsonWithItems<T extends object, Items extends keyof T & string>(
  plain: Omit<T, Items>,
  key: Items,
  items: readonly JsonPieces<unknown>[],
): JsonPieces<T> {
  const pieces: Uint8Array[] = [Buffer.from(`${JSON.stringify(plain).slice(0, -1)},"${key}":[`)];
  items.forEach((item, index) => {
    if (index > 0) pieces.push(COMMA);
    for (const piece of item) pieces.push(piece);
  });
  pieces.push(END);
  return pieces as JsonPieces<T>;
}

const COMMA = Buffer.from(',');
const END = Buffer.from(']}');

/** The value that pieces are the text of. */
export function parsePieces<T>(pieces: JsonPieces<T>): T {
  return JSON.parse(Buffer.concat(pieces).toString()) as T;
}
