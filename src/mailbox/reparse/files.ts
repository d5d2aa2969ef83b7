import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import type { ParsedAttachment, ParsedMail } from '../../mime/parser.ts';
import { newId } from '../../new-id.ts';
import { isLost } from '../../storage/encrypted.ts';
import type { Storage } from '../../storage/storage.ts';
import { attachmentKey, type StoredAttachment } from '../ingest/rows.ts';

/** The row of an attachment that is stored. */
export interface OldFile {
  id: string;
  size: number;
  storageKey: string;
}

/** The attachments of an email that was parsed again. */
export interface ReparsedFiles {
  attachments: StoredAttachment[];
  /** storage keys written for them */
  written: string[];
  /** storage keys that the email no longer has */
  unused: string[];
}

/**
 * Attachments with the bytes of a stored one keep its id and its file; the others are written. Keys are added to `written`
 * with each file, so the caller knows them when this fails.
 */
export async function matchFiles(
  { storage, accountId, written }: { storage: Pick<Storage, 'get' | 'put'>; accountId: string; written: string[] },
  parsed: Pick<ParsedMail, 'attachments'>,
  old: readonly OldFile[],
): Promise<ReparsedFiles> {
  const left = new StoredFiles(storage, old);
  const attachments: StoredAttachment[] = [];
  for (const { content, embedded: _, ...shown } of parsed.attachments) {
    const same = await left.takeSame({ content, size: shown.size });
    if (same) {
      attachments.push({ ...shown, id: same.id, storageKey: same.storageKey });
      continue;
    }
    const id = newId('attachment');
    const storageKey = attachmentKey(accountId, id);
    written.push(storageKey);
    await storage.put(storageKey, streamOf(content));
    attachments.push({ ...shown, id, storageKey });
  }
  return { attachments, written, unused: left.keys() };
}

/**
 * The stored files of an email that no attachment has matched yet. Each is read once, and only for an attachment of its
 * size.
 */
class StoredFiles {
  private readonly storage: Pick<Storage, 'get'>;
  private readonly left: Set<OldFile>;
  private readonly bySize = new Map<number, OldFile[]>();
  private readonly digests = new Map<string, string | null>();

  constructor(storage: Pick<Storage, 'get'>, files: readonly OldFile[]) {
    this.storage = storage;
    this.left = new Set(files);
    for (const file of files) {
      const alike = this.bySize.get(file.size);
      if (alike) alike.push(file);
      else this.bySize.set(file.size, [file]);
    }
  }

  /** Storage keys of those that are left. */
  keys(): string[] {
    return [...this.left].map(({ storageKey }) => storageKey);
  }

  /** The first that has these bytes; it is not returned again. */
  async takeSame({ content, size }: Pick<ParsedAttachment, 'content' | 'size'>): Promise<OldFile | undefined> {
    const alike = (this.bySize.get(size) ?? []).filter((file) => this.left.has(file));
    if (alike.length === 0) return undefined;
    const wanted = await digestOf(streamOf(content));
    for (const file of alike) {
      if ((await this.digestAt(file.storageKey)) !== wanted) continue;
      this.left.delete(file);
      return file;
    }
    return undefined;
  }

  private async digestAt(key: string): Promise<string | null> {
    const known = this.digests.get(key);
    if (known !== undefined) return known;
    const digest = await storedDigest(this.storage, key);
    this.digests.set(key, digest);
    return digest;
  }
}

const streamOf = (content: ParsedAttachment['content']) =>
  Buffer.isBuffer(content) ? content : createReadStream(content.path);

async function storedDigest(storage: Pick<Storage, 'get'>, key: string): Promise<string | null> {
  try {
    return await digestOf(await storage.get(key));
  } catch (error) {
    // a file that is missing or cannot be decrypted is written again
    if (isLost(error)) return null;
    throw error;
  }
}

async function digestOf(content: Buffer | Readable): Promise<string> {
  const hash = createHash('sha256');
  if (Buffer.isBuffer(content)) return hash.update(content).digest('base64');
  for await (const piece of content as AsyncIterable<Buffer>) hash.update(piece);
  return hash.digest('base64');
}
