import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { Webhook } from 'standardwebhooks';
import { rotateSecret } from '../../src/db/queries/endpoints.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { callEndpoint, openTarget } from '../../src/webhooks/attempt/call-endpoint.ts';
import { loadDueDeliveries } from '../../src/webhooks/attempt/due-deliveries.ts';
import type { PostRequest } from '../../src/webhooks/attempt/post.ts';
import { type Deliveries, secrets, deliveryTests } from '../helpers/product/deliveries.ts';

const startDeliveries = deliveryTests();
let the: Deliveries;
beforeAll(async () => {
  the = await startDeliveries();
});
afterAll(() => the?.stop());

/** What the next call of the endpoint would be. */
async function nextCall(endpointId: string): Promise<{ body: string; headers: Record<string, string> }> {
  const { db } = the;
  await the.happen([newId('email')]);
  const log = await the.log();
  const row = log.filter((delivery) => delivery.endpointId === endpointId).at(-1);
  const { deliveries, targets } = await loadDueDeliveries(db, [row?.id ?? ''], 1_000_000);
  const [delivery] = deliveries;
  const target = targets.get(endpointId);
  if (!delivery || !target) throw new Error('no delivery');
  const requests: PostRequest[] = [];
  const poster = {
    post: (request: PostRequest) => {
      requests.push(request);
      return Promise.resolve({
        httpStatus: 200,
        responseBody: '',
        retryAfter: undefined,
        error: null,
        errorKind: null,
        durationMs: 1,
      });
    },
  };
  await callEndpoint(poster, {
    delivery,
    target: openTarget({ secrets, logger: createLogger('silent', 'test') }, target),
    data: delivery.data ?? '',
    at: new Date(),
    timeoutMs: 1_000,
    signal: new AbortController().signal,
  });
  const [request] = requests;
  const headers = (request?.headers ?? []).map(({ name, value }) => [name.toLowerCase(), value]);
  return { body: String(request?.body), headers: Object.fromEntries(headers) as Record<string, string> };
}

/** Whether stock verifiers with these secrets accept the call: of Standard Webhooks, and of the sha256 header. */
async function accepted(endpointId: string, ...known: string[]): Promise<[standard: boolean, sha256: boolean][]> {
  const { body, headers } = await nextCall(endpointId);
  return known.map((secret) => {
    const expected = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
    return [
      isAccepted(() => new Webhook(secret).verify(body, headers)),
      headers['x-email-engine-signature'] === expected,
    ];
  });
}

function isAccepted(verify: () => unknown): boolean {
  try {
    verify();
    return true;
  } catch {
    return false;
  }
}

const secretOf = (n: number) => `whsec_${Buffer.alloc(32, n).toString('base64')}`;

it('both secrets verify calls for 24 hours, then the new one alone', async () => {
  const [old, next, third] = [secretOf(1), secretOf(2), secretOf(3)];
  const id = await the.endpoint({ secret: old });
  const rotate = (secret: string) => rotateSecret(the.db, secrets, id, { secret, now: new Date() });
  expect(await accepted(id, old, next)).toEqual([
    [true, true],
    [false, false],
  ]);
  expect(await rotate(next)).toMatchObject({ secret: next });
  expect(await accepted(id, old, next)).toEqual([
    [true, false],
    [true, true],
  ]);
  const before = await the.db.execute<{ hours: number }>(
    sql`select extract(epoch from previous_secret_until - now())::float8 / 3600 as hours from webhook_endpoints where id = ${id}`,
  );
  expect(before.rows[0]?.hours).toBeCloseTo(24, 1);
  await the.db.execute(sql`update webhook_endpoints set previous_secret_until = now() where id = ${id}`);
  expect(await accepted(id, old, next)).toEqual([
    [false, false],
    [true, true],
  ]);
  await rotate(third);
  await rotate(old);
  expect(await accepted(id, next, third, old)).toEqual([
    [false, false],
    [true, false],
    [true, true],
  ]);
  expect(await rotateSecret(the.db, secrets, newId('endpoint'), { secret: old, now: new Date() })).toBeUndefined();
});
