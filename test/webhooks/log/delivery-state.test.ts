import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { unstartedRuns } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { markStarted } from '../../../src/webhooks/log/delivery-state.ts';
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
