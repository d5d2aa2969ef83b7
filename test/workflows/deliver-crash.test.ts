import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { DeliverDeps } from '../../src/activities/deliver.ts';
import type { Db } from '../../src/db/driver/client.ts';
import { newId } from '../../src/new-id.ts';
import { startDeliveryRun } from '../../src/webhooks/dispatch/delivery-runs.ts';
import { unstartedRuns } from '../../src/webhooks/dispatch/delivery-queries.ts';
import { claimOnce } from '../helpers/assert/queue.ts';
import { deliveryWorkflowId } from '../../src/workflows/names.ts';
import { type Deliveries, deliveryTests } from '../helpers/product/deliveries.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/*
 * A delivery: (1) the claim is committed, (2) the run is started, (3) that is recorded, (4) the call is answered, (5) the
 * result is committed, (6) the activity's answer reaches Temporal, (7) a separate run is started for one that failed in
 * a batch. After a crash just after each step, nothing is lost, and only a call between (4) and (5) is made twice.
 */

const startDeliveries = deliveryTests();
let the: Deliveries;

beforeEach(async () => {
  the = await startDeliveries();
  await the.endpoint();
});
afterEach(async () => {
  expect(the.receiver.faults).toEqual([]);
  await the.stop();
});

const emails = (count: number) => Array.from({ length: count }, () => newId('email'));

const claim = () => claimOnce(the.db);

/** How often each delivery was reported, and how each one stands. */
async function outcome() {
  const log = await the.log();
  const reported = log.map(
    ({ id }) => the.receiver.calls.filter((call) => call.headers['x-email-engine-delivery'] === id).length,
  );
  const attempts = await Promise.all(log.map(({ id }) => the.attempts(id)));
  return {
    reported,
    stands: log.map(({ status, attemptsCount }, index) => `${status} ${attemptsCount}/${attempts[index]?.length}`),
  };
}

const all = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

/** Throws the first time that it is called. */
function once(error = new Error('killed')) {
  let thrown = false;
  return () => {
    if (thrown) return;
    thrown = true;
    throw error;
  };
}

describe('a delivery whose worker is lost', () => {
  it.each([1, 5])('after the claim: %i are started by the next check', async (count) => {
    await the.work();
    await the.happen(emails(count));
    const claimed = await claim();
    expect(await unstartedRuns(the.db, 60_000)).toEqual([]);
    const found = await unstartedRuns(the.db, 0);
    expect(found).toEqual(claimed);
    for (const run of found) await startDeliveryRun(the.client, run);
    await the.end(found[0]?.workflowId ?? '');
    expect(await outcome()).toEqual({ reported: all(count, 1), stands: all(count, 'delivered 1/1') });
  });

  it('after the start, before it was recorded: starting it again does nothing', async () => {
    await the.work();
    await the.happen(emails(6));
    const [run] = await claim();
    if (!run) throw new Error('nothing was claimed');
    await startDeliveryRun(the.client, run);
    for (const found of await unstartedRuns(the.db, 0)) await startDeliveryRun(the.client, found);
    await the.end(run.workflowId);
    await startDeliveryRun(the.client, run);
    expect(await outcome()).toEqual({ reported: all(6, 1), stands: all(6, 'delivered 1/1') });
    expect(await unstartedRuns(the.db, 0)).toEqual([]);
  });

  it.each([1, 6])('after the answer, before its result: of %i only that one is reported twice', async (count) => {
    const kill = once();
    const poster: DeliverDeps['poster'] = {
      post: async (request) => {
        const result = await the.poster.post(request);
        kill();
        return result;
      },
    };
    await the.work({ poster });
    await the.happen(emails(count));
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    const { reported, stands } = await outcome();
    expect(reported.sort()).toEqual([...all(count - 1, 1), 2]);
    expect(stands).toEqual(all(count, 'delivered 1/1'));
  });

  it.each([1, 6])('after the result: none of %i is reported twice', async (count) => {
    const kill = once();
    await the.work({}, (real) => ({
      attemptDeliveries: async (input) => {
        const result = await real.attemptDeliveries(input);
        kill();
        return result;
      },
    }));
    await the.happen(emails(count));
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    expect(await outcome()).toEqual({ reported: all(count, 1), stands: all(count, 'delivered 1/1') });
  });

  it('after a failed result in a batch: it continues in its own run, and nothing is attempted out of turn', async () => {
    const kill = once();
    await the.work({}, (real) => ({
      attemptDeliveries: async (input) => {
        const result = await real.attemptDeliveries(input);
        kill();
        return result;
      },
    }));
    const objects = emails(4);
    the.receiver.answer = ({ event }) =>
      (event.data.email as { id: string }).id === objects[1] && the.receiver.calls.length < 5 ? 500 : 200;
    await the.happen(objects);
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    const failed = (await the.log())[1]?.id ?? '';
    await the.end(deliveryWorkflowId(failed));
    expect((await outcome()).stands).toEqual([
      'delivered 1/1',
      expect.stringMatching(/^delivered [23]\/[23]$/),
      'delivered 1/1',
      'delivered 1/1',
    ]);
    expect((await outcome()).reported.filter((times) => times === 1)).toHaveLength(3);
  });

  it('after the result of a retry: the retry is not made twice', async () => {
    let calls = 0;
    await the.work({}, (real) => ({
      attemptDeliveries: async (input) => {
        const result = await real.attemptDeliveries(input);
        calls += 1;
        if (calls === 2) throw new Error('killed');
        return result;
      },
    }));
    the.receiver.answer = () => (the.receiver.calls.length < 2 ? 500 : 200);
    await the.happen();
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    expect(await outcome()).toEqual({ reported: [3], stands: ['delivered 3/3'] });
  });
});

describe('a store that is unavailable', () => {
  it('when results are due: they wait until it is back, and no event is recorded twice', async () => {
    let away = 0;
    // every statement that stores results fails three times
    const db = new Proxy(the.db, {
      get(target, name: keyof Db) {
        if (name !== 'execute') return Reflect.get(target, name) as unknown;
        return (statement: Parameters<Db['execute']>[0]) => {
          const writes = JSON.stringify(statement, (key, value: unknown) => (key === 'table' ? undefined : value));
          if (writes.includes('insert into delivery_attempts') && away++ < 3) throw new Error('the store is away');
          return target.execute(statement);
        };
      },
    });
    await the.work({ db });
    await the.happen(emails(5));
    const [run] = await the.relayOnce();
    await the.end(run?.workflowId ?? '');
    expect(away).toBeGreaterThan(3);
    expect(await outcome()).toEqual({ reported: all(5, 1), stands: all(5, 'delivered 1/1') });
  });
});

describe('a store that is slow', () => {
  /** The store, whose results are not stored before `proceed` is called. */
  function slowStore(): { db: Db; proceed(): void } {
    let proceed = () => {};
    const held = new Promise<void>((resolve) => (proceed = resolve));
    const db = new Proxy(the.db, {
      get(target, name: keyof Db) {
        if (name !== 'execute') return Reflect.get(target, name) as unknown;
        return async (statement: Parameters<Db['execute']>[0]) => {
          const writes = JSON.stringify(statement, (key, value: unknown) => (key === 'table' ? undefined : value));
          if (writes.includes('insert into delivery_attempts')) await held;
          return target.execute(statement);
        };
      },
    });
    return { db, proceed: () => proceed() };
  }

  it('keeps no calls of other objects waiting, up to a bound; the next of an object waits', async () => {
    const { db, proceed } = slowStore();
    await the.work({ db });
    const objects = emails(30);
    await the.happen([...objects, ...objects.slice(0, 5)]);
    const runs = await the.relayOnce();
    await waitFor(() => the.receiver.calls.length === 20);
    proceed();
    for (const { workflowId } of runs) await the.end(workflowId);
    expect(await outcome()).toEqual({ reported: all(35, 1), stands: all(35, 'delivered 1/1') });
    expect(the.receiver.calls.slice(0, 20).filter(({ event }) => event.sequence > 30)).toEqual([]);
  });

  it('has what failed keep its call until that is stored: the breaker knows of it first', async () => {
    const { db, proceed } = slowStore();
    await the.work({ db, webhook: { retryScheduleMs: [3_600_000], timeoutMs: 5_000 } });
    the.receiver.answer = () => 503;
    await the.happen(emails(30));
    const [run] = await the.relayOnce();
    await waitFor(() => the.receiver.calls.length === 10);
    proceed();
    await the.end(run?.workflowId ?? '');
    expect(the.receiver.calls.length).toBeLessThanOrEqual(20);
    expect((await the.log()).filter(({ attemptsCount }) => attemptsCount > 0)).toHaveLength(the.receiver.calls.length);
  });
});

describe('a worker that is asked to end', () => {
  it('gives up a call that is not answered soon, without counting it as an attempt', async () => {
    const { poster } = the;
    let hung = 0;
    const shutdown = new AbortController();
    await the.work({
      shutdown: shutdown.signal,
      poster: {
        post: (request) =>
          new Promise((_, reject) => {
            hung += 1;
            request.signal?.addEventListener('abort', () => reject(request.signal?.reason as Error));
          }),
      },
    });
    await the.happen();
    const [run] = await the.relayOnce();
    await waitFor(() => hung === 1);
    shutdown.abort();
    await the.stopWork();
    expect(await outcome()).toEqual({ reported: [0], stands: ['pending 0/0'] });
    await the.work({ poster });
    await the.end(run?.workflowId ?? '');
    expect(await outcome()).toEqual({ reported: [1], stands: ['delivered 1/1'] });
  });
});
