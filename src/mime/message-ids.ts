import { randomBytes } from 'node:crypto';
import { asciiDomain } from '../mail-wire/addresses.ts';
import { storable } from '../runtime/storable.ts';

/** Longer ids are cut (in characters): RFC 5322 limits lines, and index entries are bounded. */
const MAX_ID = 600;

/** The first message id of a decoded header value, with its angle brackets; null without one. */
export function readMessageId(value: string): string | null {
  return readMessageIds(value)[0] ?? null;
}

/**
 * Message ids (RFC 5322 3.6.4) of a decoded header value, each once. White space within an id, left by bad folding,
 * is removed. A value without angle brackets counts when it is one word, or words that all have an @. (mailparser accepts
 * any text as an id.)
 */
export function readMessageIds(value: string): string[] {
  const bracketed = value.match(/<[^<>]+>/g)?.map((id) => id.slice(1, -1).replace(/\s+/g, '')) ?? [];
  const ids = bracketed.length > 0 ? bracketed : bareIds(value);
  return [...new Set(ids.filter((id) => id !== '').map((id) => `<${storable(id.slice(0, MAX_ID))}>`))];
}

/** The id if headers can have it: one beyond ASCII needs SMTPUTF8 (RFC 6532), and as an encoded word is no id (RFC 2047 5). */
export function writableId(id: string | null): string | null {
  return id !== null && /^[!-~]+$/.test(id) ? id : null;
}

function bareIds(value: string): string[] {
  const words = value.replace(/[<>]/g, ' ').trim().split(/\s+/);
  return words.length === 1 || words.every((word) => word.includes('@')) ? words : [];
}

const FALLBACK_DOMAIN = 'localhost.invalid';

/**
 * A new, unique Message-ID (RFC 5322 3.6.4), with its angle brackets: 128 random bits at the domain of the sender's
 * address.
 */
export function newMessageId(fromAddress: string): string {
  return messageIdOf(fromAddress, randomBytes(16));
}

/** The Message-ID of 16 secret bytes: a bounce or an answer that names it comes from a recipient of the mail. */
export function messageIdOf(fromAddress: string, bytes: Buffer): string {
  const domain = asciiDomain(fromAddress.slice(fromAddress.lastIndexOf('@') + 1));
  const usable = /^(?=.{1,253}$)[a-z0-9-]+(\.[a-z0-9-]+)*$/.test(domain) ? domain : FALLBACK_DOMAIN;
  return `<${bytes.toString('hex')}@${usable}>`;
}
