/** A token of a response as imapflow parsed it. */
export type Token = { type?: string; value?: unknown; section?: Token[] } | Token[] | null | undefined;

/** An untagged response: for `* 12 FETCH (…)` the number is the command. */
export interface Untagged {
  command?: string;
  attributes?: Token[];
}

/** The text of a token; undefined for lists and NIL. */
export function textOf(token: Token): string | undefined {
  return token && !Array.isArray(token) && typeof token.value === 'string' ? token.value : undefined;
}
