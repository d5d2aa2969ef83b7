import type { Schemas } from '../../api/client.ts';

/** Characters that mean something else than a name, outside of quotes (RFC 5322, 3.2.3). */
const SPECIAL = /[,;@<>"\\]/;

/** Addresses with their names, as in a header. */
export const addresses = (people: readonly Schemas['Attendee'][]): string =>
  people
    .map(({ display_name: name, identifier }) => (name ? `${quoted(name)} <${identifier}>` : identifier))
    .join(', ');

const quoted = (name: string) => (SPECIAL.test(name) ? `"${name.replace(/["\\]/g, '\\$&')}"` : name);

/** A quoted name, an address in brackets, a separator, or a piece of other text. */
const PARTS = /(?<=^|[\s,;])"(?:[^"\\]|\\.)*"|<[^<>]*>|[,;]|[^,;"<]+|["<]/gs;

/** Reads `Lovelace, Ada <ada@example.com>, "Acme, Inc." <info@acme.com>`: outside of quotes, a comma after an address ends it. */
export function readRecipients(text: string): Schemas['Recipient'][] {
  const found: string[] = [];
  let one = '';
  let hasAddress = false;
  for (const [part] of text.matchAll(PARTS)) {
    if (/^[,;]$/.test(part) && (hasAddress || one.trim() === '')) {
      found.push(one);
      [one, hasAddress] = ['', false];
    } else {
      one += part;
      hasAddress ||= !part.startsWith('"') && part.includes('@');
    }
  }
  return [...found, one]
    .map((written) => written.trim())
    .filter((written) => written !== '')
    .map(recipientOf);
}

function recipientOf(one: string): Schemas['Recipient'] {
  const [, before = '', email = one] = /^(.*?)\s*<([^<>]+)>$/s.exec(one) ?? [];
  const [, inQuotes] = /^"((?:[^"\\]|\\.)*)"$/s.exec(before) ?? [];
  const name = inQuotes?.replace(/\\(.)/gs, '$1') ?? before;
  return { email: email.trim(), ...(name === '' ? {} : { display_name: name }) };
}
