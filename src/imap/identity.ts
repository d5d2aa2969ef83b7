import { createHash } from 'node:crypto';

/** What is known of a message before its body is fetched. */
export interface IdentityFacts {
  /** as in the header, with or without angle brackets; null when there is none */
  messageId: string | null;
  /** RFC822.SIZE in bytes */
  size: number;
  /** INTERNALDATE; counted in whole seconds, since IMAP has no finer ones */
  internalDate: Date | string;
  /** stands in for a missing Message-ID: the raw Subject, From and Date headers, in this order */
  extra?: readonly (string | null | undefined)[];
}

/**
 * Short stable name (22 characters) of a message: the same message in another folder, or after a change of
 * UIDVALIDITY, has the same one. Message-ID + size + INTERNALDATE; without a Message-ID the
 * `extra` headers stand in for it.
 */
export function identityOf(facts: IdentityFacts): string {
  return digest(['d', nameOf(facts), String(facts.size), seconds(facts.internalDate)]);
}

/** Like identityOf, without INTERNALDATE: for servers whose COPY gives the copy a new one. */
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
