const UNSTORABLE = /[\0\ud800-\udfff]/u;
const EACH_UNSTORABLE = /\0|[\ud800-\udfff]/gu;
/** As JSON writes them; a backslash of the text itself is doubled there. */
const MAYBE_UNSTORABLE = /\\u(0000|d[89a-f])/;

/** Text without U+0000 and lone surrogates: Postgres refuses both in text and jsonb. */
export function storable(text: string): string {
  return UNSTORABLE.test(text) ? text.replace(EACH_UNSTORABLE, (char) => (char === '\0' ? '' : '\ufffd')) : text;
}

/** A value whose texts are all storable; bytes and dates stay as they are. */
export function allStorable<T>(value: T): T {
  if (typeof value === 'string') return storable(value) as T;
  if (Array.isArray(value)) return value.map(allStorable) as T;
  if (value === null || typeof value !== 'object' || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, allStorable(each)])) as T;
}

/** The JSON of a value, for Postgres: texts are cut at any position on their way into it. */
export function storableJson(value: unknown): string {
  const text = JSON.stringify(value);
  if (!MAYBE_UNSTORABLE.test(text)) return text;
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'string' ? storable(each) : each));
}
