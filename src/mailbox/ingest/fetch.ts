import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { downloadSource, fetchSources, type MessageMeta } from '../../imap/fetch.ts';
import { ENOUGH_REFUSALS, shuffled } from '../../imap/sets.ts';
import { refusedFetch } from '../../imap/response-codes.ts';
import { MailError } from '../../mail-wire/mail-error.ts';
import type { ParsedMail } from '../../mime/parser.ts';
import { isStorageFull } from '../../outage.ts';
import { inTempFolder } from '../../runtime/temp-dir.ts';
import { newId } from '../../new-id.ts';
import type { SyncContext } from '../context.ts';
import { isTokenEnd } from '../logins.ts';
import { assertSelected, type Selection } from '../selected.ts';
import type { FolderState } from '../store/folders.ts';
import type { IngestTarget } from './match.ts';
import { type FetchedMail, rawKey } from './rows.ts';
import { removeTempDir, storeAttachments, type Writer } from './store-attachments.ts';
import type { Undelivered } from './undelivered.ts';

type FetchContext = Pick<
  SyncContext,
  'session' | 'storage' | 'parser' | 'logger' | 'account' | 'tempDir' | 'undelivered'
>;

/** Larger messages are streamed through a file, one at a time. */
export const STREAM_FROM_BYTES = 4 * 1024 * 1024;

/**
 * Bytes of messages in memory at one time. RFC822.SIZE is only the server's claim: larger messages are read one at a time.
 */
const MAX_BYTES_IN_MEMORY = 2 * STREAM_FROM_BYTES;

const DOWNLOAD_TIMEOUT_MS = 30 * 60_000;

/** What was fetched of a batch. */
export interface Fetched {
  mails: FetchedMail[];
  /** UIDs of messages for which the storage has no room */
  leftOut: number[];
  /** UIDs of messages that the server has not delivered for a day */
  givenUp: number[];
}

/**
 * Fetches messages of the selected folder, parses them and writes their sources and attachments to storage. The result
 * lacks messages that have vanished. With `leavesOut`, it also lacks those for which the storage has no room, and those that
 * the server does not deliver; the others are stored. On failure, deletes what it has written.
 * @throws MailError; the storage's errors
 */
export async function fetchMails(
  ctx: FetchContext,
  { folder, selection, source }: IngestTarget,
  metas: MessageMeta[],
  { leavesOut }: { leavesOut: boolean },
): Promise<Fetched> {
  if (metas.length === 0) return { mails: [], leftOut: [], givenUp: [] };
  assertSelected(ctx.session, selection);
  const written = recordKeys(ctx.storage);
  const leftOut: number[] = [];
  const undelivered = undeliveredIn(ctx, { folder, selection, source });
  const own = { ...ctx, storage: written.storage, leftOut: leavesOut ? leftOut : null };
  try {
    // above the cursor nothing was ever delivered: the folder may be refused, and not its messages
    const isOld = source === 'live' && metas.every(({ uid }) => uid < (folder.uidNext ?? 1));
    const mails = leavesOut
      ? await fetchDelivered(own, undelivered, metas, { isOld, isImport: source === 'initialSync' })
      : await fetchAll(own, metas);
    mails.sort((a, b) => a.meta.uid - b.meta.uid);
    const givenUp = metas.map(({ uid }) => uid).filter(undelivered.isGivenUp);
    for (const uid of givenUp) {
      ctx.logger.error(
        { accountId: ctx.account.id, folderId: folder.id, uid },
        'message given up: not delivered for a day',
      );
    }
    return { mails, leftOut, givenUp };
  } catch (error) {
    // Housekeeping deletes what cannot be deleted now.
    await ctx.storage.delete(written.keys).catch(() => {});
    throw error;
  }
}

/** What this process knows of messages of the folder that the server did not deliver. */
export function undeliveredIn(
  { undelivered, account }: Pick<SyncContext, 'undelivered' | 'account'>,
  {
    folder,
    selection,
    source,
  }: {
    folder: Pick<FolderState, 'id'>;
    selection: Pick<Selection, 'uidValidity'>;
    source?: IngestTarget['source'];
  },
): Undelivered {
  const { uidValidity } = selection;
  return undelivered.in({
    accountId: account.id,
    folderId: folder.id,
    uidValidity,
    isImport: source === 'initialSync',
  });
}

interface WritingContext extends Omit<FetchContext, 'storage'> {
  storage: Writer;
  /** gets the UIDs of messages for which the storage has no room; null: such a message fails the batch */
  leftOut: number[] | null;
}

/** A storage that records the keys written to it. */
function recordKeys(storage: Writer): { keys: string[]; storage: Writer } {
  const keys: string[] = [];
  const put = (key: string, body: Buffer | Readable) => {
    keys.push(key);
    return storage.put(key, body);
  };
  return { keys, storage: { put, delete: (unused) => storage.delete(unused) } };
}

/** Runs what stores one message. Null when the storage has no room for it: its files are deleted. */
async function whereRoom<T>(
  ctx: WritingContext,
  uid: number,
  store: (own: WritingContext) => Promise<T>,
): Promise<T | null> {
  const written = recordKeys(ctx.storage);
  try {
    return await store({ ...ctx, storage: written.storage });
  } catch (error) {
    if (!ctx.leftOut || !isStorageFull(error)) throw error;
    ctx.leftOut.push(uid);
    await ctx.storage.delete(written.keys).catch(() => {});
    return null;
  }
}

/**
 * Fetches what the server delivers. A large message, and all of those that are refused together, are requested alone; one that
 * fails alone is left out, and is due again later.
 * @param options.isOld they are leftovers of earlier passes: a folder that the server refuses has others
 * @throws MailError when the connection ends, or the server refuses whatever is requested
 */
async function fetchDelivered(
  ctx: WritingContext,
  undelivered: Undelivered,
  metas: MessageMeta[],
  { isOld, isImport }: { isOld: boolean; isImport: boolean },
): Promise<FetchedMail[]> {
  const due = metas.filter(({ uid }) => undelivered.isDue(uid));
  const small = due.filter(({ size }) => size < STREAM_FROM_BYTES);
  const together = small.length > 1 ? small : [];
  const first = await attempt(ctx, undelivered, together, () => fetchSmall(ctx, together, MAX_BYTES_IN_MEMORY));
  const isRefused = first instanceof MailError;
  const mails = isRefused ? [] : first.mails;
  const failures: { uid: number; reason: Error }[] = isRefused
    ? []
    : first.empty.map((uid) => ({ uid, reason: noContent() }));
  const fetchOne = async (meta: MessageMeta) => {
    const fetched = await attempt(ctx, undelivered, [meta], () => fetchAlone(ctx, meta));
    if (fetched instanceof MailError) failures.push({ uid: meta.uid, reason: fetched });
    else {
      for (const mail of fetched.mails) mails.push(mail);
      for (const uid of fetched.empty) failures.push({ uid, reason: noContent() });
    }
  };
  const noteFailures = () => failures.forEach(({ uid, reason }) => undelivered.failed(uid, reason));
  // of a folder of which the first messages are damaged, others are sent
  const left = isRefused ? shuffled(together) : first.remaining;
  for (const meta of [...left, ...due.filter((each) => !together.includes(each))]) {
    await fetchOne(meta);
    // the folder, and not a message in it
    if (isRefused && !isOld && mails.length === 0 && failures.length === ENOUGH_REFUSALS) {
      if (isImport) noteFailures();
      throw first;
    }
  }
  for (const { meta } of mails) undelivered.forget(meta.uid);
  noteFailures();
  return mails;
}

const noContent = () => new MailError('provider_error', 'imap', 'the IMAP server sent NIL in place of a message');

/** The result of requesting messages in one command, or its refusal. */
async function attempt<T>(
  { session }: WritingContext,
  undelivered: Undelivered,
  metas: MessageMeta[],
  work: () => Promise<T>,
): Promise<T | MailError> {
  try {
    return await work();
  } catch (error) {
    if (!session.client.usable && !isTokenEnd(session.token, error)) {
      undelivered.lost(
        metas.map(({ uid }) => uid),
        error,
      );
    }
    if (!refusedFetch(error)) throw error;
    return error;
  }
}

interface FetchedSmall {
  mails: FetchedMail[];
  /** messages that did not fit into the memory */
  remaining: MessageMeta[];
  /** UIDs of messages of which the server sent no content */
  empty: number[];
}

async function fetchAll(ctx: WritingContext, metas: MessageMeta[]): Promise<FetchedMail[]> {
  const small = metas.filter(({ size }) => size < STREAM_FROM_BYTES);
  const { mails, remaining } = await fetchSmall(ctx, small, MAX_BYTES_IN_MEMORY);
  for (const meta of [...remaining, ...metas.filter((each) => !small.includes(each))]) {
    for (const mail of (await fetchAlone(ctx, meta)).mails) mails.push(mail);
  }
  return mails;
}

async function fetchAlone(ctx: WritingContext, meta: MessageMeta): Promise<FetchedSmall> {
  if (meta.size < STREAM_FROM_BYTES) return fetchSmall(ctx, [meta], Infinity);
  const mail = await whereRoom(ctx, meta.uid, (own) => fetchLarge(own, meta));
  const isEmpty = mail === null && !ctx.leftOut?.includes(meta.uid);
  return { mails: mail ? [mail] : [], remaining: [], empty: isEmpty ? [meta.uid] : [] };
}

async function fetchSmall(ctx: WritingContext, metas: MessageMeta[], maxBytes: number): Promise<FetchedSmall> {
  const { sources, remaining, empty } = await fetchSources(
    ctx.session,
    metas.map((meta) => meta.uid),
    maxBytes,
  );
  const received = metas.flatMap((meta) => {
    const source = sources.get(meta.uid);
    return source ? [{ meta: { ...meta, size: source.length }, source }] : [];
  });
  const parsed = await ctx.parser.parseMany(received.map(({ source }) => source));
  const mails = await allOrNone(
    received.map(({ meta, source }, index) =>
      whereRoom(ctx, meta.uid, (own) => storeMail(own, meta, source, parsed[index] as ParsedMail)),
    ),
  );
  return {
    mails: mails.filter((mail) => mail !== null),
    remaining: metas.filter((meta) => remaining.has(meta.uid)),
    empty: [...empty],
  };
}

/** Like Promise.all, but rejects only after all have settled: nothing is written after that. */
async function allOrNone<T>(works: Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(works);
  return settled.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

async function fetchLarge(ctx: WritingContext, meta: MessageMeta): Promise<FetchedMail | null> {
  return inTempFolder(ctx.tempDir, async (dir) => {
    const path = join(dir, 'source');
    const content = await downloadSource(ctx.session, meta.uid);
    if (!content) return null;
    const download = () => pipeline(content, upTo(meta.size), (source: AsyncIterable<Buffer>) => write(path, source));
    const limits = { deadlineMs: DOWNLOAD_TIMEOUT_MS, maxResponses: responsesOf(meta.size) };
    const full = await ctx.session.run('FETCH', download, limits);
    if (full) throw full;
    const { size } = await stat(path);
    const parsed = await ctx.parser.parse({ path });
    return storeMail(ctx, { ...meta, size }, createReadStream(path), parsed);
  });
}

/**
 * Writes a stream to a file. When the disk is full, the rest is read nevertheless, which keeps the connection usable.
 * @returns the error that says so
 */
async function write(path: string, source: AsyncIterable<Buffer>): Promise<Error | undefined> {
  let full: Error | undefined;
  const file = await open(path, 'w');
  try {
    for await (const piece of source) {
      if (full) continue;
      await file.appendFile(piece).catch((error: Error) => {
        if (!isStorageFull(error)) throw error;
        full = error;
      });
    }
  } finally {
    await file.close();
  }
  return full;
}

/** Bytes that are read of a message: twice the announced size plus a margin. */
const maxBytesOf = (announced: number) => 2 * announced + 4 * STREAM_FROM_BYTES;

/** A message is downloaded in pieces of 64 KB, each in a few responses. */
const responsesOf = (announced: number) => 10_000 + maxBytesOf(announced) / 8_192;

/** Passes on the bytes of one message, up to more than announced. */
function upTo(announced: number) {
  const max = maxBytesOf(announced);
  return async function* (source: AsyncIterable<Buffer>) {
    let bytes = 0;
    for await (const piece of source) {
      bytes += piece.length;
      if (bytes > max)
        throw Object.assign(new Error('the server sent more bytes than RFC822.SIZE'), { code: 'ResponseTooLarge' });
      yield piece;
    }
  };
}

async function storeMail(
  ctx: WritingContext,
  meta: MessageMeta,
  source: Buffer | Readable,
  parsed: ParsedMail,
): Promise<FetchedMail> {
  const emailId = newId('email');
  const storageKey = rawKey(ctx.account.id, emailId);
  try {
    await ctx.storage.put(storageKey, source);
  } catch (error) {
    await removeTempDir(parsed);
    throw error;
  }
  return { emailId, meta, parsed, storageKey, attachments: await storeAttachments(ctx, parsed) };
}

/** Storage keys that were written for these messages. */
export function keysOf(mails: FetchedMail[]): string[] {
  return mails.flatMap((mail) => [
    ...(mail.isOfSend ? [] : [mail.storageKey]),
    ...mail.attachments.map((attachment) => attachment.storageKey),
  ]);
}
