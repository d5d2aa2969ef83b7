import { existsSync } from 'node:fs';
import { realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { homesOf } from '../postgres-home.ts';
import { storageFolder } from '../storage-folder.ts';
import { newRecordOf } from './swap.ts';

/** Where a restore unpacks what replaces a path: beside it, where it can be renamed, and beside what a link names. */
export async function unpackedOf(path: string): Promise<{ path: string; unpacked: string }> {
  const real = await realpath(path).catch(() => path);
  return { path: real, unpacked: `${real}.unpacked` };
}

/** Removes what a restore that was killed has unpacked. To be called while no restore runs. */
export async function removeUnpacked(dataDir: string, storageUrl: string): Promise<void> {
  const storage = storageFolder(storageUrl);
  const paths = [...homesOf(dataDir).map((home) => join(home, 'postgres')), join(dataDir, 'postgres-password')];
  const left = (await Promise.all(paths.map(unpackedOf)))
    .map(({ unpacked }) => unpacked)
    .filter((path) => existsSync(path));
  if (left.length === 0) return;
  // a folder beside a storage elsewhere may be another's: it is a restore's where the other parts are; these are removed last
  if (storage !== undefined) left.unshift((await unpackedOf(storage)).unpacked);
  left.push(newRecordOf(dataDir));
  // what cannot be removed is in the way of nothing
  for (const path of left) await rm(path, { recursive: true, force: true }).catch(() => {});
}
