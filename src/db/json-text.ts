declare const value: unique symbol;

/** JSON text of a value of that type: text that is stored as JSON is not parsed and written again. */
export type JsonOf<T> = string & { readonly [value]: T };

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
