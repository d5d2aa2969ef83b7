import type { FetchMessageObject, FetchQueryObject } from 'imapflow';
import type { MailError } from '../mail-wire/mail-error.ts';
import { uidRanges } from './imapflow-patches.ts';
import { refusalCode, refusedFetch } from './response-codes.ts';
import { type ImapSession, limitsPerMessage } from './session.ts';

export const FETCH_TIMEOUT_MS = 300_000;

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
  session.show(rows.size);
  return [...rows.values()];
}

export function byUid<T extends { uid: number }>(rows: T[]): T[] {
  return rows.sort((a, b) => a.uid - b.uid);
}

/** Length of the longest sequence set in one command; servers refuse lines much over 8,000 bytes. */
const MAX_SET_LENGTH = 4_000;

/**
 * Sequence sets that name all numbers, with runs folded (`1:3,7`).
 * @param most numbers in one set
 */
export function* uidSets(numbers: number[], most = Infinity): Generator<string> {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  let set = '';
  let count = 0;
  for (let index = 0; index < sorted.length; ) {
    let end = index;
    while (end + 1 < sorted.length && sorted[end + 1] === (sorted[end] as number) + 1 && end + 1 - index + count < most)
      end++;
    const run = end === index ? `${sorted[index]}` : `${sorted[index]}:${sorted[end]}`;
    if (set && set.length + run.length + 1 > MAX_SET_LENGTH) {
      yield set;
      set = '';
      count = 0;
    }
    set = set ? `${set},${run}` : run;
    count += end + 1 - index;
    if (count >= most) {
      yield set;
      set = '';
      count = 0;
    }
    index = end + 1;
  }
  if (set) yield set;
}

/** The numbers of a set, in its order; empty when it has more than `max`. */
export function numbersOf(set: string, max = Infinity): number[] {
  const ranges = uidRanges(set);
  const count = ranges.reduce((sum, { from, to }) => sum + to - from + 1, 0);
  if (count > max) return [];
  return ranges.flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, index) => from + index));
}

/**
 * Runs a command for UIDs, in sets that one command may name. Where the server says that it has processed only some of a set
 * (MESSAGELIMIT, RFC 9738), or refuses it for its size, the command is repeated in smaller sets: it must do no harm twice.
 * @throws MailError
 */
export async function inSets(
  session: ImapSession,
  uids: number[],
  work: (set: string) => Promise<void>,
): Promise<void> {
  const limit = session.messageLimit;
  for (const set of uidSets(uids, limit)) {
    await unlessTooMany(session, Math.min(uids.length, limit), () => work(set));
    // the session has learned the limit
    if (session.messageLimit < limit) return inSets(session, uids, work);
  }
}

/**
 * Runs a command that names so many messages at most. Undefined when the server refuses it for their number (MESSAGELIMIT,
 * RFC 9738): the session knows a lower limit then, a guess if the server does not state one.
 * @throws MailError
 */
export async function unlessTooMany<T>(
  session: ImapSession,
  named: number,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (refusalCode(error) !== 'MESSAGELIMIT') throw error;
    if (named <= session.messageLimit) session.observeLimit(Math.floor(named / 2));
    if (named <= session.messageLimit) throw error;
    return undefined;
  }
}

/** Called with each message that the server refuses to send alone. */
export type OnRefused = (uid: number, refusal: MailError) => void;

/** What is known of messages that the server may refuse to send. */
export interface RefusedMessages {
  onRefused?: OnRefused | undefined;
  /** UIDs of the folder: where the server sends one of them, those that it refuses are damaged, and it does not refuse the folder */
  others?: readonly number[];
}

export function unlessRefused(error: unknown): undefined {
  if (!refusedFetch(error)) throw error;
}

/** Refusals of single messages, chosen at random, after which the folder counts as refused, unless the server has sent others. */
export const ENOUGH_REFUSALS = 3;

/** The messages in an order by chance: the first ones of a folder may be those that are damaged. */
export function shuffled<T>(messages: readonly T[]): T[] {
  const keyed = messages.map((message) => ({ message, key: Math.random() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ message }) => message);
}

/** Messages that are requested in order to know whether the server refuses the whole folder. */
const PROBES = 10;

/**
 * Fetches messages in halves of halves, where the server refuses to send them together. A message of which it refuses to send any
 * is missing.
 * @throws MailError when three of them, chosen at random, are refused, or all of fewer, and ten of `others` too; with `onRefused`
 *   not when there are fewer
 */
export async function fetchNotRefused<T>(
  uids: number[],
  fetch: (uids: number[]) => Promise<T[]>,
  { onRefused, others = [] }: RefusedMessages = {},
): Promise<T[]> {
  const rows: T[] = [];
  const refused: [number, MailError][] = [];
  const fetchPart = async (part: number[]): Promise<MailError | undefined> => {
    try {
      for (const row of await fetch(part)) rows.push(row);
      return undefined;
    } catch (error) {
      if (!refusedFetch(error)) throw error;
      const [uid] = part;
      if (part.length === 1 && uid !== undefined) refused.push([uid, error]);
      return error;
    }
  };
  const fetchHalves = async (part: number[]): Promise<void> => {
    if (part.length === 0 || !(await fetchPart(part)) || part.length === 1) return;
    const half = part.length >> 1;
    await fetchHalves(part.slice(0, half));
    await fetchHalves(part.slice(half));
  };
  const refusal = uids.length > 0 ? await fetchPart(uids) : undefined;
  if (!refusal) return rows;
  const first = uids.length > 1 ? shuffled(uids).slice(0, ENOUGH_REFUSALS) : uids;
  if (uids.length > 1) for (const uid of first) await fetchPart([uid]);
  const isDoubtful = !onRefused || first.length === ENOUGH_REFUSALS;
  if (rows.length === 0 && isDoubtful && !(await isAnySent(uids, others, fetch))) throw refusal;
  // not before: of a folder that is refused, no message is
  try {
    await fetchHalves(uids.filter((uid) => !first.includes(uid)));
  } finally {
    for (const [uid, error] of refused) onRefused?.(uid, error);
  }
  return rows;
}

async function isAnySent(
  uids: readonly number[],
  others: readonly number[],
  fetch: (uids: number[]) => Promise<unknown[]>,
): Promise<boolean> {
  const named = new Set(uids);
  for (const uid of shuffled(others.filter((other) => !named.has(other))).slice(0, PROBES)) {
    if ((await fetch([uid]).catch(unlessRefused))?.length) return true;
  }
  return false;
}
