import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { sql } from 'drizzle-orm';
import { createHousekeepingActivities } from '../../src/activities/housekeeping.ts';
import {
  apiKeys,
  authLinks,
  deliveries,
  deliveryAttempts,
  events,
  idempotencyKeys,
  sessions,
} from '../../src/db/schema/index.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { openStorage } from '../../src/storage/storage.ts';
import { createLostRuns } from '../../src/webhooks/dispatch/lost-runs.ts';
import {
  deliveryBatchWorkflowId,
  deliveryWorkflowId,
  HOUSEKEEPING_WORKFLOW_ID,
  QUEUES,
  WORKFLOWS,
} from '../../src/workflows/names.ts';
import { type Deliveries, deliveryTests } from '../helpers/product/deliveries.ts';
import { startTestWorkers } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';

const startDeliveries = deliveryTests();
let the: Deliveries;
let activities: ReturnType<typeof createHousekeepingActivities>;

beforeAll(async () => {
  the = await startDeliveries();
  activities = createHousekeepingActivities({
    db: the.db,
    storage: openStorage('file:./.data/unused'),
    lostRuns: createLostRuns({ db: the.db, client: the.client, logger: createLogger('silent', 'test') }),
    logger: createLogger('silent', 'test'),
  });
});
afterAll(() => the.stop());

const run = <T>(activity: () => Promise<T>): Promise<T> => new MockActivityEnvironment().run(activity);

describe('housekeeping', () => {
  it('deletes expired rows, and nothing that is still to be delivered', async () => {
    const { db } = the;
    await the.endpoint();
    await the.happen(Array.from({ length: 2_300 }, (_, n) => `email_${n}`));
    await db.execute(sql`update deliveries set status = 'delivered'`);
    await db.execute(
      sql`insert into delivery_attempts (delivery_id, number, at, duration_ms) select id, 1, now(), 1 from deliveries`,
    );
    // the first 2,000 are old, of which the very first is still pending
    await db.execute(sql`update events set created_at = now() - interval '31 days' where sequence <= 2000`);
    await db.execute(sql`
      update deliveries d set created_at = e.created_at from events e where e.id = d.event_id and e.sequence <= 2000`);
    await db.execute(sql`
      update deliveries d set status = 'pending' from events e where e.id = d.event_id and e.sequence = 1`);
    await db
      .insert(apiKeys)
      .values({ id: 'pk_1', name: 'k', prefix: 'p', digest: Buffer.alloc(32), issuedAt: new Date() });
    await db.insert(idempotencyKeys).values(
      [23, 25].map((hours) => ({
        apiKeyId: 'pk_1',
        key: `${hours} hours old`,
        fingerprint: Buffer.alloc(32),
        createdAt: new Date(Date.now() - hours * 3_600_000),
      })),
    );
    expect(await run(activities.deleteExpired)).toEqual({ done: true });
    expect(await db.$count(events)).toBe(301);
    expect(await db.$count(deliveries)).toBe(301);
    expect(await db.$count(deliveryAttempts)).toBe(301);
    expect((await db.select().from(idempotencyKeys)).map(({ key }) => key)).toEqual(['23 hours old']);
    await db.execute(sql`truncate deliveries, pending_deliveries, events, delivery_attempts`);
  });

  it('deletes sessions that have ended, and links a week after they ended, in more than one statement', async () => {
    const { db } = the;
    const digest = (n: string) => sql.raw(`sha256(convert_to('${n}' || n, 'UTF8'))`);
    await db.execute(sql`insert into api_keys (id, name, prefix, digest, issued_at)
      select 'pk_s', 'k', 'ps', ${digest('key')}, now() from generate_series(1, 1) n`);
    await db.execute(sql`insert into sessions (digest, api_key_id, created_at, expires_at)
      select ${digest('s')}, 'pk_s', now(), now() + (case when n <= 2300 then -1 else 1 end) * interval '1 minute'
      from generate_series(1, 2301) n`);
    await db.execute(sql`insert into auth_links (id, digest, config, api_key_id, created_at, expires_at)
      select 'lnk_' || n, ${digest('l')}, '{}', 'pk_s', now() - interval '9 days',
        now() - (case when n <= 2300 then 169 else 167 end) * interval '1 hour'
      from generate_series(1, 2301) n`);
    expect(await run(activities.deleteExpired)).toEqual({ done: true });
    expect(await db.$count(sessions)).toBe(1);
    expect((await db.select().from(authLinks)).map(({ id }) => id)).toEqual(['lnk_2301']);
  });

  it('finds deliveries that have lost their run', async () => {
    const { db, client } = the;
    await the.happen(['a', 'b', 'c']);
    const log = await the.log();
    const [unknown, ended, running] = log.map(({ id }) => id) as [string, string, string];
    await db.execute(sql`
      update pending_deliveries set workflow_id = 'deliver/' || delivery_id, claimed_at = now() - interval '1 hour',
        started_at = now() - interval '1 hour'`);
    for (const id of [ended, running]) {
      await client.workflow.start(WORKFLOWS.deliverWebhooks, {
        workflowId: deliveryWorkflowId(id),
        taskQueue: QUEUES.webhooks,
        args: [{ deliveryIds: [id] }],
      });
    }
    await client.workflow.getHandle(deliveryWorkflowId(ended)).terminate();
    await run(activities.repairDeliveries);
    const rows = new Map((await the.log()).map((row) => [row.id, row]));
    expect(rows.get(unknown)).toMatchObject({ status: 'pending', workflowId: null });
    expect(rows.get(ended)).toMatchObject({
      status: 'failed',
      error: 'its run was ended before the delivery was made',
    });
    expect(rows.get(running)).toMatchObject({ status: 'pending', workflowId: deliveryWorkflowId(running) });
  });

  it('fails only the deliveries that the ended run had been given; the others go to a new run', async () => {
    const { db, client } = the;
    await db.execute(sql`truncate deliveries, pending_deliveries, events`);
    await the.happen(['a', 'b', 'c', 'd']);
    const [first, second, ...rest] = (await the.log()).map(({ id }) => id) as [string, string, ...string[]];
    const workflowId = deliveryBatchWorkflowId('whe_1', first);
    await db.execute(sql`
      update pending_deliveries set workflow_id = ${workflowId}, claimed_at = now() - interval '1 hour',
        started_at = now() - interval '1 hour'`);
    const batch = { workflowId, taskQueue: QUEUES.webhooks, args: [{ deliveryIds: [first, second] }] };
    await (await client.workflow.start(WORKFLOWS.deliverWebhooks, batch)).terminate();
    await run(activities.repairDeliveries);
    const rows = await the.log();
    const withStatus = (status: string) => rows.filter((row) => row.status === status).map(({ id }) => id);
    expect(withStatus('failed')).toEqual([first, second]);
    expect(withStatus('pending')).toEqual(rest);
    expect(rows.filter((row) => row.status === 'pending').map((row) => row.workflowId)).toEqual([null, null]);
  });

  it('checks every overdue delivery, even when many wait for live runs', async () => {
    const { db } = the;
    await db.execute(sql`truncate deliveries, pending_deliveries, events`);
    await the.happen(Array.from({ length: 1_200 }, (_, n) => `email_${n}`));
    await db.execute(sql`
      update pending_deliveries set workflow_id = 'deliver/' || delivery_id, claimed_at = now() - interval '1 hour',
        started_at = now() - interval '1 hour'`);
    const lost = (await the.log()).at(-1)?.id ?? '';
    let underWay = 0;
    let most = 0;
    const workflow = {
      getHandle: (workflowId: string) => ({
        async describe() {
          most = Math.max(most, ++underWay);
          await new Promise(setImmediate);
          underWay -= 1;
          if (workflowId === deliveryWorkflowId(lost))
            throw Object.assign(new Error('x'), { name: 'WorkflowNotFoundError' });
          return { status: { name: 'RUNNING' } };
        },
      }),
    };
    const client = { workflow } as unknown as Client;
    await createLostRuns({ db, client, logger: createLogger('silent', 'test') }).findOverdue();
    expect((await the.log()).filter(({ workflowId }) => workflowId === null).map(({ id }) => id)).toEqual([lost]);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(20);
  });

  it('does a round at its start, and waits for the next hour', async () => {
    const done: string[] = [];
    let more = 2;
    const { client, stop } = await startTestWorkers({
      deleteExpired: async () => ({ done: done.push('deleteExpired') > 0 && more-- === 0 }),
      repairDeliveries: async () => void done.push('repairDeliveries'),
      ensureAccounts: async () => void done.push('ensureAccounts'),
    });
    const options = { workflowId: HOUSEKEEPING_WORKFLOW_ID, taskQueue: QUEUES.commands, args: [] };
    const handle = await client.workflow.start(WORKFLOWS.housekeeping, options);
    await waitFor(async () => JSON.stringify(await handle.fetchHistory()).includes('timerStartedEventAttributes'));
    expect(done).toEqual(['deleteExpired', 'deleteExpired', 'deleteExpired', 'repairDeliveries', 'ensureAccounts']);
    await handle.terminate();
    await stop();
  });

  it('repairs deliveries and accounts though what has expired cannot be deleted', async () => {
    const done: string[] = [];
    const { client, stop } = await startTestWorkers({
      deleteExpired: () => Promise.reject(ApplicationFailure.nonRetryable('statement timeout')),
      repairDeliveries: async () => void done.push('repairDeliveries'),
      ensureAccounts: async () => void done.push('ensureAccounts'),
    });
    const options = { workflowId: `${HOUSEKEEPING_WORKFLOW_ID}-failing`, taskQueue: QUEUES.commands, args: [] };
    const handle = await client.workflow.start(WORKFLOWS.housekeeping, options);
    await waitFor(async () => JSON.stringify(await handle.fetchHistory()).includes('timerStartedEventAttributes'));
    expect(done).toEqual(['repairDeliveries', 'ensureAccounts']);
    await handle.terminate();
    await stop();
  });
});
