import type { FetchMessageObject, FetchQueryObject } from 'imapflow';
import { identityOf, weakIdentityOf } from './identity.ts';
import type { UidRange, VanishedEvent } from './imapflow-patches.ts';
import {
  byUid,
  fetchNotRefused,
  fetchRows,
  inSets,
  type OnRefused,
  type RefusedMessages,
  unlessRefused,
  unlessTooMany,
} from './sets.ts';
import { existsIn, listUids } from './list-uids.ts';
import { storable } from '../runtime/storable.ts';
import { type ImapSession, MAX_ROWS } from './session.ts';

/** Metadata of a message, known before its body is fetched. */
export interface MessageMeta extends MessageFlags {
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
  /** further flags and keywords, as src/contract/flags.ts says */
  flags: string[];
}

/** Bounds what a server can make the store hold; others, and those of more than 128 characters, are not stored. */
const MAX_FLAGS = 100;
const NOT_STORED = new Set(['\\seen', '\\deleted', '\\draft', '\\recent']);

/** Flags of a message from the names that the server sends. */
export function readFlags(names: Iterable<string>): Omit<MessageFlags, 'uid'> {
  const all = new Set([...names].map((name) => name.toLowerCase()));
  const flags = [...all].filter((name) => !NOT_STORED.has(name) && /^[\x21-\x7e]{1,128}$/.test(name)).sort();
  return { seen: all.has('\\seen'), deleted: all.has('\\deleted'), flags: flags.slice(0, MAX_FLAGS) };
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

/** UIDs have 32 bits (RFC 3501 2.3.1.1). */
export const MAX_UID = 4_294_967_295;

/** Metadata of the messages with UIDs from `from` to `to`, ascending. */
export async function fetchMeta(
  session: ImapSession,
  from: number,
  to = Infinity,
  onRefused?: OnRefused,
): Promise<MessageMeta[]> {
  const range = `${from}:${to === Infinity ? '*' : to}`;
  const isWanted = ({ uid }: { uid: number }) => uid >= from && uid <= to;
  // `n:*` names the last message even if its UID is lower (RFC 9051 9)
  const fetch = () => fetchRows(session, { set: range, query: META_QUERY }, metaOf(session));
  const { shown } = session;
  const rows = await unlessTooMany(session, existsIn(session), fetch).catch(unlessRefused);
  const metas = (rows ?? []).filter(isWanted);
  if (rows && (metas.length < shown || metas.length >= existsIn(session))) return byUid(metas);
  const { uids } = await listUids(session);
  const seen = new Set(metas.map(({ uid }) => uid));
  const left = uids.filter((uid) => isWanted({ uid }) && !seen.has(uid));
  return byUid([...metas, ...(await fetchMetaOf(session, left, onRefused))]);
}

/**
 * Metadata of these UIDs. A message of which the server refuses to send any is missing.
 * @throws MailError when three of them, chosen at random, are refused, or all of fewer; with `onRefused` not when there are fewer
 */
export function fetchMetaOf(session: ImapSession, uids: number[], onRefused?: OnRefused): Promise<MessageMeta[]> {
  return fetchNotRefused(uids, (part) => fetchEach(session, part, META_QUERY, metaOf(session)), { onRefused });
}

/**
 * As `fetchMetaOf`, where all of these UIDs may be damaged.
 * @throws MailError as there, unless the server sends one of ten of `others`, chosen at random
 */
export function fetchMetaAmong(
  session: ImapSession,
  uids: number[],
  { others, onRefused }: RefusedMessages & { others: readonly number[] },
): Promise<MessageMeta[]> {
  const fetch = (part: number[]) => fetchEach(session, part, META_QUERY, metaOf(session));
  return fetchNotRefused(uids, fetch, { onRefused, others });
}

/** As `fetchMetaOf`, but nothing where the server refuses them: they may be damaged ones that are left. */
export async function fetchMetaIfSent(
  session: ImapSession,
  uids: number[],
  onRefused?: OnRefused,
): Promise<MessageMeta[]> {
  return (await fetchMetaOf(session, uids, onRefused).catch(unlessRefused)) ?? [];
}

/** Metadata of a message that this product appended, on a server that stores it unchanged. */
export function metaOfAppended(
  uid: number,
  { messageId, source, date }: { messageId: string; source: Buffer; date: Date },
): MessageMeta {
  const facts = { messageId, size: source.length, internalDate: date };
  return {
    uid,
    ...{ seen: true, deleted: false, flags: [], internalDate: date, size: source.length, messageId },
    identity: identityOf(facts),
    weakIdentity: weakIdentityOf(facts),
    serverId: null,
    serverThreadId: null,
  };
}

/** Metadata of the newest `count` messages of the selected folder, ascending. */
export async function fetchNewestMeta(session: ImapSession, count: number): Promise<MessageMeta[]> {
  return byUid(await fetchNewest(session, count, META_QUERY, metaOf(session)));
}

/** Whole messages in memory. */
export interface Sources {
  sources: Map<number, Buffer>;
  /** UIDs of the messages that did not fit */
  remaining: Set<number>;
  /** UIDs of the messages of which the server sent NIL */
  empty: Set<number>;
}

/**
 * Whole messages by UID, in memory, up to `maxBytes` in all, regardless of RFC822.SIZE. Vanished messages are missing.
 */
export async function fetchSources(session: ImapSession, uids: number[], maxBytes: number): Promise<Sources> {
  const sources = new Map<number, Buffer>();
  const remaining = new Set<number>();
  const empty = new Set<number>();
  let bytes = 0;
  await fetchEach(session, uids, { uid: true, source: true }, ({ uid, source }: NilRow) => {
    if (source === false) empty.add(uid);
    if (!source) return undefined;
    if (!sources.has(uid) && !remaining.has(uid)) {
      bytes += source.length;
      if (bytes <= maxBytes) sources.set(uid, source);
      else remaining.add(uid);
    }
    return { uid };
  });
  return { sources, remaining, empty };
}

/** imapflow has `false` for NIL, and undefined in a row that has no such item. */
type NilRow = Omit<FetchMessageObject, 'source'> & { source?: Buffer | false | undefined };

/** One message as a stream, in pieces, however large; null when it has vanished. */
export async function downloadSource(session: ImapSession, uid: number) {
  const download = await session.run('FETCH', () => session.client.download(String(uid), undefined, { uid: true }));
  return 'content' in download && download.content ? download.content : null;
}

/** Flags of these UIDs. */
export function fetchFlags(session: ImapSession, uids: number[]): Promise<MessageFlags[]> {
  return fetchEach(session, uids, FLAGS_QUERY, flagsOf);
}

/** Flags of the newest `count` messages of the selected folder: by default of all. */
export function fetchNewestFlags(session: ImapSession, count = Infinity): Promise<MessageFlags[]> {
  return fetchNewest(session, count, FLAGS_QUERY, flagsOf);
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
    const fetch = (set: string) => fetchRows(session, { set, query: FLAGS_QUERY, changedSince: since }, read);
    const flags = (await fetchAtOnce(session, () => fetch('1:*'))) ?? (await fetchInRanges(session, fetch));
    return { flags, vanished: session.qresync ? vanished : null, modseq };
  } finally {
    events.off('vanished', onVanished);
  }
}

/** Undefined when the response may lack changes, since the folder has more messages than one command may name. */
async function fetchAtOnce<T>(session: ImapSession, fetch: () => Promise<T[]>): Promise<T[] | undefined> {
  const isLimited = () => session.messageLimit < existsIn(session);
  const { shown } = session;
  const rows = isLimited() ? undefined : await unlessTooMany(session, existsIn(session), fetch);
  if (rows && rows.length >= shown && rows.length < existsIn(session)) await listUids(session);
  // the limit may have shown just now
  return isLimited() ? undefined : rows;
}

async function fetchInRanges<T>(session: ImapSession, fetch: (set: string) => Promise<T[]>): Promise<T[]> {
  const ranges = await rangesOf(session);
  const limit = session.messageLimit;
  const rows: T[] = [];
  for (const set of ranges) {
    for (const row of (await unlessTooMany(session, limit, () => fetch(set))) ?? []) rows.push(row);
    // the session has learned the limit
    if (session.messageLimit < limit) return fetchInRanges(session, fetch);
  }
  return rows;
}

/** All UIDs there can be, in ranges that hold as many messages as one command may name. */
async function rangesOf(session: ImapSession): Promise<string[]> {
  const { uids } = await listUids(session);
  const ranges: string[] = [];
  let from = 1;
  // a separate range for what arrives
  for (let end = session.messageLimit; end <= uids.length; end += session.messageLimit) {
    const to = uids[end - 1] as number;
    ranges.push(`${from}:${to}`);
    from = to + 1;
  }
  return [...ranges, `${from}:*`];
}

/** FETCH of the newest `count` messages of the selected folder, each mapped by `read`. */
async function fetchNewest<T extends { uid: number }>(
  session: ImapSession,
  count: number,
  query: FetchQueryObject,
  read: (row: FetchMessageObject) => T | undefined,
): Promise<T[]> {
  const exists = existsIn(session);
  if (exists === 0) return [];
  const first = Math.max(1, exists - count + 1);
  const isAllowed = exists - first + 1 <= session.messageLimit;
  const fetch = () => fetchRows(session, { set: `${first}:*`, query, uid: false }, read);
  const rows =
    (isAllowed ? await unlessTooMany(session, exists - first + 1, fetch).catch(unlessRefused) : undefined) ?? [];
  if (rows.length > exists - first) return rows;
  const seen = new Set(rows.map(({ uid }) => uid));
  const newest = (await listUids(session)).uids.slice(count === Infinity ? 0 : -count);
  const left = newest.filter((uid) => !seen.has(uid));
  return [...rows, ...(await fetchNotRefused(left, (part) => fetchEach(session, part, query, read)))];
}

/** FETCH of these UIDs, each mapped by `read`. Asks again for those that the server left out, as long as it has more. */
async function fetchEach<T extends { uid: number }>(
  session: ImapSession,
  uids: number[],
  query: FetchQueryObject,
  read: (row: FetchMessageObject) => T | undefined,
): Promise<T[]> {
  const wanted = new Set(uids);
  const rows = new Map<number, T>();
  const fetchOnce = async (part: number[]) => {
    let largest = 0;
    await inSets(session, part, async (set) => {
      const found = (await fetchRows(session, { set, query }, read)).filter(({ uid }) => wanted.has(uid));
      for (const row of found) rows.set(row.uid, row);
      largest = Math.max(largest, found.length);
    });
    return largest;
  };
  const { shown } = session;
  let left = uids;
  let largest = await fetchOnce(uids);
  while (largest >= shown && rows.size > 0 && rows.size < wanted.size) {
    const before = rows.size;
    left = left.filter((uid) => !rows.has(uid));
    const more = await fetchOnce(left);
    if (rows.size === before) break;
    session.observeLimit(Math.max(largest, more));
    largest = more;
  }
  return [...rows.values()];
}

/** Reads metadata; undefined for a row without it: servers report changed flags in such rows. */
function metaOf(session: ImapSession): (row: FetchMessageObject) => MessageMeta | undefined {
  return (row) => (row.size === undefined ? undefined : readMeta(session, row));
}

function readMeta(session: ImapSession, row: FetchMessageObject): MessageMeta | undefined {
  const flags = flagsOf(row);
  if (!flags) return undefined;
  const header = row.headers?.toString('latin1') ?? '';
  const lines = header.split(/\r?\n(?![ \t])/);
  const field = (name: string) => {
    const line = lines.find((each) => each.slice(0, name.length + 1).toLowerCase() === `${name}:`);
    return line
      ?.slice(name.length + 1)
      .split(/\r(?!\n)/, 1)[0]
      ?.trim();
  };
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
    // not all servers replace NUL
    messageId: messageId && storable(messageId),
    serverId: row.emailId ? storable(row.emailId) : null,
    serverThreadId: row.threadId ? storable(`${kind}:${row.threadId}`) : null,
  };
}

function flagsOf({ uid, flags }: FetchMessageObject): MessageFlags | undefined {
  return flags && { uid, ...readFlags(flags) };
}

/** Undefined for an invalid date, or one outside the range of the database and ISO 8601. */
function validDate(date: Date | string | undefined): Date | undefined {
  const parsed = new Date(date ?? '');
  const year = parsed.getUTCFullYear();
  return year >= 1 && year <= 9999 ? parsed : undefined;
}
