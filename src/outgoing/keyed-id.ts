import { newId } from '../new-id.ts';

/** A call with an Idempotency-Key. */
export interface KeyedCall {
  apiKeyId: string;
  /** its Idempotency-Key */
  key: string;
  /** of its method, URL and body */
  fingerprint: Buffer;
}

interface Digester {
  digest(text: string): Buffer;
}

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';
const LENGTH = 16;
const DAY_MS = 86_400_000;

/**
 * The id of what a call with an Idempotency-Key sends. Its last 16 characters, of which the Message-ID is made, follow from the call
 * and the day: so a repeated call is recognised by its Message-ID in the mailbox even when the store has been set back since.
 * A key may be used again after 24 hours, which is another day.
 */
export function keyedEmailId(digester: Digester, call: KeyedCall, now: Date): string {
  return newId('email').slice(0, -LENGTH) + keyedPart(digester, call, now);
}

/** The last characters of the ids that the call had if it was made in the last 24 hours: today, and the day before. */
export function recentKeyedParts(digester: Digester, call: KeyedCall, now: Date): string[] {
  return [now, new Date(now.getTime() - DAY_MS)].map((day) => keyedPart(digester, call, day));
}

function keyedPart(digester: Digester, { apiKeyId, key, fingerprint }: KeyedCall, now: Date): string {
  const day = now.toISOString().slice(0, 10);
  const bytes = digester.digest(`id of ${JSON.stringify([apiKeyId, key, fingerprint.toString('hex'), day])}`);
  return Array.from(bytes.subarray(0, LENGTH), (byte) => DIGITS[byte % DIGITS.length]).join('');
}

/** The part of an id that its Message-ID is made of. */
export const messagePartOf = (emailId: string): string => emailId.slice(-LENGTH);
