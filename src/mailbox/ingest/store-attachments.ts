import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { ParsedMail } from '../../mime/parser.ts';
import { newId } from '../../new-id.ts';
import type { SyncContext } from '../context.ts';
import { attachmentKey, type StoredAttachment } from './rows.ts';

/** What writes to storage. */
export type Writer = Pick<SyncContext['storage'], 'put' | 'delete'>;

/** Writes the attachments of a message to storage. */
export async function storeAttachments(
  { storage, account }: { storage: Pick<Writer, 'put'>; account: { id: string } },
  parsed: ParsedMail,
): Promise<StoredAttachment[]> {
  try {
    const attachments: StoredAttachment[] = [];
    for (const { content, ...attachment } of parsed.attachments) {
      const id = newId('attachment');
      const key = attachmentKey(account.id, id);
      await storage.put(key, Buffer.isBuffer(content) ? content : createReadStream(content.path));
      const { name, extension, size, mime, cid, inline } = attachment;
      attachments.push({ id, name, extension, size, mime, cid, inline, storageKey: key });
    }
    return attachments;
  } finally {
    await removeTempDir(parsed);
  }
}

/** Deletes the directory that the parser wrote attachments to. */
export async function removeTempDir({ tempDir }: ParsedMail): Promise<void> {
  if (tempDir) await rm(tempDir, { recursive: true, force: true });
}
