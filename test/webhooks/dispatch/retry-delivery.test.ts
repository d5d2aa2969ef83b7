import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ERASED, eraseEventsOf } from '../../../src/db/coordination/removal.ts';
import { events, webhookEndpoints } from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';
import { retryDelivery } from '../../../src/webhooks/dispatch/retry-delivery.ts';
import { requeueDelivery } from '../../../src/webhooks/log/delivery-state.ts';
import { deliveryWorkflowId } from '../../../src/workflows/names.ts';
import { type Deliveries, deliveryTests } from '../../helpers/product/deliveries.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

const startDeliveries = deliveryTests();
let the: Deliveries;

beforeEach(async () => {
  the = await startDeliveries();
  await the.endpoint();
});
afterEach(async () => {
  expect(the.receiver.faults).toEqual([]);
  await the.stop();
});

async function oneDelivery(): Promise<string> {
  await the.happen();
  const [run] = await the.relayOnce();
  return run?.deliveries[0]?.id ?? '';
}

const sameBytes = () =>
  the.receiver.calls.every(({ body }) => body.equals(the.receiver.calls[0]?.body ?? Buffer.alloc(0)));
const sameIds = () =>
  new Set(
    the.receiver.calls.map(
      ({ headers }) => `${String(headers['webhook-id'])} ${String(headers['x-email-engine-delivery'])}`,
    ),
  ).size === 1;

describe('a manual retry', () => {
  it('of a delivery that waits is made immediately, in its run', async () => {
    await the.work({ webhook: { retryScheduleMs: [60_000, 60_000], timeoutMs: 5_000 } });
    the.receiver.answer = () => (the.receiver.calls.length === 0 ? 500 : 200);
    const id = await oneDelivery();
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    await retryDelivery(the.client, the.db, id);
    await the.end(deliveryWorkflowId(id));
    expect((await the.log())[0]).toMatchObject({
      status: 'delivered',
      attemptsCount: 2,
      workflowId: deliveryWorkflowId(id),
    });
    expect([sameBytes(), sameIds()]).toEqual([true, true]);
  });

  it('of a delivered one makes the same call again, in a new run', async () => {
    await the.work();
    const id = await oneDelivery();
    await the.end(deliveryWorkflowId(id));
    for (const n of [1, 2]) {
      await retryDelivery(the.client, the.db, id);
      await the.relayOnce();
      await the.end(deliveryWorkflowId(id, n));
    }
    expect(the.receiver.calls).toHaveLength(3);
    expect([sameBytes(), sameIds()]).toEqual([true, true]);
    expect((await the.log())[0]).toMatchObject({
      status: 'delivered',
      attemptsCount: 3,
      workflowId: deliveryWorkflowId(id, 2),
    });
    expect((await the.attempts(id)).map(({ number }) => number)).toEqual([1, 2, 3]);
  });

  it('of one that was given up begins a new schedule', async () => {
    await the.work();
    the.receiver.answer = () => (the.receiver.calls.length < 5 ? 500 : 200);
    const id = await oneDelivery();
    await the.end(deliveryWorkflowId(id)).catch(() => {});
    expect((await the.log())[0]).toMatchObject({ status: 'failed', attemptsCount: 3 });
    await retryDelivery(the.client, the.db, id);
    await the.relayOnce();
    await the.end(deliveryWorkflowId(id, 1));
    expect((await the.log())[0]).toMatchObject({ status: 'delivered', attemptsCount: 6 });
  });

  it('of one that waits for the relay leaves it to the relay, and makes no other', async () => {
    await the.happen();
    const [waiting] = await the.log();
    await retryDelivery(the.client, the.db, waiting?.id ?? '');
    expect((await the.log())[0]).toEqual({ ...waiting, isForced: true });
    for (const id of [newId('delivery'), newId('event'), 'x']) {
      await expect(retryDelivery(the.client, the.db, id)).rejects.toMatchObject({ code: 'not_found' });
    }
  });

  it('of one whose event was erased is refused, and makes no call', async () => {
    await the.work();
    const id = await oneDelivery();
    await the.end(deliveryWorkflowId(id));
    const [{ accountId = '', objectId = '' } = {}] = await the.log();
    await eraseEventsOf(the.db, accountId, [objectId]);
    await expect(retryDelivery(the.client, the.db, id)).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('was erased'),
    });
    expect(the.receiver.calls).toHaveLength(1);
  });

  it('of one whose endpoint is disabled is refused, and leaves it as it was', async () => {
    await the.work();
    const id = await oneDelivery();
    await the.end(deliveryWorkflowId(id));
    const before = await the.log();
    await the.db.update(webhookEndpoints).set({ enabled: false });
    await expect(retryDelivery(the.client, the.db, id)).rejects.toMatchObject({
      code: 'invalid_parameters',
      message: expect.stringContaining('the endpoint is disabled: enable it first'),
    });
    expect(await the.log()).toEqual(before);
  });

  it('of one whose event is erased before its call is skipped', async () => {
    await the.work();
    await the.happen();
    await the.db.update(events).set({ data: ERASED });
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    expect([await the.log(), the.receiver.calls]).toMatchObject([[{ status: 'skipped' }], []]);
  });

  it('of one whose run an operator ended continues in one new run, even when requested twice', async () => {
    await the.work({ webhook: { retryScheduleMs: [60_000], timeoutMs: 5_000 } });
    the.receiver.answer = () => (the.receiver.calls.length === 0 ? 500 : 200);
    const id = await oneDelivery();
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    await the.client.workflow.getHandle(deliveryWorkflowId(id)).terminate();
    await Promise.all([1, 2].map(() => retryDelivery(the.client, the.db, id)));
    await the.relayOnce();
    await the.end(deliveryWorkflowId(id, 1));
    expect((await the.log())[0]).toMatchObject({ status: 'delivered', workflowId: deliveryWorkflowId(id, 1) });
    expect(the.receiver.calls.length).toBe(2);
  });

  it('does not make a delivery twice when its run is still alive', async () => {
    await the.work({ webhook: { retryScheduleMs: [500], timeoutMs: 5_000 } });
    the.receiver.answer = () => (the.receiver.calls.length === 0 ? 500 : 200);
    const id = await oneDelivery();
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    // as if the signal had not found the run
    await requeueDelivery(the.db, id, deliveryWorkflowId(id));
    await the.relayOnce();
    await Promise.all([the.end(deliveryWorkflowId(id, 1)), the.end(deliveryWorkflowId(id))]);
    expect(the.receiver.calls).toHaveLength(2);
  });

  it('of one that an earlier event of its object holds back makes that event first, at once', async () => {
    await the.work({ webhook: { retryScheduleMs: [60_000], timeoutMs: 5_000 } });
    the.receiver.answer = () => (the.receiver.calls.length === 0 ? 500 : 200);
    await the.happen(['email_1']);
    await the.relayOnce();
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    await the.happen(['email_1'], 'email.update');
    const [first, second] = (await the.log()).map(({ id }) => id) as [string, string];
    expect(await the.relayOnce()).toEqual([]);
    await retryDelivery(the.client, the.db, second);
    await the.end(deliveryWorkflowId(first));
    await the.relayOnce();
    await the.end(deliveryWorkflowId(second));
    expect(the.receiver.calls.map(({ event }) => event.sequence)).toEqual([1, 1, 2]);
  });
});
