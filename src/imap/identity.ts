import { createHash } from 'node:crypto';

/** The metadata that identifies a message. */
export interface IdentityFacts {
  /** as in the header, with or without angle brackets; null when missing */
  messageId: string | null;
  /** RFC822.SIZE in bytes */
  size: number;
  /** INTERNALDATE; compared in whole seconds, the resolution of IMAP */
  internalDate: Date | string;
  /** replaces a missing Message-ID: the raw Subject, From and Date headers, in this order */
  extra?: readonly (string | null | undefined)[];
}

/**
 * A short stable name (22 characters) of a message, which it keeps in another folder or after a change of UIDVALIDITY: a
 * digest of Message-ID, size and INTERNALDATE. The `extra` headers replace a missing Message-ID.
 */
export function identityOf(facts: IdentityFacts): string {
  return digest(['d', nameOf(facts), String(facts.size), seconds(facts.internalDate)]);
}

/** The stable name of a message without its INTERNALDATE: for servers whose COPY gives the copy a new one. */
export function weakIdentityOf(facts: Omit<IdentityFacts, 'internalDate'>): string {
  return digest(['w', nameOf(facts), String(facts.size)]);
}

function nameOf({ messageId, extra = [] }: Pick<IdentityFacts, 'messageId' | 'extra'>): string {
  const id = messageId?.trim().replace(/^<|>$/g, '').trim();
  return id ? `m:${id}` : `h:${extra.map((value) => (value ?? '').replace(/\s+/g, ' ').trim()).join('\n')}`;
}

function seconds(date: Date | string): string {
  const at = typeof date === 'string' ? Date.parse(date) : date.getTime();
  return Number.isNaN(at) ? '' : String(Math.floor(at / 1000));
}

function digest(parts: string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('base64url').slice(0, 22);
}
