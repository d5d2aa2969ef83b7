import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newId } from '../../../src/new-id.ts';
import { startPosition } from '../../../src/webhooks/dispatch/claim-queries.ts';
import {
  claimDeliveries,
  releaseDeliveries,
  requeueDelivery,
  skipOfRemoved,
} from '../../../src/webhooks/log/delivery-state.ts';
import { planRuns } from '../../../src/webhooks/dispatch/relay.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { WaitTimeout } from '../../helpers/assert/wait.ts';

/** Deliveries that claims have marked as held back: nothing is left behind, and nothing of one object is called twice at a time. */

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase({ max: 12 });
});
afterAll(() => test.drop());
beforeEach(async () => {
  await test.database.pool.query('truncate webhook_endpoints, deliveries');
});

const query = async <T extends object>(text: string, ...values: unknown[]) =>
  (await test.database.pool.query<T>(text, values)).rows;

/** Deliveries of `we_a`, of objects that happen one after another. */
const wait = (count: number, objects: number, next = 'null') =>
  query(
    `insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, sequence,
       created_at, next_attempt_at)
     select 'whc_' || lpad(n::text, 9, '0'), 'evt_' || n, 'we_a', '', 'acc', 'email.new', 'email_' || (n % $2::int), n,
       now(), ${next}
     from generate_series(1, $1::int) n`,
    count,
    objects,
  );

const relay = () => {
  const position = startPosition();
  return () => claimDeliveries(test.database.db, { perEndpoint: 8, except: [], plan: planRuns, position });
};
const ended = (ids: readonly string[], status = 'delivered') =>
  query(`update deliveries set status = $1, held = false where id = any($2) and status = 'pending'`, status, ids);
const count = async (where: string) =>
  (await query<{ n: number }>(`select count(*)::int as n from deliveries d where ${where}`))[0]?.n ?? 0;

/** Marks that nothing would take away. */
const LEFT_BEHIND = `d.held and d.status = 'pending' and not exists (select from deliveries p where p.status = 'pending'
  and p.endpoint_id = d.endpoint_id and p.object_id = d.object_id and p.sequence < d.sequence)`;
/** Objects that two runs are calling. */
const CALLED_TWICE = `d.status = 'pending' and d.workflow_id is not null and d.next_attempt_at is null and exists (
  select from deliveries o where o.status = 'pending' and o.endpoint_id = d.endpoint_id and o.object_id = d.object_id
    and o.workflow_id <> d.workflow_id and o.next_attempt_at is null)`;

describe('deliveries that are held back', () => {
  it('are all made, whatever ends, waits, is released, skipped or retried while they are claimed', async () => {
    const total = isLong() ? 6_000 : 600;
    await wait(total, 12, `case when n % 5 = 0 then now() + random() * interval '200 milliseconds' end`);
    let retries = total / 10;
    let done = false;
    const during = async (work: () => Promise<unknown>) => {
      while (!done) await work();
    };
    const some = async (where: string, limit = 4) =>
      (await query<{ id: string }>(`select id from deliveries where ${where} order by random() limit ${limit}`)).map(
        ({ id }) => id,
      );
    const IN_RUN = `status = 'pending' and workflow_id is not null`;
    const end = async () => {
      const ids = await some(IN_RUN, 6);
      const [first = '', second = '', ...others] = ids;
      const [run] = await query<{ workflow_id: string }>(`select workflow_id from deliveries where id = $1`, first);
      await releaseDeliveries(test.database.db, [first], run?.workflow_id ?? '');
      await query(
        `update deliveries set workflow_id = null, next_attempt_at = now() + interval '20 milliseconds'
         where id = $1 and ${IN_RUN}`,
        second,
      );
      await ended(others, Math.random() < 0.8 ? 'delivered' : 'failed');
    };
    const skip = async () => ended(await some(`status = 'pending' and workflow_id is null`, 1), 'skipped');
    const retry = async () => {
      if (retries-- <= 0) return skip();
      const [id = ''] = await some(`status <> 'pending'`, 1);
      return requeueDelivery(test.database.db, id);
    };
    const marked: number[] = [];
    const watch = async () => {
      marked.push(await count('d.held'));
      expect(await count(LEFT_BEHIND)).toBe(0);
      expect(await count(CALLED_TWICE)).toBe(0);
      done = (await count(`d.status = 'pending'`)) === 0;
      if (performance.now() > deadline) throw new WaitTimeout('deliveries are left behind');
    };
    const deadline = performance.now() + 240_000;
    const work = [relay(), relay(), relay(), end, end, end, skip, retry, watch].map((each) => during(each));
    try {
      await Promise.all(work);
    } finally {
      done = true;
      await Promise.allSettled(work);
    }
    expect(Math.max(...marked)).toBeGreaterThan(20);
    expect(await count(LEFT_BEHIND)).toBe(0);
  }, 300_000);

  it('go on when the one before them is deleted', async () => {
    await wait(30, 1, `case when n = 1 then now() + interval '1 hour' end`);
    const claim = relay();
    for (let n = 0; n < 3; n++) expect(await claim()).toEqual([]);
    expect(await count('d.held')).toBe(29);
    await query(`delete from deliveries where sequence = 1`);
    const [run] = await claim();
    expect(run?.deliveries[0]?.sequence).toBe(2);
    // a run has them: nothing holds them back
    expect(await count('d.held and d.workflow_id is not null')).toBe(0);
  });

  it('are not marked while they are few and the one before them is being made', async () => {
    await wait(5, 1);
    const claim = relay();
    const [run] = await claim();
    expect(run?.deliveries).toHaveLength(5);
    await ended(run?.deliveries.slice(0, 1).map(({ id }) => id) ?? []);
    await query(`update deliveries set workflow_id = null where sequence > 3`);
    expect(await claim()).toEqual([]);
    expect(await count('d.held')).toBe(0);
  });
});

/** The rows that each statement changes at most. */
async function mostChangedBy(work: () => Promise<unknown>): Promise<number> {
  await query(`create table changes (n int)`);
  await query(`create function note_changes() returns trigger language plpgsql as
    $$ begin insert into changes select count(*) from changed; return null; end $$`);
  await query(`create trigger note_changes after update on deliveries referencing new table as changed
    for each statement execute function note_changes()`);
  try {
    await work();
    return (await query<{ n: number }>(`select max(n) as n from changes`))[0]?.n ?? 0;
  } finally {
    await query(`drop trigger note_changes on deliveries`);
    await query(`drop function note_changes`);
    await query(`drop table changes`);
  }
}

describe('what changes many deliveries goes in chunks', () => {
  it('when an account is removed', async () => {
    await wait(2_500, 2_500);
    const last = newId('delivery');
    await query(`update deliveries set id = $1, event_type = 'account.remove' where sequence = 2500`, last);
    expect(await mostChangedBy(() => skipOfRemoved(test.database.db, 'acc'))).toBeLessThanOrEqual(1_000);
    expect(await count(`d.status = 'skipped'`)).toBe(2_499);
    expect(await query(`select id from deliveries where status = 'pending'`)).toEqual([{ id: last }]);
  });

  it('when one is retried by hand after many of its object', async () => {
    await wait(2_500, 1);
    expect(
      await mostChangedBy(() => requeueDelivery(test.database.db, `whc_${'2400'.padStart(9, '0')}`)),
    ).toBeLessThanOrEqual(1_000);
    expect(await count('d.forced')).toBe(2_400);
  });
});
