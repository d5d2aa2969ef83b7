import { randomBytes } from 'node:crypto';
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { encryptStorage } from '../../src/storage/encrypted.ts';
import { openStorage, type Storage, StorageMissing } from '../../src/storage/storage.ts';

const CHUNK = 64 * 1024;
const SECRET = 'canary of a mail';

let folder: string;
let keys: Map<string, Buffer>;
let plain: Storage;
let storage: Storage;
let off: Storage;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mail-encrypted-'));
  plain = openStorage(pathToFileURL(folder).href);
});
afterAll(() => rm(folder, { recursive: true, force: true }));
beforeEach(() => {
  keys = new Map(['acc_1', 'acc_2'].map((id) => [id, randomBytes(32)]));
  const known = async (id: string) => keys.get(id);
  const options = { keys: { take: known, find: known } };
  storage = encryptStorage(plain, { ...options, encrypts: true });
  off = encryptStorage(plain, { ...options, encrypts: false });
});

const read = async (from: Storage, key: string, range?: { start: number; end: number }) =>
  buffer(await from.get(key, range));
const file = async (part: string): Promise<string> => {
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  const found = files.find((entry) => entry.isFile() && entry.name === part);
  if (!found) throw new Error(`no file ${part}`);
  return join(found.parentPath, found.name);
};

describe('an encrypted object', () => {
  it('is unreadable in the storage, and readable with the key', async () => {
    await storage.put('acc_1/raw/email_a.eml', Buffer.from(SECRET));
    expect((await readFile(await file('email_a.eml'))).includes('canary')).toBe(false);
    expect((await read(storage, 'acc_1/raw/email_a.eml')).toString()).toBe(SECRET);
    expect((await read(off, 'acc_1/raw/email_a.eml')).toString()).toBe(SECRET);
  });

  it.each([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 17])(
    'of %i bytes has every range',
    async (length) => {
      const bytes = randomBytes(length);
      const pieces = Readable.from([bytes.subarray(0, 100), bytes.subarray(100)]);
      expect(await storage.put('acc_1/att/att_ranges', pieces)).toBe(length);
      expect(await storage.size('acc_1/att/att_ranges')).toBe(length);
      expect((await read(storage, 'acc_1/att/att_ranges')).equals(bytes)).toBe(true);
      const edges = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, length - 1, length + 5].filter((at) => at >= 0);
      for (const start of edges.filter((at) => at < length)) {
        for (const end of edges.filter((at) => at >= start)) {
          const part = await read(storage, 'acc_1/att/att_ranges', { start, end });
          expect([start, end, part.equals(bytes.subarray(start, end + 1))]).toEqual([start, end, true]);
        }
      }
    },
  );

  it('does not open under another key, of the same account or of another one', async () => {
    await storage.put('acc_1/raw/email_mine.eml', Buffer.from(SECRET));
    for (const other of ['acc_1/raw/email_same.eml', 'acc_2/raw/email_other.eml']) {
      await storage.put(other, Buffer.from('something else'));
      await copyFile(await file('email_mine.eml'), await file(other.split('/').at(-1) ?? ''));
      await expect(read(storage, other)).rejects.toThrow('belongs to another key');
    }
  });

  it('does not open when it was changed, truncated or reassembled', async () => {
    await storage.put('acc_1/att/att_cut', randomBytes(3 * CHUNK + 5));
    const path = await file('att_cut');
    const whole = await readFile(path);
    const sealed = CHUNK + 16;
    const chunk = (at: number) => whole.subarray(24 + at * sealed, 24 + (at + 1) * sealed);
    const bent = Buffer.from(whole);
    bent[30] = (bent[30] ?? 0) ^ 1;
    for (const changed of [
      bent,
      whole.subarray(0, 24 + 2 * sealed),
      whole.subarray(0, whole.length - 1),
      whole.subarray(0, 24 + 3),
      Buffer.concat([whole.subarray(0, 24), chunk(1), chunk(0), chunk(2), chunk(3)]),
      Buffer.concat([whole.subarray(0, 24), chunk(0), chunk(3)]),
    ]) {
      await writeFile(path, changed);
      await expect(read(storage, 'acc_1/att/att_cut')).rejects.toThrow(/damaged|truncated/);
    }
    await writeFile(path, whole.subarray(0, 24 + 2 * sealed));
    await expect(read(storage, 'acc_1/att/att_cut', { start: CHUNK, end: CHUNK + 9 })).rejects.toThrow('damaged');
  });

  it('is lost with the key of its account, and no new one is stored for it', async () => {
    await storage.put('acc_1/raw/email_gone.eml', Buffer.from(SECRET));
    keys.delete('acc_1');
    await expect(read(storage, 'acc_1/raw/email_gone.eml')).rejects.toThrow(StorageMissing);
    await expect(read(storage, 'acc_1/raw/email_gone.eml', { start: 0, end: 1 })).rejects.toThrow(StorageMissing);
    await expect(storage.put('acc_1/raw/email_late.eml', Buffer.from(SECRET))).rejects.toThrow('removed');
  });
});

describe('a download that is closed', () => {
  const bytes = randomBytes(3 * CHUNK);
  let sources: Readable[];
  let watched: Storage;
  beforeEach(async () => {
    await storage.put('acc_1/att/att_sealed', bytes);
    await plain.put('acc_1/att/att_plain', bytes);
    sources = [];
    const get: Storage['get'] = async (key, range) => {
      const all = await read(plain, key, range);
      let given = false;
      // all but the last bytes, for which it waits
      const source = new Readable({
        read() {
          if (!given) this.push(range?.end === 23 ? all : all.subarray(0, -100));
          if (range?.end === 23) this.push(null);
          given = true;
        },
      });
      sources.push(source);
      return source;
    };
    const known = async (id: string) => keys.get(id);
    watched = encryptStorage({ ...plain, get }, { keys: { take: known, find: known }, encrypts: true });
  });

  it.each<[string, string, { start: number; end: number } | undefined]>([
    ['an encrypted object', 'acc_1/att/att_sealed', undefined],
    ['a range of it', 'acc_1/att/att_sealed', { start: 5, end: 3 * CHUNK - 1 }],
    ['an unencrypted object', 'acc_1/att/att_plain', undefined],
  ])('closes what is stored: %s', async (_, key, range) => {
    const unread = await watched.get(key, range);
    unread.destroy();
    expect(sources.at(-1)?.destroyed).toBe(true);

    const waiting = await watched.get(key, range);
    const source = sources.at(-1);
    let length = 0;
    for await (const part of waiting.iterator({ destroyOnReturn: false })) {
      length += (part as Buffer).length;
      if (length >= 2 * CHUNK - 5) break;
    }
    waiting.resume();
    await new Promise(setImmediate);
    expect(source?.destroyed).toBe(false);
    waiting.destroy();
    expect(source?.destroyed).toBe(true);
  });
});

describe('an unencrypted object', () => {
  it('is read unchanged', async () => {
    await plain.put('acc_1/raw/email_old.eml', Buffer.from('from before'));
    expect((await read(storage, 'acc_1/raw/email_old.eml')).toString()).toBe('from before');
    expect((await read(storage, 'acc_1/raw/email_old.eml', { start: 5, end: 99 })).toString()).toBe('before');
    expect(await storage.size('acc_1/raw/email_old.eml')).toBe(11);
  });

  it('cannot be imitated: a file that begins like an encrypted one is returned as it was sent', async () => {
    await storage.put('acc_1/att/att_real', Buffer.from(SECRET));
    const copy = await readFile(await file('att_real'));
    await off.put('acc_1/att/att_fake', copy);
    await off.put('acc_1/att/att_fake2', Readable.from([copy.subarray(0, 3), copy.subarray(3)]));
    for (const key of ['acc_1/att/att_fake', 'acc_1/att/att_fake2']) {
      expect((await read(off, key)).equals(copy)).toBe(true);
      expect(await off.size(key)).toBe(copy.length);
    }
  });
});
