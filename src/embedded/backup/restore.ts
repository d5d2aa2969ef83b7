import { chown, mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { StartConfig } from '../../config/config.ts';
import { markRestored, type Restored } from '../../db/coordination/restored.ts';
import { openDatabase } from '../../db/open.ts';
import { StartFailure } from '../failure.ts';
import { clusterOf } from '../postgres.ts';
import type { Report } from '../report.ts';
import { migrateDatabase } from '../servers.ts';
import { type ArchiveEntry, extractEntry, readArchive } from './archive.ts';
import { type Manifest, NAMES, storageFolder } from './backup.ts';
import { onDataDir } from './data-command.ts';
import { createSwap } from './swap.ts';

/** Where a backup is restored to. */
export interface RestoreTarget {
  settings: StartConfig;
  storageUrl: string;
  /** of the encryption key in force */
  encryptionKeyId: string;
  report: Report;
}

export interface RestoreResult extends Restored {
  manifest: Manifest;
  /** what was there before, under its new names */
  replaced: string[];
}

/**
 * Replaces what `npm start` stores by a backup, and marks it as restored. What was there is renamed, and put back when the backup
 * cannot be used. Temporal's store is put aside: the workers start again what the database names.
 * @throws StartFailure with one line
 */
export async function restoreBackup(file: string, target: RestoreTarget): Promise<RestoreResult> {
  const { settings, report } = target;
  return onDataDir(settings, report, async ({ startPostgres, stopPostgres }) => {
    const places = await placesOf(target);
    try {
      const manifest = await report.during('Unpacking', () => unpack(file, places, target.encryptionKeyId));
      const swap = createSwap(`.replaced-${new Date().toISOString().replace(/[:.]/g, '')}`);
      try {
        for (const { unpacked, path } of placesIn(places, manifest)) await swap.put(unpacked, path);
        for (const name of TEMPORAL) await swap.away(join(settings.dataDir, name));
        const url = await startPostgres();
        const restored = await report.during('Marking the store as restored', () => mark(url));
        return { ...restored, manifest, replaced: swap.replaced() };
      } catch (error) {
        await stopPostgres();
        await swap.undo();
        throw error;
      }
    } finally {
      for (const { unpacked } of Object.values(places)) await rm(unpacked, { recursive: true, force: true });
    }
  });
}

/** Migrates a restored database and marks it as restored now. @throws StartFailure */
export async function mark(databaseUrl: string): Promise<Restored> {
  await migrateDatabase(databaseUrl);
  const database = openDatabase(databaseUrl, { max: 1 });
  try {
    return await markRestored(database.db, new Date());
  } finally {
    await database.close();
  }
}

const TEMPORAL = ['temporal.db', 'temporal.db-wal', 'temporal.db-shm'];

/** Where a part of a backup belongs, and where it is unpacked, on the same file system. */
interface Place {
  path: string;
  unpacked: string;
  /** whose files they must be */
  owner?: { uid: number; gid: number } | undefined;
}
type Places = Record<'password' | 'postgres' | 'storage', Place>;

async function placesOf({ settings, storageUrl, report }: RestoreTarget): Promise<Places> {
  const { path, runAs } = await clusterOf({ dir: settings.dataDir, printLine: report.line });
  const place = (to: string): Place => ({ path: to, unpacked: `${to}.unpacked` });
  return {
    password: place(join(settings.dataDir, 'postgres-password')),
    postgres: { ...place(path), owner: runAs },
    // a bucket has no folder: nothing is unpacked
    storage: place(storageFolder(storageUrl) ?? join(settings.dataDir, 'storage')),
  };
}

const placesIn = ({ password, postgres, storage }: Places, { has_storage: hasStorage }: Manifest): Place[] =>
  hasStorage ? [password, postgres, storage] : [password, postgres];

async function unpack(file: string, places: Places, keyId: string): Promise<Manifest> {
  for (const { unpacked } of Object.values(places)) await rm(unpacked, { recursive: true, force: true });
  await mkdir(places.storage.unpacked, { recursive: true, mode: 0o700 });
  let manifest: Manifest | undefined;
  await readArchive(file, async (entry) => {
    if (manifest === undefined) {
      manifest = await readManifest(file, entry);
      checkManifest(file, manifest, keyId);
      return;
    }
    if (entry.name === NAMES.password) {
      const { unpacked } = places.password;
      await extractEntry({ ...entry, name: `/${NAMES.password}.unpacked` }, dirname(unpacked));
      return;
    }
    const place = entry.name.startsWith(`${NAMES.postgres}/`) ? places.postgres : places.storage;
    const path = await extractEntry(entry, place.unpacked);
    if (place.owner !== undefined) await chown(path, place.owner.uid, place.owner.gid);
  });
  if (manifest === undefined) throw new StartFailure(`${file} is not a backup.`);
  return manifest;
}

async function readManifest(file: string, { name, stream }: ArchiveEntry): Promise<Manifest> {
  if (name !== NAMES.manifest) throw new StartFailure(`${file} is not a backup of this product.`);
  return JSON.parse(await text(stream)) as Manifest;
}

function checkManifest(file: string, manifest: Manifest, keyId: string): void {
  if (manifest.format !== 1) {
    throw new StartFailure(
      `${file} was made by version ${manifest.version}: restore it with that version or a later one.`,
    );
  }
  if (manifest.encryption_key === keyId) return;
  throw new StartFailure(
    `${file} was made with the encryption key ${manifest.encryption_key}, and the one in force is ${keyId}: ` +
      'set ENCRYPTION_KEY to that key, or put it back in the file encryption-key of DATA_DIR.',
  );
}
