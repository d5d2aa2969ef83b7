import { domainToASCII } from 'node:url';
import type { RawHeader } from '../read/raw-header.ts';

/** One Authentication-Results field (RFC 8601). */
export interface AuthenticationField {
  /** in lower case, its domain labels in ASCII; null: the field does not follow the grammar */
  authservId: string | null;
  /** how many Received fields are above it: a server puts its own fields above those of the servers before it */
  receivedAbove: number;
  /** the Received fields above it, if any, are of the delivery into the mailbox, by LMTP (RFC 2033), not of the transport */
  isLocal: boolean;
  methods: MethodResult[];
}

export interface MethodResult {
  /** `spf`, `dkim`, `dmarc`, … */
  method: string;
  result: string;
  /** `header.d`, `smtp.mailfrom`, … with their values */
  properties: Record<string, string>;
}

/** Limits the work for hostile mail: trustworthy fields are at the top. */
const MAX_FIELDS = 20;
const MAX_FIELD = 16 * 1024;

/**
 * The Authentication-Results fields of a message from the top down; any sender can write them. Empty
 * when no server has left a Received field: the message was not delivered by SMTP.
 */
export function readAuthenticationFields(headers: readonly RawHeader[]): AuthenticationField[] {
  const fields: AuthenticationField[] = [];
  let receivedAbove = 0;
  let isLocal = true;
  let seen = 0;
  for (const { key, raw } of headers) {
    if (key === 'received') {
      receivedAbove += 1;
      isLocal &&= OVER_LMTP.test(raw);
    }
    if (key !== 'authentication-results' || ++seen > MAX_FIELDS) continue;
    const field = raw.length > MAX_FIELD ? null : readField(raw);
    fields.push({ authservId: null, methods: [], ...field, receivedAbove, isLocal });
  }
  return receivedAbove === 0 ? [] : fields;
}

const OVER_LMTP = /\swith\s+LMTPS?A?[\s;]/i;

/** The form in which authserv-ids are compared; null: it is none. */
export function normalAuthservId(id: string): string | null {
  const text = id.trim().toLowerCase();
  // ids need not be domains (RFC 8601 2.5): those with other characters are compared as they are
  const normal = /[^\x21-\x7e]/.test(text) ? domainToASCII(text) : text;
  return normal === '' || normal.length > 255 ? null : normal;
}

function readField(raw: string): Pick<AuthenticationField, 'authservId' | 'methods'> | null {
  const [head, ...rest] = segmentsOf(raw) ?? [];
  if (!head) return null;
  const [id, version, ...more] = head;
  if (!id || more.length > 0 || (version !== undefined && version.text !== '1')) return null;
  // without an authserv-id the first segment is a result
  if (!id.isQuoted && id.text.includes('=')) return null;
  const authservId = normalAuthservId(id.text);
  if (authservId === null) return null;
  return { authservId, methods: rest.flatMap((segment) => methodOf(segment) ?? []) };
}

function methodOf([first, ...rest]: Atom[]): MethodResult | null {
  const [, method, result] =
    /^([a-z][a-z0-9-]*)(?:\/1)?=([a-z]+)$/i.exec(first?.isQuoted ? '' : (first?.text ?? '')) ?? [];
  if (!method || !result) return null;
  const properties: Record<string, string> = {};
  for (const { text, isQuoted } of rest) {
    const equals = text.indexOf('=');
    const name = text.slice(0, Math.max(equals, 0)).toLowerCase();
    if (!isQuoted && /^[a-z]+\.[a-z0-9-]+$/.test(name)) properties[name] ??= text.slice(equals + 1);
  }
  return { method: method.toLowerCase(), result: result.toLowerCase(), properties };
}

/** A word, with the contents of quoted strings in it. */
interface Atom {
  text: string;
  /** it begins with a quoted string */
  isQuoted: boolean;
}

/** The parts between semicolons as words; without comments. Null: a comment or quoted string does not end. */
function segmentsOf(raw: string): Atom[][] | null {
  const segments: Atom[][] = [[]];
  let atom: Atom | null = null;
  for (let at = 0; at < raw.length; ) {
    const char = raw[at] as string;
    if (char === '"') {
      const quoted = QUOTED.exec(startAt(QUOTED, at, raw));
      if (!quoted) return null;
      atom ??= open(segments, true);
      atom.text += quoted[0].slice(1, -1).replace(/\\(.)/gs, '$1');
      at += quoted[0].length;
    } else if (char === ';') {
      segments.push([]);
      atom = null;
      at += 1;
    } else if (char === '(' || /\s/.test(char)) {
      const end = char === '(' ? endOfComment(raw, at) : at + 1;
      if (end === null) return null;
      at = end;
      if (isEndOfAtom(atom, raw, at)) atom = null;
    } else {
      atom ??= open(segments, false);
      atom.text += char;
      at += 1;
    }
  }
  return segments;
}

/** White space and comments may stand around the `=` of a result. */
function isEndOfAtom(atom: Atom | null, raw: string, at: number): boolean {
  const next = /\S/.exec(raw.slice(at, at + 200))?.[0];
  const equals = atom?.text.indexOf('=') ?? -1;
  const isOpen = atom !== null && ((equals > 0 && equals === atom.text.length - 1) || next === '=');
  return !isOpen && next !== '(';
}

const QUOTED = /"(?:[^"\\]|\\.)*"/gsy;

function startAt(pattern: RegExp, at: number, text: string): string {
  pattern.lastIndex = at;
  return text;
}

function open(segments: Atom[][], isQuoted: boolean): Atom {
  const atom = { text: '', isQuoted };
  segments.at(-1)?.push(atom);
  return atom;
}

/** Comments nest (RFC 5322 3.2.2). */
function endOfComment(raw: string, start: number): number | null {
  let depth = 0;
  for (let at = start; at < raw.length; at++) {
    if (raw[at] === '\\') at += 1;
    else if (raw[at] === '(') depth += 1;
    else if (raw[at] === ')' && --depth === 0) return at + 1;
  }
  return null;
}
