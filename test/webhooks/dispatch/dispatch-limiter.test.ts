import { beforeEach, describe, expect, it } from '@jest/globals';
import { DispatchLimiter, REPLAY } from '../../../src/webhooks/dispatch/dispatch-limiter.ts';

let now: number;
let limiter: DispatchLimiter;

const healthy = { count: 1, isFailing: false, isProven: true };
/** A claim that took so many deliveries of these endpoints, all that they had. */
const claimed = (counts: Record<string, Partial<typeof healthy>>, turns: string[] = []) =>
  limiter.claimed({
    counts: new Map(Object.entries(counts).map(([id, count]) => [id, { ...healthy, ...count }])),
    perEndpoint: 100,
    turns,
  });

beforeEach(() => {
  now = 1_000;
  limiter = new DispatchLimiter(() => now);
});

describe('the runs of an endpoint', () => {
  it('are four: a fifth run waits until one of them has ended', () => {
    for (const run of ['r1', 'r2', 'r3']) limiter.begin('a', run);
    expect(limiter.throttled()).toEqual([]);
    limiter.begin('a', 'r4');
    limiter.begin('b', 'r5');
    expect(limiter.throttled()).toEqual(['a']);
    expect(limiter.end('r2')).toMatchObject({ key: 'a' });
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
    expect(limiter.room()).toBe(16);
    limiter.begin('fast', 'another');
    expect(limiter.throttled()).not.toContain('fast');
    limiter.end('run 3');
    expect(limiter.throttled()).not.toContain('slow 3');
  });

  it('wait a little after a claim that left nothing, longer after one of many', () => {
    claimed({ one: { count: 1 }, many: { count: 30 } });
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
    claimed({ bad: { isFailing: true }, good: { count: 30 } });
    now += limiter.throttledForMs() ?? 0;
    expect(limiter.throttled()).toEqual(['bad']);
    now += 500;
    expect(limiter.throttled()).toEqual(['bad']);
    // it has its turn in a claim of its own, and the others are not asked for it again and again
    expect(limiter.throttledForMs()).toBeUndefined();
  });

  it('wait longest for a minute at an endpoint that sends long responses', () => {
    limiter.begin('long', 'run/1');
    limiter.end('run/1', { costly: true });
    claimed({ long: {}, short: {} });
    now += 500;
    expect(limiter.throttled()).toEqual(['long']);
    expect(limiter.costly()).toEqual(['long']);
    now += 60_000;
    claimed({ long: {} });
    now += 500;
    expect(limiter.throttled()).toEqual([]);
    expect(limiter.costly()).toEqual([]);
  });

  it('are bounded over all endpoints, but for those that wait for their endpoint', () => {
    for (let run = 0; run < 12; run++) limiter.begin(`endpoint ${run}`, `run ${run}`);
    expect(limiter.room()).toBe(4);
    limiter.begin('another', 'run 12');
    expect(limiter.room()).toBe(0);
    limiter.end('run 7');
    expect(limiter.room()).toBe(4);
    now += 500;
    expect(limiter.room()).toBe(16);
  });

  it('are one for each endpoint while the worker has enough to do', () => {
    limiter.begin('a', 'run of a');
    expect(limiter.throttled()).toEqual([]);
    expect(limiter.isBusy()).toBe(false);
    for (let run = 0; run < 5; run++) limiter.begin(`endpoint ${run}`, `run ${run}`);
    expect(limiter.isBusy()).toBe(true);
    expect(limiter.throttled()).toContain('a');
    limiter.end('run 0');
    expect(limiter.throttled()).toEqual([]);
  });
});

describe('endpoints that fail, or have never succeeded', () => {
  it('take turns, and a healthy one is not among them', () => {
    claimed({ good: {}, new: { isProven: false }, bad: { isFailing: true }, worse: { isFailing: true } });
    expect(limiter.costly()).toEqual(['new', 'bad', 'worse']);
    now += 1_000;
    expect(limiter.turns()).toEqual(['new']);
    claimed({ new: { isProven: false } }, ['new']);
    limiter.begin('new', 'run 1');
    expect(limiter.turns()).toEqual([]);
    now += 250;
    expect(limiter.turns()).toEqual(['bad']);
    claimed({ bad: { isFailing: true } }, ['bad']);
    limiter.begin('bad', 'run 2');
    now += 250;
    expect(limiter.turns()).toEqual(['worse']);
  });

  it('have a turn every five seconds, however many of their runs begin beside', () => {
    claimed({ bad: { isFailing: true }, worse: { isFailing: true } });
    now += 1_000;
    expect(limiter.turns()).toEqual(['bad']);
    claimed({}, ['bad']);
    for (let ms = 0; ms < 4_900; ms += 100) {
      limiter.begin('worse', `run ${ms}`);
      limiter.end(`run ${ms}`);
      now += 100;
    }
    expect(limiter.turns()).toEqual([]);
    now += 200;
    expect(limiter.turns()).not.toEqual([]);
  });

  it('have few runs at once that are making progress', () => {
    expect(limiter.costlyRoom()).toBe(4);
    claimed({ a: { isProven: false }, b: { isFailing: true }, good: {} });
    for (const id of ['a', 'b', 'good']) limiter.begin(id, `run of ${id}`);
    expect(limiter.costlyRoom()).toBe(2);
    limiter.end('run of a', { delivered: true });
    expect(limiter.costlyRoom()).toBe(3);
    // it waits for its endpoint
    now += 500;
    expect(limiter.costlyRoom()).toBe(4);
  });

  it('that have nothing due do not keep the others from their turn', () => {
    claimed({ a: { isFailing: true }, b: { isFailing: true }, c: { isFailing: true } });
    now += 1_000;
    expect(limiter.turns()).toEqual(['a']);
    claimed({}, ['a']);
    expect(limiter.turns()).toEqual(['b']);
    claimed({}, ['b']);
    expect(limiter.turns()).toEqual(['c']);
    now += 1_000;
    expect(limiter.turns()).toEqual(['c']);
  });

  it('are like the others as soon as something is delivered', () => {
    claimed({ new: { isProven: false }, bad: { isFailing: true } });
    limiter.begin('new', 'run 1');
    limiter.begin('bad', 'run 2');
    limiter.end('run 1', { delivered: true });
    limiter.end('run 2', { delivered: false });
    expect(limiter.costly()).toEqual(['bad']);
    claimed({ bad: {} });
    expect(limiter.costly()).toEqual([]);
  });

  it('get their next run as soon as something is delivered, also when they had a turn for which nothing was due', () => {
    claimed({ new: { isProven: false } });
    limiter.begin('new', 'run 1');
    now += 300;
    expect(limiter.turns()).toEqual(['new']);
    claimed({}, ['new']);
    limiter.end('run 1', { delivered: true });
    expect(limiter.costly()).toEqual([]);
    expect(limiter.throttled()).toEqual([]);
  });

  it('count as such for a minute after their last run', () => {
    claimed({ bad: { isFailing: true } });
    now += 59_000;
    expect(limiter.costly()).toEqual(['bad']);
    now += 2_000;
    expect(limiter.costly()).toEqual([]);
  });
});
