import {
  type ActivityInterceptorsFactory,
  type NativeConnection,
  Worker,
  type WorkerOptions,
} from '@temporalio/worker';
import type { DataConverter } from '@temporalio/common';
import type { Logger } from '../runtime/logger.ts';
import { QUEUES } from '../workflows/names.ts';
import { activitiesOfRequests } from './request-id.ts';

export interface WorkersOptions {
  connection: NativeConnection;
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

/**
 * One Worker for each task queue, so work that a caller waits for never queues behind watching or deliveries. Without
 * `shutdownForceTime` an activity that does not end would keep `run` from resolving.
 */
export async function createWorkers(options: WorkersOptions): Promise<Workers> {
  const { connection, namespace, dataConverter, workflowBundle, activities, maxWatchers, logger, tracing } = options;
  const common = {
    connection,
    namespace,
    dataConverter,
    activities,
    interceptors: { activity: [activitiesOfRequests(logger), ...(tracing ? [tracing] : [])] },
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
      // changes of a mailbox are local activities, which hold the slots of their workflow tasks
      maxConcurrentLocalActivityExecutions: 200,
      maxConcurrentWorkflowTaskExecutions: 200,
      maxCachedWorkflows: 500,
    }),
    // a first attempt is a local activity, which holds the slot of its workflow task
    Worker.create({
      ...common,
      taskQueue: QUEUES.webhooks,
      workflowBundle,
      maxConcurrentActivityTaskExecutions: 1_000,
      maxConcurrentLocalActivityExecutions: 1_000,
      maxConcurrentWorkflowTaskExecutions: 1_000,
      maxCachedWorkflows: 300,
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
