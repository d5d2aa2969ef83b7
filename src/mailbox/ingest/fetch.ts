import { createReadStream, createWriteStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { downloadSource, fetchSources, type MessageMeta } from '../../imap/fetch.ts';
import type { ParsedMail } from '../../mime/parser.ts';
import { newId } from '../../new-id.ts';
import { inTempFolder } from '../../temp-dir.ts';
import type { SyncContext } from '../context.ts';
import { attachmentKey, rawKey, type ReadMail } from './rows.ts';

type ReadContext = Pick<SyncContext, 'session' | 'storage' | 'parser' | 'tempDir' | 'account'>;

/** Larger mails are streamed through a file, one at a time. */
export const STREAM_FROM_BYTES = 4 * 1024 * 1024;

/** Fetches, stores and reads messages of the selected folder. What has vanished meanwhile is missing from the answer. */
export async function readMails(ctx: ReadContext, metas: MessageMeta[]): Promise<ReadMail[]> {
  const small = metas.filter((meta) => meta.size < STREAM_FROM_BYTES);
  const large = metas.filter((meta) => meta.size >= STREAM_FROM_BYTES);
  const { mails, left } = await readSmall(ctx, small, MAX_HELD_BYTES);
  for (const meta of left) mails.push(...(await readSmall(ctx, [meta], Infinity)).mails);
  for (const meta of large) {
    const mail = await readLarge(ctx, meta);
    if (mail) mails.push(mail);
  }
  return mails.sort((a, b) => a.meta.uid - b.meta.uid);
}

/** Bytes of mails that are held in memory at once. RFC822.SIZE is what the server says: larger ones are read one by one. */
const MAX_HELD_BYTES = 2 * STREAM_FROM_BYTES;

async function readSmall(
  ctx: ReadContext,
  metas: MessageMeta[],
  maxBytes: number,
): Promise<{ mails: ReadMail[]; left: MessageMeta[] }> {
  const { sources, remaining: left } = await fetchSources(
    ctx.session,
    metas.map((meta) => meta.uid),
    maxBytes,
  );
  const found = metas.filter((meta) => sources.has(meta.uid));
  const buffers = found.map((meta) => sources.get(meta.uid) as Buffer);
  const parsed = await ctx.parser.parseMany(buffers);
  const mails = await Promise.all(
    found.map(async (meta, index) => {
      const emailId = newId('email');
      const storageKey = rawKey(ctx.account.id, emailId);
      const source = buffers[index] as Buffer;
      await ctx.storage.put(storageKey, source);
      return stored(ctx, { ...meta, size: source.length }, emailId, storageKey, parsed[index] as ParsedMail);
    }),
  );
  return { mails, left: metas.filter((meta) => left.has(meta.uid)) };
}

/** Passes on what a server sends of one mail, up to twice of what it announced and some. */
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

async function readLarge(ctx: ReadContext, meta: MessageMeta): Promise<ReadMail | null> {
  return inTempFolder(ctx.tempDir, async (dir) => {
    const path = join(dir, 'source');
    const content = await downloadSource(ctx.session, meta.uid);
    if (!content) return null;
    await ctx.session.run('FETCH', () => pipeline(content, upTo(meta.size), createWriteStream(path)), {
      deadlineMs: 30 * 60_000,
      maxResponses: Infinity,
    });
    const { size } = await stat(path);
    const emailId = newId('email');
    const storageKey = rawKey(ctx.account.id, emailId);
    await ctx.storage.put(storageKey, createReadStream(path));
    return stored(ctx, { ...meta, size }, emailId, storageKey, await ctx.parser.parse({ path }));
  });
}

async function stored(
  ctx: ReadContext,
  meta: MessageMeta,
  emailId: string,
  storageKey: string,
  parsed: ParsedMail,
): Promise<ReadMail> {
  return { emailId, meta, parsed, storageKey, attachments: await storeAttachments(ctx, parsed) };
}

/** Copies the attachments of a mail to the storage (SPEC "What the service does" 3). */
export async function storeAttachments(
  { storage, account }: Pick<ReadContext, 'storage' | 'account'>,
  parsed: ParsedMail,
): Promise<ReadMail['attachments']> {
  try {
    const attachments: ReadMail['attachments'] = [];
    for (const { content, ...attachment } of parsed.attachments) {
      const id = newId('attachment');
      const key = attachmentKey(account.id, id);
      await storage.put(key, Buffer.isBuffer(content) ? content : createReadStream(content.path));
      const { name, extension, size, mime, cid, inline } = attachment;
      attachments.push({ id, name, extension, size, mime, cid, inline, storageKey: key });
    }
    return attachments;
  } finally {
    if (parsed.tempDir) await rm(parsed.tempDir, { recursive: true, force: true });
  }
}

/** Storage keys of mails that were read but not saved after all. */
export function keysOf(mails: ReadMail[]): string[] {
  return mails.flatMap((mail) => [mail.storageKey, ...mail.attachments.map((attachment) => attachment.storageKey)]);
}
