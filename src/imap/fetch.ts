import type { FetchMessageObject, FetchQueryObject } from 'imapflow';
import { identityOf, weakIdentityOf } from './identity.ts';
import type { UidRange, VanishedEvent } from './imapflow-patches.ts';
import { type ImapSession, limitsPerMessage, MAX_ROWS } from './session.ts';

/** Metadata of a message, known before its body is fetched. */
export interface MessageMeta {
  uid: number;
  seen: boolean;
  deleted: boolean;
  internalDate: Date;
  /** RFC822.SIZE in bytes */
  size: number;
  identity: string;
  weakIdentity: string;
  /** as in the header, with its angle brackets */
  messageId: string | null;
  /** EMAILID (RFC 8474) or X-GM-MSGID */
  serverId: string | null;
  /** THREADID as `oid:…` or X-GM-THRID as `gm:…` */
  serverThreadId: string | null;
}

/** Flags of one message. */
export interface MessageFlags {
  uid: number;
  seen: boolean;
  deleted: boolean;
}

const META_QUERY: FetchQueryObject = {
  uid: true,
  flags: true,
  internalDate: true,
  size: true,
  threadId: true,
  headers: ['message-id', 'subject', 'from', 'date'],
};

const FLAGS_QUERY: FetchQueryObject = { uid: true, flags: true };

/** Length of the longest sequence set in one command; servers refuse lines much over 8,000 bytes. */
const MAX_SET_LENGTH = 4_000;
export const FETCH_TIMEOUT_MS = 300_000;

/** UIDs have 32 bits (RFC 3501 2.3.1.1). */
export const MAX_UID = 4_294_967_295;

/** Metadata of the messages with UIDs from `from` to `to`, ascending; other UIDs are omitted (RFC 3501 `n:*`). */
export async function fetchMeta(session: ImapSession, from: number, to = Infinity): Promise<MessageMeta[]> {
  const range = `${from}:${to === Infinity ? '*' : to}`;
  const metas = await fetchRows(session, { set: range, query: META_QUERY }, metaOf(session));
  return byUid(metas.filter(({ uid }) => uid >= from && uid <= to));
}

/** Metadata of these UIDs. */
export async function fetchMetaOf(session: ImapSession, uids: number[]): Promise<MessageMeta[]> {
  const wanted = new Set(uids);
  const metas: MessageMeta[] = [];
  for (const set of uidSets(uids)) {
    const rows = await fetchRows(session, { set, query: META_QUERY }, metaOf(session));
    for (const row of rows) if (wanted.has(row.uid)) metas.push(row);
  }
  return metas;
}

/** Metadata of a message that this product appended, on a server that stores it unchanged. */
export function metaOfAppended(
  uid: number,
  { messageId, source, date }: { messageId: string; source: Buffer; date: Date },
): MessageMeta {
  const facts = { messageId, size: source.length, internalDate: date };
  return {
    uid,
    ...{ seen: true, deleted: false, internalDate: date, size: source.length, messageId },
    identity: identityOf(facts),
    weakIdentity: weakIdentityOf(facts),
    serverId: null,
    serverThreadId: null,
  };
}

/** Metadata of the newest `count` messages of the selected folder, ascending. */
export async function fetchNewestMeta(session: ImapSession, exists: number, count: number): Promise<MessageMeta[]> {
  if (exists === 0) return [];
  const set = `${Math.max(1, exists - count + 1)}:*`;
  return byUid(await fetchRows(session, { set, query: META_QUERY, uid: false }, metaOf(session)));
}

/** Whole messages in memory, and the UIDs of the messages that did not fit. */
export interface Sources {
  sources: Map<number, Buffer>;
  remaining: Set<number>;
}

/**
 * Whole messages by UID, in memory, up to `maxBytes` in all, regardless of RFC822.SIZE. Vanished messages are missing.
 */
export async function fetchSources(session: ImapSession, uids: number[], maxBytes: number): Promise<Sources> {
  const wanted = new Set(uids);
  const sources = new Map<number, Buffer>();
  const remaining = new Set<number>();
  let bytes = 0;
  for (const set of uidSets(uids)) {
    await fetchRows(session, { set, query: { uid: true, source: true } }, ({ uid, source }) => {
      if (!source || !wanted.has(uid) || sources.has(uid) || remaining.has(uid)) return undefined;
      bytes += source.length;
      if (bytes <= maxBytes) sources.set(uid, source);
      else remaining.add(uid);
      return undefined;
    });
  }
  return { sources, remaining };
}

/** One message as a stream, in pieces, however large; null when it has vanished. */
export async function downloadSource(session: ImapSession, uid: number) {
  const download = await session.run('FETCH', () => session.client.download(String(uid), undefined, { uid: true }));
  return 'content' in download && download.content ? download.content : null;
}

/** Flags of the messages in a UID set. */
export async function fetchFlags(session: ImapSession, set: string): Promise<MessageFlags[]> {
  return fetchRows(session, { set, query: FLAGS_QUERY }, flagsOf);
}

/** Flags of the messages in a set of sequence numbers, for servers that report a change by number alone. */
export async function fetchFlagsBySequence(session: ImapSession, set: string): Promise<MessageFlags[]> {
  return fetchRows(session, { set, query: FLAGS_QUERY, uid: false }, flagsOf);
}

/** Changes since a MODSEQ. */
export interface Changes {
  flags: MessageFlags[];
  /** UIDs that have vanished; null where the server does not report them (no QRESYNC) */
  vanished: UidRange[] | null;
  /** highest MODSEQ in the responses */
  modseq: bigint;
}

/** RFC 7162: `UID FETCH 1:* (FLAGS) (CHANGEDSINCE n [VANISHED])`. */
export async function fetchChanges(session: ImapSession, since: bigint): Promise<Changes> {
  const vanished: UidRange[] = [];
  const events: NodeJS.EventEmitter = session.client;
  const onVanished = ({ ranges }: VanishedEvent) => {
    if (vanished.length < MAX_ROWS) for (const range of ranges) vanished.push(range);
  };
  events.on('vanished', onVanished);
  let modseq = since;
  try {
    const read = (row: FetchMessageObject) => {
      if (row.modseq && row.modseq > modseq) modseq = row.modseq;
      return flagsOf(row);
    };
    const flags = await fetchRows(session, { set: '1:*', query: FLAGS_QUERY, changedSince: since }, read);
    return { flags, vanished: session.qresync ? vanished : null, modseq };
  } finally {
    events.off('vanished', onVanished);
  }
}

interface FetchRequest {
  /** UIDs, or sequence numbers with `uid: false` */
  set: string;
  query: FetchQueryObject;
  uid?: boolean;
  /** MODSEQ */
  changedSince?: bigint;
}

/**
 * FETCH of a set, each message mapped by `read`; undefined is omitted. A message that is reported twice counts once.
 * Responses without a UID are omitted: they report changes of other messages in between.
 */
export async function fetchRows<T extends { uid: number }>(
  session: ImapSession,
  { set, query, ...options }: FetchRequest,
  read: (row: FetchMessageObject) => T | undefined,
): Promise<T[]> {
  const { client } = session;
  const rows = new Map<number, T>();
  const collect = async () => {
    for await (const row of client.fetch(set, query, { uid: true, ...options })) {
      const value = row.uid ? read(row) : undefined;
      if (value) rows.set(row.uid, value);
    }
  };
  await session.run('FETCH', collect, limitsPerMessage(session, FETCH_TIMEOUT_MS));
  return [...rows.values()];
}

export function byUid<T extends { uid: number }>(rows: T[]): T[] {
  return rows.sort((a, b) => a.uid - b.uid);
}

/** Reads metadata; undefined for a row without it: servers report changed flags in such rows. */
function metaOf(session: ImapSession): (row: FetchMessageObject) => MessageMeta | undefined {
  return (row) => (row.size === undefined ? undefined : readMeta(session, row));
}

function readMeta(session: ImapSession, row: FetchMessageObject): MessageMeta | undefined {
  const flags = flagsOf(row);
  if (!flags) return undefined;
  const header = row.headers?.toString('latin1') ?? '';
  const field = (name: string) => new RegExp(`^${name}:((?:[^\\r\\n]|\\r?\\n[ \\t])*)`, 'im').exec(header)?.[1]?.trim();
  const messageId = field('message-id')?.replace(/\s+/g, '') || null;
  const internalDate = validDate(row.internalDate);
  // An invented date would differ each time.
  const extra = messageId ? [] : [field('subject'), field('from'), field('date')];
  const facts = { messageId, size: row.size ?? 0, internalDate: internalDate ?? '', extra };
  const kind = session.has('OBJECTID') ? 'oid' : 'gm';
  return {
    ...flags,
    internalDate: internalDate ?? new Date(),
    size: facts.size,
    identity: identityOf(facts),
    weakIdentity: weakIdentityOf(facts),
    messageId,
    serverId: row.emailId || null,
    serverThreadId: row.threadId ? `${kind}:${row.threadId}` : null,
  };
}

function flagsOf({ uid, flags }: FetchMessageObject): MessageFlags | undefined {
  if (!flags) return undefined;
  // System flags are case-insensitive (RFC 3501 2.3.2).
  const names = new Set([...flags].map((flag) => flag.toLowerCase()));
  return { uid, seen: names.has('\\seen'), deleted: names.has('\\deleted') };
}

/** Undefined for an invalid date, or one outside the range of the database and ISO 8601. */
function validDate(date: Date | string | undefined): Date | undefined {
  const parsed = new Date(date ?? '');
  const year = parsed.getUTCFullYear();
  return year >= 1 && year <= 9999 ? parsed : undefined;
}

/** Sequence sets of at most MAX_SET_LENGTH characters that name all numbers, with runs folded (`1:3,7`). */
export function* uidSets(numbers: number[]): Generator<string> {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  let set = '';
  for (let index = 0; index < sorted.length; ) {
    let end = index;
    while (end + 1 < sorted.length && sorted[end + 1] === (sorted[end] as number) + 1) end++;
    const run = end === index ? `${sorted[index]}` : `${sorted[index]}:${sorted[end]}`;
    if (set && set.length + run.length + 1 > MAX_SET_LENGTH) {
      yield set;
      set = '';
    }
    set = set ? `${set},${run}` : run;
    index = end + 1;
  }
  if (set) yield set;
}
