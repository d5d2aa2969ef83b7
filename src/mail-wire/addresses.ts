import { domainToUnicode } from 'node:url';

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
  return text.replace(/[a-z0-9.-]*xn--[a-z0-9.-]+/gi, unicodeDomain);
}

function unicodeDomain(domain: string): string {
  if (!/[^\0-\x7f]|xn--/i.test(domain) || NO_HOST.test(domain)) return domain;
  return domainToUnicode(domain) || domain;
}

/** `domainToUnicode` reads the host of a URL, and leaves out what follows it. */
const NO_HOST = /[\s/?#:%\\[\]@]/;
