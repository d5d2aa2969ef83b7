import { domainToASCII } from 'node:url';
import { getDomain } from 'tldts';
import { AUTHENTICATION_RESULTS, type Authentication, type AuthenticationResult } from '../../contract/email.ts';
import type { AuthenticationField, MethodResult } from './results.ts';

/** Whom a message says that it is from. */
export interface Author {
  /** the address of From, of which there is one */
  address: string;
  /** not: it has several From fields, or several addresses in it */
  isSingle: boolean;
}

/**
 * How far the provider of the mailbox authenticated a message, by its own Authentication-Results only; null: that cannot be
 * known. A field is the provider's when it is above all Received fields, so no earlier server can have written it; or,
 * with the provider's `authservId`, when it is the topmost that carries it (RFC 8601 5: the provider removes
 * foreign ones). Programs of one server may write a field each: further ones count where the server must have written its
 * Received below them, as nothing else tells them from fields of the sender.
 */
export function judgeAuthentication(
  fields: readonly AuthenticationField[],
  author: Author,
  authservId: string | null,
): Authentication | null {
  const methods = trustedFields(fields, authservId).flatMap((field) => field.methods);
  const known = ['spf', 'dkim', 'dmarc'].some((method) => methods.some((one) => one.method === method));
  if (!known) return null;
  return {
    spf: resultOf(methods, 'spf'),
    dkim: resultOf(methods, 'dkim'),
    dmarc: resultOf(methods, 'dmarc'),
    from_aligned: isAligned(methods, author),
  };
}

function trustedFields(fields: readonly AuthenticationField[], authservId: string | null): AuthenticationField[] {
  if (authservId !== null) {
    // one that cannot be read may be the provider's: those below it may be forged
    const topmost = fields.find((field) => field.authservId === authservId || field.authservId === null);
    if (topmost?.authservId !== authservId) return [];
    const { receivedAbove, isLocal } = topmost;
    const isBeside = (field: AuthenticationField) => field.receivedAbove === receivedAbove && isLocal;
    return fields.filter((field) => field === topmost || (isBeside(field) && field.authservId === authservId));
  }
  const above = fields.filter((field) => field.receivedAbove === 0 && field.authservId !== null);
  return above.filter((field) => field.authservId === above[0]?.authservId);
}

/** The first; of several signatures, one that passed. */
function resultOf(methods: readonly MethodResult[], method: string): AuthenticationResult | null {
  const results = methods.filter((one) => one.method === method).map(({ result }) => result);
  const [first] = results;
  const result = method === 'dkim' && results.includes('pass') ? 'pass' : first;
  return AUTHENTICATION_RESULTS.find((known) => known === result) ?? null;
}

/**
 * Whether the domain of From is authenticated: as DMARC says, or where the domain has no policy, by an SPF or DKIM that passed
 * for its organisational domain (RFC 7489 3.1).
 */
function isAligned(methods: readonly MethodResult[], { address, isSingle }: Author): boolean {
  const from = domainOf(address);
  if (from === null || !isSingle) return false;
  const dmarc = methods.find(({ method }) => method === 'dmarc');
  if (dmarc?.result === 'pass') return [from, null].includes(domainOf(dmarc.properties['header.from'] ?? ''));
  if (dmarc?.result === 'fail') return false;
  return methods.some(({ method, result, properties }) => {
    if (result !== 'pass') return false;
    const signers = method === 'dkim' ? ['header.d', 'header.i'] : method === 'spf' ? ['smtp.mailfrom'] : [];
    const signer = signers.map((name) => properties[name]).find((value) => value !== undefined);
    return signer !== undefined && isSameOrganisation(domainOf(signer), from);
  });
}

function isSameOrganisation(domain: string | null, from: string): boolean {
  if (domain === null || domain === from) return domain === from;
  const organisation = getDomain(domain, { allowPrivateDomains: true });
  return organisation !== null && organisation === getDomain(from, { allowPrivateDomains: true });
}

/** In lower case and ASCII; null: none. */
function domainOf(address: string): string | null {
  return (
    domainToASCII(
      address
        .slice(address.lastIndexOf('@') + 1)
        .trim()
        .replace(/\.$/, '')
        .toLowerCase(),
    ) || null
  );
}
