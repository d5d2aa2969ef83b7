import { beforeEach, describe, expect, it } from '@jest/globals';
import { createDispatchLimiter, type DispatchLimiter, REPLAY } from '../../src/webhooks/dispatch-limiter.ts';

let now: number;
let limiter: DispatchLimiter;

beforeEach(() => {
  now = 1_000;
  limiter = createDispatchLimiter(() => now);
});

describe('the runs of an endpoint', () => {
  it('are four: a fifth run waits until one of them has ended', () => {
    for (const run of ['r1', 'r2', 'r3']) limiter.begin('a', run);
    expect(limiter.throttled()).toEqual([]);
    limiter.begin('a', 'r4');
    limiter.begin('b', 'r5');
    expect(limiter.throttled()).toEqual(['a']);
    expect(limiter.end('r2')).toBe('a');
    expect(limiter.throttled()).toEqual([]);
    expect(limiter.end('r2')).toBeUndefined();
  });

  it('count no more when there is no news of them', () => {
    for (const run of ['r1', 'r2', 'r3', 'r4']) limiter.begin('a', run);
    now += 30_000;
    limiter.renew('r1');
    now += 20_000;
    expect(limiter.throttled()).toEqual(['a']);
    expect(['r1', 'r2', 'r3', 'r4'].filter((run) => limiter.isUnderWay(run))).toEqual(['r1']);
    limiter.end('r1');
    expect(limiter.throttled()).toEqual([]);
  });

  it('of a replay are one, and take nothing from those of live events', () => {
    limiter.begin(`${REPLAY}a`, 'r1');
    expect(limiter.throttled()).toEqual([`${REPLAY}a`]);
    now += 30_000;
    expect(limiter.throttled()).toEqual([`${REPLAY}a`]);
    limiter.end('r1');
    expect(limiter.throttled()).toEqual([]);
  });

  it('are one while it is slow, and slow ones leave other endpoints what they may have', () => {
    for (let run = 0; run < 200; run++) {
      limiter.begin(`slow ${run}`, `run ${run}`);
      now += 10;
    }
    now += 1_000;
    expect(limiter.throttled()).toHaveLength(200);
    expect(limiter.isFull()).toBe(false);
    limiter.begin('fast', 'another');
    expect(limiter.throttled()).not.toContain('fast');
    limiter.end('run 3');
    expect(limiter.throttled()).not.toContain('slow 3');
  });

  it('wait a little after a claim that left nothing, longer after one of many', () => {
    limiter.drained('one', 1);
    limiter.drained('many', 30);
    expect(limiter.throttled()).toEqual(['one', 'many']);
    const first = limiter.throttledForMs() ?? 0;
    now += first;
    expect(limiter.throttled()).toEqual(['many']);
    now += limiter.throttledForMs() ?? 0;
    expect(now - 1_000).toBeGreaterThan(first);
    expect(limiter.throttled()).toEqual([]);
    expect(limiter.throttledForMs()).toBeUndefined();
  });

  it('wait longest at an endpoint that fails', () => {
    limiter.drained('bad', 1, true);
    limiter.drained('good', 30);
    now += limiter.throttledForMs() ?? 0;
    expect(limiter.throttled()).toEqual(['bad']);
    expect(limiter.throttledForMs()).toBeGreaterThanOrEqual(500);
  });

  it('wait longest for a minute at an endpoint that sends long responses', () => {
    limiter.begin('long', 'run/1');
    limiter.end('run/1', true);
    limiter.drained('long', 1);
    limiter.drained('short', 1);
    now += 500;
    expect(limiter.throttled()).toEqual(['long']);
    now += 60_000;
    limiter.drained('long', 1);
    now += 500;
    expect(limiter.throttled()).toEqual([]);
  });

  it('are bounded over all endpoints', () => {
    for (let run = 0; run < 149; run++) limiter.begin(`endpoint ${run}`, `run ${run}`);
    expect(limiter.isFull()).toBe(false);
    limiter.begin('another', 'run 150');
    expect(limiter.isFull()).toBe(true);
    limiter.end('run 7');
    expect(limiter.isFull()).toBe(false);
  });
});
