import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import { webhookEndpoints } from '../../src/db/schema/index.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { hurryRun, retryDelivery } from '../../src/webhooks/dispatch/retry-delivery.ts';
import { type AttemptResult, failDeliveries, recordAttemptResults } from '../../src/webhooks/log/delivery-state.ts';
import { createLostRuns } from '../../src/webhooks/dispatch/lost-runs.ts';
import { claimOnce } from '../helpers/assert/queue.ts';
import { deliveryWorkflowId } from '../../src/workflows/names.ts';
import { type Deliveries, deliveryTests } from '../helpers/product/deliveries.ts';
import { isLong } from '../helpers/runner/long.ts';
import type { Call } from '../helpers/fakes/receiver.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** The order of deliveries, endpoints that are unavailable, and runs that an operator resets, cancels or terminates. */

const startDeliveries = deliveryTests();
let the: Deliveries;
let endpointId: string;

beforeEach(async () => {
  the = await startDeliveries();
  endpointId = await the.provenEndpoint();
});
afterEach(async () => {
  expect(the.receiver.faults).toEqual([]);
  await the.stop();
});

const objectOf = (call: Call) => (call.event.data.email as { id: string }).id;
const HOUR = 3_600_000;
const emails = (count: number) => Array.from({ length: count }, () => newId('email'));
const endpoint = async () =>
  (await the.db.select().from(webhookEndpoints).where(eq(webhookEndpoints.id, endpointId)))[0]!;
const claim = () => claimOnce(the.db);
const idsOf = (runs: Awaited<ReturnType<typeof claim>>) => runs.flatMap((run) => run.deliveries.map(({ id }) => id));
const statuses = async () => (await the.log()).map(({ status }) => status);
/** Gives deliveries to runs until none is pending. */
const relayUntilDone = () =>
  waitFor(
    async () => {
      await the.relayOnce();
      return !(await statuses()).includes('pending');
    },
    { what: 'the end of all deliveries', timeoutMs: 60_000 },
  );

describe('deliveries of one object to one endpoint', () => {
  it('wait while an earlier one is to be attempted again; other objects do not', async () => {
    await the.work({ webhook: { retryScheduleMs: [400], timeoutMs: 5_000 } });
    const [bad = '', good = ''] = emails(2);
    the.receiver.answer = (call) => (objectOf(call) === bad && the.receiver.calls.length === 0 ? 500 : 200);
    await the.happen([bad, bad]);
    await the.relayOnce();
    await waitFor(() => the.receiver.calls.length === 1);
    await the.happen([good, bad]);
    await relayUntilDone();
    const sequences = (object: string) =>
      the.receiver.calls.filter((call) => objectOf(call) === object).map(({ event }) => event.sequence);
    expect(sequences(bad)).toEqual([1, 1, 2, 4]);
    const goodAt = the.receiver.calls.findIndex((call) => objectOf(call) === good);
    const secondAt = the.receiver.calls.findIndex((call) => call.event.sequence === 2);
    expect(goodAt).toBeLessThan(secondAt);
  });

  it('arrive in order with random failures, in whatever runs they are', async () => {
    await the.work({ webhook: { retryScheduleMs: [20, 40, 60, 80, 100, 100, 100, 100], timeoutMs: 5_000 } });
    const objects = emails(isLong() ? 12 : 5);
    const rounds = isLong() ? 5 : 3;
    the.receiver.answer = () => (Math.random() < 0.3 ? 500 : 200);
    for (let round = 0; round < rounds; round++) {
      await the.happen(objects.flatMap((object) => [object, object]));
      await the.relayOnce();
    }
    await relayUntilDone();
    expect(new Set(await statuses())).toEqual(new Set(['delivered']));
    for (const object of objects) {
      const taken = the.receiver.calls.filter((call) => objectOf(call) === object && call.status === 200);
      const sequences = taken.map(({ event }) => event.sequence);
      expect(sequences).toEqual(sequences.toSorted((a, b) => a - b));
      expect(sequences).toHaveLength(2 * rounds);
    }
  });

  it('continue when the earlier one is given up', async () => {
    await the.work({ webhook: { retryScheduleMs: [10], timeoutMs: 5_000 } });
    const [object = ''] = emails(1);
    the.receiver.answer = ({ event }) => (event.sequence === 1 ? 500 : 200);
    await the.happen([object, object]);
    await relayUntilDone();
    expect(await statuses()).toEqual(['failed', 'delivered']);
  });

  it('are claimed by one worker at a time', async () => {
    const [object = ''] = emails(1);
    await the.happen(Array.from({ length: 120 }, () => object));
    const claims = await Promise.all(Array.from({ length: 6 }, claim));
    // one run has the object; the others find it taken
    expect(claims.flat()).toHaveLength(1);
    expect(claims.flat()[0]?.deliveries.map(({ sequence }) => sequence)).toEqual(
      Array.from({ length: 10 }, (_, n) => n + 1),
    );
    expect(await claim()).toEqual([]);
  });
});

describe('results', () => {
  const resultOf = (id: string, more: Partial<AttemptResult>): AttemptResult => ({
    deliveryId: id,
    endpointId,
    number: 1,
    at: new Date(),
    url: the.receiver.url,
    httpStatus: 200,
    responseBody: null,
    error: null,
    errorKind: null,
    durationMs: 1,
    status: 'delivered',
    nextAttemptInMs: null,
    workflowId: 'deliver/late',
    attemptedBy: 'deliver/late',
    runs: 1,
    runId: 'late',
    ...more,
  });

  it('that come after the delivery was given to another run count only when they are a success', async () => {
    await the.happen(emails(2));
    const [failed, delivered] = (await the.log()).map(({ id }) => id) as [string, string];
    await claim();
    const late = { status: 'pending', httpStatus: null, nextAttemptInMs: HOUR } as const;
    await recordAttemptResults(the.db, [resultOf(failed, late), resultOf(delivered, {})]);
    expect(await the.log()).toMatchObject([
      { status: 'pending', attemptsCount: 0, workflowId: deliveryWorkflowId(failed) },
      { status: 'delivered', attemptsCount: 1 },
    ]);
  });

  it('of a delivery that has been failed do not make it pending again', async () => {
    await the.happen(emails(1));
    const [id = ''] = (await the.log()).map((row) => row.id);
    const [run] = await claim();
    await failDeliveries(the.db, [id], { workflowId: run!.workflowId, error: 'ended' });
    const own = { workflowId: run!.workflowId, attemptedBy: run!.workflowId };
    await recordAttemptResults(the.db, [resultOf(id, { ...own, status: 'pending', nextAttemptInMs: 0 })]);
    expect((await the.log())[0]).toMatchObject({ status: 'failed', attemptsCount: 0 });
  });
});

describe('an endpoint that does not respond', () => {
  const open = (until = "now() + interval '1 hour'") =>
    the.db.execute(sql`update webhook_endpoints set failures_in_a_row = 10, breaker_openings = 1,
      breaker_until = ${sql.raw(until)} where id = ${endpointId}`);

  it('is left alone after ten failures in a row: what waits is in the store and uses up no attempts', async () => {
    await the.work({ webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 } });
    the.receiver.answer = () => 503;
    await the.happen(emails(60));
    const runs = await the.relayOnce();
    for (const run of runs) await the.end(run.workflowId);
    expect(await endpoint()).toMatchObject({ breakerOpenings: 1, breakerUntil: expect.any(Date) });
    const log = await the.log();
    const attempted = log.filter(({ attemptsCount }) => attemptsCount > 0);
    expect(attempted).toHaveLength(the.receiver.calls.length);
    expect(attempted.length).toBeLessThanOrEqual(30);
    expect(log.every(({ status, attemptsCount }) => status === 'pending' && attemptsCount <= 1)).toBe(true);
    expect(log.filter(({ workflowId, attemptsCount }) => attemptsCount === 0 && workflowId !== null)).toEqual([]);
    expect(await the.relayOnce()).toEqual([]);
  });

  it('gets one probe when its time has come, and everything once that succeeds', async () => {
    await the.work({ webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 } });
    await open("now() - interval '1 second'");
    await the.happen(emails(5));
    const probe = await claim();
    expect(idsOf(probe)).toHaveLength(1);
    expect(await claim()).toEqual([]);
    await the.db.execute(sql`update pending_deliveries set workflow_id = null`);
    await the.db.execute(sql`update webhook_endpoints set breaker_probe_at = null`);
    await relayUntilDone();
    expect(new Set(await statuses())).toEqual(new Set(['delivered']));
    expect(await endpoint()).toMatchObject({ breakerUntil: null, breakerOpenings: 0, failuresInARow: 0 });
  });

  it('waits longer each time that the probe fails, up to ten minutes', async () => {
    await the.work({ webhook: { retryScheduleMs: [HOUR, HOUR, HOUR, HOUR, HOUR, HOUR, HOUR], timeoutMs: 5_000 } });
    the.receiver.answer = () => 503;
    const seconds: number[] = [];
    for (let n = 0; n < 7; n++) {
      await open("now() - interval '1 second'");
      await the.db.execute(sql`update webhook_endpoints set breaker_openings = ${n}`);
      await the.happen(emails(1));
      const [run] = await the.relayOnce();
      await the.end(run?.workflowId ?? '');
      seconds.push(Math.round(((await endpoint()).breakerUntil!.getTime() - Date.now()) / 10_000) * 10);
    }
    expect(seconds).toEqual([30, 60, 120, 240, 480, 600, 600]);
  });

  it('is open for manual retries; one that succeeds resumes everything, including runs that wait', async () => {
    const hurried: string[] = [];
    await the.work({
      webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 },
      hurry: (workflowId) => {
        hurried.push(workflowId);
        return hurryRun(the.client, workflowId);
      },
    });
    the.receiver.answer = () => (the.receiver.calls.length === 0 ? 500 : 200);
    await the.happen(emails(1));
    await the.relayOnce();
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    await open();
    await the.happen(emails(3));
    expect(await the.relayOnce()).toEqual([]);
    const [first, second] = (await the.log()).map(({ id }) => id) as [string, string];
    await retryDelivery(the.client, the.db, second);
    await relayUntilDone();
    expect(await statuses()).toEqual(['delivered', 'delivered', 'delivered', 'delivered']);
    expect(hurried).toEqual([deliveryWorkflowId(first)]);
    expect(await endpoint()).toMatchObject({ breakerUntil: null });
  });

  it('is called for the earlier events of an object when a later one is retried by hand', async () => {
    await the.work();
    await open();
    const [object = ''] = emails(1);
    await the.happen([object, object, object]);
    const [, second] = (await the.log()).map(({ id }) => id) as [string, string];
    the.receiver.answer = () => 503;
    await retryDelivery(the.client, the.db, second);
    const [run] = await the.relayOnce();
    expect(run?.deliveries.map(({ sequence }) => sequence)).toEqual([1, 2]);
    await the.end(run?.workflowId ?? '');
    expect(the.receiver.calls.map(({ event }) => event.sequence)).toEqual([1]);
    // a held-back delivery waits for the previous one, not for the next claim
    expect(await the.relayOnce()).toEqual([]);
  });

  it('leaves nothing to do to a run that wakes up: the delivery waits in the store', async () => {
    await the.work({ webhook: { retryScheduleMs: [300], timeoutMs: 5_000 } });
    the.receiver.answer = () => 500;
    await the.happen(emails(1));
    const [run] = await the.relayOnce();
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    await open();
    await the.end(run?.workflowId ?? '');
    expect((await the.log())[0]).toMatchObject({
      status: 'pending',
      attemptsCount: 1,
      workflowId: null,
      lastWorkflowId: run?.workflowId,
    });
  });

  it('has few runs that wait, whatever fails', async () => {
    await the.work({ webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 } });
    // not treated as unavailable
    the.receiver.answer = () => 404;
    await the.happen(emails(100));
    for (const run of await the.relayOnce()) await the.end(run.workflowId);
    const log = await the.log();
    expect(log.every(({ status, attemptsCount }) => status === 'pending' && attemptsCount === 1)).toBe(true);
    const waiting = log.filter(({ workflowId }) => workflowId !== null).length;
    expect(waiting).toBeGreaterThanOrEqual(5);
    expect(waiting).toBeLessThanOrEqual(10);
    expect((await endpoint()).breakerUntil).toBeNull();
  });

  it('has one run that waits when it has never succeeded', async () => {
    await the.db.update(webhookEndpoints).set({ lastSuccessAt: null });
    await the.work({ webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 } });
    the.receiver.answer = () => 404;
    await the.happen(emails(20));
    for (const run of await the.relayOnce()) await the.end(run.workflowId);
    const log = await the.log();
    expect(log.every(({ status, attemptsCount }) => status === 'pending' && attemptsCount === 1)).toBe(true);
    expect(log.filter(({ workflowId }) => workflowId !== null)).toHaveLength(1);
  });

  it('has one run that waits when it had failed before', async () => {
    await the.work({ webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 } });
    the.receiver.answer = () => 500;
    for (let n = 0; n < 4; n++) {
      await the.happen(emails(1));
      for (const run of await the.relayOnce()) {
        await waitFor(async () => (await the.log()).every(({ attemptsCount }) => attemptsCount === 1));
        // the first one waits
        if (n > 0) await the.end(run.workflowId);
      }
    }
    const waiting = (await the.log()).map(({ workflowId }) => workflowId !== null);
    expect(waiting.filter(Boolean)).toEqual([true]);
  });
});

describe('a run that an operator', () => {
  const oneFailing = async (retryScheduleMs: number[]) => {
    await the.work({ webhook: { retryScheduleMs, timeoutMs: 5_000 } });
    the.receiver.answer = () => 500;
    await the.happen(emails(1));
    const [run] = await the.relayOnce();
    return { id: run?.deliveries[0]?.id ?? '', workflowId: run?.workflowId ?? '' };
  };
  const reset = async (workflowId: string, where: 'first' | 'last') => {
    const handle = the.client.workflow.getHandle(workflowId);
    const { runId } = await handle.describe();
    // the row can show an attempt whose workflow task has not completed
    const tasks = await waitFor(async () => {
      const { events } = await handle.fetchHistory();
      const completed = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
      return completed.length > 0 && completed;
    });
    const task = where === 'first' ? tasks[0] : tasks.at(-1);
    await the.client.workflowService.resetWorkflowExecution({
      namespace: the.client.options.namespace,
      workflowExecution: { workflowId, runId },
      workflowTaskFinishEventId: task!.eventId!,
      requestId: newId('event'),
      reason: 'test',
    });
  };

  it.each(['first', 'last'] as const)('resets to its %s task after it failed makes another attempt', async (where) => {
    const { id, workflowId } = await oneFailing([10]);
    await expect(the.end(workflowId)).rejects.toMatchObject({
      cause: { message: expect.stringMatching(new RegExp(`^gave up ${id}: attempt 2 at 20.*: HTTP 500$`)) },
    });
    the.receiver.answer = () => 200;
    await reset(workflowId, where);
    await the.end(workflowId);
    expect((await the.log())[0]).toMatchObject({ status: 'delivered', attemptsCount: 3, workflowId });
    const { calls } = the.receiver;
    expect(calls).toHaveLength(3);
    expect(calls[2]?.body.equals(calls[0]!.body)).toBe(true);
    // a failed one has the whole schedule again
    the.receiver.answer = () => 500;
    await reset(workflowId, 'first');
    await expect(the.end(workflowId)).rejects.toThrow();
    expect((await the.log())[0]).toMatchObject({ status: 'failed', attemptsCount: 5 });
  });

  it('cancels leaves a delivery that has failed, and says so', async () => {
    const { workflowId } = await oneFailing([HOUR]);
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    await the.client.workflow.getHandle(workflowId).cancel();
    await expect(the.end(workflowId)).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    expect((await the.log())[0]).toMatchObject({
      status: 'failed',
      error: 'its run was cancelled',
      nextAttemptAt: null,
    });
  });

  it('terminates leaves a delivery that has failed within one check; a retry delivers it', async () => {
    const { id, workflowId } = await oneFailing([HOUR]);
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    const lostRuns = createLostRuns({ db: the.db, client: the.client, logger: createLogger('silent', 'test') });
    await the.client.workflow.getHandle(workflowId).terminate();
    await waitFor(async () => {
      await lostRuns.findTerminated();
      return (await statuses())[0] === 'failed';
    });
    expect((await the.log())[0]).toMatchObject({ error: 'its run was ended before the delivery was made' });
    the.receiver.answer = () => 200;
    await retryDelivery(the.client, the.db, id);
    await relayUntilDone();
    expect(await statuses()).toEqual(['delivered']);
  });

  it('resets while it waits is not treated as terminated', async () => {
    const { workflowId } = await oneFailing([HOUR]);
    await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
    the.receiver.answer = () => 200;
    await reset(workflowId, 'first');
    const lostRuns = createLostRuns({ db: the.db, client: the.client, logger: createLogger('silent', 'test') });
    await lostRuns.findTerminated();
    await the.end(workflowId);
    expect((await the.log())[0]).toMatchObject({ status: 'delivered', attemptsCount: 2 });
  });
});

it('after a replacement of the store of Temporal, pending deliveries whose runs are lost get new ones', async () => {
  await the.work();
  const lostRuns = createLostRuns({ db: the.db, client: the.client, logger: createLogger('silent', 'test') });
  await lostRuns.findLostStore();
  await the.happen(emails(7));
  // given to runs that Temporal does not know, as after the loss of its store
  await claim();
  await the.db.execute(sql`update pending_deliveries set started_at = now()`);
  await lostRuns.findLostStore();
  expect(await claim()).toEqual([]);
  await the.db.execute(sql`update installation set value = 'default of another store'`);
  await lostRuns.findLostStore();
  await relayUntilDone();
  expect(the.receiver.calls).toHaveLength(7);
});
