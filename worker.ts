/*
 * A worker process: watches mailboxes, runs the workflows and delivers webhooks. Any number of them may run. It exits
 * when it can no longer work; its supervisor starts it again.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { retryUntilAvailable } from './src/async.ts';
import type { Config } from './src/config/config.ts';
import { announceWorker, forgetWorker } from './src/db/coordination/workers.ts';
import { listenTo } from './src/db/driver/listen.ts';
import { isUnusable } from './src/db/driver/unusable.ts';
import { migrate, openDatabase } from './src/db/open.ts';
import { DELIVERIES_CHANNEL } from './src/db/outbox.ts';
import { createRunningWatches } from './src/mailbox/running-watches.ts';
import { createLiveWorkers } from './src/maintenance/live-workers.ts';
import { type MaintenanceDeps, maintenanceTasks } from './src/maintenance/table.ts';
import { startTasks } from './src/maintenance/tasks.ts';
import type { Logger } from './src/runtime/logger.ts';
import { workflowBundle } from './src/temporal/bundle.ts';
import { codecKeys } from './src/temporal/connect.ts';
import { connectWorkers } from './src/temporal/connect-workers.ts';
import { createWorkerDataConverter } from './src/temporal/data-converter.ts';
import { ensureSearchAttributes } from './src/temporal/search-attributes.ts';
import { createWorkers } from './src/temporal/workers.ts';
import { createLostRuns } from './src/webhooks/dispatch/lost-runs.ts';
import { type Relay, startRelay } from './src/webhooks/dispatch/relay.ts';
import { observeWorker } from './src/wiring/observe-worker.ts';
import { onSignalToEnd, startProcess } from './src/wiring/process.ts';
import { openWorkerDeps, tempDirOf } from './src/wiring/worker-deps.ts';
import { checkKeys, isConfigError, startOnce } from './src/wiring/worker-start.ts';

/** Time to finish work after a signal to shut down, ms; the rest is repeated by another worker. */
const SHUTDOWN_MS = 8_000;
/** A database host that vanished is noticed after ten seconds, and not after minutes; slow statements are not aborted. */
const DATABASE = { max: 20, patience: { queryMs: 5_000, connectMs: 5_000 } };

async function main(config: Config, logger: Logger): Promise<void> {
  const observed = await observeWorker(config, logger);
  const database = openDatabase(config.databaseUrl, { ...DATABASE, logger });
  const { db } = database;
  const bundling = workflowBundle();
  await retryUntilAvailable('database', logger, () => migrate(database, { logger }), { over: isUnusable });
  const temporal = await retryUntilAvailable('Temporal', logger, () => connectWorkers(config));
  const { client, connection } = temporal;
  await ensureSearchAttributes(client, logger);
  await retryUntilAvailable('Temporal', logger, () => checkKeys(config, db, client), { over: isConfigError });

  const workerId = randomUUID();
  const shutdown = new AbortController();
  const watches = createRunningWatches();
  const liveWorkers = createLiveWorkers(db, workerId);
  const lostRuns = createLostRuns({ db, client, logger });
  // made last, when there are workers that take the runs it starts
  const late: { relay?: Relay } = {};
  const shared = { db, client, workerId, watches, lostRuns };
  const { activities, alerts, close } = openWorkerDeps(config, logger, {
    ...shared,
    workerCount: liveWorkers.count,
    shutdown: shutdown.signal,
    onAttempts: (...attempts) => late.relay?.attempts(...attempts),
  });
  const workers = await createWorkers({
    connection,
    identity: `${process.pid}@${hostname()} ${workerId}`,
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
  const maintenance = await startMaintenance(config, logger, {
    ...shared,
    liveWorkers,
    ...(alerts ? { alerts } : {}),
  });
  onSignalToEnd(SHUTDOWN_MS, (signal) => {
    shutdown.abort();
    logger.info({ signal }, 'worker shutting down');
    // claims nothing from now on; its end is awaited below
    void relay.stop();
    workers.shutdown();
  });
  startOnce(config, { db, client, activities, logger, shutdown: shutdown.signal });
  logger.info('worker ready');
  observed.ready();

  await running;
  await Promise.all([maintenance.stop(), relay.stop()]);
  await observed.close();
  await forgetWorker(db, workerId).catch((err: unknown) => logger.warn({ err }, 'could not deregister worker'));
  await close();
  await temporal.close();
  await database.close();
  process.exit(0);
}

type Shared = Pick<MaintenanceDeps, 'db' | 'client' | 'workerId' | 'watches' | 'lostRuns' | 'liveWorkers' | 'alerts'>;

async function startMaintenance(config: Config, logger: Logger, shared: Shared): Promise<{ stop(): Promise<void> }> {
  const { db, client, workerId, watches, liveWorkers } = shared;
  // other workers miss only one that has announced itself
  await retryUntilAvailable('database', logger, () => announceWorker(db, workerId, watches.count()));
  await liveWorkers.look();
  const tasks = maintenanceTasks({
    ...{ ...shared, logger, sync: config.sync, tempDir: tempDirOf(config) },
    disablesFailingEndpoints: config.webhook.autoDisable,
    ensureSearchAttributes: () => ensureSearchAttributes(client, logger),
  });
  return startTasks(tasks, liveWorkers.leads, logger);
}

await startProcess('worker', process.env, main);
