import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { deliveries, pendingDeliveries, webhookEndpoints } from '../../../src/db/schema/index.ts';
import { readStatistics } from '../../../src/db/queries/statistics.ts';
import { newId } from '../../../src/new-id.ts';
import { testDatabase, type TestDatabase } from '../../helpers/servers/postgres.ts';
import { LINES } from '../../../src/db/outbox.ts';

/** The figures of /metrics about waiting deliveries. */

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

const db = () => test.database.db;
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000);
const statistics = () => readStatistics(test.database.pool);

beforeEach(async () => {
  await db().delete(deliveries);
  await db().delete(pendingDeliveries);
  await db().delete(webhookEndpoints);
});

async function storeEndpoint(options: Partial<typeof webhookEndpoints.$inferInsert> = {}): Promise<string> {
  const id = newId('endpoint');
  const now = new Date();
  await db()
    .insert(webhookEndpoints)
    .values({
      id,
      url: 'http://127.0.0.1/',
      triggerEvents: [],
      accountIds: [],
      headers: Buffer.alloc(0),
      secret: Buffer.alloc(0),
      createdAt: now,
      updatedAt: now,
      ...options,
    });
  return id;
}

async function storePending(
  endpointId: string,
  options: Partial<typeof pendingDeliveries.$inferInsert> = {},
): Promise<void> {
  await db()
    .insert(pendingDeliveries)
    .values({
      deliveryId: newId('delivery'),
      endpointId,
      objectId: newId('email'),
      sequence: 1,
      dueAt: new Date(),
      ...options,
    });
}

describe('the age of the outbox', () => {
  it('is 0 when nothing waits', async () => {
    expect(await statistics()).toMatchObject({
      outboxAgeSeconds: 0,
      waiting: { due: 0, retry: 0, breaker: 0, order: 0, replay: 0 },
    });
  });

  it('is the age of the oldest due delivery, including one assigned to a run and never attempted', async () => {
    const endpointId = await storeEndpoint();
    await storePending(endpointId, { dueAt: ago(100), workflowId: 'deliver/x', claimedAt: ago(99) });
    await storePending(endpointId, { dueAt: ago(10) });
    const { outboxAgeSeconds, waiting } = await statistics();
    expect(outboxAgeSeconds).toBeGreaterThanOrEqual(100);
    expect(outboxAgeSeconds).toBeLessThan(200);
    expect(waiting.due).toBe(2);
  });

  it('counts from when a retry was due', async () => {
    const endpointId = await storeEndpoint();
    await storePending(endpointId, { dueAt: ago(50), waitsFor: 'retry', attempted: true });
    const { outboxAgeSeconds } = await statistics();
    expect(Math.round(outboxAgeSeconds / 10)).toBe(5);
  });

  it('excludes deliveries that wait for their next attempt, an open breaker, an earlier event of their object or in a bulk replay', async () => {
    const objectId = newId('email');
    const endpointId = await storeEndpoint();
    const later = new Date(Date.now() + 60_000);
    await storePending(endpointId, { objectId, sequence: 1, dueAt: later, waitsFor: 'retry' });
    await storePending(endpointId, { objectId, sequence: 2, dueAt: later, waitsFor: 'order' });
    const away = await storeEndpoint({ breakerUntil: later });
    await storePending(away, { dueAt: ago(300) });
    await storePending(endpointId, { dueAt: ago(5000), line: LINES.replay, replayId: newId('replay') });
    expect(await statistics()).toMatchObject({
      outboxAgeSeconds: 0,
      waiting: { due: 0, retry: 1, breaker: 1, order: 1, replay: 1 },
      endpoints: { closed: 1, open: 1, disabled: 0 },
      openBreakers: [away],
    });
  });

  it('has the breaker of an endpoint that hangs open until it answers, also while it is probed', async () => {
    const hanging = await storeEndpoint({ breakerUntil: ago(20), breakerProbeAt: ago(20) });
    await storeEndpoint();
    expect(await statistics()).toMatchObject({
      endpoints: { closed: 1, open: 1, disabled: 0 },
      openBreakers: [hanging],
    });
  });
});
