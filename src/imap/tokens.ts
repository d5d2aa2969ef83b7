/** A token of a response as imapflow parsed it. */
export type Token = { type?: string; value?: unknown; section?: Token[] } | Token[] | null | undefined;

/** An untagged response: for `* 12 FETCH (…)` the number is the command. */
export interface Untagged {
  command?: string;
  attributes?: Token[];
}

/**
 * The text of a token, of a literal too: some servers send names with `%`, `"`, `\` or 8-bit text as one. Undefined for lists
 * and NIL.
 */
export function textOf(token: Token): string | undefined {
  if (!token || Array.isArray(token)) return undefined;
  const { value } = token;
  return Buffer.isBuffer(value) ? value.toString() : typeof value === 'string' ? value : undefined;
}
