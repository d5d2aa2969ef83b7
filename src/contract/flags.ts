import Type from 'typebox';

/*
 * Flags of messages (RFC 9051 2.3.2) as they are stored: in lower case, since they are case-insensitive, and sorted.
 * \Seen and \Deleted have their own columns; \Draft and \Recent are not stored.
 */

export const STARRED = '\\flagged';
export const ANSWERED = '\\answered';
/** RFC 9051 2.3.2; mail programs have used it as a keyword for long */
export const FORWARDED = '$forwarded';

/** A keyword is an atom (RFC 9051 9): printable ASCII without the characters that end one. */
export const Keyword = (description: string) => Type.String({ pattern: "^[!#$&'+-\\[^-z|}~]{1,128}$", description });

const NIL = '[Nn][Ii][Ll]$';
const SECTION = '(?:[Bb][Oo][Dd][Yy]|[Bb][Ii][Nn][Aa][Rr][Yy])(?:\\.[Pp][Ee][Ee][Kk])?\\[';

/** A keyword that responses can name, unlike NIL and the beginning of a section, and lists can filter by: without a comma. */
export const NewKeyword = (description: string) =>
  Type.String({ pattern: `^(?!${NIL}|${SECTION})[!#$&'+\\--\\[^-z|}~]{1,128}$`, description });

/** The members of an Email that show its flags. */
export interface ShownFlags {
  is_starred: boolean;
  is_answered: boolean;
  is_forwarded: boolean;
  keywords: string[];
}

/** @param flags as they are stored; null: they have not been read yet, and are shown as none */
export function shownFlags(flags: readonly string[] | null): ShownFlags {
  const all = flags ?? [];
  return {
    is_starred: all.includes(STARRED),
    is_answered: all.includes(ANSWERED),
    is_forwarded: all.includes(FORWARDED),
    keywords: all.filter((flag) => !flag.startsWith('\\')),
  };
}

/** All of these flags, as they are stored; null: one of the sets has not been read yet. */
export function unionOf(sets: readonly (readonly string[] | null)[]): string[] | null {
  if (sets.includes(null)) return null;
  return [...new Set(sets.flatMap((flags) => flags ?? []))].sort();
}

/** Whether flags are known to differ. */
export function flagsDiffer(before: readonly string[] | null, after: readonly string[] | null): boolean {
  return before !== null && after !== null && before.join(' ') !== after.join(' ');
}
