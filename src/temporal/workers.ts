import {
  type ActivityInterceptorsFactory,
  type NativeConnection,
  Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import type { DataConverter } from '@temporalio/common';
import type { Logger } from '../runtime/logger.ts';
import { QUEUES } from '../workflows/names.ts';
import { refuseUnsealed } from './refuse-unsealed.ts';
import { activitiesOfRequests } from './request-id.ts';

export interface WorkersOptions {
  connection: NativeConnection;
  /** of this process in Temporal, where it is the last worker of each activity; ends with the worker's id */
  identity: string;
  namespace: string;
  dataConverter: DataConverter;
  workflowBundle: NonNullable<WorkerOptions['workflowBundle']>;
  /** activities by name */
  activities: object;
  /** maximum number of mailboxes that this process watches */
  maxWatchers: number;
  logger: Logger;
  /** makes spans of activities */
  tracing?: ActivityInterceptorsFactory;
}

export interface Workers {
  /** Runs until `shutdown`; rejects when one of the workers failed. */
  run(): Promise<void>;
  shutdown(): void;
}

/** A few are enough at rest; under load there are more. */
const POLLERS = { type: 'autoscaling', minimum: 2, initial: 4, maximum: 30 } as const;

/** Slots for changes, sends and first attempts of deliveries: local activities, which hold the slots of their workflow tasks. */
function localSlots(slots: number, cache: Pick<WorkerOptions, 'maxCachedWorkflows'>) {
  return {
    maxConcurrentLocalActivityExecutions: slots,
    maxConcurrentWorkflowTaskExecutions: slots,
    ...cache,
  } satisfies Partial<WorkerOptions>;
}

/**
 * One Worker for each task queue, so work that a caller waits for never queues behind watching or deliveries. Without
 * `shutdownForceTime` an activity that does not end would keep `run` from resolving.
 */
export async function createWorkers(options: WorkersOptions): Promise<Workers> {
  const { connection, identity, namespace, dataConverter, workflowBundle, activities, maxWatchers, logger, tracing } =
    options;
  const common = {
    connection,
    identity,
    namespace,
    dataConverter,
    activities,
    interceptors: { activity: [refuseUnsealed, activitiesOfRequests(logger), ...(tracing ? [tracing] : [])] },
    shutdownGraceTime: '2s',
    shutdownForceTime: '15s',
    workflowTaskPollerBehavior: POLLERS,
    activityTaskPollerBehavior: POLLERS,
  } as const satisfies Partial<WorkerOptions>;
  const workers = await Promise.all([
    // no workflows: one thread less
    Worker.create({ ...common, taskQueue: QUEUES.mailboxes, maxConcurrentActivityTaskExecutions: maxWatchers }),
    // one parses while the next one reads from storage
    Worker.create({ ...common, taskQueue: QUEUES.background, maxConcurrentActivityTaskExecutions: 2 }),
    Worker.create({
      ...common,
      taskQueue: QUEUES.commands,
      workflowBundle,
      maxConcurrentActivityTaskExecutions: 100,
      ...localSlots(200, { maxCachedWorkflows: 500 }),
    }),
    // a send lasts as long as its SMTP server takes; src/api/commands/turns.ts limits those of one account
    Worker.create({
      ...common,
      taskQueue: QUEUES.sends,
      workflowBundle,
      maxConcurrentActivityTaskExecutions: 200,
      // the cache evicts no workflow during its task: fewer places than slots would be the limit
      ...localSlots(500, { maxCachedWorkflows: 500 }),
    }),
    Worker.create({
      ...common,
      taskQueue: QUEUES.webhooks,
      workflowBundle,
      maxConcurrentActivityTaskExecutions: 1_000,
      ...localSlots(1_000, { maxCachedWorkflows: 300 }),
    }),
  ]);
  const shutdown = () => {
    for (const worker of workers) {
      if (worker.getState() === 'RUNNING') worker.shutdown();
    }
  };
  return {
    shutdown,
    async run() {
      const running = workers.map((worker) => worker.run());
      try {
        await Promise.all(running);
      } finally {
        // when one fails, all stop
        shutdown();
        await Promise.allSettled(running);
      }
    },
  };
}
