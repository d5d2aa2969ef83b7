import { randomBytes } from 'node:crypto';

const FALLBACK_DOMAIN = 'localhost.invalid';

/**
 * A Message-ID (RFC 5322 3.6.4), with its angle brackets, that nobody else makes: 128 random bits at the domain of the
 * sender's address.
 */
export function newMessageId(fromAddress: string): string {
  const domain = fromAddress.slice(fromAddress.lastIndexOf('@') + 1).toLowerCase();
  const usable = /^(?=.{1,253}$)[a-z0-9-]+(\.[a-z0-9-]+)*$/.test(domain) ? domain : FALLBACK_DOMAIN;
  return `<${randomBytes(16).toString('hex')}@${usable}>`;
}
