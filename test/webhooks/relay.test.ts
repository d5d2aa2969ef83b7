import { describe, expect, it } from '@jest/globals';
import type { ClaimedDelivery } from '../../src/webhooks/delivery-state.ts';
import { MAX_BATCH } from '../../src/webhooks/dispatch.ts';
import { planRuns } from '../../src/webhooks/relay.ts';

const waiting = (endpointId: string, from: number, count: number): ClaimedDelivery[] =>
  Array.from({ length: count }, (_, index) => ({
    id: `d${from + index}`,
    endpointId,
    accountId: 'acc',
    eventType: 'email.new',
    attemptsCount: 0,
  }));
const planned = (deliveries: ClaimedDelivery[]) =>
  planRuns(deliveries).map((run) => [run.workflowId, run.deliveries.map(({ id }) => id)]);

describe('runs for waiting deliveries', () => {
  it('are named after the one delivery, or after the endpoint and the first of several', () => {
    expect(planned([...waiting('a', 1, 1), ...waiting('b', 2, 2)])).toEqual([
      ['deliver/d1', ['d1']],
      ['deliver/b/d2', ['d2', 'd3']],
    ]);
  });

  it('have one endpoint each, and keep the order', () => {
    const mixed = [...waiting('a', 1, 1), ...waiting('b', 2, 1), ...waiting('a', 3, 1), ...waiting('b', 4, 1)];
    expect(planned(mixed)).toEqual([
      ['deliver/a/d1', ['d1', 'd3']],
      ['deliver/b/d2', ['d2', 'd4']],
    ]);
  });

  it('take at most a batch', () => {
    const sizes = planRuns(waiting('a', 1, 2 * MAX_BATCH + 1)).map((run) => run.deliveries.length);
    expect(sizes).toEqual([MAX_BATCH, MAX_BATCH, 1]);
    expect(planRuns([])).toEqual([]);
  });
});
