/*
 * A worker process: watches mailboxes, runs the workflows and delivers webhooks. Any number of them may run. It ends by
 * itself, for its supervisor to start it again, when it can no longer work.
 */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createActivities } from './src/activities/index.ts';
import { retryUntilAvailable, every } from './src/async.ts';
import { type Config, ConfigError, loadConfig } from './src/config.ts';
import { migrate, openDatabase } from './src/db/client.ts';
import { createLeaseNotifications, LEASES_CHANNEL } from './src/db/lease.ts';
import { listenTo } from './src/db/listen.ts';
import { DELIVERIES_CHANNEL } from './src/db/outbox.ts';
import { refreshPlannerStatistics } from './src/db/planner-statistics.ts';
import { mergeSearchEntries } from './src/db/search-index.ts';
import { createSessionPool } from './src/imap/pool.ts';
import { createLogger, type Logger } from './src/logger.ts';
import { createMailParser } from './src/mime/parser.ts';
import { createOutbound } from './src/outbound.ts';
import { createSecrets } from './src/secrets.ts';
import { createSubmitter } from './src/smtp/submit.ts';
import { openStorage } from './src/storage/storage.ts';
import { workflowBundle } from './src/temporal/bundle.ts';
import { codecKeys, connectWorkers } from './src/temporal/connect.ts';
import { createDataConverter } from './src/temporal/data-converter.ts';
import { installRuntime } from './src/temporal/runtime.ts';
import { ensureSearchAttributes } from './src/temporal/search-attributes.ts';
import { createWorkers } from './src/temporal/workers.ts';
import { openTempDir } from './src/temp-dir.ts';
import { startDeliveryRun } from './src/webhooks/delivery-runs.ts';
import { claimDeliveries, markStarted, unstartedRuns } from './src/webhooks/delivery-state.ts';
import { planRuns } from './src/webhooks/dispatch.ts';
import { createPoster } from './src/webhooks/post.ts';
import { type Relay, startRelay } from './src/webhooks/relay.ts';
import {
  accountWorkflowId,
  deliveryBatchWorkflowId,
  deliveryWorkflowId,
  HOUSEKEEPING_WORKFLOW_ID,
  QUEUES,
  SIGNALS,
  WORKFLOWS,
} from './src/workflows/names.ts';

/** What is not finished by then after a signal to end is left to be done again. */
const END_MS = 8_000;
const UNSTARTED_AFTER_MS = 10_000;
const DATABASE_CONNECTIONS = 20;
/** How often new mail is merged into the search index. */
const MERGE_MS = 2_000;
const STATISTICS_MS = 5_000;

async function main(config: Config, logger: Logger): Promise<void> {
  installRuntime(logger);
  const database = openDatabase(config.databaseUrl, { max: DATABASE_CONNECTIONS, logger });
  const { db } = database;
  const bundling = workflowBundle();
  await retryUntilAvailable('the database', logger, () => migrate(database));
  const temporal = await retryUntilAvailable('Temporal', logger, () => connectWorkers(config));
  const { client, connection } = temporal;
  await ensureSearchAttributes(client, logger);

  const secrets = createSecrets(codecKeys(config));
  const outbound = createOutbound({ allow: config.outboundAllow });
  const tempDir = openTempDir(join(config.dataDir, 'tmp'));
  const parser = createMailParser({ threads: Math.max(1, availableParallelism() - 1), tempDir });
  const poster = createPoster(outbound);
  const sessions = createSessionPool({ outbound });
  const submitter = createSubmitter({ outbound });
  const leases = createLeaseNotifications();
  const leaseNews = listenTo(config.databaseUrl, LEASES_CHANNEL, leases.receive, logger);
  /** made last, when there are workers to take what it hands out */
  const late: { relay?: Relay } = {};
  const ending = new AbortController();
  const activities = createActivities({
    db,
    logger,
    secrets,
    outbound,
    leases,
    sessions,
    submitter,
    publicUrl: config.publicUrl,
    parser,
    tempDir,
    poster,
    storage: openStorage(config.storageUrl, config.s3Endpoint ? { s3Endpoint: config.s3Endpoint } : {}),
    client: client.workflow,
    sync: config.sync,
    heartbeatTimeoutMs: config.sync.heartbeatTimeoutMs,
    allowInsecureMail: config.allowInsecureMail,
    webhook: config.webhook,
    signalConnected: (accountId) =>
      client.workflow.getHandle(accountWorkflowId(accountId)).signal(SIGNALS.mailboxConnected),
    ending: ending.signal,
    onFirstTryEnded: (workflowId) => late.relay?.firstTryEnded(workflowId),
  });
  const workers = await createWorkers({
    connection,
    namespace: config.temporal.namespace,
    dataConverter: createDataConverter(codecKeys(config)),
    workflowBundle: await bundling,
    activities,
    maxWatchers: config.sync.maxWatchers,
  });

  const running = workers.run();
  const relay = (late.relay = startRelay({
    claim: (perEndpoint, endpointsHeld) =>
      claimDeliveries(db, {
        perEndpoint,
        endpointsHeld,
        plan: (waiting) => planRuns(waiting, { alone: deliveryWorkflowId, batch: deliveryBatchWorkflowId }),
      }),
    unstarted: () => unstartedRuns(db, UNSTARTED_AFTER_MS),
    start: (run) => startDeliveryRun(client, run, true),
    markStarted: (deliveryIds) => markStarted(db, deliveryIds),
    listen: (wake) => listenTo(config.databaseUrl, DELIVERIES_CHANNEL, wake, logger),
    logger,
  }));

  const merging = every(MERGE_MS, () => mergeSearchEntries(db), logger);
  const planning = every(STATISTICS_MS, () => refreshPlannerStatistics(db), logger);

  const end = (signal: string) => {
    if (ending.signal.aborted) return;
    ending.abort();
    logger.info({ signal }, 'the worker ends');
    setTimeout(() => process.exit(1), END_MS).unref();
    // nothing new is begun; the relay is waited for below
    void relay.stop();
    workers.shutdown();
  };
  process.on('SIGTERM', end).on('SIGINT', end);
  const untilEnding = { over: () => ending.signal.aborted };
  const healing = retryUntilAvailable('the accounts', logger, () => activities.ensureAccounts(), untilEnding);
  const keeping = retryUntilAvailable(
    'the housekeeping',
    logger,
    () =>
      client.workflow.start(WORKFLOWS.housekeeping, {
        workflowId: HOUSEKEEPING_WORKFLOW_ID,
        taskQueue: QUEUES.commands,
        workflowIdConflictPolicy: 'USE_EXISTING',
      }),
    untilEnding,
  );
  for (const background of [healing, keeping]) {
    background.catch((err: unknown) => logger.error({ err }, 'a part of the start was left out'));
  }
  logger.info('the worker is ready');
  process.send?.('ready');

  await running;
  merging.stop();
  planning.stop();
  await relay.stop();
  poster.close();
  await Promise.all([
    leaseNews.close(),
    sessions.close(),
    submitter.close(),
    parser.close(),
    temporal.close(),
    database.close(),
  ]);
}

try {
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
