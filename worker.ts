/*
 * A worker process: watches mailboxes, runs the workflows and delivers webhooks. Any number of them may run. It exits
 * when it can no longer work; its supervisor starts it again.
 */
import { randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { changeEncryptionKey } from './src/maintenance/encryption-key.ts';
import { createActivities } from './src/activities/index.ts';
import { dropOnRemoval } from './src/activities/remove.ts';
import { every, retryUntilAvailable } from './src/async.ts';
import { type Config, ConfigError, loadConfig } from './src/config/config.ts';
import type { Database, Db } from './src/db/driver/client.ts';
import { migrate, openDatabase } from './src/db/open.ts';
import { checkAccounts, startHousekeeping } from './src/maintenance/account-health.ts';
import type { DeliverDeps } from './src/activities/deliver.ts';
import { startDueReparses } from './src/maintenance/reparse-runs.ts';
import { createLostWatches, LOOK_MS, signalWatchLost } from './src/maintenance/lost-watches.ts';
import { createRunningWatches, type RunningWatches, shareWatches } from './src/activities/share-watches.ts';
import { type CachedDataKeys, createDataKeys } from './src/security/data-keys.ts';
import { takeLogin } from './src/db/coordination/login-budget.ts';
import { ANNOUNCE_MS, announceWorker, countWorkers, forgetWorker } from './src/db/coordination/workers.ts';
import {
  createLeaseNotifications,
  type LeaseNotifications,
  LEASES_CHANNEL,
  requestRoom,
} from './src/db/coordination/lease.ts';
import { listenTo } from './src/db/driver/listen.ts';
import { DELIVERIES_CHANNEL } from './src/db/outbox.ts';
import { refreshPlannerStatistics } from './src/maintenance/planner-statistics.ts';
import { mergeSearchEntries } from './src/db/coordination/search-index.ts';
import { createSessionPool } from './src/imap/pool.ts';
import { createLogger, type Logger } from './src/runtime/logger.ts';
import { freeLoopbackPort, type MetricsServer, serveMetrics } from './src/runtime/metrics/serve.ts';
import { createWorkerMetrics } from './src/runtime/metrics/worker-metrics.ts';
import { createMailParser } from './src/mime/parser.ts';
import { createOutbound } from './src/security/outbound.ts';
import { createSecrets } from './src/security/secrets.ts';
import { createSubmitter } from './src/smtp/submit.ts';
import { receiveSettings } from './src/runtime/settings-message.ts';
import { type DataKeys, encryptStorage } from './src/storage/encrypted.ts';
import { openStorage, type Storage } from './src/storage/storage.ts';
import { workflowBundle } from './src/temporal/bundle.ts';
import { codecKeys } from './src/temporal/connect.ts';
import { connectWorkers } from './src/temporal/connect-workers.ts';
import { createWorkerDataConverter } from './src/temporal/data-converter.ts';
import { installRuntime } from './src/temporal/runtime.ts';
import { ensureSearchAttributes } from './src/temporal/search-attributes.ts';
import { createWorkers } from './src/temporal/workers.ts';
import { openTempDir, removeLeftOvers } from './src/runtime/temp-dir.ts';
import type { Tracing } from './src/runtime/tracing.ts';
import { createCallSlots } from './src/webhooks/attempt/call-slots.ts';
import { hurryRuns } from './src/webhooks/dispatch/retry-delivery.ts';
import { checkFailingEndpoints } from './src/webhooks/log/auto-disable.ts';
import type { Dispatch } from './src/webhooks/dispatch/dispatch.ts';
import { createLostRuns, type LostRuns } from './src/webhooks/dispatch/lost-runs.ts';
import { createPoster } from './src/webhooks/attempt/post.ts';
import { resumeReplays } from './src/webhooks/log/replay-runs.ts';
import { startRelay } from './src/webhooks/dispatch/relay.ts';
import { accountWorkflowId, SIGNALS } from './src/workflows/names.ts';

/** What is not finished by then after a signal to shut down is left to be done again. */
const SHUTDOWN_MS = 8_000;
const DATABASE_CONNECTIONS = 20;
/** How often new mail is merged into the search index. */
const MERGE_MS = 2_000;
const STATISTICS_MS = 5_000;
/** How often accounts that are not in sync are looked for. */
const HEALTH_MS = 15_000;
/** How often runs of deliveries that were terminated, or lost with Temporal's store, are looked for. */
const TERMINATED_MS = 3_000;
const LOST_STORE_MS = 5_000;
const OVERDUE_MS = 30_000;
/** Calls under way to one webhook endpoint, of all workers. */
const CALLS_PER_ENDPOINT = 10;
/** How often the workers that share them are counted. */
const COUNT_MS = 5_000;
/** How often endpoints that have failed for days are looked for. */
const FAILING_MS = 5 * 60_000;
/** How often replays without a workflow are looked for. */
const REPLAYS_MS = 60_000;
/** How often mail is looked for whose parsing was cut short. */
const REPARSE_MS = 5 * 60_000;
/** How often mail in plain text is looked for that a killed worker left behind. */
const LEFT_OVERS_MS = 60_000;
/** How often it is seen to that this worker watches no more than its share of the mailboxes. */
const SHARE_MS = 15_000;

async function main(config: Config, logger: Logger): Promise<void> {
  const observed = await observe(config, logger);
  const database = openDatabase(config.databaseUrl, { max: DATABASE_CONNECTIONS, logger });
  const { db } = database;
  const bundling = workflowBundle();
  await retryUntilAvailable('the database', logger, () => migrate(database));
  const temporal = await retryUntilAvailable('Temporal', logger, () => connectWorkers(config));
  const { client, connection } = temporal;
  await ensureSearchAttributes(client, logger);

  const shutdown = new AbortController();
  /** made last, when there are workers that take the runs it starts */
  const late: { relay?: Dispatch } = {};
  const lostRuns = createLostRuns({ db, client, logger });
  const watches = createRunningWatches();
  const workerId = randomUUID();
  const { activities, close } = openDeps(config, logger, {
    workerId,
    watches,
    database,
    client,
    shutdown: shutdown.signal,
    onAttempts: (...attempts) => late.relay?.attempts(...attempts),
    lostRuns,
  });
  const workers = await createWorkers({
    connection,
    namespace: config.temporal.namespace,
    dataConverter: createWorkerDataConverter(codecKeys(config)),
    workflowBundle: await bundling,
    activities,
    maxWatchers: config.sync.maxWatchers,
    logger,
    ...(observed.tracing ? { tracing: observed.tracing.activity } : {}),
  });

  const running = workers.run();
  const listen = (wake: () => void) => listenTo(config.databaseUrl, { [DELIVERIES_CHANNEL]: wake }, logger);
  const relay = (late.relay = startRelay({ db, client, listen, logger }));
  const repeated = [
    ...startRepeatedWork(config, { db, client, logger, lostRuns }),
    ...(await lookAfterAccounts(config, logger, { db, client, workerId, watches })),
  ];
  onSignal((signal) => {
    if (shutdown.signal.aborted) return;
    shutdown.abort();
    logger.info({ signal }, 'the worker shuts down');
    setTimeout(() => process.exit(1), SHUTDOWN_MS).unref();
    // nothing new is begun; the relay is waited for below
    void relay.stop();
    workers.shutdown();
  });
  startInBackground(client, () => activities.ensureAccounts(), { logger, shutdown: shutdown.signal });
  logger.info('the worker is ready');
  process.send?.('ready');

  await running;
  await Promise.all([...repeated, relay].map((each) => each.stop()));
  await observed.close();
  await forgetWorker(db, workerId).catch((err: unknown) => logger.warn({ err }, 'the worker could not sign off'));
  await close();
  await temporal.close();
  await database.close();
}

/** Nothing waits for it: what is sealed with the key before can be opened meanwhile. */
async function followEncryptionKey(config: Config, deps: { db: Db; client: Client; logger: Logger }): Promise<void> {
  const secrets = createSecrets(codecKeys(config));
  const hasPrevious = config.encryptionKeyPrevious !== undefined;
  await changeEncryptionKey({ ...deps, secrets, hasPrevious }).catch((err: unknown) =>
    deps.logger.warn({ err }, 'which keys are in use could not be checked; the next start does it'),
  );
}

const tempDirOf = ({ dataDir }: Config) => join(dataDir, 'tmp');

/** What every worker does now and then. */
function startRepeatedWork(
  config: Config,
  { db, client, logger, lostRuns }: { db: Db; client: Client; logger: Logger; lostRuns: LostRuns },
) {
  void followEncryptionKey(config, { db, client, logger });
  return [
    every(LEFT_OVERS_MS, async () => removeLeftOvers(tempDirOf(config)), logger),
    every(MERGE_MS, () => mergeSearchEntries(db), logger),
    every(STATISTICS_MS, () => refreshPlannerStatistics(db), logger),
    every(TERMINATED_MS, () => lostRuns.findTerminated(), logger),
    every(LOST_STORE_MS, () => lostRuns.findLostStore(), logger),
    every(OVERDUE_MS, () => lostRuns.findOverdue(), logger),
    every(REPLAYS_MS, () => resumeReplays(client, db), logger),
    every(REPARSE_MS, () => startDueReparses(client, db), logger),
    ...(config.webhook.autoDisable ? [every(FAILING_MS, () => checkFailingEndpoints(db, logger), logger)] : []),
  ];
}

/** Installs the SDK's runtime, and what shows the work of this process: metrics and traces, where they are set. */
async function observe(
  { workerMetrics, otlpEndpoint }: Config,
  logger: Logger,
): Promise<{ tracing: Tracing | undefined; close(): Promise<void> }> {
  // its packages are loaded only where they are wanted
  const tracing = otlpEndpoint && (await import('./src/runtime/tracing.ts')).startTracing(otlpEndpoint, 'email-worker');
  const sdkAddress = workerMetrics ? `127.0.0.1:${await freeLoopbackPort()}` : undefined;
  installRuntime(logger, sdkAddress);
  const metrics = workerMetrics && (await startMetrics(workerMetrics, logger, sdkAddress));
  return {
    tracing: tracing || undefined,
    async close() {
      await metrics?.close();
      if (tracing)
        await tracing.close().catch((err: unknown) => logger.warn({ err }, 'the last spans could not be sent'));
    },
  };
}

/** A worker that cannot be measured works nevertheless. */
async function startMetrics(
  at: NonNullable<Config['workerMetrics']>,
  logger: Logger,
  sdkAddress: string | undefined,
): Promise<MetricsServer | undefined> {
  try {
    const server = await serveMetrics({
      ...at,
      registry: createWorkerMetrics(),
      ...(sdkAddress ? { sdkAddress } : {}),
    });
    logger.info({ url: server.url }, 'the metrics of the worker are served');
    return server;
  } catch (err) {
    logger.error({ err, ...at }, 'the metrics of the worker are not served: check WORKER_METRICS_HOST and _PORT');
    return undefined;
  }
}

/**
 * Announces this worker, and begins what sees to it that every account is watched, and that no worker watches more than its
 * share.
 */
async function lookAfterAccounts(
  { sync }: Config,
  logger: Logger,
  { db, client, ...own }: { db: Database['db']; client: Client; workerId: string; watches: RunningWatches },
) {
  const { pollMs, heartbeatTimeoutMs, loginsPerMinute } = sync;
  const prepare = () => ensureSearchAttributes(client, logger);
  const health = { db, client, logger, pollMs, heartbeatTimeoutMs, ensureSearchAttributes: prepare };
  const share = { ...own, loginsPerMinute, intervalMs: SHARE_MS };
  const announce = () => announceWorker(db, own.workerId, own.watches.count());
  // the others miss only a worker that has announced itself
  await retryUntilAvailable('the database', logger, announce);
  const lost = createLostWatches({
    db,
    logger,
    workerId: own.workerId,
    signalLost: (id) => signalWatchLost(client, id),
  });
  return [
    every(ANNOUNCE_MS, announce, logger),
    every(LOOK_MS, lost, logger),
    every(HEALTH_MS, () => checkAccounts(health), logger),
    every(SHARE_MS, () => shareWatches(db, share), logger),
  ];
}

/** What only `main` can give. */
interface Surroundings {
  workerId: string;
  watches: RunningWatches;
  database: Database;
  client: Client;
  /** aborted when the worker shuts down */
  shutdown: AbortSignal;
  onAttempts: NonNullable<DeliverDeps['onAttempts']>;
  lostRuns: LostRuns;
}

function listenForLeases(url: string, leases: LeaseNotifications, keys: () => CachedDataKeys, logger: Logger) {
  // without a payload removals may have been missed
  const receive = (payload?: string) => (payload === undefined ? keys().dropAll() : leases.receive(payload));
  return listenTo(url, { [LEASES_CHANNEL]: receive }, logger);
}

function storageOf({ storageUrl, s3Endpoint, storageEncryption: encrypts }: Config, keys: DataKeys): Storage {
  return encryptStorage(openStorage(storageUrl, s3Endpoint ? { s3Endpoint } : {}), { keys, encrypts });
}

/** Makes all that the activities need, and the activities. `close` ends what was opened here. */
function openDeps(config: Config, logger: Logger, surroundings: Surroundings) {
  const { database, client, shutdown, onAttempts, lostRuns, ...watching } = surroundings;
  const outbound = createOutbound({ allow: config.outboundAllow });
  const tempDir = openTempDir(tempDirOf(config));
  const parser = createMailParser({ threads: Math.max(1, availableParallelism() - 1), tempDir });
  const poster = createPoster(outbound);
  const sessions = createSessionPool({
    outbound,
    makeRoom: (accountId) => requestRoom(database.db, accountId),
    onLogin: (host) => {
      takeLogin(database.db, host, config.sync.loginsPerMinute).catch((err: unknown) =>
        logger.warn({ err }, 'a login was not counted'),
      );
    },
  });
  const submitter = createSubmitter({ outbound });
  const leases = createLeaseNotifications();
  const leaseListener = listenForLeases(config.databaseUrl, leases, () => dataKeys, logger);
  const secrets = createSecrets(codecKeys(config));
  const dataKeys = createDataKeys({ db: database.db, secrets });
  dropOnRemoval(leases, { pools: [sessions, submitter, dataKeys], parser }, logger);
  leases.onRoomWanted((accountId) => void sessions.dropIdle(accountId));
  const activities = createActivities({
    db: database.db,
    logger,
    secrets,
    auditRetentionMs: config.auditRetentionMs,
    outbound,
    leases,
    ...watching,
    sessions,
    submitter,
    publicUrl: config.publicUrl,
    parser,
    tempDir,
    poster,
    storage: storageOf(config, dataKeys),
    client: client.workflow,
    sync: config.sync,
    heartbeatTimeoutMs: config.sync.heartbeatTimeoutMs,
    allowInsecureMail: config.allowInsecureMail,
    webhook: config.webhook,
    signalConnected: (id) => client.workflow.getHandle(accountWorkflowId(id)).signal(SIGNALS.mailboxConnected),
    shutdown,
    onAttempts,
    lostRuns,
    slots: createCallSlots(() => Math.max(1, Math.floor(CALLS_PER_ENDPOINT / workerCount))),
    hurry: (workflowIds) => hurryRuns(client, workflowIds),
  });
  let workerCount = 1;
  const count = async () => void (workerCount = (await countWorkers(database.db)) || 1);
  count().catch((err: unknown) => logger.warn({ err }, 'the workers were not counted'));
  const counting = every(COUNT_MS, count, logger);
  const close = async (): Promise<void> => {
    poster.close();
    await counting.stop();
    await Promise.all([leaseListener.close(), sessions.close(), submitter.close(), parser.close()]);
  };
  return { activities, close };
}

function onSignal(handle: (signal: NodeJS.Signals) => void): void {
  process.on('SIGTERM', handle).on('SIGINT', handle);
}

/** Starts the workflows that every installation and every account must have; goes on trying after the worker is ready. */
function startInBackground(
  client: Client,
  ensureAccounts: () => Promise<void>,
  { logger, shutdown }: { logger: Logger; shutdown: AbortSignal },
): void {
  const untilShutdown = { over: () => shutdown.aborted };
  for (const started of [
    retryUntilAvailable('the accounts', logger, ensureAccounts, untilShutdown),
    retryUntilAvailable('the housekeeping', logger, () => startHousekeeping(client), untilShutdown),
  ]) {
    started.catch((err: unknown) => logger.error({ err }, 'could not start workflows that every worker makes sure of'));
  }
}

try {
  await receiveSettings(process);
  const config = loadConfig(process.env);
  const logger = createLogger(config.logLevel, 'worker');
  main(config, logger).then(
    () => process.exit(0),
    (err: unknown) => {
      logger.fatal({ err }, 'the worker failed');
      process.exit(1);
    },
  );
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}
