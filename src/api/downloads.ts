import type { FastifyInstance } from 'fastify';
import type pg from 'pg';
import Type from 'typebox';
import { keySees } from '../db/access/api-keys.ts';
import { getAttachment } from '../db/queries/mail/attachments.ts';
import { getEmailSource } from '../db/queries/mail/emails.ts';
import type { Storage } from '../storage/storage.ts';
import type { Signer } from './http/cursor.ts';
import { createDownloadLinks, type DownloadLinks, ended, type LinkedFile } from './http/download-links.ts';
import { sendStored, type StoredFile } from './routes/stored.ts';

export interface DownloadDeps {
  pool: pg.Pool;
  storage: Storage;
  settings: { publicUrl: string };
}

/** Serves `GET /d/{token}`; returns what makes these links. */
export function serveDownloads(app: FastifyInstance, deps: DownloadDeps, signer: Signer): DownloadLinks {
  const { pool, storage, settings } = deps;
  const links = createDownloadLinks(signer, settings.publicUrl);
  // a wildcard: the router limits named parameters to 100 characters
  const schema = { hide: true, params: Type.Object({ '*': Type.String({ maxLength: 1024 }) }) };
  app.get<{ Params: { '*': string } }>('/d/*', { schema }, async (request, reply) => {
    const { apiKeyId, ...file } = links.read(request.params['*']);
    const stored = (await keySees(pool, apiKeyId, file.accountId)) ? await findFile(pool, file) : undefined;
    if (!stored) throw ended();
    // a page that shows the file must not pass the link on
    reply.header('Referrer-Policy', 'no-referrer');
    return sendStored(request, reply, storage, stored);
  });
  return links;
}

/** The stored bytes of a file; undefined when it does not exist. */
export async function findFile(pool: pg.Pool, { accountId, emailId, attachmentId }: LinkedFile) {
  if (attachmentId !== null) {
    const stored = await getAttachment(pool, accountId, emailId, attachmentId);
    return stored && ({ key: stored.storageKey, mime: stored.mime, name: stored.name } satisfies StoredFile);
  }
  const key = await getEmailSource(pool, accountId, emailId);
  return key === undefined ? undefined : ({ key, mime: 'message/rfc822', name: `${emailId}.eml` } satisfies StoredFile);
}
