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

/**
 * UIDs of the messages in the selected folder with exactly this Message-ID, ascending. Servers match substrings, some
 * cannot search, and some index a new message late: the newest messages are then read.
 * @param messageId with or without angle brackets
 * @throws MailError
 */
export async function findByMessageId(session: ImapSession, messageId: string): Promise<number[]> {
  const [wanted] = readMessageIds(messageId);
  if (!wanted) return [];
  const candidates = (await search(session, wanted))?.slice(-MAX_FOUND);
  const found = new Set<number>();
  await inSets(session, candidates ?? [], async (set) => {
    for (const uid of await uidsWith(session, wanted, set, true)) found.add(uid);
  });
  if (found.size === 0 && existsIn(session) > 0) {
    for (const uid of await newestWith(session, wanted, candidates ? NEWEST_UNINDEXED : NEWEST)) found.add(uid);
  }
  return [...found].sort((a, b) => a - b);
}

/** UIDs of messages whose Message-ID contains this text, ascending; undefined when the server refuses. */
async function search(session: ImapSession, messageId: string): Promise<number[] | undefined> {
  const ask = async (seq?: string) => {
    const query = { ...(seq ? { seq } : {}), header: { 'message-id': messageId } };
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

async function newestWith(session: ImapSession, wanted: string, most: number): Promise<number[]> {
  const count = Math.min(most, session.messageLimit, existsIn(session));
  const set = `${existsIn(session) - count + 1}:*`;
  const found = await unlessTooMany(session, count, () => uidsWith(session, wanted, set, false));
  return found ?? newestWith(session, wanted, most);
}

async function uidsWith(session: ImapSession, wanted: string, set: string, byUid: boolean): Promise<number[]> {
  const uids: number[] = [];
  const read = ({ uid, headers }: FetchMessageObject) => {
    if (uid && headers && readMessageIds(valueOf(headers)).includes(wanted)) uids.push(uid);
  };
  const collect = async () => {
    const query = { uid: true, headers: ['message-id'] };
    for await (const row of session.client.fetch(set, query, { uid: byUid })) read(row);
  };
  await session.run('FETCH', collect, limitsPerMessage(session, FIND_TIMEOUT_MS));
  return uids;
}

function valueOf(headers: Buffer): string {
  return headers.toString('latin1').replace(/^[^:]*:/, '');
}
