import { randomBytes } from 'node:crypto';
import { decodeTime, encodeTime, monotonicFactory } from 'ulid';
import { ID_PREFIXES, type IdKind } from './contract/ids.ts';

const nextUlid = monotonicFactory();

/** Kinds of ids that grant access to anyone who knows one. */
const UNGUESSABLE = new Set<IdKind>(['tracking']);

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const TIME_DIGITS = 10;
const RANDOM_DIGITS = 16;

/**
 * A new id: prefix, underscore, 26 lower-case characters of a ULID (time-ordered, unique). Within one millisecond each is
 * the previous one plus a little; but an id that grants access has 80 new random bits.
 */
export function newId(kind: IdKind): string {
  return `${ID_PREFIXES[kind]}_${(UNGUESSABLE.has(kind) ? randomUlid() : nextUlid()).toLowerCase()}`;
}

function randomUlid(): string {
  const random = Array.from(randomBytes(RANDOM_DIGITS), (byte) => DIGITS[byte % DIGITS.length]).join('');
  return encodeTime(Date.now(), TIME_DIGITS) + random;
}

/** When an id was made. */
export function madeAt(id: string): Date {
  return new Date(decodeTime(id.slice(id.indexOf('_') + 1).toUpperCase()));
}
