import { chown, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { sleep } from '../../async.ts';
import type { StartConfig } from '../../config/config.ts';
import { markRestored, type Restored } from '../../db/coordination/restored.ts';
import { hasWorker, SILENT_MS } from '../../db/coordination/workers.ts';
import type { Db } from '../../db/driver/client.ts';
import { openDatabase } from '../../db/open.ts';
import { StartFailure } from '../failure.ts';
import { clusterOf } from '../postgres.ts';
import type { Report } from '../report.ts';
import { migrateDatabase } from '../servers.ts';
import { storageFolder } from '../storage-folder.ts';
import { type ArchiveEntry, extractEntry, readArchive } from './archive.ts';
import { type Manifest, NAMES } from './backup.ts';
import { onDataDir, unlessInterrupted } from './data-command.ts';
import { finishSwap, swapIn, undoSwap } from './swap.ts';
import { unpackedOf } from './unpacked.ts';

/** Where a backup is restored to. */
export interface RestoreTarget {
  settings: StartConfig;
  storageUrl: string;
  /** of the encryption key in force */
  encryptionKeyId: string;
  report: Report;
  /** when it aborts, everything is put back */
  signal: AbortSignal;
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
  const { settings, report, signal } = target;
  const { dataDir } = settings;
  return onDataDir(settings, report, async ({ startPostgres, stopPostgres }) => {
    // of a restore that was killed
    await undoSwap(dataDir);
    const places = await placesOf(target);
    try {
      await checkReplaceable(places.postgres, 'mount the disk at DATA_DIR itself, or set DATA_DIR to another folder');
      if (places.storage !== undefined) await checkReplaceable(places.storage, storageAdvice(places.storage.path));
      const manifest = await report.during('Unpacking', () => unpack(file, places, target));
      try {
        const replaced = await swapIn(dataDir, resolve(file), [
          ...placesIn(places).map(({ path, unpacked }) => ({ path, by: unpacked })),
          ...TEMPORAL.map((name) => ({ path: join(dataDir, name) })),
        ]);
        signal.throwIfAborted();
        const url = await unlessInterrupted(signal, startPostgres());
        const marking = report.during('Marking the store as restored', () => mark(url));
        const restored = await unlessInterrupted(signal, marking);
        await finishSwap(dataDir);
        return { ...restored, manifest, replaced };
      } catch (error) {
        await stopPostgres();
        await undoSwap(dataDir);
        throw error;
      }
    } finally {
      for (const { unpacked } of placesIn(places)) await rm(unpacked, { recursive: true, force: true });
    }
  });
}

/**
 * Migrates a restored database and marks it as restored now; `check` may refuse in between, by throwing.
 * @throws StartFailure
 */
export async function mark(databaseUrl: string, check?: (db: Db) => Promise<void>): Promise<Restored> {
  await migrateDatabase(databaseUrl);
  const database = openDatabase(databaseUrl, { max: 1 });
  try {
    await check?.(database.db);
    return await markRestored(database.db, new Date());
  } finally {
    await database.close();
  }
}

/** Waits for the rows of workers that have been killed, or were in a copy of just now. @throws StartFailure while workers run */
export async function refuseWorkers(db: Db): Promise<void> {
  for (const until = Date.now() + SILENT_MS + 1000; await hasWorker(db); await sleep(250)) {
    if (Date.now() > until) throw new StartFailure('workers use this database: stop all processes first.');
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
interface Places {
  password: Place;
  postgres: Place;
  /** undefined: mail is in a bucket */
  storage: Place | undefined;
}

async function placesOf({ settings, storageUrl, report }: RestoreTarget): Promise<Places> {
  const { path, runAs } = await clusterOf({ dir: settings.dataDir, printLine: report.line });
  const storage = storageFolder(storageUrl);
  // a link stays, and what it names is replaced
  return {
    password: await unpackedOf(join(settings.dataDir, 'postgres-password')),
    postgres: { ...(await unpackedOf(path)), owner: runAs },
    storage: storage === undefined ? undefined : await unpackedOf(storage),
  };
}

const placesIn = ({ password, postgres, storage }: Places): Place[] =>
  storage === undefined ? [password, postgres] : [password, postgres, storage];

/**
 * Renaming a folder to one that is not empty always fails, and says whether anything else is in the way: a mount point, say, or
 * the rights of the folder around it.
 * @throws StartFailure when it could not be renamed
 */
async function checkReplaceable({ path, unpacked }: Place, advice: string): Promise<void> {
  try {
    await mkdir(join(unpacked, 'not-empty'), { recursive: true, mode: 0o700 });
    await rename(path, unpacked);
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    if (/^(ENOTEMPTY|EEXIST|ENOENT)$/.test(code)) return;
    const reason = code === 'EBUSY' ? 'it is a mount point' : code;
    throw new StartFailure(`${path} cannot be replaced (${reason}): ${advice}.`);
  }
}

const storageAdvice = (path: string) =>
  `set STORAGE_URL to a folder in it, such as ${pathToFileURL(join(path, 'restored')).href}, here and for npm start`;

async function unpack(file: string, places: Places, target: RestoreTarget): Promise<Manifest> {
  for (const { unpacked } of placesIn(places)) await rm(unpacked, { recursive: true, force: true });
  if (places.storage !== undefined) await mkdir(places.storage.unpacked, { recursive: true, mode: 0o700 });
  let manifest: Manifest | undefined;
  await readArchive(file, target.signal, async (entry) => {
    if (manifest === undefined) {
      manifest = await readManifest(file, entry);
      checkManifest(file, manifest, target.encryptionKeyId);
      checkStorage(file, manifest, places.storage);
      return;
    }
    if (entry.name === NAMES.password) {
      const { unpacked } = places.password;
      await extractEntry({ ...entry, name: `/${NAMES.password}.unpacked` }, dirname(unpacked));
      return;
    }
    const place = entry.name.startsWith(`${NAMES.postgres}/`) ? places.postgres : places.storage;
    if (place === undefined) throw new StartFailure(`${file} is not a backup of this product.`);
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
  checkClock(file, manifest.made_at);
  if (manifest.encryption_key === keyId) return;
  throw new StartFailure(
    `${file} was made with the encryption key ${manifest.encryption_key}, and the one in force is ${keyId}: ` +
      'set ENCRYPTION_KEY to that key, or put it back in the file encryption-key of DATA_DIR.',
  );
}

/** Clocks of two machines may differ by so much. */
const CLOCK_MS = 60_000;

/** The mark of a restore is its time, from which sends of the day before it are looked for in mailboxes. */
function checkClock(file: string, madeAt: string): void {
  const now = Date.now();
  if (now > Date.parse(madeAt) - CLOCK_MS) return;
  throw new StartFailure(
    `the clock of this machine says ${new Date(now).toISOString()}, and ${file} was made at ${madeAt}: set the clock.`,
  );
}

function checkStorage(file: string, { has_storage: hasStorage }: Manifest, storage: Place | undefined): void {
  if (hasStorage === (storage !== undefined)) return;
  throw new StartFailure(
    hasStorage
      ? `${file} holds mail and attachments, and STORAGE_URL names a bucket: set it to a folder, here and for npm start.`
      : `${file} was made with mail and attachments in a bucket: set STORAGE_URL to it, here and for npm start.`,
  );
}
