import type { Client } from '@temporalio/client';
import { type NativeConnection, Worker } from '@temporalio/worker';
import { createLogger } from '../../../src/runtime/logger.ts';
import { lazyClient } from '../../../src/temporal/connect.ts';
import { connectWorkers } from '../../../src/temporal/connect-workers.ts';
import { createWorkerDataConverter } from '../../../src/temporal/data-converter.ts';
import { refuseUnsealed } from '../../../src/temporal/refuse-unsealed.ts';
import { installRuntime } from '../../../src/temporal/runtime.ts';
import { QUEUES } from '../../../src/workflows/names.ts';
import { BUILT_WORKFLOWS } from './built.ts';
import { recordHistories, TEST_KEY } from '../assert/histories.ts';
import { testTemporal } from '../servers/temporal.ts';

/** Our workflows with the activities of a test, in a separate namespace. */
export interface TestWorkers extends Pick<TestClient, 'client' | 'api'> {
  stop(): Promise<void>;
}

type Activities = Record<string, (...args: never[]) => Promise<unknown>>;

/** A client that may start workers. */
export interface TestClient {
  client: Client;
  /** a client like that of the API, on a separate connection */
  api: Client;
  /** starts workers of the queues, by default all but `webhooks`; returns a function that stops them */
  work(activities: Activities, queues?: readonly string[], identity?: string): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

let installed = false;

/** A client on a separate namespace, for tests that start their workers later, or never. */
export async function testClient(): Promise<TestClient> {
  if (!installed) installRuntime(createLogger('silent', 'test'));
  installed = true;
  const { address, namespace } = testTemporal();
  const encryptionKey = TEST_KEY;
  const recordTo = process.env['RECORD_HISTORIES'];
  const settings = { temporal: { address, namespace }, encryptionKey };
  const { connection, client, close } = await connectWorkers(settings);
  const api = lazyClient(settings);
  return {
    client,
    api: api.client,
    close: async () => {
      // scripts/record-histories.mjs
      if (recordTo !== undefined) await recordHistories(client, recordTo);
      await api.close();
      await close();
    },
    work: (activities, queues = [QUEUES.mailboxes, QUEUES.commands, QUEUES.sends, QUEUES.background], identity) =>
      work(connection, namespace, encryptionKey, { activities, queues, identity }),
  };
}

/** Workers of all queues but `webhooks`; each knows all of the activities. */
export async function startTestWorkers(activities: Activities): Promise<TestWorkers> {
  const { client, api, work: start, close } = await testClient();
  const stopWorkers = await start(activities);
  return {
    client,
    api,
    stop: async () => {
      await stopWorkers();
      await close();
    },
  };
}

async function work(
  connection: NativeConnection,
  namespace: string,
  encryptionKey: Buffer,
  {
    activities,
    queues,
    identity,
  }: { activities: Activities; queues: readonly string[]; identity?: string | undefined },
): Promise<() => Promise<void>> {
  const workers = await Promise.all(
    queues.map((taskQueue) =>
      Worker.create({
        connection,
        namespace,
        ...(identity === undefined ? {} : { identity }),
        taskQueue,
        workflowBundle: BUILT_WORKFLOWS,
        activities,
        dataConverter: createWorkerDataConverter({ current: encryptionKey }),
        interceptors: { activity: [refuseUnsealed] },
        shutdownGraceTime: 0,
        shutdownForceTime: '5s',
        maxHeartbeatThrottleInterval: '200ms',
      }),
    ),
  );
  const runs = workers.map((worker) => worker.run());
  return async () => {
    for (const worker of workers) worker.shutdown();
    await Promise.all(runs);
  };
}
