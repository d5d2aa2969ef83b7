import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { deleteEndpoint, rotateSecret, updateEndpoint } from '../../src/db/queries/endpoints.ts';
import { webhookEndpoints } from '../../src/db/schema/index.ts';
import { newId } from '../../src/new-id.ts';
import { MAX_RESPONSE_BYTES } from '../../src/webhooks/attempt/post.ts';
import { deliveryWorkflowId } from '../../src/workflows/names.ts';
import { type Deliveries, deliveryTests, secrets } from '../helpers/product/deliveries.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';
import type { Call } from '../helpers/fakes/receiver.ts';
import { waitFor } from '../helpers/assert/wait.ts';

const startDeliveries = deliveryTests();
let the: Deliveries;

beforeEach(async () => {
  the = await startDeliveries();
});
afterEach(async () => {
  expect(the.receiver.faults).toEqual([]);
  await the.stop();
});

const emails = (count: number) => Array.from({ length: count }, () => newId('email'));
const idOf = (call: Call) => String(call.headers['x-email-engine-delivery']);
const objectOf = (call: Call) => (call.event.data.email as { id: string }).id;

/** One event to one endpoint, given to a run; its delivery id. */
async function oneDelivery(): Promise<string> {
  await the.happen();
  const [run] = await the.relayOnce();
  return run?.deliveries[0]?.id ?? '';
}

describe('a delivery', () => {
  it('is one call that the receiver can verify, and one record of the log', async () => {
    await the.work();
    const endpointId = await the.endpoint({ headers: [{ name: 'X-Mine', value: 'yes' }] });
    const id = await oneDelivery();
    await the.end(deliveryWorkflowId(id));
    expect(the.receiver.calls).toHaveLength(1);
    const [call] = the.receiver.calls;
    expect(call?.headers).toMatchObject({
      'x-mine': 'yes',
      'x-email-engine-delivery': id,
      'x-email-engine-event': 'email.new',
    });
    const [record] = await the.log();
    expect(call?.event).toMatchObject({
      object: 'Event',
      endpoint_id: endpointId,
      account_id: the.accountId,
      sequence: 1,
    });
    expect(record).toMatchObject({
      id,
      status: 'delivered',
      attemptsCount: 1,
      httpStatus: 200,
      error: null,
      nextAttemptAt: null,
      workflowId: deliveryWorkflowId(id),
      lastAttemptAt: expect.any(Date),
    });
    expect(await the.attempts(id)).toMatchObject([{ number: 1, httpStatus: 200, error: null }]);
  });

  it('is attempted again on the schedule, with the same bytes', async () => {
    const looks: Awaited<ReturnType<typeof the.log>>[number][] = [];
    const begun: number[] = [];
    const { poster } = the;
    await the.work({
      webhook: { retryScheduleMs: [400, 800, 60_000], timeoutMs: 5_000 },
      poster: {
        post: async (request) => {
          begun.push(Date.now());
          looks.push(...(await the.log()));
          return poster.post(request);
        },
      },
    });
    await the.endpoint();
    the.receiver.answer = () => (the.receiver.calls.length < 2 ? 503 : 204);
    const id = await oneDelivery();
    await the.end(deliveryWorkflowId(id));
    const [, once, twice] = looks;
    const refused = { status: 'pending', httpStatus: 503, error: 'the endpoint answered 503' };
    expect([once, twice]).toMatchObject([
      { ...refused, attemptsCount: 1 },
      { ...refused, attemptsCount: 2 },
    ]);
    const waits = [once, twice].map(
      (look) => (look?.nextAttemptAt?.getTime() ?? 0) - (look?.lastAttemptAt?.getTime() ?? 0),
    );
    expect(waits[0]).toBeGreaterThanOrEqual(0.8 * 400);
    expect(waits[1]).toBeGreaterThanOrEqual(0.8 * 800);
    expect(begun[1]).toBeGreaterThanOrEqual(once?.nextAttemptAt?.getTime() ?? Infinity);
    expect(begun[2]).toBeGreaterThanOrEqual(twice?.nextAttemptAt?.getTime() ?? Infinity);
    const { calls } = the.receiver;
    expect(calls.map(({ status }) => status)).toEqual([503, 503, 204]);
    const [first, second, third] = calls as [Call, Call, Call];
    expect([second.body.equals(first.body), third.body.equals(first.body)]).toEqual([true, true]);
    expect((await the.attempts(id)).map(({ number, httpStatus }) => [number, httpStatus])).toEqual([
      [1, 503],
      [2, 503],
      [3, 204],
    ]);
    expect((await the.log())[0]).toMatchObject({
      status: 'delivered',
      attemptsCount: 3,
      nextAttemptAt: null,
      error: null,
    });
  });

  it('is given up after the last retry; the run shows Failed', async () => {
    await the.work();
    await the.endpoint();
    the.receiver.answer = () => 500;
    const id = await oneDelivery();
    await expect(the.end(deliveryWorkflowId(id))).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    expect(the.receiver.calls).toHaveLength(3);
    expect((await the.log())[0]).toMatchObject({ status: 'failed', attemptsCount: 3, nextAttemptAt: null });
    const { status, typedSearchAttributes } = await the.client.workflow.getHandle(deliveryWorkflowId(id)).describe();
    expect(status.name).toBe('FAILED');
    const found = Object.fromEntries(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]));
    expect(found).toMatchObject({ EventType: 'email.new', MailAccount: the.accountId });
  });

  it('waits as long as Retry-After says', async () => {
    await the.endpoint();
    const posted: number[] = [];
    const { poster } = the;
    await the.work({
      poster: {
        post: async (request) => {
          posted.push(Date.now());
          const outcome = await poster.post(request);
          return posted.length === 1 ? { ...outcome, httpStatus: 429, retryAfter: '1' } : outcome;
        },
      },
    });
    const id = await oneDelivery();
    await the.end(deliveryWorkflowId(id));
    expect((posted[1] ?? 0) - (posted[0] ?? 0)).toBeGreaterThanOrEqual(950);
  });

  it('ends with 410, and the endpoint is disabled; what follows is skipped', async () => {
    await the.work();
    const endpointId = await the.endpoint();
    the.receiver.answer = () => 410;
    const id = await oneDelivery();
    await expect(the.end(deliveryWorkflowId(id))).rejects.toMatchObject({ name: 'WorkflowFailedError' });
    const [endpoint] = await the.db.select().from(webhookEndpoints).where(eq(webhookEndpoints.id, endpointId));
    expect(endpoint).toMatchObject({ enabled: false, disabledReason: 'gone' });
    await the.happen();
    expect(await the.relayOnce()).toEqual([]);
    expect((await the.log()).map(({ status, attemptsCount }) => [status, attemptsCount])).toEqual([
      ['failed', 1],
      ['skipped', 0],
    ]);
  });

  it('does not disable an endpoint whose URL has changed since the call that a 410 answers', async () => {
    const { poster } = the;
    const endpointId = await the.endpoint();
    const endpoint = eq(webhookEndpoints.id, endpointId);
    await the.work({
      poster: {
        post: async (request) => {
          const outcome = await poster.post(request);
          await the.db
            .update(webhookEndpoints)
            .set({ url: `${request.url}new` })
            .where(endpoint);
          return outcome;
        },
      },
    });
    the.receiver.answer = () => 410;
    await expect(the.end(deliveryWorkflowId(await oneDelivery()))).rejects.toMatchObject({
      name: 'WorkflowFailedError',
    });
    expect((await the.db.select().from(webhookEndpoints).where(endpoint))[0]).toMatchObject({ enabled: true });
  });

  it.each(['disabled', 'deleted'])('is skipped when its endpoint has been %s', async (how) => {
    await the.work();
    const endpointId = await the.endpoint();
    the.receiver.answer = () => 500;
    const id = await oneDelivery();
    await waitFor(() => the.receiver.calls.length === 1);
    const chosen = eq(webhookEndpoints.id, endpointId);
    if (how === 'disabled') await the.db.update(webhookEndpoints).set({ enabled: false }).where(chosen);
    else await the.db.delete(webhookEndpoints).where(chosen);
    await the.end(deliveryWorkflowId(id));
    expect((await the.log())[0]).toMatchObject({
      status: 'skipped',
      error: `the endpoint is ${how}`,
      nextAttemptAt: null,
    });
    expect(the.receiver.calls).toHaveLength(1);
  });

  it('leaves nothing readable of the event in the history of its run', async () => {
    await the.work();
    await the.endpoint({ url: the.receiver.url.replace('http://', 'http://canary-user:canary-password@') });
    the.receiver.answer = () => 500;
    await the.happen(['email_canary']);
    const [run] = await the.relayOnce();
    const handle = the.client.workflow.getHandle(run?.workflowId ?? '');
    await handle.result().catch(() => {});
    const history = Buffer.from(JSON.stringify(await handle.fetchHistory(), (_, value: unknown) => asText(value)));
    expect(history.toString()).toMatch(/attemptDeliveries/);
    expect(history.toString()).not.toMatch(/canary|gave up|answered/);
  });
});

/** Bytes of payloads as searchable text. */
function asText(value: unknown): unknown {
  const data = value as { type?: string; data?: number[] } | null;
  if (data?.type === 'Buffer' && data.data) return Buffer.from(data.data).toString('latin1');
  return value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value;
}

describe('several deliveries of one endpoint', () => {
  it('go in one run, those of one object in their order', async () => {
    await the.work();
    await the.endpoint();
    const [busy = ''] = emails(1);
    await the.happen([busy, ...emails(5), busy, ...emails(5), busy]);
    const runs = await the.relayOnce();
    expect(runs).toHaveLength(1);
    await the.end(runs[0]?.workflowId ?? '');
    expect(the.receiver.calls).toHaveLength(13);
    const sequences = the.receiver.calls.filter((call) => objectOf(call) === busy).map(({ event }) => event.sequence);
    expect(sequences).toEqual([1, 7, 13]);
    const log = await the.log();
    expect(log.every(({ status, workflowId }) => status === 'delivered' && workflowId === runs[0]?.workflowId)).toBe(
      true,
    );
  });

  it('continue separately when they fail the first attempt', async () => {
    await the.work();
    await the.provenEndpoint();
    const objects = emails(8);
    const bad = new Set([objects[2], objects[5]]);
    the.receiver.answer = (call) =>
      bad.has(objectOf(call)) && the.receiver.calls.filter((other) => idOf(other) === idOf(call)).length < 2
        ? 500
        : 200;
    await the.happen(objects);
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    const failed = (await the.log()).filter(({ objectId }) => bad.has(objectId));
    for (const { id, workflowId } of failed) {
      expect(workflowId).toBe(deliveryWorkflowId(id));
      await the.end(deliveryWorkflowId(id));
    }
    expect((await the.log()).map(({ status, attemptsCount }) => `${status} ${attemptsCount}`).sort()).toEqual([
      ...Array.from({ length: 6 }, () => 'delivered 1'),
      ...Array.from({ length: 2 }, () => 'delivered 3'),
    ]);
  });

  it('end with the first 410: those not yet attempted are skipped', async () => {
    await the.work();
    await the.endpoint();
    the.receiver.answer = () => 410;
    await the.happen(emails(40));
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    const statuses = (await the.log()).map(({ status }) => status);
    expect(the.receiver.calls.length).toBeLessThanOrEqual(20);
    expect(statuses.filter((status) => status === 'failed')).toHaveLength(the.receiver.calls.length);
    expect(statuses.filter((status) => status === 'skipped')).toHaveLength(40 - the.receiver.calls.length);
  });

  it('are one call at a time once the endpoint has sent a long response', async () => {
    const { poster } = the;
    const server = createServer((request, response) => {
      request.resume().on('end', () => response.end('a'.repeat(2 * MAX_RESPONSE_BYTES)));
    });
    const url = `http://127.0.0.1:${await listenOnFreePort(server)}/`;
    let underWay = 0;
    const withOthers: number[] = [];
    await the.work({
      poster: {
        post: async (request) => {
          withOthers.push(++underWay);
          return poster.post(request).finally(() => underWay--);
        },
      },
    });
    await the.endpoint({ url });
    await the.happen(emails(30));
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    server.close();
    server.closeAllConnections();
    expect((await the.log()).map(({ status }) => status)).toEqual(Array.from({ length: 30 }, () => 'delivered'));
    expect(Math.max(...withOthers.slice(0, 10))).toBe(10);
    expect(Math.max(...withOthers.slice(10))).toBe(1);
  });

  it('continue in a regular activity when the endpoint is slow', async () => {
    const { poster } = the;
    let posted = 0;
    await the.work({
      poster: {
        post: async (request) => {
          // longer than a local activity begins calls
          if (++posted === 1) await new Promise((resolve) => setTimeout(resolve, 4_100));
          return poster.post(request);
        },
      },
    });
    await the.endpoint();
    const [slow = ''] = emails(1);
    await the.happen(Array.from({ length: 7 }, () => slow));
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    expect(the.receiver.calls.map(({ event }) => event.sequence)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    const { events } = await the.client.workflow.getHandle(run?.workflowId ?? '').fetchHistory();
    expect(events?.some((event) => event.activityTaskScheduledEventAttributes)).toBe(true);
  });
});

describe('an endpoint that is changed while a run of several deliveries calls it', () => {
  /** Three events of one object in one run; the first call takes over a second, in which the endpoint is changed. */
  async function changedDuring(change: (endpointId: string) => Promise<unknown>): Promise<void> {
    await the.work();
    const endpointId = await the.endpoint();
    the.receiver.answer = async () => {
      if (the.receiver.calls.length === 0) {
        await change(endpointId);
        await sleep(1_100);
      }
      return 200;
    };
    const [object = ''] = emails(1);
    await the.happen([object, object, object]);
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
  }

  it('gets the following calls at its new URL, signed with its new secret', async () => {
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const url = `${the.receiver.url}/new`;
    await changedDuring(async (endpointId) => {
      await updateEndpoint(the.db, secrets, endpointId, { url });
      await rotateSecret(the.db, secrets, endpointId, { secret, now: new Date() });
      // calls have two signatures now
      the.receiver.secrets.clear();
    });
    const signed = ({ headers, body }: Call) =>
      headers['x-email-engine-signature'] === `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
    expect(the.receiver.calls.map((call) => [call.path, signed(call)])).toEqual([
      ['/hook', false],
      ['/hook/new', true],
      ['/hook/new', true],
    ]);
  });

  it.each([
    ['disabled', (id: string) => updateEndpoint(the.db, secrets, id, { enabled: false })],
    ['deleted', (id: string) => deleteEndpoint(the.db, id)],
  ])('gets no further call when it is %s', async (how, change) => {
    await changedDuring(change);
    expect(the.receiver.calls).toHaveLength(1);
    expect((await the.log()).map(({ status, error }) => [status, error])).toEqual([
      ['delivered', null],
      ['skipped', `the endpoint is ${how}`],
      ['skipped', `the endpoint is ${how}`],
    ]);
  });
});
