/*
 * The API process: reads Postgres, and has Temporal do whatever changes something. Any number of them may run.
 */
import { hkdfSync } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import type { FastifyInstance } from 'fastify';
import { buildApp } from './src/api/app.ts';
import { createCommands } from './src/api/commands/index.ts';
import type { ApiDeps } from './src/api/deps.ts';
import { leadServers, leadsServers } from './src/api/http/server-group.ts';
import { retryUntilAvailable } from './src/async.ts';
import { type Config, ConfigError, loadConfig } from './src/config/config.ts';
import { ensureFirstKey } from './src/db/access/api-keys.ts';
import type { Database } from './src/db/driver/client.ts';
import { migrate, openDatabase } from './src/db/open.ts';
import { createFinishedRuns, FINISHED_RUNS_CHANNEL, type FinishedRuns } from './src/db/coordination/finished-runs.ts';
import { LEASES_CHANNEL } from './src/db/coordination/lease.ts';
import { listenTo } from './src/db/driver/listen.ts';
import { createDiscoverSources, discoverServers } from './src/discovery/discover.ts';
import { helpFor } from './src/discovery/providers.ts';
import { createLogger, type Logger } from './src/runtime/logger.ts';
import { type CachedDataKeys, createDataKeys, forgetOnRemoval } from './src/security/data-keys.ts';
import { createSecrets } from './src/security/secrets.ts';
import { encryptStorage } from './src/storage/encrypted.ts';
import { createOutbound, type Outbound } from './src/security/outbound.ts';
import { receiveSettings } from './src/runtime/settings-message.ts';
import { settingsInForce } from './src/config/settings-in-force.ts';
import { openStorage } from './src/storage/storage.ts';
import { createPayloadCodec } from './src/temporal/codec.ts';
import { codecRoutes } from './src/temporal/codec-server.ts';
import { codecKeys, lazyClient } from './src/temporal/connect.ts';
import type { Tracing } from './src/runtime/tracing.ts';
import { attemptWaiting, hurryRuns, retryDelivery } from './src/webhooks/dispatch/retry-delivery.ts';
import { cancelReplayRun, startReplayRun } from './src/webhooks/log/replay-runs.ts';

/** The built pages of web/; next to the built server. */
const PAGES = join(import.meta.dirname, ...(import.meta.dirname.endsWith('dist') ? [] : ['dist']), 'web');
const DATABASE_CONNECTIONS = 20;
/** A database that is frozen is noticed within their sum; queries that are slow are not hurried. */
const DATABASE_PATIENCE = { queryMs: 1_000, connectMs: 1_500 };
/** For the storage to answer, and to take a megabyte, ms. */
const STORAGE_MS = 3_000;
const PING_MS = 1_500;
/** Requests that take longer than this after a signal to end are aborted. */
const END_MS = 8_000;

async function main(config: Config, logger: Logger): Promise<void> {
  const database = openDatabase(config.databaseUrl, {
    max: DATABASE_CONNECTIONS,
    logger,
    patience: DATABASE_PATIENCE,
  });
  await retryUntilAvailable('the database', logger, () => migrate(database));
  const firstKey = await ensureFirstKey(database.db, config.bootstrapApiKey);
  // a key is shown here and in the response that creates one, nowhere else
  if (firstKey !== undefined) process.stdout.write(`API key, shown this once: ${firstKey}\n`);

  const tracing = config.otlpEndpoint === undefined ? undefined : await loadTracing(config.otlpEndpoint);
  const temporal = lazyClient(config, tracing ? [tracing.client] : []);
  const keys = createDataKeys({ db: database.db, secrets: createSecrets(codecKeys(config)) });
  const finished = createFinishedRuns();
  const channels = { [LEASES_CHANNEL]: forgetOnRemoval(keys), [FINISHED_RUNS_CHANNEL]: finished.receive };
  const listener = listenTo(config.databaseUrl, channels, logger);
  const deps = apiDeps(config, logger, { ...database, keys, finished }, temporal.client);
  const app = await buildApp({ ...deps, ...(tracing ? { traceRequests: tracing.requests } : {}) });
  endOnSignal(logger, app, async () => {
    await tracing?.close().catch((err: unknown) => logger.warn({ err }, 'the last spans could not be sent'));
    await Promise.all([listener.close(), temporal.close(), database.close()]);
  });
  const listenTextResolver = (address: string) => `the API listens at ${address}`;
  await app.listen({ host: config.host, port: config.port, listenTextResolver }).catch((error: unknown) => {
    throw listenProblem(error, config) ?? error;
  });
  process.send?.('ready');
}

/** Its packages are loaded only where they are wanted. */
async function loadTracing(endpoint: string): Promise<Tracing> {
  const { startTracing } = await import('./src/runtime/tracing.ts');
  return startTracing(endpoint, 'email-api');
}

interface Stores extends Database {
  keys: CachedDataKeys;
  finished: FinishedRuns;
}

function apiDeps(config: Config, logger: Logger, { db, pool, keys, finished }: Stores, client: Client): ApiDeps {
  const secrets = createSecrets(codecKeys(config));
  const opened = openStorage(config.storageUrl, {
    ...(config.s3Endpoint ? { s3Endpoint: config.s3Endpoint } : {}),
    answerMs: STORAGE_MS,
  });
  const storage = encryptStorage(opened, { keys, encrypts: config.storageEncryption });
  const outbound = createOutbound({ allow: config.outboundAllow });
  return {
    db,
    pool,
    secrets,
    logger,
    storage,
    outbound,
    commands: createCommands({
      client,
      db,
      secrets,
      storage,
      finished,
      retryDelivery: (id) => retryDelivery(client, db, id),
      attemptWaiting: (endpointId) =>
        attemptWaiting({ db, logger, hurry: (ids) => hurryRuns(client, ids) }, endpointId),
      startReplay: (replay) =>
        startReplayRun(client, replay).catch((err: unknown) =>
          logger.warn({ err, replayId: replay.id }, 'a replay is started later by a worker'),
        ),
      cancelReplay: (id) => cancelReplayRun({ client, db, logger }, id),
    }),
    ...(config.temporalCodec
      ? { codecRoutes: codecRoutes({ codec: createPayloadCodec(codecKeys(config), 'show'), ...config.temporalCodec }) }
      : {}),
    findServers: findServersWith(outbound),
    installation: {
      temporal_ui_url: config.temporalUiUrl,
      temporal_namespace: config.temporal.namespace,
      data: settingsInForce(process.env, config),
    },
    ...(existsSync(PAGES) ? { pagesDir: PAGES } : {}),
    pingTemporal: async () => {
      await client.withDeadline(Date.now() + PING_MS, () => client.workflowService.getSystemInfo({}));
    },
    settings: {
      publicUrl: config.publicUrl,
      brand: config.brand,
      bodyBytes: config.limits.bodyBytes,
      wrongKeysPerMinute: config.limits.wrongKeysPerMinute,
      requestsPerMinute: config.limits.requestsPerMinute,
      send: config.limits.send,
      signingKeys: signingKeys(config),
      trustProxy: config.trustProxy,
    },
  };
}

/** For the pages: the servers of an address, and what its provider wants. */
function findServersWith(outbound: Outbound): ApiDeps['findServers'] {
  const sources = createDiscoverSources(outbound);
  return async (address) => {
    const { imap = null, smtp = null } = await discoverServers(address, sources);
    const { hint, url } = helpFor(imap?.host) ?? {};
    return { imap, smtp, hint: hint ?? null, help_url: url ?? null };
  };
}

/** On the first SIGTERM or SIGINT: stops listening, waits for the requests under way, then closes the connections. */
function endOnSignal(logger: Logger, app: FastifyInstance, closeConnections: () => Promise<void>): void {
  let ending = false;
  const end = (signal: string) => {
    if (ending) return;
    ending = true;
    logger.info({ signal }, 'the API ends');
    setTimeout(() => process.exit(1), END_MS).unref();
    const closed = app.close().then(closeConnections);
    closed.then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', end).on('SIGINT', end);
}

/** Derived from the keys that encrypt, but different from them. */
function signingKeys({ encryptionKey, encryptionKeyPrevious }: Config): [Buffer, ...Buffer[]] {
  const derive = (key: Buffer) => Buffer.from(hkdfSync('sha256', key, '', 'api signing', 32));
  return [derive(encryptionKey), ...(encryptionKeyPrevious ? [derive(encryptionKeyPrevious)] : [])];
}

/** Why the address cannot be listened on, when the operator can correct that. */
function listenProblem(error: unknown, { host, port }: Config): ConfigError | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') return new ConfigError('PORT', `${port} on ${host} is taken by another process`);
  if (code === 'EACCES') return new ConfigError('PORT', `${port} may not be used by this user`);
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new ConfigError('HOST', `${host} is not an address of this machine`);
  }
  return undefined;
}

try {
  await receiveSettings(process);
  const config = loadConfig(process.env);
  const logger = createLogger(config.logLevel, 'api');
  if (leadsServers(config.servers)) leadServers(config.servers, logger, () => process.send?.('ready'));
  else
    main(config, logger).catch((err: unknown) => {
      if (err instanceof ConfigError) process.stderr.write(`${err.message}\n`);
      else logger.fatal({ err }, 'the API failed');
      process.exit(1);
    });
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}
