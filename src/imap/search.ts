import type { FetchMessageObject } from 'imapflow';
import { readMessageIds } from '../mime/message-ids.ts';
import { inSets, unlessTooMany } from './sets.ts';
import { existsIn, listUids, pagesOf } from './list-uids.ts';
import { type ImapSession, limitsPerMessage, LONGEST_SILENCE_MS } from './session.ts';

const FIND_TIMEOUT_MS = 120_000;
/** The newest messages, whose Message-IDs are read when the server cannot search or its index may be late. */
const NEWEST = 200;
const NEWEST_UNINDEXED = 50;
const MAX_FOUND = 1_000;
const ID = 'message-id';
/** Where Microsoft's servers keep the Message-ID that they replace. */
const REPLACED_ID = 'x-microsoft-original-message-id';

interface Found {
  uid: number;
  /** with its angle brackets */
  messageId: string;
}

/**
 * UIDs of the messages in the selected folder with exactly this Message-ID, ascending. Servers match substrings, some
 * cannot search, and some index a new message late: the newest messages are then read.
 * @param messageId with or without angle brackets
 * @throws MailError
 */
export async function findByMessageId(session: ImapSession, messageId: string): Promise<number[]> {
  return (await find(session, { messageId, headers: [ID] })).map(({ uid }) => uid);
}

/**
 * Finds a message in the selected folder as `findByMessageId` does, also when a server of Microsoft's has replaced its
 * Message-ID. Other servers have no index of the header that says so: there this may take minutes.
 * @returns the Message-ID that it has; undefined: the folder has none
 * @throws MailError
 */
export async function findByOriginalId(session: ImapSession, messageId: string): Promise<string | undefined> {
  return (await find(session, { messageId, headers: [ID, REPLACED_ID] }))[0]?.messageId;
}

/** The Message-ID that is looked for, and the headers that it may be in. */
interface Wanted {
  messageId: string;
  headers: string[];
}

async function find(session: ImapSession, { messageId, headers }: Wanted): Promise<Found[]> {
  const [wantedId] = readMessageIds(messageId);
  if (!wantedId) return [];
  const wanted = { messageId: wantedId, headers };
  const candidates = (await search(session, wanted))?.slice(-MAX_FOUND);
  const found = new Map<number, Found>();
  await inSets(session, candidates ?? [], async (set) => {
    for (const one of await messagesWith(session, wanted, set, true)) found.set(one.uid, one);
  });
  if (found.size === 0 && existsIn(session) > 0) {
    for (const one of await newestWith(session, wanted, candidates ? NEWEST_UNINDEXED : NEWEST))
      found.set(one.uid, one);
  }
  return [...found.values()].sort((a, b) => a.uid - b.uid);
}

/** UIDs of messages with a header that contains the Message-ID, ascending; undefined when the server refuses. */
async function search(session: ImapSession, { messageId, headers }: Wanted): Promise<number[] | undefined> {
  const keys = headers.map((name) => ({ header: { [name]: messageId } }));
  const ask = async (seq?: string) => {
    const query = { ...(seq ? { seq } : {}), ...(keys.length > 1 ? { or: keys } : keys[0]) };
    const found = await session.run('SEARCH', () => session.client.search(query, { uid: true }), {
      deadlineMs: FIND_TIMEOUT_MS,
      silenceMs: LONGEST_SILENCE_MS,
    });
    // imapflow returns false for a refused SEARCH
    return Array.isArray(found) ? found : undefined;
  };
  const isLimited = () => session.messageLimit < existsIn(session);
  const found = isLimited() ? undefined : await ask();
  // shows whether it was refused for the number of messages
  if (!found && !isLimited()) await listUids(session);
  // the limit may have shown just now
  if (!isLimited()) return found;
  const uids = new Set<number>();
  for (const { first, last } of pagesOf(session, existsIn(session))) {
    const page = await ask(`${first}:${last}`);
    if (!page) return undefined;
    for (const uid of page) uids.add(uid);
  }
  return [...uids].sort((a, b) => a - b);
}

async function newestWith(session: ImapSession, wanted: Wanted, most: number): Promise<Found[]> {
  const count = Math.min(most, session.messageLimit, existsIn(session));
  const set = `${existsIn(session) - count + 1}:*`;
  const found = await unlessTooMany(session, count, () => messagesWith(session, wanted, set, false));
  return found ?? newestWith(session, wanted, most);
}

async function messagesWith(session: ImapSession, wanted: Wanted, set: string, byUid: boolean): Promise<Found[]> {
  const messages: Found[] = [];
  const read = ({ uid, headers }: FetchMessageObject) => {
    const ids = headers ? idsIn(headers) : [];
    if (!uid || !ids.some(({ id }) => id === wanted.messageId)) return;
    messages.push({ uid, messageId: ids.find(({ name }) => name === ID)?.id ?? wanted.messageId });
  };
  const collect = async () => {
    const query = { uid: true, headers: wanted.headers };
    for await (const row of session.client.fetch(set, query, { uid: byUid })) read(row);
  };
  await session.run('FETCH', collect, limitsPerMessage(session, FIND_TIMEOUT_MS));
  return messages;
}

/** The Message-IDs in header fields, with the lower-cased names of these. */
function idsIn(headers: Buffer): { name: string; id: string }[] {
  const fields = headers.toString('latin1').split(/\r?\n(?![ \t])/);
  return fields.flatMap((field) => {
    const [name = '', ...value] = field.split(':');
    return readMessageIds(value.join(':')).map((id) => ({ name: name.trim().toLowerCase(), id }));
  });
}
