import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sleep } from '../../src/async.ts';
import { guardStorage } from '../../src/storage/guard.ts';
import { openStorage, type Storage } from '../../src/storage/storage.ts';
import { freePort, listenOnFreePort } from '../helpers/servers/free-port.ts';

/**
 * The failures of a storage that is down, full or not accessible; test/live/failures/outage.test.ts tests the responses
 * of the API.
 */

const KEY = 'acc_1/raw/email_a1.eml';
const ANSWER_MS = 700;
const before = { ...process.env };
const silent: Socket[] = [];
let frozen: Server;
let frozenPort: number;
let refusedPort: number;
let dir: string;

beforeAll(async () => {
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test', AWS_REGION: 'us-east-1' });
  // accepts connections and never responds
  frozen = createServer((socket) => silent.push(socket));
  frozenPort = await listenOnFreePort(frozen);
  refusedPort = await freePort();
  dir = await mkdtemp(join(tmpdir(), 'storage-outage-'));
});
afterAll(async () => {
  for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_REGION']) {
    if (before[name] === undefined) delete process.env[name];
    else process.env[name] = before[name];
  }
  for (const socket of silent) socket.destroy();
  frozen.close();
  await rm(dir, { recursive: true });
});

const s3At = (port: number) =>
  openStorage('s3://mails', { s3Endpoint: `http://127.0.0.1:${port}`, answerMs: ANSWER_MS });

describe.each([
  ['refuses connections', () => s3At(refusedPort)],
  ['does not answer', () => s3At(frozenPort)],
])('S3 that %s', (_, open) => {
  it.each<[string, (storage: Storage) => Promise<unknown>]>([
    ['size', (storage) => storage.size(KEY)],
    ['get', (storage) => storage.get(KEY)],
    ['put', (storage) => storage.put(KEY, Buffer.from('x'))],
  ])('is away to %s, soon', async (_name, call) => {
    const began = Date.now();
    await expect(call(open())).rejects.toMatchObject({ name: 'PartUnavailable', part: 'storage' });
    expect(Date.now() - began).toBeLessThan(ANSWER_MS + 1_500);
  });
});

it.each<[string, (storage: Storage) => Promise<unknown>]>([
  ['size', (storage) => storage.size(KEY)],
  ['get', (storage) => storage.get(KEY)],
  ['put', (storage) => storage.put(KEY, Buffer.alloc(100_000))],
  ['put of a stream', (storage) => storage.put(KEY, Readable.from([Buffer.from('x')]))],
])('S3 that does not answer is away to %s without a deadline, too', async (_, call) => {
  const s3Endpoint = `http://127.0.0.1:${frozenPort}`;
  await expect(call(openStorage('s3://mails', { s3Endpoint, s3IdleMs: 100 }))).rejects.toMatchObject({
    name: 'PartUnavailable',
    part: 'storage',
  });
});

it.each([
  ['sends nothing more', () => {}],
  ['closes the connection', (socket: Socket) => socket.destroySoon()],
])('S3 that %s within an object is away', async (_, end) => {
  const server = createServer((socket) => {
    silent.push(socket);
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf');
      end(socket);
    });
  });
  try {
    const s3Endpoint = `http://127.0.0.1:${await listenOnFreePort(server)}`;
    const half = await openStorage('s3://mails', { s3Endpoint, s3IdleMs: 100 }).get(KEY);
    await expect(buffer(half)).rejects.toMatchObject({ name: 'PartUnavailable', part: 'storage' });
  } finally {
    server.close();
  }
});

it('closes bytes that come after the deadline', async () => {
  const bytes = new Readable({ read() {} });
  const closed = once(bytes, 'close');
  const slow = guardStorage({ get: () => sleep(50).then(() => bytes) } as unknown as Storage, 10);
  await expect(slow.get(KEY)).rejects.toMatchObject({ name: 'PartUnavailable', part: 'storage' });
  await closed;
});

describe('a storage of files', () => {
  const failing = (code: string): Storage =>
    guardStorage({
      put: () => Promise.reject(Object.assign(new Error(code), { code })),
      size: () => Promise.reject(Object.assign(new Error(code), { code })),
    } as unknown as Storage);

  it.each(['EACCES', 'EROFS', 'EIO', 'EPERM', 'EMFILE'])('that fails with %s is unavailable', async (code) => {
    await expect(failing(code).size(KEY)).rejects.toMatchObject({
      part: 'storage',
      detail: expect.stringMatching(/cannot be reached/),
    });
  });

  it('that is full reports it', async () => {
    await expect(failing('ENOSPC').put(KEY, Buffer.from('x'))).rejects.toMatchObject({
      detail: 'the storage is full',
    });
  });

  it.each([
    ['the status 507', Object.assign(new Error('no'), { $metadata: { httpStatusCode: 507 } })],
    ['a quota', Object.assign(new Error('no'), { name: 'QuotaExceeded', $metadata: { httpStatusCode: 403 } })],
  ])('of S3 that refuses with %s is full', async (_, error) => {
    const full = guardStorage({ put: () => Promise.reject(error) } as unknown as Storage);
    await expect(full.put(KEY, Buffer.from('x'))).rejects.toMatchObject({ part: 'storage', full: true });
  });

  it('in which no folder can be created is unavailable', async () => {
    await mkdir(join(dir, 'root'));
    await writeFile(join(dir, 'root', 'acc_1'), 'a file in place of the folder');
    await expect(openStorage(`file:${join(dir, 'root')}`).put(KEY, Buffer.from('x'))).rejects.toMatchObject({
      part: 'storage',
    });
  });

  it('that lacks an object is available', async () => {
    await expect(openStorage(`file:${dir}`).get(KEY)).rejects.toMatchObject({ name: 'StorageMissing' });
  });
});
