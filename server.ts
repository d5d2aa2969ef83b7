/*
 * The API process: reads Postgres, and starts a Temporal workflow for every change. Any number of them may run.
 */
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { buildApp } from './src/api/app.ts';
import { leadServers, leadsServers } from './src/api/http/server-group.ts';
import { retryUntilAvailable } from './src/async.ts';
import { type Config, ConfigError } from './src/config/config.ts';
import { ensureFirstKey } from './src/db/access/api-keys.ts';
import { createFinishedRuns, FINISHED_RUNS_CHANNEL } from './src/db/coordination/finished-runs.ts';
import { LEASES_CHANNEL } from './src/db/coordination/lease.ts';
import { listenTo } from './src/db/driver/listen.ts';
import { isUnusable } from './src/db/driver/unusable.ts';
import { migrate, openDatabase } from './src/db/open.ts';
import type { Logger } from './src/runtime/logger.ts';
import type { Tracing } from './src/runtime/tracing.ts';
import { createDataKeys, forgetOnRemoval } from './src/security/data-keys.ts';
import { createSecrets } from './src/security/secrets.ts';
import { codecKeys, lazyClient } from './src/temporal/connect.ts';
import { apiDeps } from './src/wiring/api-deps.ts';
import { onSignalToEnd, startProcess } from './src/wiring/process.ts';
import { checkKeys } from './src/wiring/worker-start.ts';

/** Where `npm run build` and `npm run docs` put what is served; the built server is there, too. */
const DIST = join(import.meta.dirname, ...(import.meta.dirname.endsWith('dist') ? [] : ['dist']));
const DATABASE_CONNECTIONS = 20;
/** A frozen database is noticed within their sum; slow queries are not aborted. */
const DATABASE_PATIENCE = { queryMs: 1_000, connectMs: 1_500 };
/** Requests that take longer than this after a signal to end get a 503; less than `npm start` gives a process to stop. */
const DRAIN_MS = 4_000;
/** The process exits after this in any case. */
const END_MS = 8_000;

async function main(config: Config, logger: Logger): Promise<void> {
  const database = openDatabase(config.databaseUrl, {
    max: DATABASE_CONNECTIONS,
    logger,
    patience: DATABASE_PATIENCE,
  });
  await retryUntilAvailable('database', logger, () => migrate(database, { logger }), { over: isUnusable });
  await checkKeys(config, database.db);
  const firstKey = await ensureFirstKey(database.db, config.bootstrapApiKey);
  // a key is shown here and in the response that creates one, nowhere else
  if (firstKey !== undefined) process.stdout.write(`API key, shown this once: ${firstKey}\n`);

  const tracing = config.otlpEndpoint === undefined ? undefined : await loadTracing(config.otlpEndpoint);
  const temporal = lazyClient(config, tracing ? [tracing.client] : []);
  const keys = createDataKeys({ db: database.db, secrets: createSecrets(codecKeys(config)) });
  const finished = createFinishedRuns();
  const channels = { [LEASES_CHANNEL]: forgetOnRemoval(keys), [FINISHED_RUNS_CHANNEL]: finished.receive };
  const listener = listenTo(config.databaseUrl, channels, logger);
  const { client } = temporal;
  const built = { pagesDir: join(DIST, 'web'), docsDir: join(DIST, 'docs') };
  const deps = apiDeps(config, logger, { ...database, ...built, env: process.env, keys, finished, client });
  const app = await buildApp({ ...deps, ...(tracing ? { traceRequests: tracing.requests } : {}) });
  endOnSignal(logger, app, async () => {
    await tracing?.close().catch((err: unknown) => logger.warn({ err }, 'could not send the last spans'));
    await Promise.all([listener.close(), temporal.close(), database.close()]);
  });
  const listenTextResolver = (address: string) => `API listening at ${address}`;
  await app.listen({ host: config.host, port: config.port, listenTextResolver }).catch((error: unknown) => {
    throw listenProblem(error, config) ?? error;
  });
  process.send?.('ready');
}

/** Loads the packages of tracing on demand. */
async function loadTracing(endpoint: string): Promise<Tracing> {
  const { startTracing } = await import('./src/runtime/tracing.ts');
  return startTracing(endpoint, 'email-api');
}

/** On the first SIGTERM or SIGINT: waits for the requests under way, stops listening, then closes the connections. */
function endOnSignal(logger: Logger, app: FastifyInstance, closeConnections: () => Promise<void>): void {
  onSignalToEnd(END_MS, (signal) => {
    logger.info({ signal }, 'API server exiting');
    const closed = app
      .drain(DRAIN_MS)
      .then(() => app.close())
      .then(closeConnections);
    closed.then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}

/** The setting that keeps the server from listening, if the operator can correct it. */
function listenProblem(error: unknown, { host, port }: Config): ConfigError | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') return new ConfigError('PORT', `${port} on ${host} is in use by another process`);
  if (code === 'EACCES') return new ConfigError('PORT', `${port} may not be used by this user`);
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new ConfigError('HOST', `${host} is not an address of this machine`);
  }
  return undefined;
}

await startProcess('api', process.env, async (config, logger) => {
  if (leadsServers(config.servers)) leadServers(config.servers, logger, () => process.send?.('ready'));
  else await main(config, logger);
});
