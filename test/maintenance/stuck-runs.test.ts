import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { sql } from 'drizzle-orm';
import { accountStart } from '../../src/activities/account.ts';
import { checkAccounts } from '../../src/maintenance/account-health.ts';
import { createLostRunLooks } from '../../src/maintenance/lost-runs.ts';
import { newId } from '../../src/new-id.ts';
import { loadDraft, recordDraft } from '../../src/outgoing/draft-state.ts';
import { loadSend, recordSend } from '../../src/outgoing/send-state.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { createLostRuns } from '../../src/webhooks/dispatch/lost-runs.ts';
import { startDeliveryRun } from '../../src/webhooks/dispatch/delivery-runs.ts';
import type { ClaimedRun } from '../../src/webhooks/dispatch/delivery-queries.ts';
import { markStarted } from '../../src/webhooks/log/delivery-state.ts';
import { claimOnce } from '../helpers/assert/queue.ts';
import { lazyClient } from '../../src/temporal/connect.ts';
import { accountWorkflowId, draftWorkflowId, QUEUES, sendWorkflowId, WORKFLOWS } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { type Deliveries, deliveryTests } from '../helpers/product/deliveries.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { testClient, type TestClient } from '../helpers/product/temporal-workers.ts';

const startDeliveries = deliveryTests();
let the: Deliveries;
let temporal: TestClient;
let stopWorkers: () => Promise<void>;
const loaded: string[] = [];

beforeAll(async () => {
  the = await startDeliveries();
  temporal = await testClient();
  const loadAccount = async ({ accountId }: { accountId: string }) => void loaded.push(accountId);
  stopWorkers = await temporal.work({ loadAccount }, [QUEUES.commands]);
});
afterAll(async () => {
  await stopWorkers();
  await temporal.close();
  await the.stop();
});

/** A client with another key: no worker of this installation can read the input of its runs. */
function withOtherKey({ options: { namespace } }: Client) {
  return lazyClient({
    temporal: { address: process.env['TEST_TEMPORAL_ADDRESS'] ?? '', namespace },
    encryptionKey: randomBytes(32),
  });
}

it('a run whose workflow tasks keep failing is replaced by one that works', async () => {
  const { db } = the;
  const { client } = temporal;
  const id = await storeAccount(the);
  await db.execute(sql`update accounts set last_synced_at = now() - interval '1 minute' where id = ${id}`);
  const other = withOtherKey(client);
  const options = { ...accountStart(id, 4_000), workflowTaskTimeout: '1s' } as const;
  const stuck = await other.client.workflow.start(WORKFLOWS.account, options);
  await other.close();
  const ensureSearchAttributes = async () => {};
  const logger = createLogger('silent', 'test');
  const deps = { db, client, logger, pollMs: 1_000, heartbeatTimeoutMs: 4_000, ensureSearchAttributes };
  await waitFor(
    async () => {
      await checkAccounts(deps);
      return loaded.includes(id);
    },
    { timeoutMs: 60_000, everyMs: 500 },
  );
  const replaced = client.workflow.getHandle(accountWorkflowId(id), stuck.firstExecutionRunId);
  expect((await replaced.describe()).status.name).toBe('TERMINATED');
}, 90_000);

it('a send and a draft fail whose run can no longer continue, and the run is terminated', async () => {
  const { db } = the;
  const { client } = temporal;
  const accountId = await storeAccount(the);
  const [sendId, draftId] = [newId('email'), newId('draft')];
  const own = { accountId, inputKey: null, metadata: null, trackingId: null, tracking: null };
  await recordSend(db, { ...own, id: sendId, draftId: null, apiKeyId: 'pk_1', apiKeyName: 'key' });
  await recordDraft(db, { ...own, id: draftId });
  const other = withOtherKey(client);
  const options = { taskQueue: QUEUES.commands, workflowTaskTimeout: '1s' } as const;
  const ids = [sendWorkflowId(sendId), draftWorkflowId(draftId)];
  for (const [at, type] of [WORKFLOWS.sendEmail, WORKFLOWS.saveDraft].entries()) {
    await other.client.workflow.start(type, { ...options, workflowId: ids[at] ?? '', args: [{ accountId }] });
  }
  await other.close();
  const logger = createLogger('silent', 'test');
  const { queuedSends, saves } = createLostRunLooks({ db, client, logger, heartbeatTimeoutMs: 4_000 }, 0);
  const states = async () => [
    (await loadSend(db, accountId, sendId))?.state,
    (await loadDraft(db, accountId, draftId))?.state,
  ];
  await queuedSends();
  await saves();
  expect(await states()).toEqual(['queued', 'saving']);
  await waitFor(
    async () => {
      await queuedSends();
      await saves();
      return (await states()).every((state) => state === 'failed');
    },
    { timeoutMs: 60_000, everyMs: 500 },
  );
  const runs = await Promise.all(ids.map((id) => client.workflow.getHandle(id).describe()));
  expect(runs.map(({ status }) => status.name)).toEqual(['TERMINATED', 'TERMINATED']);
}, 90_000);

/** A run of all deliveries that are due, which no worker of this installation can continue. */
async function claimStuck(): Promise<ClaimedRun> {
  const [run] = await claimOnce(the.db, { alone: 0 });
  if (!run) throw new Error('nothing was due');
  const other = withOtherKey(the.client);
  await startDeliveryRun(other.client, run);
  await other.close();
  await markStarted(
    the.db,
    run.deliveries.map(({ id }) => ({ deliveryId: id, workflowId: run.workflowId })),
  );
  return run;
}

it('deliveries of a run whose workflow tasks keep failing are made by another run, also those that are not late', async () => {
  const { db, client } = the;
  await the.endpoint();
  await the.happen();
  await the.happen();
  const run = await claimStuck();
  expect(run.deliveries).toHaveLength(2);
  await db.execute(sql`
    update pending_deliveries set started_at = now() - interval '1 minute' where delivery_id = ${run.deliveries[0]?.id}`);
  await the.work();
  const lostRuns = createLostRuns({ db, client, logger: createLogger('silent', 'test') });
  const stuck = client.workflow.getHandle(run.workflowId);
  await waitFor(
    async () => {
      await lostRuns.findOverdue();
      return (await stuck.describe()).status.name !== 'RUNNING';
    },
    { timeoutMs: 60_000, everyMs: 500 },
  );
  expect((await stuck.describe()).status.name).toBe('TERMINATED');
  await lostRuns.findTerminated();
  for (const { workflowId } of await the.relayOnce()) await the.end(workflowId);
  expect((await the.log()).map(({ status }) => status)).toEqual(['delivered', 'delivered']);
}, 90_000);
