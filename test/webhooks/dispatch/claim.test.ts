import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { LINES } from '../../../src/db/outbox.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { claimDeliveries } from '../../../src/webhooks/dispatch/claim.ts';
import { listDueLines } from '../../../src/webhooks/dispatch/due-lines.ts';
import type { ClaimedRun } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { makeDue, releaseDeliveries, skipDeliveries } from '../../../src/webhooks/log/delivery-state.ts';
import { claimOnce } from '../../helpers/assert/queue.ts';
import { storeEndpoint } from '../../helpers/product/stored-endpoint.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

/** Claims from large backlogs. */

const BACKLOG = isLong() ? 200_000 : 20_000;
const MOST = 100;

const secrets = createSecrets({ current: randomBytes(32) });
let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase({ max: 2 });
});
afterAll(() => test.drop());
beforeEach(async () => {
  await test.database.pool.query('truncate webhook_endpoints, deliveries, pending_deliveries');
});

const query = (text: string, ...values: unknown[]) => test.database.pool.query(text, values);

interface Waiting {
  count: number;
  /** deliveries of one object */
  perObject?: number;
  /** SQL of a column, of a delivery's number `n` */
  due?: string;
  waitsFor?: string;
  object?: string;
  line?: number;
  from?: number;
}

/** Deliveries of an endpoint that wait; one object after another happens again. */
async function wait(endpointId: string, waiting: Waiting): Promise<void> {
  const { count, perObject = 1, due = 'null', waitsFor = `case when (${due}) > now() then 'retry' end` } = waiting;
  const { from = 0, line = LINES.live, object = `'email_' || n % ${Math.ceil(count / perObject)}` } = waiting;
  await query(
    `with delivery as (
       insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence, created_at)
       select 'whc_' || $1 || lpad(n::text, 9, '0'), 'evt_' || $1 || n, $1, '', 'acc', 'email.new', ${object}, n, now()
       from generate_series($2::int, $2::int + $3::int - 1) n returning *, sequence as n
     )
     insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, line, due_at, waits_for)
     select id, endpoint_id, object_id, n, $4, coalesce(${due}, now() - interval '1 hour' + n * interval '1 microsecond'),
       ${waitsFor}
     from delivery`,
    endpointId,
    from,
    count,
    line,
  );
}

/** The endpoint of that id; `set` is SQL of its columns. */
async function storedEndpoint(endpointId: string, set: string, { enabled = true } = {}): Promise<void> {
  const id = await storeEndpoint(test.database, secrets, { enabled });
  await query(`update webhook_endpoints set id = $1, ${set} where id = $2`, endpointId, id);
}

const breaker = (endpointId: string, { until, enabled }: { until: string; enabled?: boolean }) =>
  storedEndpoint(endpointId, `failures_in_a_row = 10, breaker_until = ${until}`, { enabled: enabled ?? true });

const claim = async (most = MOST) => claimedOf(await claimOnce(test.database.db, { most }));
const claimedOf = (runs: readonly ClaimedRun[]) => runs.flatMap((run) => run.deliveries);
const sequencesOf = async (claimed = claim()) => (await claimed).map(({ sequence }) => sequence);
const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, n) => n + from);
const end = (ids: string[]) => skipDeliveries(test.database.db, ids, 'the test is over');
const endSequence = async (condition: string) => {
  const { rows } = await query(`select delivery_id as id from pending_deliveries where ${condition}`);
  await end(rows.map(({ id }: { id: string }) => id));
};

/** Claims until nothing is left to claim, and ends what it gets: how many, each object's in their order. */
async function drain(): Promise<number> {
  const last = new Map<string, number>();
  let count = 0;
  for (let idle = 0; idle < 3; ) {
    const claimed = await claim();
    idle = claimed.length === 0 ? idle + 1 : 0;
    count += claimed.length;
    const wrong = claimed.filter(({ endpointId, objectId, sequence }) => {
      const object = `${endpointId} ${objectId}`;
      const isEarlier = sequence <= (last.get(object) ?? -1);
      last.set(object, sequence);
      return isEarlier;
    });
    expect(wrong).toEqual([]);
    await end(claimed.map(({ id }) => id));
  }
  return count;
}

const HOUR = `now() + interval '1 hour'`;

describe('a claim', () => {
  it('takes the deliveries that have waited longest, in the order of each object', async () => {
    await wait('we_a', { count: 250, perObject: 2 });
    expect(await sequencesOf()).toEqual(numbers(100));
    // the next ones of those objects wait for the runs that have them
    expect((await sequencesOf()).sort((a, b) => a - b)).toEqual([...numbers(25, 100), ...numbers(25, 225)]);
    expect(await claim()).toEqual([]);
    await endSequence('sequence < 100');
    expect(await sequencesOf()).toEqual(numbers(100, 125));
  });

  it('takes nothing that is not due', async () => {
    await wait('we_a', { count: BACKLOG, due: `${HOUR} + n * interval '1 millisecond'` });
    expect(await claim()).toEqual([]);
    await wait('we_b', { count: 10 });
    await query(`update pending_deliveries set due_at = now(), waits_for = null where sequence >= ${BACKLOG - 5}`);
    expect(await claim()).toHaveLength(15);
  }, 60_000);

  it('reaches all free deliveries, even when many are behind ones that wait for their next attempt', async () => {
    // the first of each object waits
    await wait('we_a', { count: BACKLOG, perObject: 50, due: `case when n < ${BACKLOG / 50} then ${HOUR} end` });
    await query(`update pending_deliveries set object_id = 'free' || sequence
      where sequence in (${BACKLOG / 2}, ${BACKLOG - 1})`);
    const found: number[] = [];
    for (let n = 0; n < BACKLOG / (2 * MOST); n++) found.push(...(await sequencesOf()));
    expect(found).toEqual([BACKLOG / 2, BACKLOG - 1]);
    // those behind others are put off until these are due
    const { rows } = await query(`select count(*)::int as n from pending_deliveries where due_at <= now()
      and workflow_id is null`);
    expect(rows[0]).toEqual({ n: 0 });
    await query(`update pending_deliveries set due_at = now(), waits_for = null where sequence = 0`);
    expect((await sequencesOf())[0]).toBe(0);
  }, 300_000);

  it('reaches every delivery of every object once the first ones have ended', async () => {
    const count = isLong() ? 50_000 : 3_000;
    const objects = count / 50;
    await wait('we_a', { count, perObject: 50, due: `case when n < ${objects} then ${HOUR} end` });
    expect(await claim()).toEqual([]);
    expect(await claim()).toEqual([]);
    await endSequence(`sequence < ${objects}`);
    expect(await drain()).toBe(count - objects);
  }, 300_000);

  it('reaches all deliveries of one object', async () => {
    const count = isLong() ? 4_200 : 600;
    await wait('we_a', { count, perObject: count, due: `case when n = 0 then ${HOUR} end` });
    for (let n = 0; n < 3; n++) expect(await claim()).toEqual([]);
    await endSequence('sequence = 0');
    expect(await sequencesOf()).toEqual(numbers(10, 1));
    await endSequence('workflow_id is not null');
    expect(await drain()).toBe(count - 11);
  }, 120_000);

  it('takes an object again as soon as the delivery that held it back ends', async () => {
    await wait('we_a', { count: 6, perObject: 3, due: `case when n = 0 then ${HOUR} end` });
    expect(await sequencesOf()).toEqual([1, 3, 5]);
    await endSequence('sequence = 0');
    expect(await sequencesOf()).toEqual([2, 4]);
  });

  it('takes what a run gives back once the delivery before it has ended, even if a claim had put it off', async () => {
    await wait('we_a', { count: 2, perObject: 2, due: `case when n = 0 then ${HOUR} end` });
    expect(await claim()).toEqual([]);
    await makeDue(test.database.db, 'we_a');
    const [run] = await claimOnce(test.database.db);
    expect(run?.deliveries.map(({ sequence }) => sequence)).toEqual([0, 1]);
    await query(
      `update pending_deliveries set workflow_id = null, due_at = ${HOUR}, waits_for = 'retry' where sequence = 0`,
    );
    await releaseDeliveries(test.database.db, [run?.deliveries[1]?.id ?? ''], run?.workflowId ?? '');
    await endSequence('sequence = 0');
    expect(await sequencesOf()).toEqual([1]);
  });

  it('takes the first delivery of an object even if a claim has put it off, when the one before it is gone', async () => {
    await wait('we_a', { count: 2, perObject: 2, due: HOUR, waitsFor: `'order'` });
    await query(`update pending_deliveries set due_at = now() where sequence = 1`);
    expect(await sequencesOf()).toEqual([0, 1]);
  });

  it('takes the first delivery of an object before later ones that have waited longer', async () => {
    await wait('we_a', { count: 300, perObject: 30 });
    await query(`update pending_deliveries set due_at = now() where sequence < 10`);
    expect(await sequencesOf()).toEqual(expect.arrayContaining(numbers(10)));
    await endSequence('workflow_id is not null');
    expect(await drain()).toBe(200);
  });

  it('takes other objects beside one with a burst', async () => {
    await wait('we_a', { count: 500, perObject: 500 });
    await wait('we_a', { count: 50, object: `'other_' || n`, from: 500 });
    const taken: string[] = [];
    for (let n = 0; n < 4; n++) taken.push(...(await claim()).map(({ objectId }) => objectId));
    expect(taken.filter((objectId) => objectId === 'email_0')).toHaveLength(10);
    expect(taken.filter((objectId) => objectId !== 'email_0')).toHaveLength(50);
  });

  it('deletes what is in the queue without a delivery, and takes what was behind it', async () => {
    await wait('we_a', { count: 2, perObject: 2 });
    await query(`delete from deliveries where sequence = 0`);
    expect(await claimOnce(test.database.db)).toEqual([]);
    const runs = await claimOnce(test.database.db);
    expect(runs.map(({ deliveries }) => deliveries.map(({ sequence }) => sequence))).toEqual([[1]]);
    expect((await query(`select sequence::int from pending_deliveries`)).rows).toEqual([{ sequence: 1 }]);
  });

  it('does not take a repeated delivery while a later one of its object may be under way', async () => {
    await wait('we_a', { count: 2, perObject: 2 });
    // the first was given up and is retried by hand; the second was given to a run
    await query(`update pending_deliveries set line = 0, runs = 1 where sequence = 0`);
    await query(`update pending_deliveries set workflow_id = 'deliver/2', claimed_at = now() where sequence = 1`);
    expect(await claim()).toEqual([]);
    await query(`update pending_deliveries set due_at = now()`);
    expect(await claim()).toEqual([]);
    // it waits for its next attempt: the earlier one goes first
    await query(`update pending_deliveries set due_at = ${HOUR}, waits_for = 'retry' where sequence = 1`);
    await query(`update pending_deliveries set due_at = now() where sequence = 0`);
    expect(await sequencesOf()).toEqual([0]);
  });

  it('takes nothing from an endpoint from which another claim is taking', async () => {
    await wait('we_a', { count: 400 });
    const claims = await Promise.all([claim(), claim()]);
    const ids = claims.flat().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('is bounded, whatever waits', async () => {
    await wait('we_a', { count: BACKLOG, perObject: 100 });
    expect(await claim()).toHaveLength(MOST);
    const { rows: changed } = await query(`select count(*)::int as n from pending_deliveries
      where workflow_id is not null or waits_for is not null`);
    expect((changed[0] as { n: number }).n).toBeLessThanOrEqual(2 * MOST);
  }, 60_000);
});

describe('the lines that are due', () => {
  const lines = async (probeMs?: number) =>
    (await listDueLines(test.database.db, probeMs === undefined ? {} : { probeMs })).lines.map(
      ({ endpointId, line, isProbe }) => `${endpointId} ${line}${isProbe ? ' probe' : ''}`,
    );

  it('are those of each endpoint: manual retries, live deliveries, replays', async () => {
    await wait('we_a', { count: 3, line: LINES.replay });
    await wait('we_a', { count: 3, from: 10 });
    await wait('we_b', { count: 1, line: LINES.manual });
    await wait('we_c', { count: 3, due: HOUR });
    expect(await lines()).toEqual(['we_a 1', 'we_a 2', 'we_b 0']);
  });

  it('are all listed, some at a time', async () => {
    for (const n of numbers(120)) await wait(`we_${String(n).padStart(3, '0')}`, { count: 2 });
    const found: string[] = [];
    let after: Awaited<ReturnType<typeof listDueLines>>['next'];
    do {
      const listed = await listDueLines(test.database.db, { after });
      found.push(...listed.lines.map(({ endpointId }) => endpointId));
      expect(listed.lines.length).toBeLessThanOrEqual(50);
      after = listed.next;
    } while (after);
    expect(found).toEqual(numbers(120).map((n) => `we_${String(n).padStart(3, '0')}`));
  });

  it('of an endpoint that is away are manual retries only, and one probe when its time has come', async () => {
    await wait('we_a', { count: 5 });
    await wait('we_a', { count: 5, line: LINES.replay, from: 10 });
    await breaker('we_a', { until: HOUR });
    expect(await lines()).toEqual([]);
    await query(`update pending_deliveries set line = 0 where sequence < 2`);
    expect(await lines()).toEqual(['we_a 0']);
    expect(await sequencesOf()).toEqual([0, 1]);
    await query(`update webhook_endpoints set breaker_until = now() - interval '1 second'`);
    expect(await lines()).toEqual(['we_a 1 probe']);
    expect(await sequencesOf()).toEqual([2]);
    // until its result is there, or it is lost
    expect(await lines()).toEqual([]);
    expect(await lines(0)).toEqual(['we_a 1 probe']);
  });

  it('give the probe to the one that has waited longest, so that live deliveries behind a replayed one do not keep it', async () => {
    await wait('we_a', { count: 1, line: LINES.replay, object: `'email_0'` });
    await wait('we_a', { count: 6, object: `'email_0'`, from: 1 });
    await breaker('we_a', { until: `now() - interval '1 second'` });
    // the live ones had waited longer
    await query(`update pending_deliveries set due_at = now() - interval '2 hours' where line = ${LINES.live}`);
    const probed: number[] = [];
    for (let look = 0; look < 2; look++) {
      probed.push(...(await sequencesOf()));
      // the time for which they are put off is over
      await query(`update pending_deliveries set due_at = now() where waits_for = 'order'`);
    }
    expect(probed).toEqual([0]);
  });

  it('leave the probe to a delivery that may go, soon, however many that may not wait before it', async () => {
    await wait('we_a', { count: 500, perObject: 500, due: `case when n = 0 then ${HOUR} end` });
    await wait('we_a', { count: 1, object: `'free'`, from: 500 });
    await breaker('we_a', { until: `now() - interval '1 second'` });
    const probed: number[] = [];
    let looks = 0;
    for (; probed.length === 0 && looks < 20; looks++) probed.push(...(await sequencesOf()));
    expect(probed).toEqual([500]);
    expect(looks).toBeLessThanOrEqual(6);
  });

  it('of an endpoint that was disabled while it was away are all its lines: waiting deliveries are skipped without a call', async () => {
    await wait('we_a', { count: 30 });
    await breaker('we_a', { until: HOUR, enabled: false });
    expect(await claim()).toHaveLength(30);
  });

  it('say which endpoints fail', async () => {
    for (const id of ['we_new', 'we_failing', 'we_well']) await wait(id, { count: 1 });
    await storedEndpoint('we_new', 'last_success_at = null');
    await storedEndpoint('we_failing', 'last_success_at = now(), failures_in_a_row = 1');
    await storedEndpoint('we_well', 'last_success_at = now()');
    const listed = await listDueLines(test.database.db);
    const health = listed.lines.map(({ endpointId, isFailing }) => [endpointId, isFailing]);
    expect(health).toEqual([
      ['we_failing', true],
      ['we_new', false],
      ['we_well', false],
    ]);
  });
});

it('a claim of several lines keeps them apart', async () => {
  await wait('we_a', { count: 30 });
  await wait('we_a', { count: 30, line: LINES.replay, from: 100, object: `'replayed_' || n` });
  await wait('we_b', { count: 30 });
  const { lines } = await listDueLines(test.database.db);
  const turns = lines.map((line, n) => ({ ...line, isPoor: false, most: 10 + n, alone: 0 }));
  const claimed = await claimDeliveries(test.database.db, turns);
  expect(
    claimed.map(({ turn, runs, hasMore }) => [turn.endpointId, turn.line, claimedOf(runs).length, hasMore]),
  ).toEqual([
    ['we_a', 1, 10, true],
    ['we_a', 2, 11, true],
    ['we_b', 1, 12, true],
  ]);
  for (const { turn, runs } of claimed) {
    expect(claimedOf(runs).every(({ endpointId, line }) => endpointId === turn.endpointId && line === turn.line)).toBe(
      true,
    );
  }
});
