const UNSTORABLE = /[\0\ud800-\udfff]/u;
const EACH_UNSTORABLE = /\0|[\ud800-\udfff]/gu;

/** Text without U+0000 and lone surrogates, neither of which Postgres takes in text or jsonb. */
export function storable(text: string): string {
  return UNSTORABLE.test(text) ? text.replace(EACH_UNSTORABLE, (char) => (char === '\0' ? '' : '\ufffd')) : text;
}
