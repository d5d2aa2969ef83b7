import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { eraseDelivered, eraseEvents, eraseEventsOf } from '../../../src/db/coordination/removal.ts';
import type { Db } from '../../../src/db/driver/client.ts';
import { newId } from '../../../src/new-id.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

let test: TestDatabase;
const [removed, neighbour] = [newId('account'), newId('account')];
const [OWN, OTHERS] = [50, 20_000];
beforeAll(async () => {
  test = await testDatabase();
  const { pool } = test.database;
  for (const [account, events] of [
    [removed, OWN],
    [neighbour, OTHERS],
  ])
    await pool.query(
      `insert into events (id, account_id, type, sequence, object_id, data, created_at)
      select 'evt_' || $1 || n, $1, 'email.new', n, 'email_' || n, '{"email":{}}', now() from generate_series(1, $2::int) n`,
      [account, events],
    );
  await pool.query('vacuum analyze events');
});
afterAll(() => test.drop());

it('erases the events of one account without reading those of others', async () => {
  const read = await test.database.db.transaction(async (tx) => {
    const rowsRead = async () => {
      const { rows } = await tx.execute<{ read: number }>(sql`
        select (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as read from pg_stat_xact_user_tables where relname = 'events'`);
      return rows[0]?.read ?? 0;
    };
    const before = await rowsRead();
    expect(await eraseEvents(tx as unknown as Db, removed, { evenPending: true })).toBe(true);
    return (await rowsRead()) - before;
  });
  const { rows } = await test.database.pool.query(
    `select account_id, count(*)::int as whole from events where data <> '{}' group by account_id`,
  );
  expect(rows).toEqual([{ account_id: neighbour, whole: OTHERS }]);
  expect(read).toBeLessThan(10 * OWN);
});

it('erases an event with a pending delivery when that has ended', async () => {
  const { db, pool } = test.database;
  const account = newId('account');
  for (const [id, status] of [
    ['evt_delivered', 'delivered'],
    ['evt_waits', 'pending'],
    ['evt_waits_longer', 'pending'],
  ]) {
    await pool.query(
      `with event as (
        insert into events (id, account_id, type, sequence, object_id, data, created_at)
        select $1, $2, 'email.new', count(*) + 1, 'of_excluded', '{"email":{}}', now() from events where account_id = $2 returning *
      )
      insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, status, created_at)
      select 'dlv_' || id, id, 'we_1', 'http://127.0.0.1', account_id, type, object_id, $3, now() from event`,
      [id, account, status],
    );
  }
  const whole = async () => {
    await eraseDelivered(db);
    const { rows } = await pool.query(`select id from events where account_id = $1 and data <> '{}' order by id`, [
      account,
    ]);
    return rows.map(({ id }) => id);
  };
  expect(await whole()).toEqual(['evt_delivered', 'evt_waits', 'evt_waits_longer']);
  await eraseEventsOf(db, account, ['of_excluded']);
  expect(await whole()).toEqual(['evt_waits', 'evt_waits_longer']);
  await pool.query(`update deliveries set status = 'failed' where id = 'dlv_evt_waits'`);
  expect(await whole()).toEqual(['evt_waits_longer']);
  await pool.query(`delete from deliveries where id = 'dlv_evt_waits_longer'`);
  expect(await whole()).toEqual([]);
  expect((await pool.query('select from events_to_erase')).rowCount).toBe(0);
});
