import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { ConfigError, type Env, loadConfig, loadEncryptionKeys, type StartConfig } from '../config.ts';
import { migrate, openDatabase } from '../db/client.ts';
import { describeError, type ErrorDescription } from '../logger.ts';
import { createPayloadCodec } from '../temporal/codec.ts';
import { startCodecServer } from '../temporal/codec-server.ts';
import { type DataDir, newEncryptionKey } from './data-dir.ts';
import { StartFailure } from './failure.ts';
import { serverPart, workerPart } from './product-parts.ts';
import { firstFreePort, retryWhenPortTaken, tryListen } from './ports.ts';
import { embedPostgres } from './postgres.ts';
import { projectRoot } from './project-root.ts';
import type { Report } from './report.ts';
import type { Supervisor } from './supervise.ts';
import { embedTemporal } from './temporal.ts';
import { findTemporal } from './temporal-binary.ts';
import { hiddenAddress, startUiGuard } from './ui-guard.ts';

export interface BringUp {
  /** the caller's own environment */
  env: Env;
  settings: StartConfig;
  dataDir: DataDir;
  supervisor: Supervisor;
  report: Report;
}

/** What is shown at the terminal when everything is ready. */
export interface BroughtUp {
  apiUrl: string;
  /** of each worker; none when WORKER_METRICS_PORT is 0 */
  workerMetricsUrls: string[];
  /** absent with a Temporal that the settings name */
  temporalUiUrl?: string;
  /** absent when BOOTSTRAP_API_KEY is set */
  apiKey?: { value: string; file: string };
}

/** A first attempt is usually made with mail servers and webhook receivers on this machine. */
const LOOPBACK = '127.0.0.0/8,::1/128';

/**
 * Starts what no setting names, migrates, and starts worker and API; resolves when all are ready.
 * Throws StartFailure or ConfigError with one line; the supervisor stops what was started by then.
 */
export async function bringUp({ env, settings, dataDir, supervisor, report }: BringUp): Promise<BroughtUp> {
  await checkListen(settings);
  const root = projectRoot();
  const started: Record<string, string> = { DATA_DIR: settings.dataDir, ...keys(settings, dataDir) };
  const [databaseUrl, temporal] = await Promise.all([
    settings.embedPostgres ? retryWhenPortTaken(() => startPostgres(settings, supervisor, report)) : undefined,
    settings.embedTemporal ? startTemporal({ env: { ...env, ...started }, settings, supervisor, report }) : undefined,
  ]);
  if (databaseUrl !== undefined) {
    started['DATABASE_URL'] = databaseUrl;
    if (isAbsent(env, 'OUTBOUND_ALLOW')) started['OUTBOUND_ALLOW'] = LOOPBACK;
    if (isAbsent(env, 'ALLOW_INSECURE_MAIL')) started['ALLOW_INSECURE_MAIL'] = 'loopback';
  }
  if (temporal !== undefined) {
    started['TEMPORAL_ADDRESS'] = temporal.address;
    if (isAbsent(env, 'TEMPORAL_UI_URL')) started['TEMPORAL_UI_URL'] = temporal.uiUrl;
  }
  const metricsPorts = await metricsPortsOf(settings);
  if (metricsPorts[0] !== undefined) started['WORKER_METRICS_PORT'] = String(metricsPorts[0]);
  const childEnv = childEnvironment(env, started);
  const config = loadConfig(childEnv);
  await report.during('Migrating the database', () => migrateDatabase(config.databaseUrl));
  const apiUrl = loadConfig({ ...childEnv, PUBLIC_URL: undefined }).publicUrl;
  await report.during('Starting worker and API', () =>
    Promise.all([
      ...Array.from({ length: settings.workers }, (_, index) => {
        const port = metricsPorts[index];
        const env = port === undefined ? childEnv : { ...childEnv, WORKER_METRICS_PORT: String(port) };
        return supervisor.start(workerPart(root, env, index + 1));
      }),
      supervisor.start(serverPart(root, childEnv, `${apiUrl}/ready`)),
    ]),
  );
  const apiKey = started['BOOTSTRAP_API_KEY'];
  return {
    apiUrl,
    workerMetricsUrls: metricsPorts.flatMap((port) =>
      config.workerMetrics ? urlOf({ ...config.workerMetrics, port }) : [],
    ),
    ...(temporal === undefined ? {} : { temporalUiUrl: temporal.uiUrl }),
    ...(apiKey === undefined ? {} : { apiKey: { value: apiKey, file: join(dataDir.path, API_KEY_FILE) } }),
  };
}

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
const ENCRYPTION_KEY_FILE = 'encryption-key';

async function checkListen({ host, port }: StartConfig): Promise<void> {
  const code = await tryListen(port, host);
  if (code === undefined) return;
  if (code === 'EADDRINUSE') {
    throw new StartFailure(
      `PORT ${port} on ${host} is taken by another program: end that one, or set PORT to another.`,
    );
  }
  if (code === 'EACCES')
    throw new StartFailure(`PORT ${port} on ${host} may not be used by this user: set PORT to another.`);
  throw new StartFailure(`HOST ${host} is no address of this machine (${code}): set HOST to one, such as 127.0.0.1.`);
}

/** The keys that no setting gives, made once and stored. */
function keys(settings: StartConfig, dataDir: DataDir): Record<string, string> {
  const generated: Record<string, string> = {};
  if (settings.encryptionKeyIsOurs) {
    // a new key would make every stored credential unreadable
    const mayMake = settings.embedPostgres && dataDir.existingSecret('postgres-password') === undefined;
    const existing = dataDir.existingSecret(ENCRYPTION_KEY_FILE);
    if (existing === undefined && !settings.embedPostgres) {
      throw new ConfigError(
        'ENCRYPTION_KEY',
        'is not set, which a database of your own needs: make it with `openssl rand -base64 32`',
      );
    }
    if (existing === undefined && !mayMake) {
      throw new StartFailure(
        `${join(dataDir.path, ENCRYPTION_KEY_FILE)} is missing, which the stored credentials are encrypted with: restore it, or remove ${dataDir.path} to begin anew.`,
      );
    }
    generated['ENCRYPTION_KEY'] = dataDir.secret(ENCRYPTION_KEY_FILE, newEncryptionKey);
  }
  if (settings.apiKeyIsOurs) {
    generated['BOOTSTRAP_API_KEY'] = dataDir.secret(API_KEY_FILE, () => `key_${randomBytes(32).toString('base64url')}`);
  }
  return generated;
}

/** Connections of each process: its pool, and those that listen. */
const CONNECTIONS = 24;
const FEWEST_CONNECTIONS = 100;

/** With some for whoever looks into the database. */
function connectionsFor({ workers, servers }: StartConfig): number {
  return Math.max(FEWEST_CONNECTIONS, CONNECTIONS * (workers + servers) + 20);
}

async function startPostgres(settings: StartConfig, supervisor: Supervisor, report: Report): Promise<string> {
  const { url, part } = await report.during('Preparing Postgres', async () =>
    embedPostgres({
      dir: settings.dataDir,
      port: await firstFreePort(5433),
      settings: { max_connections: String(connectionsFor(settings)) },
      printLine: report.line,
    }),
  );
  await report.during('Starting Postgres', () => supervisor.start(part));
  return url;
}

async function startTemporal({
  env,
  settings,
  supervisor,
  report,
}: Omit<BringUp, 'dataDir'>): Promise<{ address: string; uiUrl: string }> {
  const binary = await findTemporal({ env, dataDir: settings.dataDir, report });
  return retryWhenPortTaken(() => startTemporalOnce({ env, settings, supervisor, report }, binary));
}

async function startTemporalOnce(
  { env, settings, supervisor, report }: Omit<BringUp, 'dataDir'>,
  binary: string,
): Promise<{ address: string; uiUrl: string }> {
  const uiPort = await firstFreePort(settings.temporalUiPort);
  const ui = await hiddenAddress();
  const guard = await startUiGuard({ port: uiPort, target: ui });
  const { encryptionKey: current, encryptionKeyPrevious: previous } = loadEncryptionKeys(env);
  // lets the UI show what is encrypted in the histories
  const codec = await startCodecServer({
    codec: createPayloadCodec(previous === undefined ? { current } : { current, previous }, 'show'),
    port: 0,
    origins: [`http://127.0.0.1:${uiPort}`, `http://localhost:${uiPort}`],
  });
  const { address, part } = embedTemporal({
    binary,
    dbFile: join(settings.dataDir, 'temporal.db'),
    port: await firstFreePort(7233, [uiPort]),
    ui,
    uiCodecEndpoint: codec.url,
  });
  await report
    .during('Starting Temporal', () => supervisor.start(part))
    .catch(async (error: unknown) => {
      await Promise.all([codec.close(), guard.close()]);
      throw error;
    });
  return { address, uiUrl: guard.url };
}

const urlOf = ({ host, port }: { host: string; port: number }) =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}/metrics`;

async function migrateDatabase(url: string): Promise<void> {
  const database = openDatabase(url, { max: 1 });
  try {
    await migrate(database);
  } catch (error) {
    const { message, code } = innermost(describeError(error));
    throw new StartFailure(
      `The database could not be migrated: ${message || 'no reason given'}${code ? ` (${code})` : ''}.`,
    );
  } finally {
    await database.close();
  }
}

/** The innermost cause: what Postgres or the network reported. */
function innermost(error: ErrorDescription): ErrorDescription {
  return error.cause === undefined ? error : innermost(error.cause);
}

/** The caller's environment without npm's variables, overridden by what was started here. */
function childEnvironment(env: Env, started: Record<string, string>): Record<string, string> {
  const given = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !/^npm_/i.test(entry[0]),
  );
  return { ...Object.fromEntries(given), ...started };
}

function isAbsent(env: Env, name: string): boolean {
  return (env[name] ?? '').trim() === '';
}
