import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { writeSecret } from './data-dir.ts';
import { sleep } from '../async.ts';
import { StartFailure } from './failure.ts';
import { findPostgres, type PostgresBinaries, type RunAs } from './postgres-binaries.ts';
import { homeOf, refuseMissing } from './postgres-home.ts';
import { commandOf, endProcess, handleOf } from '../runtime/process-handle.ts';
import type { Part } from './supervise.ts';

const USER = 'mailbox';
const DATABASE = 'mailbox';

export interface PostgresOptions {
  /** the cluster is in `<dir>/postgres`, its password in `<dir>/postgres-password` */
  dir: string;
  /** loopback port */
  port: number;
  /** further server settings; tests turn durability off */
  settings?: Readonly<Record<string, string>>;
  /** called with a line when the cluster must be elsewhere than in `dir` */
  printLine(line: string): void;
}

export interface EmbeddedPostgres {
  url: string;
  part: Part;
}

/**
 * Settings for a small box. Errors are logged without the statement and without the row that caused them, since both
 * may hold mail.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '128MB',
  work_mem: '8MB',
  maintenance_work_mem: '64MB',
  effective_cache_size: '1GB',
  synchronous_commit: 'on',
  wal_compression: 'on',
  min_wal_size: '256MB',
  max_wal_size: '1GB',
  checkpoint_timeout: '15min',
  jit: 'off',
  max_logical_replication_workers: '0',
  io_method: 'sync',
  max_parallel_workers_per_gather: '1',
  log_checkpoints: 'off',
  log_error_verbosity: 'terse',
  log_min_error_statement: 'panic',
  log_line_prefix: '%m [%p] ',
};

/**
 * Creates the cluster if it does not exist, and describes the server for the supervisor.
 * @throws StartFailure with one line when this machine cannot run it, or the cluster is missing
 */
export async function embedPostgres(options: PostgresOptions): Promise<EmbeddedPostgres> {
  refuseMissing(options.dir);
  const binaries = await findPostgres();
  const home = await homeOf(options, binaries.runAs);
  const dataDir = join(home, 'postgres');
  const passwordFile = join(options.dir, 'postgres-password');
  const password = existsSync(dataDir)
    ? await readPassword(passwordFile, dataDir)
    : await createCluster(binaries, home, dataDir, passwordFile);
  const url = (database: string) => `postgresql://${USER}:${password}@127.0.0.1:${options.port}/${database}`;
  const settings = { ...SETTINGS, ...options.settings, port: String(options.port) };
  let databaseExists = false;
  let problem: string | undefined;
  let refusedAt: number | undefined;
  const onRefusal = ({ code, message }: Refusal) => {
    refusedAt ??= performance.now();
    // the server of another installation may have the port: this one then ends in a moment
    if (code === INVALID_PASSWORD && performance.now() - refusedAt > BIND_MS) {
      throw new StartFailure(
        `${passwordFile} does not hold the password of the database in ${dataDir}: put back the one that does.`,
      );
    }
    problem = message || code;
  };
  return {
    url: url(DATABASE),
    part: {
      name: 'postgres',
      command: binaries.postgres,
      args: ['-D', dataDir, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
      env: postgresEnv(),
      ...(binaries.runAs ?? {}),
      cwd: home,
      // fast shutdown: does not wait for clients to disconnect
      stopSignal: 'SIGINT',
      stopMs: 3500,
      readyMs: 120_000,
      beforeStart: () => {
        refusedAt = undefined;
        return clearStaleServer(dataDir);
      },
      isReady: async () => {
        if (!databaseExists) {
          const ensured = await ensureDatabase(url('postgres'), onRefusal);
          if (ensured !== true) return ensured;
          databaseExists = true;
        }
        return acceptsQueries(url(DATABASE), onRefusal);
      },
      problem: () => problem,
    },
  };
}

/** A server whose port is taken ends in less than this, in milliseconds. */
const BIND_MS = 2_000;

/** Its output while processes of an earlier one use its files: those of a main process that was killed end when they have written. */
const STILL_IN_USE = /pre-existing shared memory block/;
const STILL_IN_USE_MS = 120_000;

/**
 * Starts Postgres by `start`, again every second for two minutes while processes of an earlier one, such as its last checkpoint,
 * still use its files.
 * @param busyWith called with what it waits for
 */
export async function startWhenUnused(start: () => Promise<void>, busyWith: (detail: string) => void): Promise<void> {
  for (const until = performance.now() + STILL_IN_USE_MS; ; await sleep(1000)) {
    try {
      return await start();
    } catch (error) {
      if (performance.now() > until || !(error instanceof StartFailure && STILL_IN_USE.test(error.message)))
        throw error;
      busyWith('waiting until the earlier Postgres has written everything');
    }
  }
}

/** Where the cluster of a data folder is, and the user that it must belong to; undefined: the user of this process. */
export async function clusterOf(
  options: Pick<PostgresOptions, 'dir' | 'printLine'>,
): Promise<{ path: string; runAs: RunAs | undefined }> {
  const { runAs } = await findPostgres();
  return { path: join(await homeOf(options, runAs), 'postgres'), runAs };
}

/**
 * Creates a cluster next to `dataDir` and moves it there when it is complete. Returns its password: that of `passwordFile`, which
 * may open another cluster too, or a new one.
 */
async function createCluster(
  { initdb, runAs }: PostgresBinaries,
  home: string,
  dataDir: string,
  passwordFile: string,
): Promise<string> {
  const unfinished = `${dataDir}.new`;
  const passwordOnce = join(home, 'postgres-password.new');
  const existing = existsSync(passwordFile) ? await readPassword(passwordFile, dataDir) : '';
  const password = existing || randomBytes(24).toString('base64url');
  // the folder stays: it shows that the cluster is not missing
  await mkdir(unfinished, { recursive: true, mode: 0o700 });
  for (const name of await readdir(unfinished)) await rm(join(unfinished, name), { recursive: true, force: true });
  await writeFile(passwordOnce, password, { mode: 0o600 });
  if (runAs !== undefined) {
    await chown(unfinished, runAs.uid, runAs.gid);
    await chown(passwordOnce, runAs.uid, runAs.gid);
  }
  try {
    await run(initdb, [...initdbFlags(), `--pwfile=${passwordOnce}`, '-D', unfinished], { ...runAs, cwd: home });
  } finally {
    await rm(passwordOnce, { force: true });
  }
  if (existing === '') writeSecret(passwordFile, password);
  await rename(unfinished, dataDir);
  return password;
}

/**
 * UTF-8, compared by code point, with Unicode's letters. pg_trgm asks the C library what is a letter (LC_CTYPE):
 * under `C` no search would find a word outside ASCII.
 */
function initdbFlags(): string[] {
  return [
    ...[`--username=${USER}`, '--encoding=UTF8', '--auth=scram-sha-256', '--no-instructions'],
    ...['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C', `--lc-ctype=${utf8Locale()}`],
  ];
}

/** C.UTF-8 is part of glibc since 2.35; elsewhere any UTF-8 locale knows the letters. */
function utf8Locale(): string {
  const listed = spawnSync('locale', ['-a'], { encoding: 'utf8' }).stdout ?? '';
  const names = listed.split('\n').filter((name) => /\.utf-?8$/i.test(name));
  return (
    names.find((name) => /^C\./.test(name)) ?? names.find((name) => /^en_US\./.test(name)) ?? names[0] ?? 'C.UTF-8'
  );
}

function run(command: string, args: string[], options: { uid?: number; gid?: number; cwd: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, env: postgresEnv(), stdio: ['ignore', 'ignore', 'pipe'] });
    let errors = '';
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    child.once('error', (error) => reject(new StartFailure(`Postgres cannot be run: ${error.message}`)));
    child.once('close', (code) => {
      const reason = /(?:error|FATAL): .*/.exec(errors)?.[0] ?? errors.trim().split('\n').at(-1) ?? '';
      if (code === 0) resolve();
      else reject(new StartFailure(`Could not create a database in ${options.cwd}: ${reason}`));
    });
  });
}

/** Without this process's environment, which holds keys. */
function postgresEnv(): Record<string, string> {
  return { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
}

async function readPassword(file: string, dataDir: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch {
    throw new StartFailure(`${file} cannot be read. It holds the password of the database in ${dataDir}: restore it.`);
  }
}

/**
 * After a crash `postmaster.pid` stays behind. A server that still runs on this folder is ended; a file with the pid of
 * no process, or of another program since, is removed.
 */
async function clearStaleServer(dataDir: string): Promise<void> {
  const file = join(dataDir, 'postmaster.pid');
  const pid = Number((await readFile(file, 'utf8').catch(() => '')).split('\n', 1)[0]);
  if (!Number.isInteger(pid) || pid <= 0) return;
  const handle = handleOf(pid);
  if (handle !== undefined && commandOf(pid).includes(dataDir)) await endProcess(handle, 'SIGINT', 8000);
  else await rm(file, { force: true });
}

/** What the server, or the network, says when it does not do what is asked. */
type Refusal = { code?: string; message: string };

async function ensureDatabase(url: string, onRefusal: (refusal: Refusal) => void): Promise<boolean | 'busy'> {
  return withClient(url, onRefusal, async (client) => {
    const { rowCount } = await client.query('SELECT FROM pg_database WHERE datname = $1', [DATABASE]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
  });
}

function acceptsQueries(url: string, onRefusal: (refusal: Refusal) => void): Promise<boolean | 'busy'> {
  return withClient(url, onRefusal, (client) => client.query('SELECT 1'));
}

/** The server runs, and recovers from a crash: killed, it would begin again (errcodes-appendix, cannot_connect_now). */
const CANNOT_CONNECT_NOW = '57P03';
/** Of errcodes-appendix, too. */
const INVALID_PASSWORD = '28P01';

/** Whether `work` succeeded on a new connection; `busy`: the server recovers. `onRefusal` gets any other failure, and may throw. */
async function withClient(
  url: string,
  onRefusal: (refusal: Refusal) => void,
  work: (client: pg.Client) => Promise<unknown>,
): Promise<boolean | 'busy'> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 });
  client.on('error', () => {});
  try {
    await client.connect();
    await work(client);
    return true;
  } catch (error) {
    if ((error as Refusal).code === CANNOT_CONNECT_NOW) return 'busy';
    onRefusal(error as Refusal);
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}
