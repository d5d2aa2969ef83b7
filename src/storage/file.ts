import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, open, rename, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { segmentsOf, segmentsOfPrefix, StorageMissing } from './keys.ts';
import type { Storage } from './storage.ts';

/**
 * Objects as files below `root`. Each key's last segment lies in a folder named by the two characters before its
 * ending (ids are random there), so that no folder of an account with 20,000 mails holds more than some dozens. A file
 * is written beside its place and renamed: it is there whole or not at all.
 */
export function openFileStorage(root: string): Storage {
  const base = resolve(root);
  const made = new Set<string>();
  const writer = randomBytes(6).toString('hex');
  let written = 0;

  async function inFolder<T>(path: string, write: () => Promise<T>): Promise<T> {
    const folder = dirname(path);
    if (!made.has(folder)) await mkdir(folder, { recursive: true, mode: 0o700 });
    made.add(folder);
    try {
      return await write();
    } catch (error) {
      // The folder may have gone with its prefix since it was made.
      if (!isMissing(error)) throw error;
      await mkdir(folder, { recursive: true, mode: 0o700 });
      return write();
    }
  }

  return {
    async put(key, body) {
      const path = pathOf(base, key);
      const temporary = `${path}.${writer}-${(written++).toString(36)}.tmp`;
      try {
        if (Buffer.isBuffer(body)) {
          await inFolder(path, () => writeFile(temporary, body, { mode: 0o600 }));
          await rename(temporary, path);
          return body.length;
        }
        await inFolder(path, async () => (await open(temporary, 'w', 0o600)).close());
        const file = createWriteStream(temporary, { flags: 'w' });
        await pipeline(body, file);
        await rename(temporary, path);
        return file.bytesWritten;
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
      const folder = join(base, ...segmentsOfPrefix(prefix));
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
      for (const path of made) if (path === folder || path.startsWith(`${folder}/`)) made.delete(path);
    },
  };
}

function pathOf(base: string, key: string): string {
  const segments = segmentsOf(key);
  const last = segments.pop() ?? '';
  const stem = last.replace(/\..*$/, '');
  return join(base, ...segments, stem.slice(-2), last);
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
