import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { createLogger } from '../../../src/runtime/logger.ts';
import { encryptStorage } from '../../../src/storage/encrypted.ts';
import { openStorage, type Storage } from '../../../src/storage/storage.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { storeEmail } from '../../helpers/assert/rows.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

const SIZE = 200_000;
let dir: string;
let inner: Storage;
let storage: Storage;
let api: ApiUnderTest;
let url: string;
const logged: { msg: string; key?: string }[] = [];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'damaged-'));
  inner = openStorage(pathToFileURL(dir).href);
  const key = randomBytes(32);
  const keys = { take: () => Promise.resolve(key), find: () => Promise.resolve(key) };
  storage = encryptStorage(inner, { keys, encrypts: true });
  const logger = createLogger('warn', 'test', { write: (line: string) => void logged.push(JSON.parse(line)) });
  api = await apiUnderTest({ deps: { storage, logger } });
  url = await api.app.listen({ host: '127.0.0.1', port: await freePort() });
  damage = async (at) => {
    const account = await storeAccount(api.database);
    const email = await storeEmail(api.database, account, {
      attachments: [{ name: 'a.pdf', mime: 'application/pdf', size: SIZE }],
    });
    const path = `${account}/att/${email.attachmentIds[0] ?? ''}`;
    await storage.put(path, randomBytes(SIZE));
    const bytes = await buffer(await inner.get(path));
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    await inner.put(path, bytes);
    return { path, url: `/${account}/emails/${email.id}/attachments/${email.attachmentIds[0] ?? ''}` };
  };
});
afterAll(async () => {
  await api.close();
  await rm(dir, { recursive: true });
});
/** Stores an attachment and changes one byte of the stored object. */
let damage: (at: number) => Promise<{ path: string; url: string }>;

it('a damaged object is not found, and logged', async () => {
  const { path, url: route } = await damage(1000);
  for (const headers of [{}, { range: 'bytes=0-9' }]) {
    logged.length = 0;
    const answer = await api.call('GET', route, { headers });
    expect(answer.statusCode).toBe(404);
    expect(answer.json().detail).toBe('the stored content is damaged and cannot be returned');
    expect(answer.headers).not.toHaveProperty('content-disposition');
    expect(logged).toEqual([expect.objectContaining({ msg: 'stored object is damaged', key: path })]);
  }
});

it('an object that is damaged further on is cut off, and logged', async () => {
  const { path, url: route } = await damage(150_000);
  logged.length = 0;
  const answer = await fetch(`${url}/api/v1${route}`, { headers: { 'x-api-key': api.key } });
  await expect(answer.arrayBuffer()).rejects.toThrow();
  expect(logged).toContainEqual(expect.objectContaining({ msg: 'stored object is damaged', key: path }));
});

it('the view of an email lacks a picture that is lost or damaged, and has the others', async () => {
  const account = await storeAccount(api.database);
  const picture = (cid: string) => ({ name: `${cid}.png`, mime: 'image/png', size: SIZE, inline: true, cid });
  const email = await storeEmail(api.database, account, {
    body: '<p>Text</p><img src="cid:lost"><img src="cid:damaged"><img src="cid:whole">',
    attachments: [picture('lost'), picture('damaged'), picture('whole')],
  });
  const [, damaged, whole] = email.attachmentIds.map((id) => `${account}/att/${id}`);
  const bytes = randomBytes(SIZE);
  for (const path of [damaged ?? '', whole ?? '']) await storage.put(path, bytes);
  const stored = await buffer(await inner.get(damaged ?? ''));
  stored[100] = (stored[100] ?? 0) ^ 1;
  await inner.put(damaged ?? '', stored);
  const view = await api.call('GET', `/${account}/emails/${email.id}/view`);
  expect(view.statusCode).toBe(200);
  expect(view.body).toContain('Text');
  expect(view.body.match(/data:image\/png;base64,[^"]+/g)).toEqual([
    `data:image/png;base64,${bytes.toString('base64')}`,
  ]);
});
