import { domainToASCII, domainToUnicode } from 'node:url';

/*
 * A domain beyond ASCII has two forms (RFC 5890): `bücher.example`, and `xn--bcher-kva.example` in mail. Users see the
 * first. Both are accepted, and are one address wherever addresses are compared.
 */

/** Normalises an address for comparisons: lower case, the domain in Unicode, without surrounding white space. */
export function normalAddress(address: string): string {
  return withUnicodeDomain(address.trim().toLowerCase());
}

/** An address as users see it: its domain in Unicode. One that cannot be decoded stays. */
export function withUnicodeDomain(address: string): string {
  const at = address.lastIndexOf('@');
  return `${address.slice(0, at + 1)}${unicodeDomain(address.slice(at + 1))}`;
}

/** Text that is searched for, with a domain in Unicode: stored texts have it in this form. */
export function withUnicodeDomains(text: string): string {
  // looked for at the beginnings of runs only: at every character of a long one it would take minutes
  return text.replace(/(?<![a-z0-9.-])[a-z0-9.-]*xn--[a-z0-9.-]+/gi, unicodeDomain);
}

/** A domain in the form that mail has, in lower case; '' for one beyond ASCII that has none. */
export function asciiDomain(domain: string): string {
  if (!/[^\0-\x7f]/.test(domain)) return domain.toLowerCase();
  return domain.length > LONGEST || NO_HOST.test(domain) ? '' : domainToASCII(domain);
}

function unicodeDomain(domain: string): string {
  if (domain.length > LONGEST || !/[^\0-\x7f]|xn--/i.test(domain) || NO_HOST.test(domain)) return domain;
  return domainToUnicode(domain) || domain;
}

/** Characters of a name (RFC 1035 2.3.4) with its last dot. Much longer ones, which no domain has, take seconds to decode. */
const LONGEST = 254;
/** `domainToUnicode` reads the host of a URL, and leaves out what follows it. */
const NO_HOST = /[\s/?#:%\\[\]@]/;
