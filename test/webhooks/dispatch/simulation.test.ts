import { afterEach, describe, expect, it } from '@jest/globals';
import { newId } from '../../../src/new-id.ts';
import { Random } from '../../chaos/random.ts';
import { type Answer, type Call, SimulatedDispatch } from '../../helpers/fakes/simulated-dispatch.ts';
import { isLong } from '../../helpers/runner/long.ts';

/*
 * Thousands of random arrivals, failures and slow endpoints in virtual time, on the real relay, claims, attempts and store.
 * `SIMULATION_SEED` replays one.
 */

const SEED = Number(process.env.SIMULATION_SEED ?? Math.floor(Math.random() * 1e9));
const ARRIVALS_MS = isLong() ? 600_000 : 60_000;
const OF_EACH_KIND = isLong() ? 3 : 2;
const EVERY_MS = 250;

let the: SimulatedDispatch;
afterEach(() => the.stop());

/** How an endpoint answers, in the time before all of them are mended. */
type Kind = (random: Random, call: Call) => Answer;

const takes = (random: Random): Answer => ({ status: 200, afterMs: 2 + random.below(30) });
const KINDS: Readonly<Record<string, Kind>> = {
  healthy: takes,
  'refuses some': (random) => (random.chance(0.5) ? { status: 422, afterMs: 5 } : takes(random)),
  slow: (random) => ({ status: 200, afterMs: 400 + random.below(3_000) }),
  fails: () => ({ status: 500, afterMs: 3 }),
  hangs: () => ({ status: 504, afterMs: 30_000 }),
  'is away at times': (random, { at }) => (at % 40_000 < 15_000 ? { status: 503, afterMs: 10 } : takes(random)),
  'sends long responses': (random) => ({ ...takes(random), body: 'x'.repeat(16 * 1024) }),
};

const endpointAndObject = ({ endpointId, objectId }: Call) => `${endpointId} ${objectId}`;
const most = (values: readonly number[]) => values.reduce((a, b) => Math.max(a, b), 0);

function byKey<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

/** Calls of an object at an endpoint that began before an earlier one of it had ended, or after a later one. */
function outOfOrder(calls: readonly Call[]): string[] {
  return [...byKey(calls, endpointAndObject).values()].flatMap((ofObject) =>
    ofObject.slice(1).flatMap((call, n) => {
      const before = ofObject[n] as Call;
      const follows = before.endedAt !== undefined && before.endedAt <= call.at && before.sequence <= call.sequence;
      return follows ? [] : [`${before.sequence} at ${before.at}, then ${call.sequence} at ${call.at}`];
    }),
  );
}

describe('a queue with endpoints of every kind', () => {
  it(`delivers all in order, and no endpoint makes another wait (seed ${SEED})`, async () => {
    the = await SimulatedDispatch.start();
    const random = new Random(SEED);
    let areMended = false;
    const kinds = new Map<string, string>();
    const accountId = await the.account();
    for (let n = 0; n < OF_EACH_KIND; n++) {
      for (const [kind, answer] of Object.entries(KINDS)) {
        const id = await the.endpoint(accountId, (call) => (areMended ? takes : answer)(random, call));
        kinds.set(id, kind);
      }
    }
    const objects = Array.from({ length: 60 }, () => newId('email'));
    const arrivedAt = new Map<number, number>();
    const arrivals = (async () => {
      for (let sequence = 0; the.now < ARRIVALS_MS; ) {
        await new Promise((resolve) => setTimeout(resolve, random.below(2 * EVERY_MS)));
        const together = Array.from({ length: 1 + random.below(3) }, () => random.pick(objects) as string);
        together.forEach((_, n) => arrivedAt.set(sequence + n + 1, the.now));
        sequence += together.length;
        await the.happen(accountId, together);
      }
    })();
    let areIn = false;
    void arrivals.then(() => (areIn = true));
    await the.run(() => areIn);
    areMended = true;
    const mendedAt = the.now;
    // the breaker of an endpoint opens for ten minutes at most
    await the.run(async () => the.now > mendedAt + 1_000_000 || (await the.counts()).pending === undefined);

    const { delivered = 0, failed = 0, ...others } = await the.counts();
    expect(others).toEqual({});
    expect(delivered + failed).toBe(kinds.size * arrivedAt.size);
    expect(delivered).toBeGreaterThan(failed);
    expect(outOfOrder(the.calls)).toEqual([]);
    const twice = byKey(
      the.calls.filter(({ status }) => status === 200),
      ({ endpointId, sequence }) => `${endpointId} ${sequence}`,
    );
    expect([...twice.values()].filter(({ length }) => length > 1)).toEqual([]);
    expect(most(the.calls.map(({ working }) => working))).toBeLessThanOrEqual(16);
    expect(most(the.calls.map(({ poorWorking }) => poorWorking))).toBeLessThanOrEqual(2);
    const waits = the.calls
      .filter(({ endpointId }) => kinds.get(endpointId) === 'healthy')
      .map(({ at, sequence }) => at - (arrivedAt.get(sequence) ?? Number.NaN));
    expect(waits).toHaveLength(OF_EACH_KIND * arrivedAt.size);
    expect(most(waits)).toBeLessThan(1_500);
  }, 240_000);
});

describe('an endpoint whose breaker is open', () => {
  it('is called by single probes, and gets what waits for it once it is back', async () => {
    the = await SimulatedDispatch.start();
    let isBack = false;
    const accountId = await the.account();
    await the.endpoint(accountId, () => ({ status: isBack ? 200 : 503, afterMs: 5 }));
    const objects = Array.from({ length: 200 }, () => newId('email'));
    await the.happen(accountId, objects);
    await the.run(() => the.now > 300_000);
    const probes = the.calls.filter(({ at }) => at > 30_000);
    // after 30 s, 60 s more, 120 s more, …
    expect(probes.length).toBeGreaterThanOrEqual(3);
    expect(probes.length).toBeLessThanOrEqual(5);
    isBack = true;
    const backAt = the.now;
    await the.run(async () => the.now > backAt + 400_000 || (await the.counts()).pending === undefined);
    expect(Object.keys(await the.counts())).toEqual(['delivered']);
    expect(outOfOrder(the.calls)).toEqual([]);
  }, 120_000);
});

describe('an endpoint with a replay whose breaker is open', () => {
  it('is probed, and gets all, although live events follow replayed ones of their object', async () => {
    the = await SimulatedDispatch.start();
    let isBack = false;
    const accountId = await the.account();
    await the.endpoint(accountId, () => ({ status: isBack ? 200 : 503, afterMs: 5 }));
    const objects = Array.from({ length: 12 }, () => newId('email'));
    await the.happen(accountId, objects);
    await the.run(() => the.calls.length >= 10);
    await the.queueAsReplayed(objects);
    await the.happen(accountId, objects);
    isBack = true;
    const backAt = the.now;
    await the.run(async () => the.now > backAt + 400_000 || (await the.counts()).pending === undefined);
    expect(Object.keys(await the.counts())).toEqual(['delivered']);
    expect(outOfOrder(the.calls)).toEqual([]);
  }, 120_000);
});

describe('more backlogs than places', () => {
  it('are served in turn: the first call of each comes soon', async () => {
    the = await SimulatedDispatch.start({ runMs: 4 });
    const accountId = await the.account();
    const count = 18;
    for (let n = 0; n < count; n++) await the.endpoint(accountId, () => ({ status: 200, afterMs: 20 }));
    const objects = Array.from({ length: 500 }, () => newId('email'));
    await the.happen(accountId, objects);
    const began = the.now;
    await the.run(async () => the.now > began + 600_000 || (await the.counts()).pending === undefined);
    const firsts = [...byKey(the.calls, ({ endpointId }) => endpointId).values()].map(
      (calls) => (calls[0] as Call).at - began,
    );
    expect(firsts).toHaveLength(count);
    // a turn takes 0.2 s, and the whole backlog of an endpoint five turns
    expect(most(firsts)).toBeLessThan(700);
    expect(outOfOrder(the.calls)).toEqual([]);
  }, 240_000);
});
