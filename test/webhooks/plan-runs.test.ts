import { describe, expect, it } from '@jest/globals';
import { MAX_BATCH, planRuns, type Waiting } from '../../src/webhooks/dispatch.ts';

const names = {
  alone: (id: string) => `alone ${id}`,
  batch: (endpointId: string, first: string) => `batch ${endpointId} ${first}`,
};
const waiting = (endpointId: string, from: number, count: number): Waiting[] =>
  Array.from({ length: count }, (_, index) => ({ id: `d${from + index}`, endpointId }));
const planned = (deliveries: Waiting[]) =>
  planRuns(deliveries, names).map((run) => [run.workflowId, run.deliveries.map(({ id }) => id)]);

describe('runs for waiting deliveries', () => {
  it('are named after the one delivery, or after the endpoint and the first of several', () => {
    expect(planned([...waiting('a', 1, 1), ...waiting('b', 2, 2)])).toEqual([
      ['alone d1', ['d1']],
      ['batch b d2', ['d2', 'd3']],
    ]);
  });

  it('have one endpoint each, and keep the order', () => {
    const mixed = [...waiting('a', 1, 1), ...waiting('b', 2, 1), ...waiting('a', 3, 1), ...waiting('b', 4, 1)];
    expect(planned(mixed)).toEqual([
      ['batch a d1', ['d1', 'd3']],
      ['batch b d2', ['d2', 'd4']],
    ]);
  });

  it('take at most a batch', () => {
    const sizes = planRuns(waiting('a', 1, 2 * MAX_BATCH + 1), names).map((run) => run.deliveries.length);
    expect(sizes).toEqual([MAX_BATCH, MAX_BATCH, 1]);
    expect(planRuns([], names)).toEqual([]);
  });
});
