import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { ClaimedRun } from '../../../src/webhooks/dispatch/delivery-queries.ts';
import { MAX_ENDPOINTS, startPosition } from '../../../src/webhooks/dispatch/claim-queries.ts';
import { claimDeliveries } from '../../../src/webhooks/log/delivery-state.ts';
import { planRuns } from '../../../src/webhooks/dispatch/relay.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { storeEndpoint } from '../../helpers/product/stored-endpoint.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** What a claim takes and what it reads, with backlogs that are large. */

const BACKLOG = isLong() ? 200_000 : 20_000;
const PER_ENDPOINT = 100;

const secrets = createSecrets({ current: randomBytes(32) });
let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase({ max: 1 });
  // an ANALYZE by itself has a snapshot open meanwhile, with the consequence that othersToEnd describes
  await query('alter table deliveries set (autovacuum_enabled = off)');
});
afterAll(() => test.drop());
beforeEach(async () => {
  await test.database.pool.query('truncate webhook_endpoints, deliveries');
});

const query = (text: string, ...values: unknown[]) => test.database.pool.query(text, values);

interface Waiting {
  count: number;
  /** deliveries of one object */
  perObject?: number;
  /** SQL of `next_attempt_at`, of a delivery's number `n` */
  next?: string;
  replay?: string | null;
}

/** Deliveries of an endpoint that wait; one object after another happens again. */
async function wait(
  endpointId: string,
  { count, perObject = 1, next = 'null', replay = null }: Waiting,
): Promise<void> {
  const objects = Math.ceil(count / perObject);
  await query(
    `insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence,
       created_at, next_attempt_at, replay_id)
     select 'whc_' || $1 || lpad(n::text, 9, '0'), 'evt_' || $1 || n, $1, '', 'acc', 'email.new',
       'email_' || (n % $3::int), n, now(), ${next}, $4
     from generate_series(0, $2::int - 1) n`,
    endpointId,
    count,
    objects,
    replay,
  );
}

/** The endpoint of that id; `set` is SQL of its columns. */
async function storedEndpoint(endpointId: string, set: string, { enabled = true } = {}): Promise<void> {
  const id = await storeEndpoint(test.database, secrets, { enabled });
  await query(`update webhook_endpoints set id = $1, ${set} where id = $2`, endpointId, id);
}

/** The endpoint of that id, with an open breaker. */
const breaker = (endpointId: string, { until, enabled }: { until: string; enabled?: boolean }) =>
  storedEndpoint(endpointId, `failures_in_a_row = 10, breaker_until = ${until}`, { enabled });

/** The claims of one relay. */
const claims = () => {
  const position = startPosition();
  const claim = (options: { except?: string[]; costly?: number; only?: string[] } = {}) =>
    claimDeliveries(test.database.db, { perEndpoint: PER_ENDPOINT, except: [], ...options, plan: planRuns, position });
  return Object.assign(claim, { position });
};
const claimedOf = (runs: readonly ClaimedRun[]) => runs.flatMap((run) => run.deliveries);

/**
 * Waits until transactions that run now, of tests in other databases too, have ended: until then Postgres cannot clear away what
 * its indexes have of rows that were changed, and reads it again.
 */
async function othersToEnd(): Promise<void> {
  const { rows } = await query('select pg_current_xact_id()::text as id');
  const isOver = async () =>
    (await query('select pg_snapshot_xmin(pg_current_snapshot()) > $1::xid8 as over', rows[0].id)).rows[0]
      .over as boolean;
  await waitFor(isOver, { timeoutMs: 100_000, what: 'other transactions to end' });
}

/** Rows and index entries of deliveries that were read by `work`. */
async function readBy(work: () => Promise<unknown>): Promise<number> {
  await othersToEnd();
  const read = async () => {
    await query('select pg_stat_force_next_flush()');
    const { rows } = await query(
      `select (select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'deliveries')
         + (select seq_tup_read from pg_stat_user_tables where relname = 'deliveries') as n`,
    );
    return Number((rows[0] as { n: string }).n);
  };
  const before = await read();
  await work();
  return (await read()) - before;
}

/** Claims until nothing is left to claim, and delivers at once: how many, each object's in their order. */
async function drain(claim: ReturnType<typeof claims>): Promise<number> {
  const last = new Map<string, number>();
  let count = 0;
  for (let idle = 0; idle < 3; ) {
    const claimed = claimedOf(await claim());
    idle = claimed.length === 0 ? idle + 1 : 0;
    count += claimed.length;
    const wrong = claimed.filter(({ endpointId, objectId, sequence }) => {
      const object = `${endpointId} ${objectId}`;
      const isEarlier = sequence <= (last.get(object) ?? -1);
      last.set(object, sequence);
      return isEarlier;
    });
    expect(wrong).toEqual([]);
    const ids = claimed.map(({ id }) => id);
    await query(`update deliveries set status = 'delivered' where id = any($1)`, ids);
  }
  return count;
}

/** Claims as long as there is more to look at; what it claimed. */
async function claimAll(claim: ReturnType<typeof claims>): Promise<ReturnType<typeof claimedOf>> {
  const claimed: ReturnType<typeof claimedOf> = [];
  do claimed.push(...claimedOf(await claim()));
  while (claim.position.isMore);
  return claimed;
}

/** What one claim reads at most: about a dozen rows for each that it may take or look at. */
const BOUND = isLong() ? 60_000 : 19_000;
const whc = (endpointId: string, n: number) => `whc_${endpointId}${String(n).padStart(9, '0')}`;

describe('a claim', () => {
  it('does not read what is not due', async () => {
    await wait('we_a', { count: BACKLOG, next: `now() + interval '1 hour' + n * interval '1 millisecond'` });
    await query('vacuum analyze deliveries');
    const claim = claims();
    expect(await readBy(claim)).toBeLessThan(100);
    await wait('we_b', { count: 10 });
    await query(`update deliveries set next_attempt_at = now() where id in
      (select id from deliveries where endpoint_id = 'we_a' order by id desc limit 5)`);
    let claimed: unknown[] = [];
    expect(await readBy(async () => (claimed = claimedOf(await claim())))).toBeLessThan(1_000);
    expect(claimed).toHaveLength(15);
  }, 120_000);

  it('is bounded where most deliveries are held back, and comes to all that are not', async () => {
    // the first of each object waits for its next attempt
    await wait('we_a', {
      count: BACKLOG,
      perObject: 50,
      next: `case when n < ${BACKLOG / 50} then now() + interval '1 hour' end`,
    });
    await query('vacuum analyze deliveries');
    const free = [BACKLOG / 2, BACKLOG - 1].map((n) => whc('we_a', n));
    await query(`update deliveries set object_id = 'email_x' || id where id = any($1)`, free);
    const claim = claims();
    const found: string[] = [];
    let most = 0;
    let count = 0;
    do {
      const read = await readBy(async () => found.push(...claimedOf(await claim()).map(({ id }) => id)));
      most = Math.max(most, read);
      count += 1;
    } while (claim.position.isMore);
    expect(most).toBeLessThan(BOUND);
    expect(count).toBeLessThan(10 + BACKLOG / 1_000);
    // the newest is found before its turn: what happens now does not wait for what is held back
    expect(found).toEqual(free.toReversed());
    // what is held back is not looked at again; the claim before clears away what the index has of it
    await claim();
    expect(await readBy(claim)).toBeLessThan(100);
    await query(`update deliveries set next_attempt_at = null where id = $1`, whc('we_a', 0));
    expect(claimedOf(await claim()).map(({ sequence }) => sequence)).toContain(0);
  }, 300_000);

  it('is bounded where much follows what was attempted before', async () => {
    const OBJECTS = 200;
    await wait('we_a', { count: BACKLOG, perObject: BACKLOG / OBJECTS });
    const behindHeads = whc('we_a', OBJECTS);
    await query(`update deliveries set runs = 1, next_attempt_at = now() where id < $1`, behindHeads);
    await query('vacuum analyze deliveries');
    const claim = claims();
    let claimed: ReturnType<typeof claimedOf> = [];
    expect(await readBy(async () => (claimed = claimedOf(await claim())))).toBeLessThan(BOUND);
    expect(new Set(claimed.map(({ objectId }) => objectId)).size).toBe(PER_ENDPOINT);
  }, 120_000);

  it('comes to every delivery of every object once the first ones are delivered, wherever it has come to', async () => {
    const count = isLong() ? 50_000 : 3_000;
    const objects = count / 50;
    await wait('we_a', { count, perObject: 50, next: `case when n < ${objects} then now() + interval '1 hour' end` });
    await query('vacuum analyze deliveries');
    const claim = claims();
    // in the middle of it
    expect(await claim()).toEqual([]);
    expect(claim.position.isMore).toBe(true);
    await query(`update deliveries set status = 'delivered' where sequence < $1`, objects);
    expect(await drain(claim)).toBe(count - objects);
  }, 300_000);

  it('comes to all deliveries of one object', async () => {
    const count = isLong() ? 4_200 : 2_200;
    await wait('we_a', { count, perObject: count, next: `case when n = 0 then now() + interval '1 hour' end` });
    const claim = claims();
    for (let n = 0; n < 3; n++) expect(await claim()).toEqual([]);
    await query(`update deliveries set status = 'delivered' where sequence = 0`);
    expect(claimedOf(await claim()).map(({ sequence }) => sequence)).toEqual(
      Array.from({ length: 50 }, (_, n) => n + 1),
    );
    await query(`update deliveries set status = 'delivered' where workflow_id is not null`);
    expect(await drain(claim)).toBe(count - 51);
  }, 120_000);

  it('comes to all deliveries of many endpoints that were away', async () => {
    // more of each than one claim looks at
    const count = isLong() ? 400 : 150;
    for (let n = 0; n < MAX_ENDPOINTS; n++) {
      const next = `case when n < ${count / 10} then now() + interval '1 hour' end`;
      await wait(`we_${String(n).padStart(2, '0')}`, { count, perObject: 10, next });
    }
    await query('vacuum analyze deliveries');
    const claim = claims();
    for (let n = 0; n < 6; n++) expect(await claim()).toEqual([]);
    await query(`update deliveries set status = 'delivered' where sequence < $1`, count / 10);
    expect(await drain(claim)).toBe(MAX_ENDPOINTS * (count - count / 10));
  }, 300_000);

  it('finds an object that is free again in the next claim, wherever it has come to', async () => {
    await wait('we_a', { count: 6_000, perObject: 3, next: `case when n < 2000 then now() + interval '1 hour' end` });
    await query('vacuum analyze deliveries');
    const claim = claims();
    expect(await claimAll(claim)).toEqual([]);
    await query(`update deliveries set status = 'delivered' where sequence = 1000`);
    expect(claimedOf(await claim()).map(({ objectId, sequence }) => [objectId, sequence])).toEqual([
      ['email_1000', 3_000],
      ['email_1000', 5_000],
    ]);
  }, 120_000);

  it('finds one that is free again though it has not looked at all yet', async () => {
    await wait('we_a', { count: 6_000, perObject: 3, next: `case when n < 2000 then now() + interval '1 hour' end` });
    const claim = claims();
    expect(await claim()).toEqual([]);
    expect(claim.position.isMore).toBe(true);
    await query(`update deliveries set status = 'delivered' where sequence = 1000`);
    expect((await claimAll(claim)).map(({ sequence }) => sequence)).toEqual([3_000, 5_000]);
  }, 120_000);

  it('takes what waits longest first, though much of it is held back and more is coming than going', async () => {
    // 10 objects wait, with 50 each behind that; then 400 others
    await wait('we_a', { count: 510, perObject: 51, next: `case when n < 10 then now() + interval '1 hour' end` });
    await wait('we_b', { count: 400 });
    await query(`update deliveries set endpoint_id = 'we_a', object_id = 'other_' || id where endpoint_id = 'we_b'`);
    const claim = claims();
    const others: number[] = [];
    for (let round = 0; round < 6 && others.length < 400; round++) {
      await wait(`we_new${round}`, { count: 150 });
      await query(
        `update deliveries set endpoint_id = 'we_a', object_id = 'new_' || id where endpoint_id like 'we_new%'`,
      );
      const claimed = claimedOf(await claim());
      others.push(...claimed.filter(({ objectId }) => objectId.startsWith('other_')).map(({ sequence }) => sequence));
    }
    expect(others).toEqual(Array.from({ length: 400 }, (_, n) => n));
  });

  it('gives a busy object that is next in order its share beside many others', async () => {
    await wait('we_a', { count: 100, perObject: 100 });
    await wait('we_b', { count: 200 });
    await query(`update deliveries set endpoint_id = 'we_a', object_id = 'other_' || id where endpoint_id = 'we_b'`);
    const claimed = claimedOf(await claims()());
    const busy = claimed.filter(({ objectId }) => objectId === 'email_0').map(({ sequence }) => sequence);
    expect(busy).toEqual(Array.from({ length: 50 }, (_, n) => n));
    expect(claimed).toHaveLength(PER_ENDPOINT);
  });

  it('mixes objects where one after another has a burst, so that runs have all calls of their endpoint under way', async () => {
    await wait('we_a', { count: 1_500, perObject: 50 });
    await query(`update deliveries set object_id = 'email_' || (sequence / 50)`);
    const claim = claims();
    const runs = await claim();
    expect(claimedOf(runs)).toHaveLength(PER_ENDPOINT);
    for (const run of runs) {
      expect(new Set(run.deliveries.map(({ objectId }) => objectId)).size).toBeGreaterThanOrEqual(10);
    }
    await query(`update deliveries set status = 'delivered' where workflow_id is not null`);
    expect(await drain(claim)).toBe(1_400);
  });

  it('takes one delivery of each object before a second one of any', async () => {
    await wait('we_a', { count: 400, perObject: 8 });
    const taken = claimedOf(await claims()());
    expect(taken).toHaveLength(PER_ENDPOINT);
    const perObject = new Map<string, number>();
    for (const { objectId } of taken) perObject.set(objectId, (perObject.get(objectId) ?? 0) + 1);
    expect([perObject.size, new Set(perObject.values())]).toEqual([50, new Set([2])]);
  });

  it('takes all that waits for an endpoint that was disabled while it was away', async () => {
    await wait('we_a', { count: 30 });
    await breaker('we_a', { until: `now() + interval '1 hour'`, enabled: false });
    expect(claimedOf(await claims()())).toHaveLength(30);
    await wait('we_b', { count: 30 });
    await breaker('we_b', { until: `now() + interval '1 hour'` });
    expect(await claims()()).toEqual([]);
  });

  it('gives endpoints that are away no turn, but for a probe and for manual retries', async () => {
    for (let n = 0; n < MAX_ENDPOINTS; n++) {
      await wait(`we_away${n}`, { count: 5 });
      await breaker(`we_away${n}`, { until: `now() + interval '1 hour'` });
    }
    await wait('we_well', { count: 200 });
    const claim = claims();
    const countOf = (runs: readonly ClaimedRun[]) => {
      const counts: Record<string, number> = {};
      for (const { endpointId } of claimedOf(runs)) counts[endpointId] = (counts[endpointId] ?? 0) + 1;
      return counts;
    };
    expect(countOf(await claim())).toEqual({ we_well: 100 });
    expect(claim.position.perEndpoint).toBe(100);
    await query(`update webhook_endpoints set breaker_until = now() - interval '1 second' where id = 'we_away3'`);
    await query(`update deliveries set forced = true where endpoint_id = 'we_away7' and sequence < 2`);
    expect(countOf(await claim())).toEqual({ we_away3: 1, we_away7: 2, we_well: 100 });
    expect(await claim()).toEqual([]);
  });

  it('takes few endpoints that fail or have never succeeded at once, and the others of them later', async () => {
    for (const n of [1, 2, 3, 4]) await wait(`we_a${n}`, { count: 3 });
    await storedEndpoint('we_b', 'last_success_at = now()');
    await wait('we_b', { count: 3 });
    await storedEndpoint('we_c', 'last_success_at = now(), failures_in_a_row = 1');
    await wait('we_c', { count: 3 });
    const claim = claims();
    const endpoints = async (options: Parameters<typeof claim>[0]) => [
      ...new Set(claimedOf(await claim(options)).map(({ endpointId }) => endpointId)),
    ];
    expect(await endpoints({ costly: 0 })).toEqual(['we_b']);
    expect(await endpoints({ costly: 2 })).toEqual(['we_a1', 'we_a2']);
    // those are named since it is their turn
    expect(await endpoints({ costly: 0, only: ['we_c'] })).toEqual(['we_c']);
    expect(await endpoints({ costly: 2 })).toEqual(['we_a3', 'we_a4']);
    expect(await endpoints({ costly: 2 })).toEqual([]);
  });

  it('gives endpoints that have nothing due no turn', async () => {
    for (let n = 0; n < MAX_ENDPOINTS; n++) {
      // before and after that one in the order of turns
      await wait(`we_${n < 30 ? 'a' : 'y'}${n}`, { count: 3, next: `now() + interval '1 hour'` });
    }
    await wait('we_held', { count: 30, perObject: 10, next: `case when n < 3 then now() + interval '1 hour' end` });
    await wait('we_well', { count: 200 });
    await claimAll(claims());
    // of another relay, whose round begins
    const claim = claims();
    expect(new Set(claimedOf(await claim()).map(({ endpointId }) => endpointId))).toEqual(new Set(['we_well']));
    // nobody else has a share of it
    expect(claim.position.perEndpoint).toBe(PER_ENDPOINT);
    expect(claim.position.endpointId).toBe('');
  });

  it('is bounded over endpoints, and each has its turn', async () => {
    const COUNT = isLong() ? 200_000 : 25_000;
    const endpoints = Array.from({ length: 1_000 }, (_, n) => `we_${String(n).padStart(4, '0')}`);
    await query(
      `insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence, created_at)
       select 'whc_' || lpad(n::text, 9, '0'), 'evt_' || n, 'we_' || lpad((n % 1000)::text, 4, '0'), '', 'acc', 'email.new',
         'email_' || n, n, now() from generate_series(0, ${COUNT - 1}) n`,
    );
    await query('vacuum analyze deliveries');
    const claim = claims();
    const turns = new Map<string, number>();
    let most = 0;
    for (let round = 0; round < endpoints.length / MAX_ENDPOINTS; round++) {
      let claimed: { endpointId: string }[] = [];
      most = Math.max(most, await readBy(async () => (claimed = claimedOf(await claim()))));
      expect(claimed.length).toBeLessThanOrEqual(1_000);
      for (const { endpointId } of claimed) turns.set(endpointId, (turns.get(endpointId) ?? 0) + 1);
    }
    expect(most).toBeLessThan(BOUND);
    expect([...turns.keys()].sort()).toEqual(endpoints);
    expect(new Set(turns.values()).size).toBe(1);
    // then it begins again
    expect(await claim()).toEqual([]);
    expect(claimedOf(await claim()).length).toBeGreaterThan(0);
  }, 300_000);

  it('takes some of a replay whatever live deliveries wait, and all there is room for', async () => {
    await wait('we_a', { count: 1_000 });
    await wait('we_b', { count: 1_000, replay: 'rpl_1' });
    await query(`update deliveries set endpoint_id = 'we_a', object_id = 'replayed_' || id where endpoint_id = 'we_b'`);
    const claim = claims();
    const taken = () => claim().then((runs) => claimedOf(runs).filter(({ isReplay }) => isReplay).length);
    expect([await taken(), await taken()]).toEqual([10, 10]);
    await query(`delete from deliveries where replay_id is null`);
    expect(await taken()).toBe(100);
  });

  it('leaves an earlier delivery that is made again alone while a later one of its object may be under way', async () => {
    await wait('we_a', { count: 2, perObject: 2 });
    // the first was given up and is retried by hand; the second was given to a run
    await query(`update deliveries set forced = true, runs = 1, attempts_count = 3 where sequence = 0`);
    await query(`update deliveries set workflow_id = 'deliver/2', claimed_at = now() where sequence = 1`);
    const claim = claims();
    expect(await claim()).toEqual([]);
    await query(`update deliveries set next_attempt_at = now() - interval '1 second' where sequence = 1`);
    expect(await claim()).toEqual([]);
    // it waits for its next attempt: the earlier one goes first
    await query(`update deliveries set next_attempt_at = now() + interval '1 minute' where sequence = 1`);
    expect(claimedOf(await claim()).map(({ sequence }) => sequence)).toEqual([0]);
  });
});
