import { createHash, randomBytes } from 'node:crypto';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { hasSearchAttributes } from '../temporal/search-attributes.ts';
import { SEARCH_ATTRIBUTES, searchAttributeType } from '../workflows/names.ts';
import { syncFolderOf } from './data-dir.ts';
import { StartFailure } from './failure.ts';
import type { Part } from './supervise.ts';

export interface TemporalOptions {
  /** the `temporal` program */
  binary: string;
  /** file of the database; without it the data is in memory only (tests) */
  dbFile?: string;
  /** loopback port of gRPC */
  port: number;
  /** where the UI listens, on loopback; absent: no UI */
  ui?: { ip: string; port: number };
  /** the codec server that decodes payloads for the UI, e.g. `http://127.0.0.1:8234` */
  uiCodecEndpoint?: string;
  /** created in addition to `default` */
  namespaces?: readonly string[];
}

/*
 * One dev server has one history shard: at the default of 20 polls a second every hop waits 45 ms. Four partitions of a
 * task queue only add latency here. The two pragmas took it from 20 to 60 runs/s with a file.
 */
const DYNAMIC_CONFIG = [
  'history.transferProcessorMaxPollRPS=100',
  'system.forceSearchAttributesCacheRefreshOnRead=false',
  'matching.numTaskqueueReadPartitions=1',
  'matching.numTaskqueueWritePartitions=1',
  'system.enableActivityEagerExecution=true',
  // a run is deleted once its queues have stored that its last tasks are done: every 30 s by default, with ever longer waits
  'history.transferProcessorUpdateAckInterval="5s"',
  'history.visibilityProcessorUpdateAckInterval="5s"',
  // two a second: a run that ends sooner enters the list of runs once, at its end, instead of at its start too
  'history.visibilityProcessorMaxPollRPS=2',
  'history.visibilityTaskBatchSize=1000',
  // ended executions stay in these until others need the room: by default 128,000, of about 30 KB each, and 128 MiB
  'history.hostLevelCacheMaxSize=4000',
  'history.eventsHostLevelCacheMaxSizeBytes=16777216',
];

/*
 * The HTTP API of the CLI's server, on a random port, cannot be turned off, and would accept a POST of any web page. It serves only
 * the Hosts of this list, and no request can name a Host with blanks. Its Nexus routes do not check the Host.
 */
const NO_HTTP_API = ['frontend.httpAllowedHosts=["no host at all"]', 'system.enableNexus=false'];
const PRAGMAS = ['journal_mode=wal', 'synchronous=1'];

/**
 * An empty namespace that distinguishes this server from another one that was faster to take the port. It is the same at every
 * start on one database, since namespaces stay.
 */
function markOf(dbFile: string | undefined): string {
  return `server-${createHash('sha256')
    .update(dbFile === undefined ? randomBytes(16) : resolve(dbFile))
    .digest('hex')
    .slice(0, 16)}`;
}

/**
 * Describes the embedded Temporal server for the supervisor. It listens on loopback only; its gRPC, which no web page can
 * speak, requires no keys or passwords.
 */
export function embedTemporal(options: TemporalOptions): { address: string; part: Part } {
  const { binary, dbFile, port, ui, uiCodecEndpoint, namespaces = [] } = options;
  const address = `127.0.0.1:${port}`;
  const mark = markOf(dbFile);
  const each = (flag: string, values: readonly string[]) => values.flatMap((value) => [flag, value]);
  const args = [
    ...['server', 'start-dev', '--ip', '127.0.0.1', '--log-level', 'warn', '--log-format', 'json'],
    ...['--port', String(port)],
    ...(dbFile === undefined ? [] : ['--db-filename', dbFile, ...each('--sqlite-pragma', PRAGMAS)]),
    ...(ui === undefined
      ? ['--headless']
      : // news would be fetched from outside, with an id of this installation
        ['--ui-ip', ui.ip, '--ui-port', String(ui.port), '--ui-disable-news-fetch']),
    ...(uiCodecEndpoint === undefined ? [] : ['--ui-codec-endpoint', uiCodecEndpoint]),
    ...each('--namespace', [mark, ...namespaces]),
    ...each('--dynamic-config-value', [...DYNAMIC_CONFIG, ...NO_HTTP_API]),
    ...each(
      '--search-attribute',
      Object.values(SEARCH_ATTRIBUTES).map((name) => `${name}=${searchAttributeType(name)}`),
    ),
  ];
  return {
    address,
    part: {
      name: 'temporal',
      command: binary,
      args,
      // the CLI reads a configuration file from HOME; the user's is not meant for this server
      env: { PATH: '/usr/bin:/bin', HOME: dbFile === undefined ? '/nonexistent' : join(dbFile, '..') },
      stopSignal: 'SIGTERM',
      stopMs: 3500,
      readyMs: 60_000,
      ...makingWhole(dbFile, readiness(address, ['default', mark])),
    },
  };
}

/**
 * The server makes the schema of a new database in about a hundred statements, and looks for it in new files only: a database that
 * was not finished would fail every later start. While one is made there is a file beside it; a start that finds that file makes
 * the database again.
 */
function makingWhole(
  dbFile: string | undefined,
  isReady: () => Promise<boolean>,
): Pick<Part, 'beforeStart' | 'isReady'> {
  if (dbFile === undefined) return { isReady };
  const making = `${dbFile}.making`;
  return {
    beforeStart: async () => {
      if (existsSync(making))
        for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${dbFile}${end}`, { force: true });
      if (!existsSync(dbFile)) writeFileSync(making, '', { mode: 0o600 });
    },
    isReady: async () => {
      if (!(await isReady())) return false;
      if (existsSync(making)) {
        rmSync(making);
        syncFolderOf(making);
      }
      return true;
    },
  };
}

/** The failure of a start, with what to do where it is due to an incomplete or damaged database. */
export function explained(error: unknown, dbFile: string): unknown {
  if (!(error instanceof StartFailure && /malformed|not a database|no such table/.test(error.message))) return error;
  return new StartFailure(
    `${error.message}. Move ${dbFile}* away if this stays so: the workers start again what it held.`,
  );
}

/** The server registers them last when it starts, which takes it less time than this. */
const REGISTERING_MS = 5_000;

/**
 * Whether the server is ready. It registers search attributes in new namespaces only: those that an earlier version did not
 * have are registered here.
 */
function readiness(address: string, namespaces: readonly string[]): () => Promise<boolean> {
  let lackingSince = Infinity;
  return async () => {
    const adds = performance.now() - lackingSince > REGISTERING_MS;
    const isComplete = await hasSearchAttributes(address, namespaces, { adds });
    if (isComplete === false) lackingSince = Math.min(lackingSince, performance.now());
    return isComplete === true;
  };
}
