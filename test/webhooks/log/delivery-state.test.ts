import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import pg from 'pg';
import { DELIVERIES_CHANNEL } from '../../../src/db/outbox.ts';
import { unstartedRuns } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import {
  markStarted,
  recordAttemptResults,
  requeueDelivery,
  skipDeliveries,
} from '../../../src/webhooks/log/delivery-state.ts';
import { type Deliveries, deliveryTests } from '../../helpers/product/deliveries.ts';

const startDeliveries = deliveryTests();
let the: Deliveries;
beforeAll(async () => {
  the = await startDeliveries();
});
afterAll(() => the.stop());

describe('runs that were claimed and never started', () => {
  it('are returned with all of their deliveries, however many runs there are', async () => {
    const { db } = the;
    await the.endpoint();
    await the.happen(Array.from({ length: 2_300 }, (_, n) => `email_${n}`));
    await db.execute(sql`
      update pending_deliveries p set workflow_id = 'run ' || lpad(((n - 1) / 30)::text, 4, '0'),
        claimed_at = now() - interval '1 minute'
      from (select id, row_number() over (order by id) as n from deliveries) as numbered where numbered.id = p.delivery_id`);
    const expected = new Map<string, string[]>();
    for (const { id, workflowId } of await the.log()) {
      expected.set(workflowId ?? '', [...(expected.get(workflowId ?? '') ?? []), id]);
    }
    const found = new Map<string, string[]>();
    for (let runs = await unstartedRuns(db, 0); runs.length > 0; runs = await unstartedRuns(db, 0)) {
      for (const { workflowId, deliveries } of runs) {
        const ids = deliveries.map(({ id }) => id);
        expect({ workflowId, ids }).toEqual({ workflowId, ids: expected.get(workflowId) });
        found.set(workflowId, ids);
        await markStarted(
          db,
          ids.map((deliveryId) => ({ deliveryId, workflowId })),
        );
      }
    }
    expect(found.size).toBe(expected.size);
  });
});

describe('the result of an attempt', () => {
  it('is stored with every field, in the attempt and in the delivery', async () => {
    await the.happen(['email_result']);
    const logged = async () => (await the.log()).find(({ objectId }) => objectId === 'email_result');
    const id = (await logged())?.id ?? '';
    const outcome = { httpStatus: 418, responseBody: 'no', error: 'refused', errorKind: 'status' } as const;
    const at = new Date('2026-01-02T03:04:05.678Z');
    const run = { workflowId: null, attemptedBy: 'deliver/x', runId: 'x', runs: 1 };
    const due = { status: 'failed', nextAttemptInMs: null } as const;
    const ofEndpoint = { deliveryId: id, endpointId: 'we_x', url: 'https://example.test/' };
    await the.db.execute(sql`update pending_deliveries set workflow_id = 'deliver/x' where delivery_id = ${id}`);
    await recordAttemptResults(the.db, [{ ...ofEndpoint, ...outcome, ...run, ...due, number: 1, at, durationMs: 12 }]);
    expect(await the.attempts(id)).toEqual([{ ...outcome, deliveryId: id, number: 1, at, durationMs: 12 }]);
    expect(await logged()).toMatchObject({
      ...{ ...outcome, id, status: 'failed', attemptsCount: 1, lastAttemptAt: at, endpointUrl: ofEndpoint.url },
      ...{ workflowId: 'deliver/x', runId: 'x', runs: 1 },
    });
  });

  it('that is stored again does not end a retry by hand that was made in between', async () => {
    await the.happen(['email_again']);
    const logged = async () => (await the.log()).find(({ objectId }) => objectId === 'email_again');
    const deliveryId = (await logged())?.id ?? '';
    const run = { workflowId: null, attemptedBy: 'deliver/x', runId: 'x', runs: 1 };
    const outcome = { httpStatus: 200, responseBody: '', error: null, errorKind: null, durationMs: 12 };
    const made = { deliveryId, endpointId: 'we_x', url: 'https://example.test/', at: new Date(), ...run, ...outcome };
    const delivered = { status: 'delivered', nextAttemptInMs: null } as const;
    await recordAttemptResults(the.db, [{ ...made, ...delivered, number: 1 }]);
    await requeueDelivery(the.db, deliveryId);
    await recordAttemptResults(the.db, [{ ...made, ...delivered, number: 1 }]);
    expect(await logged()).toMatchObject({ status: 'pending' });
    const queued = sql`select from pending_deliveries where delivery_id = ${deliveryId}`;
    expect((await the.db.execute(queued)).rows).toHaveLength(1);
    await recordAttemptResults(the.db, [{ ...made, ...delivered, number: 2 }]);
    expect(await logged()).toMatchObject({ status: 'delivered' });
  });

  it('is counted once, by endpoint, minute and outcome', async () => {
    await the.happen(['email_a', 'email_b', 'email_c']);
    const ids = (await the.log()).filter(({ objectId }) => /^email_[abc]$/.test(objectId)).map(({ id }) => id);
    const result = (deliveryId: string | undefined, number: number, failed: boolean, second: number) => ({
      ...{
        deliveryId: deliveryId ?? '',
        endpointId: 'we_counted',
        url: '',
        number,
        durationMs: 1,
        runs: 1,
        runId: 'x',
      },
      ...{ at: new Date(Date.UTC(2026, 0, 2, 3, 4, second)), responseBody: null, attemptedBy: 'x', workflowId: null },
      ...(failed
        ? ({ httpStatus: null, error: 'no', errorKind: 'connect', status: 'pending', nextAttemptInMs: 1_000 } as const)
        : ({ httpStatus: 200, error: null, errorKind: null, status: 'delivered', nextAttemptInMs: null } as const)),
    });
    const results = [result(ids[0], 1, true, 0), result(ids[1], 1, false, 59), result(ids[2], 1, true, 60)];
    await recordAttemptResults(the.db, results);
    await recordAttemptResults(the.db, [...results, result(ids[0], 2, false, 58)]);
    const { rows } = await the.db.execute(
      sql`select minute at time zone 'utc' as minute, succeeded, failed from attempt_counts
        where endpoint_id = 'we_counted' order by minute`,
    );
    expect(rows).toEqual([
      { minute: '2026-01-02 03:04:00', succeeded: 2, failed: 1 },
      { minute: '2026-01-02 03:05:00', succeeded: 0, failed: 1 },
    ]);
  });
});

describe('a delivery that ends', () => {
  it('wakes the relays when a later one of its object was put off, and only then', async () => {
    const { db } = the;
    const [first, second] = ['email_first', 'email_second'];
    await db.execute(sql`delete from pending_deliveries`);
    await the.happen([first, first, second]);
    let notices = 0;
    const listener = new pg.Client(the.url);
    listener.on('notification', () => (notices += 1));
    await listener.connect();
    // a round trip on this connection brings what was notified before
    const noticed = async () => (await listener.query('select'), notices);
    await listener.query(`listen ${DELIVERIES_CHANNEL}`);
    const { rows } = await db.execute<{ delivery_id: string; object_id: string }>(
      sql`select delivery_id, object_id from pending_deliveries order by object_id, sequence`,
    );
    const [begins, follows, alone] = rows.map((row) => row.delivery_id);
    await db.execute(sql`update pending_deliveries set waits_for = 'order', due_at = now() + interval '1 minute'
      where delivery_id = ${follows}`);
    await skipDeliveries(db, [alone ?? ''], 'a test');
    expect(await noticed()).toBe(0);
    await skipDeliveries(db, [begins ?? ''], 'a test');
    expect(await noticed()).toBe(1);
    const due = await db.execute(
      sql`select from pending_deliveries where delivery_id = ${follows} and due_at <= now()`,
    );
    expect(due.rows).toHaveLength(1);
    await listener.end();
  });
});
