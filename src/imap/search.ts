import type { FetchMessageObject } from 'imapflow';
import { readMessageIds } from '../mime/message-ids.ts';
import { byUid, FETCH_TIMEOUT_MS, fetchRows, uidSets } from './fetch.ts';
import { type ImapSession, limitsPerMessage } from './session.ts';

/** The sequence numbers that one SEARCH covers. */
const SEARCH_SPAN = 50_000;

/** The UIDs below `before` in the selected folder, ascending. */
export async function searchUids(session: ImapSession, before: number, since?: Date): Promise<number[]> {
  if (before <= 1) return [];
  const uids = new Set<number>();
  const exists = (session.client.mailbox && session.client.mailbox.exists) || 0;
  // The response is one line, which must stay short. From the last message to the first: an expunge in between moves later
  // messages down, where they are at worst found a second time.
  for (let last = exists; last > 0; last -= SEARCH_SPAN) {
    const seq = `${Math.max(1, last - SEARCH_SPAN + 1)}:${last === exists ? '*' : last}`;
    const query = { uid: `1:${before - 1}`, ...(exists > SEARCH_SPAN ? { seq } : {}), ...(since ? { since } : {}) };
    const found = await session.run('SEARCH', () => session.client.search(query, { uid: true }), {
      deadlineMs: FETCH_TIMEOUT_MS,
    });
    // imapflow returns false for a refused SEARCH: use FETCH.
    if (!Array.isArray(found)) return fetchUids(session, before, since);
    for (const uid of found) if (uid < before) uids.add(uid);
  }
  return [...uids].sort((a, b) => a - b);
}

/** The UIDs below `before` in the selected folder, ascending, by FETCH instead of SEARCH. */
export async function fetchUids(session: ImapSession, before: number, since?: Date): Promise<number[]> {
  const query = { uid: true, internalDate: true };
  const read = ({ uid, internalDate }: FetchMessageObject) =>
    uid < before && (!since || new Date(internalDate ?? 0) >= since) ? { uid } : undefined;
  return byUid(await fetchRows(session, { set: `1:${before - 1}`, query }, read)).map(({ uid }) => uid);
}

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
  const query = { header: { 'message-id': wanted } };
  const matches = await session.run('SEARCH', () => session.client.search(query, { uid: true }), {
    deadlineMs: FIND_TIMEOUT_MS,
  });
  // imapflow returns false for a refused SEARCH
  const candidates = Array.isArray(matches) ? matches.slice(-MAX_FOUND) : undefined;
  const found = new Set<number>();
  for (const set of uidSets(candidates ?? [])) {
    for (const uid of await uidsWith(session, wanted, set, true)) found.add(uid);
  }
  const exists = (session.client.mailbox && session.client.mailbox.exists) || 0;
  if (found.size === 0 && exists > 0) {
    const first = Math.max(1, exists - (candidates ? NEWEST_UNINDEXED : NEWEST) + 1);
    for (const uid of await uidsWith(session, wanted, `${first}:*`, false)) found.add(uid);
  }
  return [...found].sort((a, b) => a - b);
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
