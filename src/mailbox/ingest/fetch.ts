import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { downloadSource, fetchSources, type MessageMeta } from '../../imap/fetch.ts';
import type { ParsedMail } from '../../mime/parser.ts';
import { inTempFolder } from '../../temp-dir.ts';
import { newId } from '../../new-id.ts';
import type { SyncContext } from '../context.ts';
import { assertSelected, type Selection } from '../selected.ts';
import { type FetchedMail, rawKey } from './rows.ts';
import { removeTempDir, storeAttachments, type Writer } from './store-attachments.ts';

type FetchContext = Pick<SyncContext, 'session' | 'storage' | 'parser' | 'account' | 'tempDir'>;

/** Larger messages are streamed through a file, one at a time. */
export const STREAM_FROM_BYTES = 4 * 1024 * 1024;

/** Bytes of messages in memory at once. RFC822.SIZE is only what the server claims: what does not fit is read singly. */
const MAX_BYTES_IN_MEMORY = 2 * STREAM_FROM_BYTES;

const DOWNLOAD_TIMEOUT_MS = 30 * 60_000;

/**
 * Fetches messages of the selected folder, parses them and writes their sources and attachments to storage. Messages that
 * have vanished are left out. When it fails, it deletes what it has written.
 * @throws MailError; the storage's errors
 */
export async function fetchMails(
  ctx: FetchContext,
  selection: Selection,
  metas: MessageMeta[],
): Promise<FetchedMail[]> {
  if (metas.length === 0) return [];
  assertSelected(ctx.session, selection);
  const written = recordKeys(ctx.storage);
  try {
    const mails = await fetchAll({ ...ctx, storage: written.storage }, metas);
    return mails.sort((a, b) => a.meta.uid - b.meta.uid);
  } catch (error) {
    // What cannot be deleted now is left to housekeeping.
    await ctx.storage.delete(written.keys).catch(() => {});
    throw error;
  }
}

interface WritingContext extends Omit<FetchContext, 'storage'> {
  storage: Writer;
}

/** A storage that records the keys written to it. */
function recordKeys(storage: Writer): { keys: string[]; storage: Writer } {
  const keys: string[] = [];
  const put = (key: string, body: Buffer | Readable) => {
    keys.push(key);
    return storage.put(key, body);
  };
  return { keys, storage: { put } };
}

async function fetchAll(ctx: WritingContext, metas: MessageMeta[]): Promise<FetchedMail[]> {
  const isLarge = ({ size }: MessageMeta) => size >= STREAM_FROM_BYTES;
  const { mails, remaining } = await fetchSmall(
    ctx,
    metas.filter((meta) => !isLarge(meta)),
    MAX_BYTES_IN_MEMORY,
  );
  const all = [...mails];
  for (const meta of remaining) all.push(...(await fetchSmall(ctx, [meta], Infinity)).mails);
  for (const meta of metas.filter(isLarge)) {
    const mail = await fetchLarge(ctx, meta);
    if (mail) all.push(mail);
  }
  return all;
}

async function fetchSmall(
  ctx: WritingContext,
  metas: MessageMeta[],
  maxBytes: number,
): Promise<{ mails: FetchedMail[]; remaining: MessageMeta[] }> {
  const { sources, remaining } = await fetchSources(
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
    received.map(({ meta, source }, index) => storeMail(ctx, meta, source, parsed[index] as ParsedMail)),
  );
  return { mails, remaining: metas.filter((meta) => remaining.has(meta.uid)) };
}

/** Like Promise.all, but rejects only when none is under way any more: nothing is written after that. */
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
    const download = () => pipeline(content, upTo(meta.size), createWriteStream(path));
    await ctx.session.run('FETCH', download, { deadlineMs: DOWNLOAD_TIMEOUT_MS, maxResponses: Infinity });
    const { size } = await stat(path);
    const parsed = await ctx.parser.parse({ path });
    return storeMail(ctx, { ...meta, size }, createReadStream(path), parsed);
  });
}

/** Passes on what a server sends of one message, up to twice of what it announced and a margin. */
function upTo(announced: number) {
  const max = 2 * announced + 4 * STREAM_FROM_BYTES;
  return async function* (source: AsyncIterable<Buffer>) {
    let bytes = 0;
    for await (const piece of source) {
      bytes += piece.length;
      if (bytes > max) throw Object.assign(new Error('more than announced'), { code: 'ResponseTooLarge' });
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

/** Storage keys of fetched messages. */
export function keysOf(mails: FetchedMail[]): string[] {
  return mails.flatMap((mail) => [mail.storageKey, ...mail.attachments.map((attachment) => attachment.storageKey)]);
}
