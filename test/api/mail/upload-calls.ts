import { randomBytes } from 'node:crypto';
import { newId } from '../../../src/new-id.ts';
import type { Upload } from '../../../src/contract/sending.ts';
import { createApiKey } from '../../../src/db/access/api-keys.ts';
import { loadInput, resolveInput, storeInput } from '../../../src/outgoing/outgoing-input.ts';
import type { Storage } from '../../../src/storage/storage.ts';
import type { ApiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

/** Calls of uploads over HTTP, as their bodies are no JSON. */

export const MiB = 1024 * 1024;
/** as large as files of one email may be */
export const FILE = randomBytes(25 * MiB);

interface Answer {
  status: number;
  json: Upload & { detail: string; type: string; errors?: { path: string; message: string }[] };
  headers: Headers;
}

interface Call {
  body?: Buffer;
  key?: string;
  headers?: Record<string, string>;
}

/** The header of the bytes from one offset to another. */
export const range = (from: number, until: number, size: number) => ({
  'content-range': `bytes ${from}-${until - 1}/${size}`,
});

export type UploadCalls = Awaited<ReturnType<typeof startUploadCalls>>;

export async function startUploadCalls(api: ApiUnderTest, storage: Storage) {
  const url = await api.app.listen({ host: '127.0.0.1', port: await freePort() });
  const accountId = await storeAccount(api.database);
  const { db, pool } = api.database;

  async function call(method: string, path: string, { body, key = api.key, headers = {} }: Call = {}): Promise<Answer> {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { 'x-api-key': key, ...headers },
      ...(body ? { body: new Uint8Array(body) } : {}),
    });
    const text = await answer.text();
    return { status: answer.status, json: (text ? JSON.parse(text) : {}) as Answer['json'], headers: answer.headers };
  }
  const ownId = async () =>
    (await pool.query<{ id: string }>('select id from api_keys order by issued_at limit 1')).rows[0]?.id ?? '';

  return {
    url,
    accountId,
    call,
    /** the id of the key of `api` */
    ownId,
    begin: async (size: number, key?: string) => (await call('POST', `/uploads?size=${size}`, key ? { key } : {})).json,
    /** Sends the bytes of a file from one offset to another. */
    part: (id: string, file: Buffer, from: number, until = file.length) =>
      call('PATCH', `/uploads/${id}`, { body: file.subarray(from, until), headers: range(from, until, file.length) }),
    upload: async (body: Buffer, name: string, type: string) =>
      (await call('POST', `/uploads?filename=${name}`, { body, headers: { 'content-type': type } })).json,
    keyWith: async (limits: { accountIds?: string[]; permissions?: 'full' | 'read' }) =>
      (await createApiKey(db, { name: 'other', expiresAt: null, ...limits })).key,
    expire: (id: string) =>
      pool.query(`update uploads set expires_at = now() - interval '1 second' where id = $1`, [id]),
    /** The attachments of a send, as a worker reads them. */
    attached: async (attachments: object[], store = storage) => {
      const owner = { accountId, apiKeyId: await ownId() };
      const key = `${accountId}/outgoing/${newId('email')}.json`;
      await storeInput(store, key, await resolveInput(db, owner, { attachments }));
      const { input } = await loadInput(store, key);
      return (input.attachments ?? []).map(({ content = '', ...rest }) => ({
        ...rest,
        bytes: Buffer.from(content, 'base64'),
      }));
    },
  };
}
