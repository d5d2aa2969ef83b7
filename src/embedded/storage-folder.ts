import { realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../config/config.ts';

/** The folder of a storage; undefined for a bucket. */
export function storageFolder(storageUrl: string): string | undefined {
  // without a slash at its end
  return storageUrl.startsWith('file:') ? resolve(fileURLToPath(storageUrl)) : undefined;
}

/**
 * A backup copies the whole storage, and a restore replaces it: neither may do that to the data folder, with the encryption key and
 * the database.
 * @throws ConfigError when the storage is the data folder or contains it
 */
export function checkStorageFolder(dataDir: string, storageUrl: string): void {
  const folder = storageFolder(storageUrl);
  if (folder === undefined) return;
  const path = relative(real(folder), real(dataDir));
  if (isAbsolute(path) || path.split(sep, 1)[0] === '..') return;
  throw new ConfigError(
    'STORAGE_URL',
    `names ${folder}, which contains DATA_DIR, and so the encryption key: set it to a folder for mail alone, and move the mail there`,
  );
}

/** Without links, also where nothing is at the path yet. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return dirname(path) === path ? path : join(real(dirname(path)), basename(path));
  }
}
