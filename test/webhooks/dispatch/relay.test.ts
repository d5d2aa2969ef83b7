import { describe, expect, it } from '@jest/globals';
import type { ClaimedDelivery } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { MAX_BATCH } from '../../../src/webhooks/dispatch/dispatch.ts';
import { planRuns } from '../../../src/webhooks/dispatch/relay.ts';

const waiting = (endpointId: string, from: number, count: number): ClaimedDelivery[] =>
  Array.from({ length: count }, (_, index) => ({
    id: `d${from + index}`,
    endpointId,
    accountId: 'acc',
    eventId: `e${from + index}`,
    eventType: 'email.new',
    objectId: `o${from + index}`,
    sequence: from + index,
    runs: 0,
    isReplay: false,
    isFailing: false,
    isProven: true,
  }));
const planned = (deliveries: ClaimedDelivery[]) =>
  planRuns(deliveries).map((run) => [run.workflowId, run.deliveries.map(({ id }) => id)]);

describe('runs for waiting deliveries', () => {
  it('are one each for a few, named after the delivery and the runs that it had', () => {
    const [again] = waiting('b', 3, 1);
    expect(planned([...waiting('a', 1, 2), { ...again!, runs: 2 }])).toEqual([
      ['deliver/d1', ['d1']],
      ['deliver/d2', ['d2']],
      ['deliver/d3/r2', ['d3']],
    ]);
  });

  it('have one endpoint each, keep the order, and are named after the endpoint and the first of several', () => {
    const mixed = [...waiting('a', 1, 3), ...waiting('b', 4, 1), ...waiting('a', 5, 2)];
    expect(planned(mixed)).toEqual([
      ['deliver/a/d1', ['d1', 'd2', 'd3', 'd5', 'd6']],
      ['deliver/d4', ['d4']],
    ]);
  });

  it('are as few as can be when there is enough to do', () => {
    expect(planRuns([...waiting('a', 1, 2), ...waiting('b', 3, 1)], 0).map(({ workflowId }) => workflowId)).toEqual([
      'deliver/a/d1',
      'deliver/d3',
    ]);
  });

  it('have all deliveries of an object, as far as a batch goes', () => {
    const few = waiting('a', 1, 3).map((delivery, n) => ({ ...delivery, objectId: n === 1 ? 'other' : 'same' }));
    expect(planned(few)).toEqual([
      ['deliver/a/d1', ['d1', 'd3']],
      ['deliver/d2', ['d2']],
    ]);
    const many = waiting('a', 1, 70).map((delivery, n) => ({ ...delivery, objectId: n < 60 ? 'same' : `o${n}` }));
    expect(planRuns(many).map((run) => run.deliveries.length)).toEqual([MAX_BATCH, 10]);
  });

  it('are not shared by live events and replays', () => {
    const mixed = waiting('a', 1, 10).map((delivery, n) => ({ ...delivery, isReplay: n >= 5 }));
    expect(planned(mixed).map(([, ids]) => ids)).toEqual([
      ['d1', 'd2', 'd3', 'd4', 'd5'],
      ['d6', 'd7', 'd8', 'd9', 'd10'],
    ]);
  });

  it('take at most a batch', () => {
    const sizes = planRuns(waiting('a', 1, 2 * MAX_BATCH + 1)).map((run) => run.deliveries.length);
    expect(sizes).toEqual([MAX_BATCH, MAX_BATCH, 1]);
    expect(planRuns([])).toEqual([]);
  });
});
