import { beforeEach, describe, expect, it } from '@jest/globals';
import { createDispatchLimiter, type DispatchLimiter } from '../../src/webhooks/dispatch.ts';

let now: number;
let lanes: DispatchLimiter;

beforeEach(() => {
  now = 1_000;
  lanes = createDispatchLimiter(() => now);
});

describe('the lanes of an endpoint', () => {
  it('are four: a fifth run waits until one of them has ended', () => {
    for (const run of ['r1', 'r2', 'r3']) lanes.begin('a', run);
    expect(lanes.held()).toEqual([]);
    lanes.begin('a', 'r4');
    lanes.begin('b', 'r5');
    expect(lanes.held()).toEqual(['a']);
    expect(lanes.end('r2')).toBe('a');
    expect(lanes.held()).toEqual([]);
    expect(lanes.end('r2')).toBeUndefined();
  });

  it('are given free when nothing is heard of a run', () => {
    for (const run of ['r1', 'r2', 'r3', 'r4']) lanes.begin('a', run);
    now += 30_000;
    lanes.renew('r1');
    now += 20_000;
    expect(lanes.held()).toEqual([]);
    expect(['r1', 'r2', 'r3', 'r4'].filter((run) => lanes.has(run))).toEqual(['r1']);
  });

  it('wait a little after a claim that left nothing, longer after one of many, and not at all while there is more', () => {
    lanes.claimed('one', 1, true);
    lanes.claimed('many', 30, true);
    lanes.claimed('more', 100, false);
    expect(lanes.held()).toEqual(['one', 'many']);
    const first = lanes.heldForMs() ?? 0;
    now += first;
    expect(lanes.held()).toEqual(['many']);
    now += lanes.heldForMs() ?? 0;
    expect(now - 1_000).toBeGreaterThan(first);
    expect(lanes.held()).toEqual([]);
    expect(lanes.heldForMs()).toBeUndefined();
  });

  it('are bounded over all endpoints', () => {
    for (let run = 0; run < 149; run++) lanes.begin(`endpoint ${run}`, `run ${run}`);
    expect(lanes.full()).toBe(false);
    lanes.begin('another', 'run 150');
    expect(lanes.full()).toBe(true);
    lanes.end('run 7');
    expect(lanes.full()).toBe(false);
  });
});
