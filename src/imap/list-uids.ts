import { byUid, FETCH_TIMEOUT_MS, fetchRows, unlessTooMany } from './sets.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { type ImapSession, LONGEST_SILENCE_MS } from './session.ts';

/** UIDs of the selected folder. */
export interface ListedUids {
  /** ascending */
  uids: number[];
  /** there are as many as EXISTS says: a UID that is not among them is not in the folder */
  complete: boolean;
}

/** The sequence numbers that one SEARCH covers: its response is one line, which must stay short. */
const SEARCH_SPAN = 50_000;

/** Listings of what arrived during a listing. */
const MAX_ROUNDS = 3;

/**
 * Every UID of the selected folder, by pages of sequence numbers: servers with a MESSAGELIMIT (RFC 9738) leave out the
 * rest, some without a word. A server whose index is late, or that refuses SEARCH, is asked by FETCH.
 * @throws MailError
 */
export async function listUids(session: ImapSession): Promise<ListedUids> {
  const uids = new Set<number>();
  let listed = 0;
  for (let round = 1; round <= MAX_ROUNDS && listed < existsIn(session); round++) {
    const last = existsIn(session);
    for (const page of pagesOf(session, last, listed + 1)) {
      for (const uid of await readPage(session, page)) uids.add(uid);
    }
    // those that arrived since then are listed too: they may have taken the places of others in a response
    listed = last;
  }
  for (const uid of await listUncounted(session)) uids.add(uid);
  const complete = uids.size >= Math.min(listed, existsIn(session));
  return { uids: [...uids].sort((a, b) => a - b), complete };
}

/**
 * Every UID of the selected folder, for what a message that is left out would change for good.
 * @throws MailError provider_error when there are fewer than EXISTS says
 */
export async function listAllUids(session: ImapSession): Promise<number[]> {
  const { uids, complete } = await listUids(session);
  if (!complete) throw leftOutMessages();
  return uids;
}

/** The last message, and those that EXISTS does not count: the pages end there where one command may not name all. */
async function listUncounted(session: ImapSession, query: SearchWindow = {}): Promise<number[]> {
  const exists = existsIn(session);
  if (exists === 0 || exists < session.messageLimit) return [];
  return (await search(session, { first: exists, last: Infinity }, query)) ?? [];
}

/** Concerns the folder alone, as a refusal does: other folders can be read. */
export function leftOutMessages(): MailError {
  const detail = 'the IMAP server left out messages of a folder';
  return new MailError('provider_error', 'imap', detail, { refused: true, command: 'SEARCH' });
}

/** Days of arrival, in the server's time zone (SEARCH SINCE and BEFORE, RFC 9051 6.4.4); a side that is left out is open. */
export interface SearchWindow {
  since?: Date;
  before?: Date;
}

/**
 * UIDs of messages that arrived in a window of days, and those of all others where the server refuses such a search.
 * `complete` is that of the folder.
 * @throws MailError
 */
export async function listUidsIn(session: ImapSession, window: SearchWindow): Promise<ListedUids> {
  // shows how many messages one command may name
  const { uids: all, complete } = await listUids(session);
  if (!window.since && !window.before) return { uids: all, complete };
  const uids: number[] = [];
  for (const page of pagesOf(session, existsIn(session))) {
    const found = await search(session, page, window);
    if (!found) return { uids: all, complete };
    for (const uid of found) uids.push(uid);
  }
  for (const uid of await listUncounted(session, window)) uids.push(uid);
  return { uids: [...new Set(uids)].sort((a, b) => a - b), complete };
}

/**
 * Number of messages of the selected folder, as far as the server has said.
 * @throws MailError when the connection has ended: a folder must not look empty then
 */
export function existsIn({ client }: ImapSession): number {
  if (!client.mailbox) throw new MailError('provider_error', 'imap', 'the connection was closed');
  return client.mailbox.exists || 0;
}

/** Sequence numbers from `first` to `last`. */
export interface Page {
  first: number;
  last: number;
}

/**
 * The messages of the selected folder in pages that one command may name, from the last to the first: an expunge in between
 * moves later messages down, where they are at worst found a second time.
 */
export function* pagesOf(session: ImapSession, last: number, first = 1): Generator<Page> {
  while (last >= first) {
    const span = Math.min(SEARCH_SPAN, session.messageLimit);
    const page = { first: Math.max(first, last - span + 1), last };
    yield page;
    last = page.first - 1;
  }
}

const sizeOf = ({ first, last }: Page) => last - first + 1;

/** The UIDs of a page. */
async function readPage(session: ImapSession, page: Page): Promise<number[]> {
  const found = await ask(session, page);
  if (session.messageLimit < sizeOf(page)) return readPages(session, page);
  if (found.length >= sizeOf(page) || sizeOf(page) === 1) return found;
  // Messages were expunged, the index is late, or the server left out what is above its limit: then two halves have more.
  const middle = page.first + Math.floor(sizeOf(page) / 2) - 1;
  const [lower, upper] = [
    { ...page, last: middle },
    { ...page, first: middle + 1 },
  ];
  const halves = [...(await ask(session, lower)), ...(await ask(session, upper))];
  if (halves.length <= found.length) return [...found, ...(await fetchPage(session, page))];
  session.observeLimit(found.length || Math.ceil(sizeOf(page) / 2));
  if (session.messageLimit < sizeOf(page)) return readPages(session, page);
  // So low a limit is not believed (MessageLimit).
  return [...found, ...(await readPage(session, lower)), ...(await readPage(session, upper))];
}

/** The UIDs of a page, in pages that one command may name now. */
async function readPages(session: ImapSession, { first, last }: Page): Promise<number[]> {
  const uids: number[] = [];
  for (const part of pagesOf(session, last, first)) for (const uid of await readPage(session, part)) uids.push(uid);
  return uids;
}

async function ask(session: ImapSession, page: Page): Promise<number[]> {
  const found = await search(session, page, {});
  if (found) return found;
  // refused since the page is above the limit, which the session knows now, or as any SEARCH is
  return session.messageLimit < sizeOf(page) ? [] : fetchPage(session, page);
}

/** Undefined when the server refuses. */
async function search(session: ImapSession, page: Page, query: SearchWindow): Promise<number[] | undefined> {
  const seq = setOf(session, page);
  const found = await session.run('SEARCH', () => session.client.search({ seq, ...query }, { uid: true }), {
    deadlineMs: FETCH_TIMEOUT_MS,
    silenceMs: LONGEST_SILENCE_MS,
  });
  // imapflow returns false for a refused SEARCH
  return Array.isArray(found) ? found : undefined;
}

/** The sequence numbers of a page, with messages that EXISTS does not count where one command may name them too. */
function setOf(session: ImapSession, page: Page): string {
  const isOpen = page.last === Infinity || (page.last === existsIn(session) && sizeOf(page) < session.messageLimit);
  return `${page.first}:${isOpen ? '*' : page.last}`;
}

async function fetchPage(session: ImapSession, page: Page): Promise<number[]> {
  const request = { set: setOf(session, page), query: { uid: true }, uid: false };
  const rows = await unlessTooMany(session, sizeOf(page), () => fetchRows(session, request, ({ uid }) => ({ uid })));
  return byUid(rows ?? []).map(({ uid }) => uid);
}
