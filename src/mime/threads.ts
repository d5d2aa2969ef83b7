import { createHash } from 'node:crypto';
import { normalAddress } from '../mail-wire/addresses.ts';

/** Subject prefixes of replies, in many languages; lower case. */
const REPLY =
  're|aw|antw|antwort|sv|vs|ref|rif|r|odp|odpowiedź|res|resp|ynt|vá|vl|atb|bls|blt|απ|σχετ|hl|notat|на|отв|ответ|відп|回复|回覆|答复|答覆|返信|回信|회신|답장|رد|تر|השב|ตอบ|trả lời';
/** Subject prefixes of forwarded mail, in many languages; lower case. */
const FORWARD =
  'fwd?|wg|doorst|tr|pd|enc|rv|vb|i|továbbítás|ilt|i̇lt|iml|προωθ|пересл|пер|转发|轉寄|轉發|転送|전달|إعادة توجيه|הועבר|ส่งต่อ|chuyển tiếp';

/** subj-blob of RFC 5256: `[list]`, and the counters of `Re[2]:`, `Re(2):`, `Re^2:`. */
const BLOB = /^\[[^[\]]*\]\s*/;
const PREFIX = new RegExp(
  `^(?:(${REPLY})|(${FORWARD}))\\s*(?:\\[[^[\\]]*\\]|\\(\\d+\\)|\\^\\d+|\\d{1,2})?\\s*[:：︰]\\s*`,
  'iu',
);
const TRAILER = /\s*\(fwd\)\s*$/i;
const FORWARD_HEADER = /^\[fwd:\s*(.*)\]$/i;

const MAX_SUBJECT = 1000;
const MAX_ROUNDS = 50;

export interface BaseSubject {
  /** the subject without all prefixes; '' when it has nothing else */
  base: string;
  /** the first prefix is that of a reply, not of forwarded mail */
  isReply: boolean;
}

/** Base subject (RFC 5256 2.1), including the prefixes of other languages. */
export function baseSubjectOf(subject: string): BaseSubject {
  const { base, first } = readSubject(subject);
  return { base, isReply: first === 'reply' };
}

/** Whether a subject has the prefix of a reply or of forwarded mail. */
export function isMarkedSubject(subject: string): boolean {
  return readSubject(subject).first !== null;
}

function readSubject(subject: string): { base: string; first: 'reply' | 'forward' | null } {
  let text = subject.slice(0, MAX_SUBJECT).replace(/\s+/g, ' ').trim();
  let first: 'reply' | 'forward' | null = null;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const before = text;
    if (TRAILER.test(text)) first ??= 'forward';
    text = text.replace(TRAILER, '');
    const { rest, kind } = withoutLeaders(text);
    first ??= kind;
    const wrapped = FORWARD_HEADER.exec(rest);
    if (wrapped) first ??= 'forward';
    text = (wrapped?.[1] ?? rest).trim();
    if (text === before) break;
  }
  return { base: text, first };
}

/** Removes one prefix with the blobs before it, else one blob, unless nothing would be left. */
function withoutLeaders(text: string): { rest: string; kind: 'reply' | 'forward' | null } {
  let rest = text;
  while (BLOB.test(rest) && !FORWARD_HEADER.test(rest)) rest = rest.replace(BLOB, '');
  const match = PREFIX.exec(rest);
  if (match) return { rest: rest.slice(match[0].length), kind: match[1] ? 'reply' : 'forward' };
  return { rest: rest === '' ? text : rest, kind: null };
}

/*
 * Threads are connected groups of mails. Two mails belong together when the server says so, else when one names the other's
 * Message-ID or both name a third, else by subject alone. Each of these relations is symmetric, and a new mail joins every
 * group that it touches: the order of arrival does not matter.
 */

/** The facts that decide the thread of a mail. */
export interface ThreadFacts {
  /** `gm:<X-GM-THRID>` or `oid:<THREADID>` where the server provides one; then only this counts */
  serverThreadId?: string | null;
  messageId: string | null;
  inReplyTo: readonly string[];
  references: readonly string[];
  baseSubject: string;
  isReplySubject: boolean;
  date: Date;
  /** see participantsOf */
  participants: readonly string[];
}

/** Keys of a mail: the keys that lead to its thread, and the keys to look up. */
export interface ThreadKeys {
  /** for thread_keys: each leads to the mail's thread */
  keys: string[];
  /** for emails.subject_key, by which later mails find this one; null when the subject does not lead to it */
  subjectKey: string | null;
  /** values of subject_key to look up within SUBJECT_WINDOW_MS of the mail's date; empty: none */
  subjectLookups: string[];
}

/** Another mail found by its subject_key. */
export interface SubjectCandidate {
  threadId: string;
  date: Date;
  participants: readonly string[];
}

export interface ThreadDecision {
  /** the thread that the mail belongs to; null: create one */
  threadId: string | null;
  /** threads that the mail connects: merge them into threadId */
  merge: string[];
  /** keys that do not lead to the thread yet */
  keysToPoint: string[];
}

/** Mails further apart are not joined by subject alone: 7 days. */
export const SUBJECT_WINDOW_MS = 7 * 24 * 3600 * 1000;

/** Ids read from one mail, the first and the last ones: bounds the cost of a hostile header. */
const MAX_REFERENCES = 200;
/** Longer ids (in characters) are hashed, since index entries are bounded. */
const MAX_KEY = 200;

/** The keys of one mail. */
export function threadKeysOf(facts: ThreadFacts): ThreadKeys {
  if (facts.serverThreadId) {
    return { keys: [bounded(facts.serverThreadId)], subjectKey: null, subjectLookups: [] };
  }
  // RFC 5256 3: In-Reply-To counts only without References: if it names another conversation, it would join the two.
  const references = facts.references.filter(joins);
  const named = references.length > 0 ? references : facts.inReplyTo.filter(joins);
  const kept =
    named.length <= MAX_REFERENCES
      ? named
      : [...named.slice(0, MAX_REFERENCES / 2), ...named.slice(-MAX_REFERENCES / 2)];
  const own = facts.messageId !== null && joins(facts.messageId) ? [facts.messageId] : [];
  const ids = [...own, ...kept].map(bareId).filter((id) => id !== '');
  const keys = [...new Set(ids.map((id) => bounded(`mid:${id}`)))];
  return { keys, ...subjectKeysOf(facts, named.length > 0) };
}

/** The threads of the candidates, found by subjectLookups, that are near enough in time and share a participant. */
export function subjectNeighbours(facts: ThreadFacts, candidates: readonly SubjectCandidate[]): string[] {
  const own = new Set(facts.participants);
  const near = candidates.filter(
    (other) =>
      Math.abs(other.date.getTime() - facts.date.getTime()) <= SUBJECT_WINDOW_MS &&
      other.participants.some((participant) => own.has(participant)),
  );
  return [...new Set(near.map((other) => other.threadId))];
}

/**
 * Decides which thread a mail joins, and which threads it merges. `existing` holds the threads that thread_keys has for the
 * mail's keys (merged threads resolved); `neighbours` comes from subjectNeighbours. The older id, which is the smaller
 * string, stays.
 */
export function decideThread(
  keys: readonly string[],
  existing: ReadonlyMap<string, string>,
  neighbours: readonly string[] = [],
): ThreadDecision {
  const found = keys.map((key) => existing.get(key)).filter((id) => id !== undefined);
  const [threadId = null, ...merge] = [...new Set([...found, ...neighbours])].sort();
  return { threadId, merge, keysToPoint: keys.filter((key) => threadId === null || existing.get(key) !== threadId) };
}

/**
 * The participants of a mail, for the subject rule: lower-cased addresses of From, To and Cc. Omits the mailbox's own
 * addresses, since every mail of the mailbox shares them, unless they are the only ones.
 */
export function participantsOf(
  mail: {
    from: { identifier: string };
    to: readonly { identifier: string }[];
    cc: readonly { identifier: string }[];
  },
  ownAddresses: readonly string[],
): string[] {
  const all = [mail.from, ...mail.to, ...mail.cc].map((attendee) => normalAddress(attendee.identifier));
  const everybody = [...new Set(all)].filter((address) => address !== '');
  const own = new Set(ownAddresses.map(normalAddress));
  const others = everybody.filter((address) => !own.has(address));
  return others.length > 0 ? others : everybody;
}

/**
 * A mail without reference headers whose subject marks it as a reply joins any mail of the same base
 * subject; every other mail joins by subject only such an orphan. Hence two kinds of keys, `r:` for orphans.
 */
function subjectKeysOf(facts: ThreadFacts, hasReferences: boolean): Pick<ThreadKeys, 'subjectKey' | 'subjectLookups'> {
  const base = facts.baseSubject.toLowerCase().replace(/\s+/g, ' ').trim();
  if (base === '') return { subjectKey: null, subjectLookups: [] };
  const hash = digest(base);
  return facts.isReplySubject && !hasReferences
    ? { subjectKey: `r:${hash}`, subjectLookups: [`r:${hash}`, `p:${hash}`] }
    : { subjectKey: `p:${hash}`, subjectLookups: [`r:${hash}`] };
}

/** A message id (RFC 5322 3.6.4) without its angle brackets; quotes around its left part do not make it another id. */
function bareId(id: string | null): string {
  const bare = (id ?? '').trim().replace(/^<|>$/g, '').trim();
  return bare.replace(/^"((?:[^"\\]|\\.)*)"(?=@)/, (_, left: string) => left.replace(/\\(.)/g, '$1'));
}

/** Some programs make ids without an @: one counts when it is too long to be a word that two mails share. */
const LONG_ID = /^\S{20,}$/;

/**
 * Whether an id identifies a conversation. An invalid message id is not a reference (RFC 5256 3): it must not keep the
 * subject from counting, and `Message-ID: test` joins nothing.
 */
function joins(id: string): boolean {
  const bare = bareId(id);
  return /^[^@\s]+@[^\s]+$|^"[^"]*"@\S+$/.test(bare) || LONG_ID.test(bare);
}

function bounded(key: string): string {
  return key.length <= MAX_KEY ? key : `${key.slice(0, key.indexOf(':') + 1)}#${digest(key)}`;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22);
}
