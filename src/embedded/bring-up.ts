import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { ConfigError, type Env, loadConfig, type StartConfig } from '../config/config.ts';
import { type DataDir, newEncryptionKey } from './data-dir.ts';
import { StartFailure } from './failure.ts';
import { serverPart, workerPart } from './product-parts.ts';
import { firstFreePort, tryListen } from './ports.ts';
import { projectRoot } from '../runtime/project-root.ts';
import type { Report } from './report.ts';
import { checkStorageFolder } from './storage-folder.ts';
import type { Supervisor } from './supervise.ts';

export interface BringUp {
  /** the caller's own environment */
  env: Env;
  settings: StartConfig;
  dataDir: DataDir;
  supervisor: Supervisor;
  report: Report;
}

/** Shown at the terminal when everything is ready. */
export interface BroughtUp {
  apiUrl: string;
  /** of each worker; none when WORKER_METRICS_PORT is 0 */
  workerMetricsUrls: string[];
  /** absent when the settings name a Temporal server */
  temporalUi?: { url: string; passwordFile: string };
  /** absent when BOOTSTRAP_API_KEY is set */
  apiKey?: { value: string; file: string };
}

/**
 * Starts Postgres and Temporal unless settings name them, migrates, and starts worker and API; resolves when all are
 * ready. Worker and API load their modules while Postgres and Temporal start. When it throws, the supervisor stops the
 * started processes.
 * @throws StartFailure or ConfigError with one line
 */
export async function bringUp(start: BringUp): Promise<BroughtUp> {
  const { env, settings, dataDir, report } = start;
  if (settings.embedPostgres) checkStorageFolder(settings.dataDir, settings.storageUrl);
  await checkListen(settings);
  const made: Record<string, string> = { DATA_DIR: settings.dataDir, ...keys(settings, dataDir) };
  const metricsPorts = await metricsPortsOf(settings);
  const known = promiseOf<Known>();
  const product = startProduct(start, metricsPorts, known.promise);
  // a failure before the servers are ready is reported when they are
  product.catch(() => {});
  try {
    // loaded only now, since this takes a while
    const { startServers, migrateDatabase } = await import('./servers.ts');
    const uiPassword = () => dataDir.secret(UI_PASSWORD_FILE, () => randomBytes(24).toString('base64url'));
    const servers = await startServers({ ...start, env: { ...env, ...made }, uiPassword });
    dataDir.recordServers({ ...made, ...servers.settings });
    const started = { ...made, ...servers.settings, ...metricsPort(metricsPorts[0]) };
    const config = loadConfig(childEnvironment(env, started));
    dataDir.recordStorage(settings.storageIsOurs ? null : config.storageUrl);
    await report.during('Migrating the database', (busyWith) => migrateDatabase(config.databaseUrl, busyWith));
    const apiUrl = loadConfig({ ...childEnvironment(env, started), PUBLIC_URL: undefined }).publicUrl;
    known.resolve({ started, apiUrl });
    await report.during('Starting worker and API', () => product);
    const apiKey = made['BOOTSTRAP_API_KEY'];
    return {
      apiUrl,
      workerMetricsUrls: metricsPorts.flatMap((port) =>
        config.workerMetrics ? urlOf({ ...config.workerMetrics, port }) : [],
      ),
      ...(servers.temporalUiUrl === undefined
        ? {}
        : { temporalUi: { url: servers.temporalUiUrl, passwordFile: join(dataDir.path, UI_PASSWORD_FILE) } }),
      ...(apiKey === undefined ? {} : { apiKey: { value: apiKey, file: join(dataDir.path, API_KEY_FILE) } }),
    };
  } catch (error) {
    known.reject(error);
    throw error;
  }
}

/** Known once the servers run. */
interface Known {
  /** settings for worker and API */
  started: Record<string, string>;
  apiUrl: string;
}

async function startProduct(
  { env, settings, supervisor }: BringUp,
  metricsPorts: readonly number[],
  known: Promise<Known>,
): Promise<void> {
  const root = projectRoot();
  const given = childEnvironment(env, {});
  const started = known.then((all) => all.started);
  await Promise.all([
    ...Array.from({ length: settings.workers }, (_, index) => {
      const own = started.then((all) => ({ ...all, ...metricsPort(metricsPorts[index]) }));
      return supervisor.start(workerPart(root, { env: given, settings: own }, index + 1));
    }),
    supervisor.start(serverPart(root, { env: given, settings: started }, async () => (await known).apiUrl)),
  ]);
}

const metricsPort = (port: number | undefined): Record<string, string> =>
  port === undefined ? {} : { WORKER_METRICS_PORT: String(port) };

/** A port for the metrics of each worker, where they are served. */
async function metricsPortsOf({ workers, workerMetricsPort }: StartConfig): Promise<number[]> {
  const ports: number[] = [];
  if (workerMetricsPort === null) return ports;
  for (let next = workerMetricsPort; ports.length < workers; next = (ports.at(-1) ?? next) + 1) {
    ports.push(await firstFreePort(next));
  }
  return ports;
}

const API_KEY_FILE = 'bootstrap-api-key';
const UI_PASSWORD_FILE = 'temporal-ui-password';
const ENCRYPTION_KEY_FILE = 'encryption-key';

async function checkListen({ host, port }: StartConfig): Promise<void> {
  const code = await tryListen(port, host);
  if (code === undefined) return;
  if (code === 'EADDRINUSE') {
    throw new StartFailure(`port ${port} on ${host} is in use: stop that program, or set PORT to another.`);
  }
  if (code === 'EACCES')
    throw new StartFailure(`PORT ${port} on ${host} may not be used by this user: set PORT to another.`);
  throw new StartFailure(
    `HOST ${host} is not an address of this machine (${code}): set HOST to one, such as 127.0.0.1.`,
  );
}

/** The keys that no setting has: generated once and stored. */
function keys(settings: StartConfig, dataDir: DataDir): Record<string, string> {
  const generated: Record<string, string> = {};
  if (settings.encryptionKeyIsOurs) {
    // a new key would make every stored credential unreadable
    const mayMake = settings.embedPostgres && dataDir.existingSecret('postgres-password') === undefined;
    const existing = dataDir.existingSecret(ENCRYPTION_KEY_FILE);
    if (existing === undefined && !settings.embedPostgres) {
      throw new ConfigError(
        'ENCRYPTION_KEY',
        'is not set, but required with DATABASE_URL: create it with `openssl rand -base64 32`',
      );
    }
    if (existing === undefined && !mayMake) {
      throw new StartFailure(
        `the encryption key ${join(dataDir.path, ENCRYPTION_KEY_FILE)} is missing: restore it, or delete ${dataDir.path} to start over.`,
      );
    }
    generated['ENCRYPTION_KEY'] = dataDir.secret(ENCRYPTION_KEY_FILE, newEncryptionKey);
  }
  if (settings.apiKeyIsOurs) {
    generated['BOOTSTRAP_API_KEY'] = dataDir.secret(API_KEY_FILE, () => `key_${randomBytes(32).toString('base64url')}`);
  }
  return generated;
}

const urlOf = ({ host, port }: { host: string; port: number }) =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}/metrics`;

/** The caller's environment without npm's variables, overridden by what was started here. */
function childEnvironment(env: Env, started: Record<string, string>): Record<string, string> {
  const given = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !/^npm_/i.test(entry[0]),
  );
  return { ...Object.fromEntries(given), ...started };
}

/** Promise.withResolvers of later Node versions. */
function promiseOf<T>(): { promise: Promise<T>; resolve(value: T): void; reject(error: unknown): void } {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}
