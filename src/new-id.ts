import { decodeTime, monotonicFactory } from 'ulid';
import { ID_PREFIXES, type IdKind } from './contract/ids.ts';

const nextUlid = monotonicFactory();

/** A new id: prefix, underscore, 26 lower-case characters of a ULID (time-ordered, unique). */
export function newId(kind: IdKind): string {
  return `${ID_PREFIXES[kind]}_${nextUlid().toLowerCase()}`;
}

/** When an id was made. */
export function madeAt(id: string): Date {
  return new Date(decodeTime(id.slice(id.indexOf('_') + 1).toUpperCase()));
}
