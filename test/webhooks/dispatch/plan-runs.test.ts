import { describe, expect, it } from '@jest/globals';
import type { ClaimedDelivery } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { MAX_BATCH, planRuns } from '../../../src/webhooks/dispatch/plan-runs.ts';

const waiting = (from: number, count: number): ClaimedDelivery[] =>
  Array.from({ length: count }, (_, index) => ({
    id: `d${from + index}`,
    endpointId: 'a',
    accountId: 'acc',
    eventId: `e${from + index}`,
    eventType: 'email.new',
    objectId: `o${from + index}`,
    sequence: from + index,
    runs: 0,
    line: 1,
    isFailing: false,
  }));
const planned = (deliveries: ClaimedDelivery[], alone = 4) =>
  planRuns(deliveries, alone).map((run) => [run.workflowId, run.deliveries.map(({ id }) => id)]);

describe('runs for waiting deliveries', () => {
  it('are one for each of a few, named after the delivery and its runs so far', () => {
    const [again] = waiting(3, 1);
    expect(planned([...waiting(1, 2), { ...again!, runs: 2 }])).toEqual([
      ['deliver/d1', ['d1']],
      ['deliver/d2', ['d2']],
      ['deliver/d3/r2', ['d3']],
    ]);
  });

  it('keep the order, and are named after the endpoint and the first of several', () => {
    expect(planned(waiting(1, 5))).toEqual([['deliver/a/d1', ['d1', 'd2', 'd3', 'd4', 'd5']]]);
  });

  it('are as few as possible without a place for each delivery', () => {
    expect(planned(waiting(1, 2), 1).map(([workflowId]) => workflowId)).toEqual(['deliver/a/d1']);
  });

  it('keep all deliveries of an object together', () => {
    const few = waiting(1, 3).map((delivery, n) => ({ ...delivery, objectId: n === 1 ? 'other' : 'same' }));
    expect(planned(few)).toEqual([
      ['deliver/a/d1', ['d1', 'd3']],
      ['deliver/d2', ['d2']],
    ]);
    const many = waiting(1, 100).map((delivery, n) => ({ ...delivery, objectId: `o${Math.floor(n / 8)}` }));
    const runs = planRuns(many, 4);
    const objects = runs.map((run) => new Set(run.deliveries.map(({ objectId }) => objectId)));
    expect(objects.reduce((sum, { size }) => sum + size, 0)).toBe(13);
    expect(Math.max(...runs.map((run) => run.deliveries.length))).toBeLessThanOrEqual(MAX_BATCH);
  });

  it('take at most a batch', () => {
    const sizes = planRuns(waiting(1, 2 * MAX_BATCH + 1), 4).map((run) => run.deliveries.length);
    expect(sizes).toEqual([MAX_BATCH, MAX_BATCH, 1]);
    expect(planRuns([], 4)).toEqual([]);
  });
});
