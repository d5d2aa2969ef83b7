import { type EmailAddress, parseAddressHeader } from 'mailparser';
import { decodeHeaderBytes } from './charsets.ts';
import { unifyEncodedWords } from './encoded-words.ts';
import type { RawHeader } from './raw-header.ts';

/** Bounds the cost of one hostile field, in bytes; some 6,000 ordinary recipients. */
const MAX_FIELD = 256 * 1024;

/** The entries of the address fields of a header, by their lower-case names. */
export type AddressFields = ReadonlyMap<string, EmailAddress[]>;

/**
 * The addresses of a message's own header, as mailparser reads them: the first of several From or Reply-To with an address.
 * `hint` is the charset of raw 8-bit text; `isCut` when a field was too long or unreadable.
 */
export function readAddressFields(
  fields: readonly RawHeader[],
  hint: string | null,
): { addresses: AddressFields; isCut: boolean } {
  const addresses = new Map<string, EmailAddress[]>();
  let isCut = false;
  for (const { key, raw } of addressFields(fields)) {
    if (raw.length > MAX_FIELD) isCut = true;
    try {
      const { value } = parseAddressHeader(textOf(raw, hint));
      addresses.set(key, [...(addresses.get(key) ?? []), ...value]);
    } catch {
      isCut = true;
    }
  }
  return { addresses, isCut };
}

function addressFields(fields: readonly RawHeader[]): RawHeader[] {
  const one = (key: string) =>
    fields.find((field) => field.key === key && field.raw.includes('@')) ?? fields.find((field) => field.key === key);
  const single = new Set([one('from'), one('reply-to')]);
  return fields.filter((field) => single.has(field) || /^(to|cc|bcc)$/.test(field.key));
}

/** The value of a field as text. No charset may turn bytes into a line break. */
function textOf(raw: string, hint: string | null): string {
  const text = decodeHeaderBytes(withBareAddresses(unifyEncodedWords(raw.slice(0, MAX_FIELD))), hint);
  return text.replace(/[\r\n]+/g, ' ');
}

/** Addresses in angle brackets without comments, routes (RFC 5322 4.4) and blanks, none of which mailparser removes. */
function withBareAddresses(value: string): string {
  return value.replace(/<[^<>"]{1,1000}>/g, (address) =>
    address
      .replace(/\([^()]*\)/g, '')
      .replace(/^<\s*@[^:<>]*:/, '<')
      .replace(/ *([.@]) */g, '$1'),
  );
}
