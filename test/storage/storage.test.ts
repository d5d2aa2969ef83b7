import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { encryptStorage } from '../../src/storage/encrypted.ts';
import { openStorage, type Storage, StorageMissing } from '../../src/storage/storage.ts';
import { type FakeS3, startFakeS3 } from './fake-s3.ts';

let folder: string;
let s3: FakeS3;
const aws = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test', AWS_EC2_METADATA_DISABLED: 'true' };
const before = Object.fromEntries(Object.keys(aws).map((name) => [name, process.env[name]]));

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mail-storage-'));
  s3 = await startFakeS3();
  Object.assign(process.env, aws);
});

afterAll(async () => {
  for (const [name, value] of Object.entries(before)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  await s3.close();
  await rm(folder, { recursive: true, force: true });
});

const dataKey = randomBytes(32);
const encrypted = (storage: Storage, encrypts = true) =>
  encryptStorage(storage, { keys: { take: async () => dataKey, find: async () => dataKey }, encrypts });
const read = async (storage: Storage, key: string, range?: { start: number; end: number }): Promise<string> =>
  (await buffer(await storage.get(key, range))).toString('latin1');

describe.each<[string, () => Storage]>([
  ['files', () => openStorage(pathToFileURL(join(folder, 'files')).href)],
  ['S3 (a fake server)', () => openStorage('s3://mails/some/prefix/', { s3Endpoint: s3.endpoint })],
  ['S3 (a fake server) without a prefix', () => openStorage('s3://mails', { s3Endpoint: s3.endpoint })],
  ['files, encrypted', () => encrypted(openStorage(pathToFileURL(join(folder, 'sealed')).href))],
  ['S3, encrypted', () => encrypted(openStorage('s3://mails/sealed/', { s3Endpoint: s3.endpoint }))],
  ['files, with encryption turned off', () => encrypted(openStorage(pathToFileURL(join(folder, 'off')).href), false)],
])('a storage of %s', (_, open) => {
  let storage: Storage;
  beforeAll(() => {
    storage = open();
  });

  test('returns what was put, as bytes or as a stream', async () => {
    expect(await storage.put('acc_1/raw/email_a1.eml', Buffer.from('hello'))).toBe(5);
    expect(await storage.put('acc_1/att/att_b2', Readable.from([Buffer.from('wor'), Buffer.from('ld!')]))).toBe(6);
    expect(await read(storage, 'acc_1/raw/email_a1.eml')).toBe('hello');
    expect(await read(storage, 'acc_1/att/att_b2')).toBe('world!');
    expect(await storage.size('acc_1/att/att_b2')).toBe(6);
  });

  test('lists the objects of a prefix, in pages that continue after a key', async () => {
    const keys = Array.from({ length: 120 }, (_, n) => `acc_7/raw/email_${String(n).padStart(3, '0')}.eml`);
    // one by one: a crowd of idle connections would be closed by the server while later tests use them
    for (const key of [...keys, 'acc_7/att/att_x', 'acc_77/raw/email_y.eml']) await storage.put(key, Buffer.from('x'));
    const listed: string[] = [];
    for (let after: string | undefined; ; after = listed.at(-1)) {
      const page = await storage.list('acc_7/', after);
      for (const { key, modifiedAt } of page) {
        listed.push(key);
        expect(modifiedAt.getTime()).toBeLessThanOrEqual(Date.now());
      }
      if (page.length === 0) break;
    }
    expect(listed).toHaveLength(121);
    expect([...listed].sort()).toEqual(['acc_7/att/att_x', ...keys]);
    expect(await storage.list('acc_none/')).toEqual([]);
  });

  test('keeps empty objects and replaces existing ones', async () => {
    expect(await storage.put('acc_1/att/empty', Buffer.alloc(0))).toBe(0);
    expect([await storage.size('acc_1/att/empty'), await read(storage, 'acc_1/att/empty')]).toEqual([0, '']);
    expect(await storage.put('acc_1/att/empty', Readable.from([]))).toBe(0);
    expect(await storage.size('acc_1/att/empty')).toBe(0);
    await storage.put('acc_1/att/empty', Buffer.from('filled'));
    expect(await read(storage, 'acc_1/att/empty')).toBe('filled');
  });

  test('returns ranges, both ends included', async () => {
    await storage.put('acc_1/att/range', Buffer.from('0123456789'));
    expect(await read(storage, 'acc_1/att/range', { start: 0, end: 0 })).toBe('0');
    expect(await read(storage, 'acc_1/att/range', { start: 3, end: 5 })).toBe('345');
    expect(await read(storage, 'acc_1/att/range', { start: 8, end: 99 })).toBe('89');
  });

  test('frees the connections of downloads that are closed before they are read', async () => {
    // more than is read ahead
    await storage.put('acc_1/att/closed', randomBytes(1024 * 1024));
    // S3 has 50 connections
    for (let n = 0; n < 60; n++) {
      (await storage.get('acc_1/att/closed')).destroy();
      (await storage.get('acc_1/att/closed', { start: 1, end: 1024 * 1024 - 2 })).destroy();
    }
    expect(await read(storage, 'acc_1/att/closed', { start: 0, end: 0 })).toHaveLength(1);
  });

  test('stores large streams completely', async () => {
    const bytes = randomBytes(7 * 1024 * 1024);
    const pieces = Array.from({ length: 112 }, (_, i) => bytes.subarray(i * 65536, (i + 1) * 65536));
    expect(await storage.put('acc_1/att/large', Readable.from(pieces))).toBe(bytes.length);
    expect((await buffer(await storage.get('acc_1/att/large'))).equals(bytes)).toBe(true);
  });

  test('stores nothing of a stream that fails, and preserves the previous object', async () => {
    await storage.put('acc_1/att/kept', Buffer.from('before'));
    for (const key of ['acc_1/att/kept', 'acc_1/att/never']) {
      const failing = Readable.from(
        (async function* () {
          yield Buffer.alloc(1000);
          throw new Error('connection lost');
        })(),
      );
      await expect(storage.put(key, failing)).rejects.toThrow('connection lost');
    }
    expect(await read(storage, 'acc_1/att/kept')).toBe('before');
    expect(await storage.size('acc_1/att/never')).toBeUndefined();
  });

  test('says which object is missing', async () => {
    expect(await storage.size('acc_1/att/nothing')).toBeUndefined();
    const error = await storage.get('acc_1/att/nothing').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StorageMissing);
    expect((error as StorageMissing).key).toBe('acc_1/att/nothing');
  });

  test('deletes existing objects and ignores missing ones', async () => {
    await storage.put('acc_1/att/gone', Buffer.from('x'));
    await storage.delete(['acc_1/att/gone', 'acc_1/att/nothing', 'acc_9/att/nothing']);
    expect(await storage.size('acc_1/att/gone')).toBeUndefined();
    await storage.delete([]);
  });

  test('deletes all of a prefix and nothing else, and works afterwards', async () => {
    await Promise.all(Array.from({ length: 250 }, (_, i) => storage.put(`acc_2/raw/email_${i}.eml`, Buffer.from('x'))));
    await storage.put('acc_20/raw/email_1.eml', Buffer.from('other'));
    await storage.deletePrefix('acc_2/');
    for (const i of [0, 100, 249]) expect(await storage.size(`acc_2/raw/email_${i}.eml`)).toBeUndefined();
    expect(await read(storage, 'acc_20/raw/email_1.eml')).toBe('other');
    await storage.put('acc_2/raw/email_0.eml', Buffer.from('again'));
    expect(await read(storage, 'acc_2/raw/email_0.eml')).toBe('again');
    await storage.deletePrefix('acc_none/');
  });

  test.each([
    '../x',
    'a/../b',
    '/a',
    'a//b',
    'a/',
    '',
    '.',
    'a/.b',
    'a\\b',
    'a b',
    'a\0b',
    'ä',
    `a/${'x'.repeat(300)}`,
  ])('refuses the key %j', async (key) => {
    await expect(storage.put(key, Buffer.from('x'))).rejects.toThrow('not a storage key');
    await expect(storage.get(key)).rejects.toThrow('not a storage key');
    await expect(storage.size(key)).rejects.toThrow('not a storage key');
    await expect(storage.delete([key])).rejects.toThrow('not a storage key');
  });

  test.each(['acc_1', '', '/', '../', 'acc_1/../'])('refuses the prefix %j', async (prefix) => {
    await expect(storage.deletePrefix(prefix)).rejects.toThrow();
  });
});

describe('a storage of files', () => {
  test('leaves no temporary files after a failure, and its files are private', async () => {
    const root = join(folder, 'private');
    const storage = openStorage(`file:${root}`);
    await storage.put('acc_1/raw/email_zz.eml', Buffer.from('x'));
    const failing = Readable.from(
      (async function* () {
        yield Buffer.from('half');
        throw new Error('connection lost');
      })(),
    );
    await expect(storage.put('acc_1/raw/email_zz.eml', failing)).rejects.toThrow('connection lost');
    const path = join(root, 'acc_1/raw/zz/email_zz.eml');
    expect(await readdir(join(root, 'acc_1/raw/zz'))).toEqual(['email_zz.eml']);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readFile(path, 'utf8')).toBe('x');
  });

  test('works after its folders were removed manually', async () => {
    const root = join(folder, 'removed');
    const storage = openStorage(pathToFileURL(root).href);
    await storage.put('acc_1/raw/email_aa.eml', Buffer.from('x'));
    await rm(root, { recursive: true });
    await storage.put('acc_1/raw/email_aa.eml', Readable.from([Buffer.from('y')]));
    expect(await storage.size('acc_1/raw/email_aa.eml')).toBe(1);
  });

  test('syncs the bytes before the rename and the folder after it, and the entry of each new folder', async () => {
    const root = join(folder, 'synced');
    await mkdir(root);
    const calls = await fileCallsOf(
      root,
      `
      await storage.put('acc_1/raw/email_zz.eml', Buffer.from('x'));
      await storage.put('acc_1/att/att_yy', Readable.from([Buffer.from('y')]));`,
    );
    const raw = ['fsync acc_1/raw/zz/email_zz.eml.tmp', 'rename acc_1/raw/zz/email_zz.eml', 'fsync acc_1/raw/zz'];
    const att = ['fsync acc_1/att/yy/att_yy.tmp', 'rename acc_1/att/yy/att_yy', 'fsync acc_1/att/yy'];
    expect(calls).toEqual([
      ...['fsync acc_1/raw', 'fsync acc_1', 'fsync .', ...raw],
      ...['fsync acc_1/att', 'fsync acc_1', ...att],
    ]);
  });

  test('tells trouble from absence', async () => {
    const root = join(folder, 'trouble');
    await mkdir(root);
    await writeFile(join(root, 'acc_1'), 'a file in the way');
    await expect(openStorage(`file:${root}`).put('acc_1/raw/email_aa.eml', Buffer.from('x'))).rejects.toThrow();
    expect(await openStorage(`file:${root}`).size('acc_1/raw/email_aa.eml')).toBeUndefined();
  });
});

/** The fsync and rename calls of a process that uses a storage of files, as Node traces them, with paths below `root`. */
async function fileCallsOf(root: string, use: string): Promise<string[]> {
  const script = `
    import { Readable } from 'node:stream';
    import { openStorage } from ${JSON.stringify(new URL('../../src/storage/storage.ts', import.meta.url).href)};
    const storage = openStorage(${JSON.stringify(pathToFileURL(root).href)});
    ${use}`;
  const trace = join(folder, 'trace.json');
  const traced = ['--trace-event-categories', 'node.fs.async', '--trace-event-file-pattern', trace];
  await promisify(execFile)(process.execPath, [...traced, '--import', 'tsx', '--input-type=module', '-e', script]);
  const { traceEvents } = JSON.parse(await readFile(trace, 'utf8')) as {
    traceEvents: { name: string; ph: string; args: { path?: string; new_path?: string } }[];
  };
  const calls: string[] = [];
  let opened = '';
  const shown = (path: string) => relative(root, path).replace(/\.[0-9a-f]+-\w+\.tmp$/, '.tmp') || '.';
  for (const { name, ph, args } of traceEvents) {
    if (ph !== 'b') continue;
    if (name === 'open') opened = args.path ?? '';
    if (name === 'fsync') calls.push(`fsync ${shown(opened)}`);
    if (name === 'rename') calls.push(`rename ${shown(args.new_path ?? '')}`);
  }
  return calls;
}

test('S3 uploads that fail are aborted, and objects are below the prefix', () => {
  expect(s3.uploads.size).toBe(0);
  expect(s3.objects.has('some/prefix/acc_1/raw/email_a1.eml')).toBe(true);
});

describe('uploads in parts that were interrupted', () => {
  let storage: Storage;
  const other = 'some/prefix/acc_40/att/x';
  beforeEach(() => {
    storage = openStorage('s3://mails/some/prefix/', { s3Endpoint: s3.endpoint });
    // more than a page
    for (let n = 0; n < 120; n++) s3.uploads.set(`some/prefix/acc_4/att/att_${n}`, new Map());
    s3.uploads.set(other, new Map());
  });
  afterEach(() => {
    s3.refusals = {};
    s3.uploads.clear();
  });

  test('are removed with their prefix', async () => {
    await storage.deletePrefix('acc_4/');
    expect([...s3.uploads.keys()]).toEqual([other]);
  });

  test('are removed once they are old', async () => {
    s3.begun = new Date('2024-05-06T07:08:09Z');
    await storage.deleteUnfinished('acc_4/', s3.begun);
    expect(s3.uploads.size).toBe(121);
    await storage.deleteUnfinished('acc_4/', new Date('2024-05-06T07:08:10Z'));
    expect([...s3.uploads.keys()]).toEqual([other]);
  });

  test.each(['NotImplemented', 'AccessDenied'])('remain where a server refuses with %s', async (code) => {
    await storage.put('acc_4/att/x', Buffer.from('x'));
    s3.refusals = { uploads: code };
    await storage.deleteUnfinished('acc_4/', new Date());
    await storage.deletePrefix('acc_4/');
    expect([s3.uploads.size, await storage.size('acc_4/att/x')]).toEqual([121, undefined]);
  });

  test('are not removed when the server fails', async () => {
    s3.refusals = { uploads: 'InternalError' };
    await expect(storage.deletePrefix('acc_4/')).rejects.toMatchObject({ part: 'storage' });
  });
});

test.each(['SlowDown', 'InternalError'])('keys that S3 does not delete (%s) mean that it is away', async (code) => {
  const storage = openStorage('s3://mails', { s3Endpoint: s3.endpoint });
  s3.refusals = { delete: code };
  await expect(storage.delete(['acc_5/att/x'])).rejects.toMatchObject({ name: 'PartUnavailable', part: 'storage' });
  s3.refusals = { delete: 'NoSuchKey' };
  await storage.delete(['acc_5/att/x']);
  s3.refusals = {};
});

test.each(['', 'http://x', 'file:', 's3://', 's3://A', 'relative/path'])('%j is not a storage URL', (url) => {
  expect(() => openStorage(url)).toThrow(/storage URL/);
});
