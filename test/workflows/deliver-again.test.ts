import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import type { AttemptedDeliveries } from '../../src/activities/deliver.ts';
import { createReplay, getReplay } from '../../src/db/queries/replays.ts';
import { webhookEndpoints } from '../../src/db/schema/index.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { deleteEndpoint } from '../../src/db/queries/endpoints.ts';
import { newId } from '../../src/new-id.ts';
import { onMeasured } from '../../src/runtime/measure.ts';
import { createLostRuns } from '../../src/webhooks/dispatch/lost-runs.ts';
import { queueReplayed } from '../../src/webhooks/log/replay-queue.ts';
import { cancelReplay } from '../../src/webhooks/log/replay-state.ts';
import { retryDelivery } from '../../src/webhooks/dispatch/retry-delivery.ts';
import { WORKFLOWS } from '../../src/workflows/names.ts';
import { type Deliveries, deliveryTests } from '../helpers/product/deliveries.ts';
import { isLong } from '../helpers/runner/long.ts';
import { claimOnce } from '../helpers/assert/queue.ts';
import type { Call } from '../helpers/fakes/receiver.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** Repeated deliveries while others of their object, or the end of their run, are under way. */

// a worker that begins where another has ended gets some tasks only after Temporal's timeout of 10 s
jest.setTimeout(120_000);

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

const HOUR = 3_600_000;
const emails = (count: number) => Array.from({ length: count }, () => newId('email'));
const statuses = async () => (await the.log()).map(({ status }) => status);
const relayUntilDone = () =>
  waitFor(
    async () => {
      await the.relayOnce();
      return !(await statuses()).includes('pending');
    },
    { what: 'the end of all deliveries', timeoutMs: 60_000 },
  );

/** An endpoint that does not answer the first call of an event until `answer` is called. */
function slowFor(sequence: number): { begun(): boolean; underWay(): number[]; answer(): void } {
  let answer = () => {};
  let begun = false;
  const underWay: number[] = [];
  const held = new Promise<void>((resolve) => (answer = resolve));
  the.receiver.answer = async ({ event }: Call) => {
    underWay.push(event.sequence);
    if (event.sequence === sequence && !begun) {
      begun = true;
      await held;
      underWay.push(-sequence);
    }
    return 200;
  };
  return { begun: () => begun, underWay: () => underWay, answer: () => answer() };
}

it('a delivery whose endpoint was deleted keeps its result when it is retried by hand', async () => {
  await the.work();
  const endpointId = await the.endpoint({ triggerEvents: ['email.delete'] });
  await the.happen(emails(1), 'email.delete');
  await relayUntilDone();
  const delivery = async () => (await the.log()).find((entry) => entry.endpointId === endpointId);
  const id = (await delivery())?.id ?? '';
  await deleteEndpoint(the.db, endpointId);
  await expect(retryDelivery(the.client, the.db, id)).rejects.toMatchObject({
    code: 'not_found',
    detail: 'the endpoint of this delivery was deleted',
  });
  expect(await the.relayOnce()).toEqual([]);
  expect((await delivery())?.status).toBe('delivered');
});

it('an earlier event of an object that is retried by hand is not called beside a later one', async () => {
  await the.work();
  const [object = ''] = emails(1);
  await the.happen([object]);
  await relayUntilDone();
  const slow = slowFor(2);
  await the.happen([object]);
  await the.relayOnce();
  await waitFor(slow.begun);
  const [first, second] = (await the.log()).map(({ id }) => id) as [string, string];
  await retryDelivery(the.client, the.db, first);
  expect(await the.relayOnce()).toEqual([]);
  slow.answer();
  await waitFor(async () => (await the.log())[1]?.status === 'delivered');
  await relayUntilDone();
  // the call of the later one had ended when the earlier one was made again
  expect(slow.underWay()).toEqual([2, -2, 1]);
  expect((await the.attempts(second)).length).toBe(1);
});

it('a probe is made whatever the clock of the worker says', async () => {
  const now = Date.now;
  await the.work({}, ({ attemptDeliveries }) => ({
    // its clock is ten minutes slow
    async attemptDeliveries(input) {
      Date.now = () => now() - 600_000;
      try {
        return await attemptDeliveries(input);
      } finally {
        Date.now = now;
      }
    },
  }));
  await the.db.execute(sql`update webhook_endpoints set failures_in_a_row = 10, breaker_openings = 1,
    breaker_until = now() - interval '1 second' where id = ${endpointId}`);
  await the.happen(emails(1));
  const [run] = await the.relayOnce();
  await the.end(run?.workflowId ?? '');
  expect(await statuses()).toEqual(['delivered']);
  const [endpoint] = await the.db.select().from(webhookEndpoints);
  expect(endpoint).toMatchObject({ breakerUntil: null, breakerProbeAt: null });
});

it('the next attempt is due by the clock of the database', async () => {
  const now = Date.now;
  await the.work({ webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 } }, ({ attemptDeliveries }) => ({
    async attemptDeliveries(input) {
      Date.now = () => now() - 600_000;
      try {
        return await attemptDeliveries(input);
      } finally {
        Date.now = now;
      }
    },
  }));
  the.receiver.answer = () => 500;
  await the.happen(emails(1));
  await the.relayOnce();
  await waitFor(async () => (await the.log())[0]?.attemptsCount === 1);
  const { rows } = await the.db.execute<{ minutes: number }>(
    sql`select extract(epoch from due_at - now())::float8 / 60 as minutes from pending_deliveries`,
  );
  // an hour and a fifth either way
  expect(rows[0]?.minutes).toBeGreaterThan(47);
  expect(rows[0]?.minutes).toBeLessThanOrEqual(72);
});

describe('a batch that is cancelled', () => {
  it('leaves nothing to runs that it has not started', async () => {
    let proceed = () => {};
    const held = new Promise<void>((resolve) => (proceed = resolve));
    await the.work({ webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 } }, ({ attemptDeliveries }) => ({
      // the results are stored, the run does not know yet
      async attemptDeliveries(input) {
        const result = await attemptDeliveries(input);
        await held;
        return result;
      },
    }));
    the.receiver.answer = ({ event }) => (event.sequence % 2 === 0 ? 200 : 404);
    await the.happen(emails(8));
    // a run learns of its cancel when its task ends, which is when half of the time for it is over
    const [run] = await the.relayOnce({ taskTimeoutMs: 2_000 });
    expect(run?.deliveries).toHaveLength(8);
    await waitFor(async () => (await the.log()).every(({ attemptsCount }) => attemptsCount === 1));
    await the.client.workflow.getHandle(run?.workflowId ?? '').cancel();
    await expect(the.end(run?.workflowId ?? '')).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    proceed();
    const log = await the.log();
    expect(log.map(({ status }) => status)).toEqual(
      log.map(({ sequence }) => (sequence % 2 === 0 ? 'delivered' : 'failed')),
    );
    expect(log[0]).toMatchObject({ error: 'its run was cancelled', nextAttemptAt: null });
  });
});

it('a run whose activity is repeated leaves a delivery that failed to the batch that has it now', async () => {
  const results: AttemptedDeliveries[] = [];
  await the.work({ webhook: { retryScheduleMs: [HOUR], timeoutMs: 5_000 } }, ({ attemptDeliveries }) => ({
    // the results are stored, and the run does not get them; what waits in the queue is claimed, and that run is not started yet
    async attemptDeliveries(input) {
      await attemptDeliveries(input);
      await the.db.execute(
        sql`update pending_deliveries set due_at = now(), waits_for = null where workflow_id is null`,
      );
      await claimOnce(the.db, { alone: 0 });
      results.push(await attemptDeliveries(input));
      return results.at(-1) as AttemptedDeliveries;
    },
  }));
  the.receiver.answer = () => 500;
  await the.happen(emails(8));
  const [run] = await the.relayOnce();
  await the.end(run?.workflowId ?? '');
  const claimed = (await the.log()).filter(({ workflowId }) => workflowId?.startsWith(`deliver/${endpointId}/`));
  expect(results[0]?.retrying.length).toBeGreaterThan(0);
  expect(results[0]?.waiting).toBe(claimed.length);
  expect(claimed.length).toBeGreaterThan(0);
});

/** A replay of so many delivered events, whose runs have not begun; `calls`: those before it. */
async function claimedReplay(count: number) {
  await the.happen(emails(count));
  await the.work();
  await relayUntilDone();
  const calls = the.receiver.calls.length;
  await the.stopWork();
  const replayId = newId('replay');
  await createReplay(the.db, { id: replayId, endpointId, filter: {} });
  await queueReplayed(the.db, replayId, count);
  return { calls, replayId, runs: await the.relayOnce() };
}

it('only what is delivered for the first time counts in the time from commit to receipt', async () => {
  const measured: (number | null)[] = [];
  const stop = onMeasured('webhookAttempt', ({ sinceCommitMs }) => void measured.push(sinceCommitMs));
  try {
    await claimedReplay(3);
    expect(measured).toEqual([1, 2, 3].map(() => expect.any(Number)));
    await the.work();
    await relayUntilDone();
    expect(measured.slice(3)).toEqual([null, null, null]);
    await retryDelivery(the.client, the.db, (await the.log())[0]?.id ?? '');
    await relayUntilDone();
    expect(measured.slice(6)).toEqual([null]);
  } finally {
    stop();
  }
});

it('a replay that is cancelled is not attempted by runs that had not begun', async () => {
  const { calls, replayId, runs } = await claimedReplay(60);
  expect(runs.flatMap((run) => run.deliveries)).toHaveLength(60);
  await cancelReplay(the.db, replayId);
  await the.work();
  for (const { workflowId } of runs) await the.end(workflowId);
  expect(the.receiver.calls).toHaveLength(calls);
  expect(new Set(await statuses())).toEqual(new Set(['delivered']));
  expect(await getReplay(the.db, replayId)).toMatchObject({ status: 'cancelled', pending: 0, delivered: 0 });
});

it.each(['disabled', 'deleted'])(
  'a replay whose endpoint is %s midway puts back what it has not attempted',
  async (how) => {
    const { calls, replayId, runs } = await claimedReplay(20);
    if (how === 'deleted') await deleteEndpoint(the.db, endpointId);
    else await the.db.update(webhookEndpoints).set({ enabled: false }).where(eq(webhookEndpoints.id, endpointId));
    await the.work();
    for (const { workflowId } of runs) await the.end(workflowId);
    expect(the.receiver.calls).toHaveLength(calls);
    expect(new Set(await statuses())).toEqual(new Set(['delivered']));
    expect(await getReplay(the.db, replayId)).toMatchObject({ status: 'cancelled', pending: 0, skipped: 0 });
  },
);

describe('a delivery of a replay that was cancelled', () => {
  /** One that a replay has made again and failed, and that its cancel left as it was. */
  async function failedInReplay(): Promise<string> {
    await the.happen(emails(1));
    await the.work({ webhook: { retryScheduleMs: [], timeoutMs: 5_000 } });
    await relayUntilDone();
    the.receiver.answer = () => 404;
    const replayId = newId('replay');
    await createReplay(the.db, { id: replayId, endpointId, filter: {} });
    await queueReplayed(the.db, replayId, 10);
    await relayUntilDone();
    await cancelReplay(the.db, replayId);
    const [row] = await the.log();
    expect(row).toMatchObject({ status: 'failed', attemptsCount: 2, replayId });
    the.receiver.answer = () => 200;
    return row?.id ?? '';
  }

  it('is attempted when it is retried by hand', async () => {
    await retryDelivery(the.client, the.db, await failedInReplay());
    await relayUntilDone();
    expect((await the.log())[0]).toMatchObject({ status: 'delivered', attemptsCount: 3 });
    expect(the.receiver.calls).toHaveLength(3);
  });

  it('stays pending when it is retried by hand before the cancel', async () => {
    const id = await failedInReplay();
    const replayId = newId('replay');
    await createReplay(the.db, { id: replayId, endpointId, filter: {} });
    await queueReplayed(the.db, replayId, 10);
    await retryDelivery(the.client, the.db, id);
    await cancelReplay(the.db, replayId);
    await relayUntilDone();
    expect((await the.log())[0]).toMatchObject({ status: 'delivered', attemptsCount: 3 });
  });

  it('is not called, although its run has begun', async () => {
    await the.happen(emails(40));
    await the.work();
    await relayUntilDone();
    const before = the.receiver.calls.length;
    let answer = () => {};
    let begun = 0;
    const held = new Promise<void>((resolve) => (answer = resolve));
    the.receiver.answer = async () => {
      begun += 1;
      await held;
      return 200;
    };
    const replayId = newId('replay');
    await createReplay(the.db, { id: replayId, endpointId, filter: {} });
    await queueReplayed(the.db, replayId, 40);
    const runs = await the.relayOnce();
    // so many objects of a replay are attempted at a time
    await waitFor(() => begun === 5);
    await cancelReplay(the.db, replayId);
    answer();
    for (const { workflowId } of runs) await the.end(workflowId);
    expect(the.receiver.calls).toHaveLength(before + 5);
    expect(new Set(await statuses())).toEqual(new Set(['delivered']));
    expect(await getReplay(the.db, replayId)).toMatchObject({ status: 'cancelled', pending: 0, delivered: 5 });
  });

  it('is not skipped when a response in its run disables the endpoint', async () => {
    await the.happen(emails(40));
    await the.work();
    await relayUntilDone();
    const before = the.receiver.calls.length;
    the.receiver.answer = () => 410;
    const replayId = newId('replay');
    await createReplay(the.db, { id: replayId, endpointId, filter: {} });
    await queueReplayed(the.db, replayId, 40);
    for (const { workflowId } of await the.relayOnce()) await the.end(workflowId).catch(() => {});
    const called = the.receiver.calls.length - before;
    expect((await statuses()).sort()).toEqual([
      ...Array.from({ length: 40 - called }, () => 'delivered'),
      ...Array.from({ length: called }, () => 'failed'),
    ]);
    expect(await getReplay(the.db, replayId)).toMatchObject({ status: 'cancelled', pending: 0, failed: called });
  });
});

it('a run whose state cannot be read does not keep others from being repaired', async () => {
  const lines: unknown[] = [];
  const logger = createLogger('warn', 'test', { write: (line) => lines.push(JSON.parse(line)) });
  const lostRuns = createLostRuns({ db: the.db, client: the.client, logger });
  await the.stopWork();
  await the.happen(emails(1));
  await the.happen(emails(1));
  const [unreadable = '', other = ''] = (await the.relayOnce()).map(({ workflowId }) => workflowId);
  const { client } = the;
  await client.workflow.getHandle(unreadable).terminate();
  await client.workflow.getHandle(other).terminate();
  // its input is sealed with a key that is lost
  await client.workflowService.startWorkflowExecution({
    namespace: client.options.namespace,
    workflowId: unreadable,
    workflowType: { name: WORKFLOWS.deliverWebhooks },
    taskQueue: { name: 'unserved' },
    requestId: newId('event'),
    input: { payloads: [{ metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{') }] },
  });
  await client.workflow.getHandle(unreadable).terminate();
  await the.db.execute(sql`update pending_deliveries set started_at = now() - interval '1 hour'`);
  await lostRuns.findOverdue();
  expect((await the.log()).map(({ workflowId, status }) => [workflowId, status])).toEqual([
    [unreadable, 'pending'],
    [other, 'failed'],
  ]);
  expect(lines).toContainEqual(expect.objectContaining({ workflowId: unreadable, err: expect.anything() }));
});

it('terminated runs are found however many were terminated after them', async () => {
  const lostRuns = createLostRuns({ db: the.db, client: the.client, logger: createLogger('silent', 'test') });
  await the.stopWork();
  await the.happen(emails(1));
  const [run] = await the.relayOnce();
  await the.client.workflow.getHandle(run?.workflowId ?? '').terminate();
  // more than Temporal gives at once
  const others = Array.from({ length: isLong() ? 1_050 : 250 }, () => `deliver/${newId('delivery')}`);
  for (let from = 0; from < others.length; from += 50) {
    await Promise.all(
      others.slice(from, from + 50).map(async (workflowId) => {
        const options = { workflowId, taskQueue: 'unserved', args: [{ deliveryIds: [] }] };
        const handle = await the.client.workflow.start(WORKFLOWS.deliverWebhooks, options);
        await handle.terminate();
      }),
    );
  }
  // the newest come first
  const query = `WorkflowType = "${WORKFLOWS.deliverWebhooks}" AND ExecutionStatus = "Terminated"`;
  await waitFor(async () => (await the.client.workflow.count(query)).count > others.length, { timeoutMs: 60_000 });
  await lostRuns.findTerminated();
  await lostRuns.findTerminated();
  expect(await statuses()).toEqual(['failed']);
}, 120_000);
