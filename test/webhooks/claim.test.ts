import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { ClaimedRun } from '../../src/webhooks/delivery-queries.ts';
import { MAX_ENDPOINTS, startPosition } from '../../src/webhooks/claim-queries.ts';
import { claimDeliveries } from '../../src/webhooks/delivery-state.ts';
import { planRuns } from '../../src/webhooks/relay.ts';
import { type TestDatabase, testDatabase } from '../helpers/postgres.ts';

/** What a claim takes and what it reads, with backlogs that are large. */

const BACKLOG = 200_000;
const PER_ENDPOINT = 100;

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase({ max: 1 });
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

/** The claims of one relay. */
const claims = () => {
  const position = startPosition();
  const claim = (except: string[] = []) =>
    claimDeliveries(test.database.db, { perEndpoint: PER_ENDPOINT, except, plan: planRuns, position });
  return Object.assign(claim, { position });
};
const claimedOf = (runs: readonly ClaimedRun[]) => runs.flatMap((run) => run.deliveries);

/** Rows and index entries of deliveries that were read by `work`. */
async function readBy(work: () => Promise<unknown>): Promise<number> {
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

/** What one claim reads at most: about a dozen rows for each that it may take or look at. */
const BOUND = 60_000;

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
    await query(`update deliveries set object_id = 'email_x' || id where id = any($1)`, [
      `whc_we_a${String(BACKLOG / 2).padStart(9, '0')}`,
      `whc_we_a${String(BACKLOG - 1).padStart(9, '0')}`,
    ]);
    const claim = claims();
    const found: string[] = [];
    let most = 0;
    let count = 0;
    do {
      const read = await readBy(async () => found.push(...claimedOf(await claim()).map(({ id }) => id.slice(-6))));
      most = Math.max(most, read);
      count += 1;
    } while (claim.position.looked.size > 0);
    expect(most).toBeLessThan(BOUND);
    expect(count).toBeLessThan(100);
    // the newest is found before its turn: what happens now does not wait for what is held back
    expect(found).toEqual(['199999', '100000']);
    await query(`update deliveries set next_attempt_at = null where id = $1`, 'whc_we_a000000000');
    expect(claimedOf(await claim()).map(({ sequence }) => sequence)).toContain(0);
  }, 300_000);

  it('is bounded over endpoints, and each has its turn', async () => {
    const endpoints = Array.from({ length: 1_000 }, (_, n) => `we_${String(n).padStart(4, '0')}`);
    await query(
      `insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence, created_at)
       select 'whc_' || lpad(n::text, 9, '0'), 'evt_' || n, 'we_' || lpad((n % 1000)::text, 4, '0'), '', 'acc', 'email.new',
         'email_' || n, n, now() from generate_series(0, ${BACKLOG - 1}) n`,
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
