import { randomBytes } from 'node:crypto';
import { afterAll } from '@jest/globals';
import { Client } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { asc, eq } from 'drizzle-orm';
import { createDeliverActivities, type DeliverDeps } from '../../../src/activities/deliver.ts';
import { withFailures } from '../../../src/activities/failures.ts';
import type { EventType } from '../../../src/contract/events.ts';
import { createEndpoint, type NewEndpoint } from '../../../src/db/queries/endpoints.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { deliveryAttempts, webhookEndpoints } from '../../../src/db/schema/index.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { newId } from '../../../src/new-id.ts';
import { createOutbound } from '../../../src/security/outbound.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { startDeliveryRun } from '../../../src/webhooks/dispatch/delivery-runs.ts';
import { createCallSlots } from '../../../src/webhooks/attempt/call-slots.ts';
import { type ClaimedRun } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { markStarted } from '../../../src/webhooks/log/delivery-state.ts';
import { createPoster } from '../../../src/webhooks/attempt/post.ts';
import { QUEUES } from '../../../src/workflows/names.ts';
import { type TestDatabase, testDatabase } from '../servers/postgres.ts';
import { claimOnce, readLog } from '../assert/queue.ts';
import { type Receiver, startReceiver } from '../fakes/receiver.ts';
import { storeAccount } from './stored-account.ts';
import { testClient, type TestClient } from './temporal-workers.ts';

/** Allows endpoints on loopback. */
const outbound = createOutbound({ allow: ['127.0.0.0/8'] });
export const secrets = createSecrets({ current: randomBytes(32) });

/** Everything that deliveries need: a store, a Temporal namespace, a receiver; the test defines the worker. */
export type Deliveries = Awaited<ReturnType<typeof startDeliveries>>;

type Activities = ReturnType<typeof createDeliverActivities>;

/** The store and the Temporal client of a test file, with one worker of the queue `webhooks` defined by each test. */
interface FileWorker {
  client?: Promise<TestClient>;
  database?: Promise<TestDatabase>;
  activities?: Activities;
  stopWorker?: (() => Promise<void>) | undefined;
}

/** Hooks of a test file that delivers; returns what starts a store with deliveries. All of them share one client, and one store that is emptied. */
export function deliveryTests(): () => Promise<Deliveries> {
  const worker: FileWorker = {};
  afterAll(async () => {
    await worker.stopWorker?.();
    await (await worker.client)?.close();
    await (await worker.database)?.drop();
  });
  return () => startDeliveries(worker);
}

/** Deletes what was delivered before; a transaction of the worker before may still use the tables. */
async function emptied({ database: { pool } }: TestDatabase): Promise<void> {
  const tables = 'webhook_endpoints, events, deliveries, pending_deliveries, delivery_attempts, replays, installation';
  for (let tries = 1; ; tries++) {
    try {
      return void (await pool.query(`truncate ${tables}`));
    } catch (error) {
      if ((error as { code?: string }).code !== '40P01' || tries === 5) throw error;
    }
  }
}

async function startDeliveries(ofFile: FileWorker) {
  const database = await (ofFile.database ??= testDatabase());
  await emptied(database);
  const temporal = await (ofFile.client ??= testClient());
  const receiver: Receiver = await startReceiver();
  const poster = createPoster(outbound);
  const { db } = database.database;
  const accountId = await storeAccount(database.database);

  return {
    db,
    url: database.url,
    client: temporal.client,
    receiver,
    poster,
    accountId,

    /** Starts the worker of the queue `webhooks`, with these dependencies instead of the real ones. */
    async work(
      deps: Partial<DeliverDeps> = {},
      wrap: (real: Activities) => Partial<Activities> = (real) => real,
    ): Promise<void> {
      const real = createDeliverActivities({
        db,
        secrets,
        poster,
        slots: createCallSlots(() => 10),
        logger: createLogger('silent', 'test'),
        webhook: { retryScheduleMs: [150, 300], timeoutMs: 5_000 },
        ...deps,
      });
      ofFile.activities = withFailures({ ...real, ...wrap(real) });
      ofFile.stopWorker ??= await temporal.work(
        {
          attemptDeliveries: (input: Parameters<Activities['attemptDeliveries']>[0]) =>
            (ofFile.activities as Activities).attemptDeliveries(input),
          endDeliveries: (ids: string[]) => (ofFile.activities as Activities).endDeliveries(ids),
        },
        [QUEUES.webhooks],
      );
    },

    async stopWork(): Promise<void> {
      await ofFile.stopWorker?.();
      ofFile.stopWorker = undefined;
    },

    /** Stores an endpoint for all events of all accounts; the receiver checks its calls. */
    async endpoint(options: Partial<NewEndpoint> = {}): Promise<string> {
      const secret = `whsec_${randomBytes(32).toString('base64')}`;
      const { id } = await createEndpoint(db, secrets, {
        url: receiver.url,
        description: null,
        enabled: true,
        triggerEvents: ['email.new', 'email.update', 'email.delete'],
        accountIds: [],
        headers: [],
        secret,
        ...options,
      });
      receiver.secrets.set(id, secret);
      return id;
    },

    /** Stores an endpoint for all events of all accounts, with a successful call before. */
    async provenEndpoint(): Promise<string> {
      const id = await this.endpoint();
      await db.update(webhookEndpoints).set({ lastSuccessAt: new Date() }).where(eq(webhookEndpoints.id, id));
      return id;
    },

    /** Writes events of the account, one for each object id. */
    async happen(
      objectIds: string[] = [newId('email')],
      type: EventType = 'email.new',
      account = accountId,
    ): Promise<void> {
      const createdAt = new Date();
      await db.transaction((tx) =>
        recordEvents(
          tx,
          account,
          objectIds.map((objectId) => ({ type, objectId, data: { email: { id: objectId } }, createdAt })),
        ),
      );
    },

    /** Runs one round of the relay. `taskTimeoutMs`: timeout of the workflow tasks. */
    async relayOnce({ taskTimeoutMs }: { taskTimeoutMs?: number } = {}): Promise<ClaimedRun[]> {
      const runs = await claimOnce(db);
      for (const run of runs) {
        await startDeliveryRun(withTaskTimeout(temporal.client, taskTimeoutMs), run);
        await markStarted(
          db,
          run.deliveries.map(({ id }) => ({ deliveryId: id, workflowId: run.workflowId })),
        );
      }
      return runs;
    },

    /** The log, oldest first. */
    log: () => readLog(db),

    attempts: (deliveryId: string) =>
      db
        .select()
        .from(deliveryAttempts)
        .where(eq(deliveryAttempts.deliveryId, deliveryId))
        .orderBy(asc(deliveryAttempts.number)),

    /** Waits for the result of a run; rejects if it failed. */
    end: (workflowId: string) => temporal.client.workflow.getHandle(workflowId).result(),

    async stop(): Promise<void> {
      poster.close();
      await receiver.close();
    },
  };
}

/** The client with another timeout for workflow tasks. */
function withTaskTimeout(client: Client, taskTimeoutMs: number | undefined): Client {
  if (taskTimeoutMs === undefined) return client;
  return new Client({
    ...client.options,
    connection: client.connection,
    interceptors: {
      workflow: [
        {
          start: (input, next) =>
            next({ ...input, options: { ...input.options, workflowTaskTimeout: msToTs(taskTimeoutMs) } }),
        },
      ],
    },
  });
}
