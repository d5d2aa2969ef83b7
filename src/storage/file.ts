import { randomBytes } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { isKey, segmentsOf, segmentsOfPrefix, StorageMissing } from './keys.ts';
import type { Storage, StoredObject } from './types.ts';

const LISTED_AT_ONCE = 1000;

/**
 * Objects as files below `root`. The last segment of a key is in a folder that is named by the two characters before its
 * ending (ids are random there): no folder of an account with 20,000 mails holds more than a few dozen files.
 *
 * Once `put` has returned, the object is complete even after a power loss, since the row that names it is committed next:
 * the bytes go into a temporary file, which is synced and renamed, and then the folder is synced. Puts that run at the
 * same time share the commits of the file system's journal: write the messages of a batch together, not one by one.
 */
export function openFileStorage(root: string): Storage {
  const base = resolve(root);
  const writer = randomBytes(6).toString('hex');
  let written = 0;

  return {
    async put(key, body) {
      const path = pathOf(base, key);
      const temporary = `${path}.${writer}-${(written++).toString(36)}.tmp`;
      try {
        const bytes = await writeSynced(temporary, body);
        await rename(temporary, path);
        await syncFolder(dirname(path));
        return bytes;
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
    },

    async get(key, range) {
      const file = await open(pathOf(base, key), 'r').catch((error: unknown) => {
        throw isMissing(error) ? new StorageMissing(key) : error;
      });
      return file.createReadStream(range ?? {});
    },

    async size(key) {
      try {
        return (await stat(pathOf(base, key))).size;
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },

    async delete(keys) {
      for (const key of keys) {
        await unlink(pathOf(base, key)).catch((error: unknown) => {
          if (!isMissing(error)) throw error;
        });
      }
    },

    async deletePrefix(prefix) {
      await rm(join(base, ...segmentsOfPrefix(prefix)), { recursive: true, force: true, maxRetries: 3 });
    },

    async list(prefix, after) {
      const folder = join(base, ...segmentsOfPrefix(prefix));
      const objects: StoredObject[] = [];
      for await (const path of filesAfter(folder, after === undefined ? '' : pathOf(base, after))) {
        const file = await stat(path).catch((error: unknown) => {
          if (!isMissing(error)) throw error;
        });
        const key = keyOf(base, path);
        if (file && isKey(key)) objects.push({ key, modifiedAt: file.mtime });
        if (objects.length >= LISTED_AT_ONCE) break;
      }
      return objects;
    },

    // temporary files are listed
    deleteUnfinished: async () => {},
  };
}

/** Writes a file and syncs it; returns the number of bytes written. */
async function writeSynced(path: string, body: Buffer | Readable): Promise<number> {
  if (Buffer.isBuffer(body)) {
    await inFolder(dirname(path), () => writeFile(path, body, { mode: 0o600, flush: true }));
    return body.length;
  }
  // A stream can be read only once: opening the file shows whether the folder exists.
  const opened = await inFolder(dirname(path), () => open(path, 'w', 0o600));
  const file = opened.createWriteStream({ flush: true });
  await pipeline(body, file);
  return file.bytesWritten;
}

/** Writes into a folder, which is created only if it is missing. */
async function inFolder<T>(folder: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!isMissing(error)) throw error;
    await makeFolder(folder);
    return write();
  }
}

/** Makes a folder with those above it, and syncs the entry of each that is new. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made));
}

/** Syncs the entries of a folder: a new or renamed file is in it after a power loss. */
async function syncFolder(folder: string): Promise<void> {
  const opened = await open(folder, 'r');
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}

function pathOf(base: string, key: string): string {
  const segments = segmentsOf(key);
  const last = segments.pop() ?? '';
  const stem = last.replace(/\..*$/, '');
  return join(base, ...segments, stem.slice(-2), last);
}

/** The key of a path made by `pathOf`. */
function keyOf(base: string, path: string): string {
  const segments = relative(base, path).split(sep);
  segments.splice(-2, 1);
  return segments.join('/');
}

/** Files below a folder in the order of their paths, from the one after `after` on. */
async function* filesAfter(folder: string, after: string): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  // a folder is compared as the beginning of its files' paths
  const paths = entries.map((entry) => ({ path: join(folder, entry.name) + (entry.isDirectory() ? sep : ''), entry }));
  for (const { path, entry } of paths.sort((a, b) => (a.path < b.path ? -1 : 1))) {
    if (path <= after && !after.startsWith(path)) continue;
    if (entry.isDirectory()) yield* filesAfter(path, after);
    else if (path > after) yield path;
  }
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
