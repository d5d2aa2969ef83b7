import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  releaseDeliveries,
  requeueDelivery,
  skipDeliveries,
  skipOfRemoved,
} from '../../../src/webhooks/log/delivery-state.ts';
import { WaitTimeout } from '../../helpers/assert/wait.ts';
import { claimOnce } from '../../helpers/assert/queue.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

/** Whatever happens to deliveries while they are claimed: nothing is left behind, and no object is called twice at a time. */

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase({ max: 12 });
});
afterAll(() => test.drop());
beforeEach(async () => {
  await test.database.pool.query('truncate webhook_endpoints, deliveries, pending_deliveries');
});

const query = async <T extends object>(text: string, ...values: unknown[]) =>
  (await test.database.pool.query<T>(text, values)).rows;

/** Deliveries of `we_a`, of objects that happen one after another. */
const wait = (count: number, objects: number, due = 'now()') =>
  query(
    `with delivery as (
       insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence, created_at)
       select 'whc_' || lpad(n::text, 9, '0'), 'evt_' || n, 'we_a', '', 'acc', 'email.new', 'email_' || (n % $2::int), n,
         now()
       from generate_series(1, $1::int) n returning *, sequence as n
     )
     insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, due_at, waits_for)
     select id, endpoint_id, object_id, n, ${due}, case when ${due} > now() then 'retry' end from delivery`,
    count,
    objects,
  );

const count = async (from: string) => (await query<{ n: number }>(`select count(*)::int as n from ${from}`))[0]?.n ?? 0;

/** Objects that two runs are calling. */
const CALLED_TWICE = `pending_deliveries d where d.workflow_id is not null and d.waits_for is null and exists (
  select from pending_deliveries o where o.endpoint_id = d.endpoint_id and o.object_id = d.object_id
    and o.workflow_id <> d.workflow_id and o.waits_for is null)`;
/** Deliveries of which log and queue say different things. */
const UNEQUAL = `deliveries d full join pending_deliveries p on p.delivery_id = d.id
  where (d.status = 'pending') is distinct from (p.delivery_id is not null)`;

describe('deliveries of objects that are claimed by several workers', () => {
  it('are all made, even when deliveries end, wait, are released, skipped or retried in between', async () => {
    const total = isLong() ? 6_000 : 600;
    await wait(total, 12, `now() + case when n % 5 = 0 then random() * interval '200 milliseconds' else '0' end`);
    let retries = total / 10;
    let done = false;
    const during = async (work: () => Promise<unknown>) => {
      while (!done) await work();
    };
    const some = async (from: string, limit = 4) =>
      (await query<{ id: string }>(`select * from (${from}) s order by random() limit ${limit}`)).map(({ id }) => id);
    const IN_RUN = `select delivery_id as id from pending_deliveries where workflow_id is not null`;
    const skip = (ids: string[]) => skipDeliveries(test.database.db, ids, 'the test ends it');
    const end = async () => {
      const [first = '', second = '', ...others] = await some(IN_RUN, 6);
      const [run] = await query<{ workflow_id: string }>(
        `select workflow_id from pending_deliveries where delivery_id = $1`,
        first,
      );
      await releaseDeliveries(test.database.db, [first], run?.workflow_id ?? '');
      await query(
        `update pending_deliveries set workflow_id = null, waits_for = 'retry', due_at = now() + interval '20 milliseconds'
         where delivery_id = $1 and workflow_id is not null`,
        second,
      );
      await skip(others);
    };
    const skipWaiting = async () =>
      skip(await some(`select delivery_id as id from pending_deliveries where workflow_id is null`, 1));
    const retry = async () => {
      if (retries-- <= 0) return skipWaiting();
      const [id = ''] = await some(`select id from deliveries where status <> 'pending'`, 1);
      return requeueDelivery(test.database.db, id);
    };
    const putOff: number[] = [];
    const watch = async () => {
      putOff.push(await count(`pending_deliveries where waits_for = 'order'`));
      expect(await count(CALLED_TWICE)).toBe(0);
      expect(await count(UNEQUAL)).toBe(0);
      done = (await count('pending_deliveries')) === 0;
      if (performance.now() > deadline) throw new WaitTimeout('deliveries are left behind');
    };
    const deadline = performance.now() + 240_000;
    const relay = () => claimOnce(test.database.db, { most: 8 });
    const work = [relay, relay, relay, end, end, end, skipWaiting, retry, watch].map((each) => during(each));
    try {
      await Promise.all(work);
    } finally {
      done = true;
      await Promise.allSettled(work);
    }
    expect(Math.max(...putOff)).toBeGreaterThan(10);
  }, 300_000);

  it('continue within a second when the one before them has disappeared', async () => {
    await wait(30, 1, `now() + case when n = 1 then interval '1 hour' else '0' end`);
    expect(await claimOnce(test.database.db)).toEqual([]);
    expect(await count(`pending_deliveries where waits_for = 'order'`)).toBe(29);
    // a row of the queue that an operator deletes by hand; something of the object happens after that
    await query(`delete from pending_deliveries where sequence = 1`);
    await query(`update pending_deliveries set due_at = now() where sequence = 30`);
    const [run] = await claimOnce(test.database.db);
    expect(run?.deliveries[0]?.sequence).toBe(2);
  });
});

/** The rows of the queue that each statement changes at most. */
async function mostChangedBy(work: () => Promise<unknown>): Promise<number> {
  await query(`create table changes (n int)`);
  await query(`create function note_changes() returns trigger language plpgsql as
    $$ begin insert into changes select count(*) from changed; return null; end $$`);
  await query(`create trigger note_updates after update on pending_deliveries referencing new table as changed
    for each statement execute function note_changes()`);
  await query(`create trigger note_deletions after delete on pending_deliveries referencing old table as changed
    for each statement execute function note_changes()`);
  try {
    await work();
    return (await query<{ n: number }>(`select max(n) as n from changes`))[0]?.n ?? 0;
  } finally {
    await query(`drop trigger note_updates on pending_deliveries`);
    await query(`drop trigger note_deletions on pending_deliveries`);
    await query(`drop function note_changes`);
    await query(`drop table changes`);
  }
}

describe('a change of many deliveries is made in chunks', () => {
  it('when an account is removed', async () => {
    await wait(2_500, 2_500);
    // the last event, and those of an OAuth app
    const kept = { 2_498: 'oauth_app.failing', 2_499: 'oauth_app.recovered', 2_500: 'account.remove' };
    for (const [sequence, type] of Object.entries(kept))
      await query(`update deliveries set event_type = $1 where sequence = $2`, type, sequence);
    const most = await mostChangedBy(() => skipOfRemoved(test.database.db, 'acc'));
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(1_000);
    expect(await count(`deliveries where status = 'skipped'`)).toBe(2_497);
    expect(await query(`select event_type from deliveries where status = 'pending' order by sequence`)).toEqual(
      Object.values(kept).map((type) => ({ event_type: type })),
    );
    expect(await count(UNEQUAL)).toBe(0);
  });

  it('when a delivery is retried by hand that follows many of its object', async () => {
    await wait(2_500, 1);
    const most = await mostChangedBy(() => requeueDelivery(test.database.db, `whc_${'2400'.padStart(9, '0')}`));
    expect(most).toBeLessThanOrEqual(1_000);
    expect(await count('pending_deliveries where line = 0')).toBe(2_400);
  });
});
