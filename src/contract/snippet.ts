/** The longest snippet, in characters (code points). */
const LONGEST = 200;
/** The part of a text that a snippet is made of, in UTF-16 code units. */
export const SNIPPET_SOURCE = 4_000;

/** White space, and the invisible characters with which newsletters fill up the preview that mail programs show. */
const GAPS = /[\s\u00ad\u034f\u200b\u200c\ufeff]{2,}|\s/g;

/**
 * The beginning of an email in one line, for lists: of what its author wrote, or of the whole text where that is empty or
 * not known. It is cut without an ellipsis, as Gmail's is: one character outside of ASCII makes JavaScript clients decode a
 * whole list of English mail as two-byte text, in one and a half times the time.
 * @param bodyNew `body_new`, or at least its first SNIPPET_SOURCE
 * @param bodyPlain `body_plain`, or at least its first SNIPPET_SOURCE
 */
export function snippetOf(bodyNew: string | null, bodyPlain: string): string {
  return shortened(bodyNew ?? '') || shortened(bodyPlain);
}

function shortened(text: string): string {
  const line = text
    .slice(0, SNIPPET_SOURCE)
    .replace(/[\ud800-\udbff]$/, '')
    .replace(GAPS, ' ')
    .trim();
  // a character has at most two code units
  return [...line.slice(0, 2 * LONGEST)].slice(0, LONGEST).join('').trimEnd();
}
