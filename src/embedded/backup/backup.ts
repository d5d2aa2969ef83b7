import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { VERSION } from '../../runtime/version.ts';
import { StartFailure } from '../failure.ts';
import { storageFolder } from '../storage-folder.ts';
import { type ArchiveWriter, writeArchive } from './archive.ts';

/*
 * A backup of what `npm start` stores, made while it runs: the files of Postgres between pg_backup_start and pg_backup_stop
 * with the log of that time (https://www.postgresql.org/docs/18/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP), then
 * the storage, which so holds at least the files that the database names. Temporal's store is not in it: the workers start
 * again what it has lost. Nor is the encryption key, without which the passwords in the backup cannot be read.
 */

/** The first entry of a backup. */
export interface Manifest {
  format: 1;
  /** of the product that made it */
  version: string;
  /** ISO 8601 */
  made_at: string;
  /** id of the encryption key that opens it */
  encryption_key: string;
  /** raw mail and attachments are in it; false: they are in a bucket */
  has_storage: boolean;
}

export const NAMES = {
  manifest: 'manifest.json',
  password: 'postgres-password',
  postgres: 'postgres',
  storage: 'storage',
};

/** What a backup copies. */
export interface BackupSource {
  /** of the running Postgres */
  databaseUrl: string;
  /** the folder with `postgres-password` */
  dataDir: string;
  storageUrl: string;
  encryptionKeyId: string;
  /** when it aborts, no file is left */
  signal: AbortSignal;
}

/** Writes a backup to a new file. @throws StartFailure */
export async function makeBackup(file: string, source: BackupSource): Promise<void> {
  const storage = storageFolder(source.storageUrl);
  const manifest: Manifest = {
    format: 1,
    version: VERSION,
    made_at: new Date().toISOString(),
    encryption_key: source.encryptionKeyId,
    has_storage: storage !== undefined,
  };
  const client = new pg.Client({ connectionString: source.databaseUrl, application_name: 'backup' });
  client.on('error', () => {});
  await client.connect().catch((error: Error) => {
    throw new StartFailure(`the database cannot be reached: ${error.message}.`);
  });
  try {
    await checkSource(client, source, storage);
    await writeArchive(file, source.signal, async (archive) => {
      await archive.text(NAMES.manifest, JSON.stringify(manifest));
      await archive.file(NAMES.password, join(source.dataDir, 'postgres-password'));
      await copyDatabase(archive, client);
      // a file that is still being written is named by no row
      if (storage !== undefined) await archive.folder(NAMES.storage, storage, (path) => path.endsWith('.tmp'));
    });
  } finally {
    await client.end().catch(() => {});
  }
}

/** `here`: of this shell; `started`: of the last `npm start`, undefined: unknown. @throws StartFailure when they differ */
export function checkStorageUrl(here: string, started: string | undefined): void {
  const places = [here, started ?? here].map((url) => storageFolder(url) ?? url);
  if (places[0] === places[1]) return;
  throw new StartFailure(
    `STORAGE_URL names ${places[0]} here, and the last npm start stored mail in ${places[1]}: set it as for npm start.`,
  );
}

/** The settings of this shell must be those of the product: the database knows its key, and that it has stored mail. */
async function checkSource(client: pg.Client, source: BackupSource, storage: string | undefined): Promise<void> {
  const { rows } = await client.query<{ key: string | null; has_mail: boolean }>(
    `SELECT (SELECT split_part(value, ' ', 1) FROM installation WHERE name = 'encryption_key') AS key,
       EXISTS (SELECT FROM emails WHERE storage_key <> '') AS has_mail`,
  );
  const { key = null, has_mail: hasMail = false } = rows[0] ?? {};
  if (key !== null && key !== source.encryptionKeyId) {
    throw new StartFailure(
      `ENCRYPTION_KEY is the key ${source.encryptionKeyId} here, and the database was last used with ${key}: set it as for npm start.`,
    );
  }
  if (storage === undefined || !hasMail) return;
  const entries = await readdir(storage).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw new StartFailure(`${storage} cannot be read (${error.code ?? 'unknown error'}).`);
  });
  if (entries.length > 0) return;
  throw new StartFailure(
    `STORAGE_URL names ${storage}, which holds nothing, and the database names mail that is stored: set it as for npm start.`,
  );
}

/** Rebuilt by each start, or of this server alone. */
const NOT_COPIED =
  /^(postmaster\.(pid|opts)|backup_label(\.old)?|tablespace_map(\.old)?|(pg_wal|pg_replslot|pg_dynshmem|pg_notify|pg_serial|pg_snapshots|pg_stat_tmp|pg_subtrans)\/.*)$|(^|\/)(pgsql_tmp.*|pg_internal\.init.*)$/;

async function copyDatabase(archive: ArchiveWriter, client: pg.Client): Promise<void> {
  const { rows: where } = await client.query<{ dir: string }>(`SELECT current_setting('data_directory') AS dir`);
  const dir = where[0]?.dir ?? '';
  // reserves the log from here on; gone with this connection
  await client.query(`SELECT pg_create_physical_replication_slot('backup_' || pg_backend_pid(), true, true)`);
  const { rows: start } = await client.query<{ lsn: string }>(`SELECT pg_backup_start('npm run backup', true) AS lsn`);
  await archive.folder(NAMES.postgres, dir, (path) => NOT_COPIED.test(path));
  const { rows: stop } = await client.query<{ first: string; last: string; label: string }>(
    'SELECT pg_walfile_name($1) AS first, pg_walfile_name(lsn) AS last, labelfile AS label FROM pg_backup_stop(false)',
    [start[0]?.lsn],
  );
  const { first = '', last = '', label = '' } = stop[0] ?? {};
  await archive.text(`${NAMES.postgres}/backup_label`, label);
  for (const name of (await readdir(join(dir, 'pg_wal'))).sort()) {
    if (!/^[0-9A-F]{24}$/.test(name) || name < first || name > last) continue;
    await archive.file(`${NAMES.postgres}/pg_wal/${name}`, join(dir, 'pg_wal', name));
  }
}
