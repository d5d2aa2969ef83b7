import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ALERT_TIMES, claimMessage, lookForProblems, settleMessage } from '../../src/alerts/alert-state.ts';
import type { AlertMessage } from '../../src/contract/overview.ts';
import { readOverview } from '../../src/db/queries/overview.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { storeEndpoint } from '../helpers/product/stored-endpoint.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';

const secrets = createSecrets({ current: randomBytes(32) });
const START = new Date('2026-06-10T12:00:00.000Z');
const after = (minutes: number) => new Date(START.getTime() + minutes * 60_000);

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test?.drop());
beforeEach(async () => {
  for (const table of ['accounts', 'webhook_endpoints', 'pending_deliveries', 'alerts', 'alert_messages']) {
    await test.database.pool.query(`delete from ${table}`);
  }
});

const query = (text: string, values: unknown[] = []) => test.database.pool.query(text, values);
const look = (minutes: number, more: Partial<Parameters<typeof lookForProblems>[1]> = {}) =>
  lookForProblems(test.database.db, {
    backlog: 5,
    channels: ['url'],
    installation: 'https://mail.example.com',
    now: after(minutes),
    times: ALERT_TIMES,
    ...more,
  });
const messages = async (): Promise<AlertMessage[]> =>
  (await query('select body from alert_messages order by created_at, id')).rows.map(({ body }) => body as AlertMessage);

async function mailbox(name: string, host: string, change: string, values: unknown[] = []): Promise<string> {
  const id = await storeAccount(test.database, { name });
  await query(`update accounts set imap_host = $2, ${change} where id = $1`, [id, host, ...values]);
  return id;
}
const disconnected = (name: string, host = 'imap.example.com') =>
  mailbox(name, host, `status = 'disconnected', status_detail = 'the login was refused', connected_at = $3`, [START]);
const away = (name: string, since: Date, host = 'imap.example.com') =>
  mailbox(name, host, `status = 'errored', status_detail = 'connection refused', not_in_sync_since = $3`, [since]);
const recover = () => query(`update accounts set status = 'running', status_detail = '', not_in_sync_since = null`);

describe('alerts', () => {
  it('report a disconnected mailbox once, and once that it is connected again', async () => {
    const id = await disconnected('Ada');
    for (const minutes of [0, 0.25]) expect(await look(minutes)).toBe(0);
    expect(await look(0.5)).toBe(1);
    for (const minutes of [1, 10, 600]) expect(await look(minutes)).toBe(0);
    await recover();
    expect(await look(700)).toBe(1);
    expect(await look(800)).toBe(0);
    const [opened, closed] = await messages();
    expect(opened).toMatchObject({
      object: 'Alert',
      opened: [{ kind: 'mailbox_disconnected', id, name: 'Ada', server: 'imap.example.com', ended_at: null }],
      closed: [],
    });
    expect(opened?.text).toBe(
      'New:\n- Mailbox Ada is disconnected: the login was refused. Since Wed, 10 Jun 2026 12:00:00 UTC. ' +
        `https://mail.example.com/mailboxes/${id}`,
    );
    expect(closed).toMatchObject({ opened: [], closed: [{ id, ended_at: after(700).toISOString() }] });
  });

  it('report nothing that is over at once', async () => {
    await disconnected('Ada');
    await look(0);
    await recover();
    expect(await look(1)).toBe(0);
    expect((await query('select from alerts')).rowCount).toBe(0);
  });

  it('are one message for a server with 500 mailboxes that is away, and one when it is back', async () => {
    for (let n = 0; n < 500; n++) await away(`Mailbox ${n}`, after(0));
    expect(await look(9)).toBe(0);
    for (let minutes = 10; minutes < 60; minutes += 0.25) await look(minutes);
    expect(await messages()).toMatchObject([
      {
        opened_total: 1,
        opened: [{ kind: 'server_unreachable', id: null, name: 'imap.example.com', count: 500 }],
        text: expect.stringContaining('Server imap.example.com of 500 mailboxes cannot be reached'),
      },
    ]);
    await recover();
    for (let minutes = 60; minutes < 70; minutes += 0.25) await look(minutes);
    expect((await messages()).map(({ opened_total: opened, closed_total: closed }) => [opened, closed])).toEqual([
      [1, 0],
      [0, 1],
    ]);
  });

  it('are as few where its mailboxes go away, and come back, one after another', async () => {
    const ids = [];
    for (let n = 0; n < 8; n++) ids.push(await away(`box ${n}`, after(n < 3 ? 0 : 1)));
    for (const minutes of [10, 10.5, 11, 12]) await look(minutes);
    const back = (some: string[]) =>
      query(`update accounts set status = 'running', not_in_sync_since = null where id = any($1)`, [some]);
    await back(ids.slice(0, 5));
    for (const minutes of [20, 20.5, 21]) await look(minutes);
    await back(ids);
    for (const minutes of [22, 30, 40]) await look(minutes);
    const kinds = (await messages()).flatMap(({ opened, closed }) => [...opened, ...closed].map(({ kind }) => kind));
    expect(kinds).toEqual(['server_unreachable', 'server_unreachable']);
  });

  it('report each mailbox where the others of its server can be reached, however long three of them cannot', async () => {
    for (let n = 0; n < 7; n++) await mailbox(`Well ${n}`, 'imap.example.com', `status = 'running'`);
    for (const name of ['Ada', 'Bob', 'Cyd']) await away(name, after(0));
    await look(10);
    expect(await look(10.5)).toBe(1);
    // a fourth one, a week later
    const id = await away('Dan', after(10_000));
    await look(10_010);
    expect(await look(10_010.5)).toBe(1);
    const [first, second] = await messages();
    expect(first?.opened.map(({ kind }) => kind)).toEqual(Array(3).fill('mailbox_unreachable'));
    expect(second).toMatchObject({ opened: [{ kind: 'mailbox_unreachable', id }], closed: [] });
  });

  it('stay open for as long as the problem lasts, though the event of its begin is no longer stored', async () => {
    const [errored] = await Promise.all([away('Ada', after(0)), disconnected('Bob', 'imap.example.org')]);
    await query(`update accounts set not_in_sync_since = null, last_synced_at = $1, connected_at = $2`, [
      after(-5),
      after(-9),
    ]);
    await query(
      `insert into events (id, account_id, object_id, sequence, type, data, created_at)
       select 'event_' || id, id, id, 1, 'account.status.' || status, '{}', $1 from accounts`,
      [after(0)],
    );
    await look(10);
    expect(await look(10.5)).toBe(1);
    await query('delete from events');
    const month = 31 * 24 * 60;
    await look(month);
    expect(await look(month + 10)).toBe(0);
    expect((await messages()).map(({ opened_total: opened, closed_total: closed }) => [opened, closed])).toEqual([
      [2, 0],
    ]);
    const { problems } = await readOverview(test.database.pool, { period: 'day' });
    expect(problems.find(({ id }) => id === errored)?.since).toBe(after(-5).toISOString());
  });

  it('are two messages when a server refuses 500 logins one after another', async () => {
    for (let n = 0; n < 500; n++) {
      await disconnected(`Mailbox ${n}`);
      if (n % 100 === 99) await look(n / 100);
    }
    for (let minutes = 5; minutes < 20; minutes += 0.25) await look(minutes);
    const [first, second, ...rest] = await messages();
    expect(rest).toEqual([]);
    expect((first?.opened_total ?? 0) + (second?.opened_total ?? 0)).toBe(500);
    expect(second?.opened).toHaveLength(100);
    expect(second?.text.split('\n')).toHaveLength(2);
    expect(second?.text).toContain('mailboxes at imap.example.com are disconnected');
  });

  it('report an endpoint after ten minutes, and a backlog until it has fallen', async () => {
    const id = await storeEndpoint(test.database, secrets, { description: 'Orders' });
    await query('update webhook_endpoints set failing_since = $1, failed_attempts = 7', [after(0)]);
    expect(await look(9.9)).toBe(0);
    await look(10);
    expect(await look(10.5)).toBe(1);
    const wait = (count: number) =>
      query(
        `insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, due_at)
         select gen_random_uuid(), $1, n, n, now() from generate_series(1, $2::int) n`,
        [id, count],
      );
    await wait(6);
    await look(20);
    expect(await look(20.5)).toBe(1);
    await query(`delete from pending_deliveries where sequence = 6`);
    await query('update webhook_endpoints set failing_since = null, failed_attempts = 0');
    await look(30);
    await query(`delete from pending_deliveries where sequence > 3`);
    await look(40);
    const texts = (await messages()).map(({ opened, closed }) => [
      opened.map(({ kind }) => kind),
      closed.map(({ kind }) => kind),
    ]);
    expect(texts).toEqual([
      [['endpoint_failing'], []],
      [['backlog'], []],
      [[], ['endpoint_failing']],
      [[], ['backlog']],
    ]);
  });

  it('are made once by workers that look at the same time, and sent by one of them', async () => {
    await disconnected('Ada');
    await look(0);
    await Promise.all([1, 2, 3, 4, 5].map(() => look(1, { channels: ['url', 'email'] })));
    expect(await messages()).toHaveLength(2);
    const claims = await Promise.all([1, 2, 3, 4, 5].map(() => claimMessage(test.database.db, after(1))));
    const held = claims.filter((one) => one !== undefined);
    expect(new Set(held.map(({ id }) => id)).size).toBe(2);
    expect(held).toHaveLength(2);
  });

  it('are sent again after a failure and after a killed worker, and given up after a day', async () => {
    const { db } = test.database;
    await disconnected('Ada');
    await look(0);
    await look(1);
    const first = await claimMessage(db, after(1));
    expect(first).toBeDefined();
    // its worker is killed before it settles it
    expect(await claimMessage(db, after(2.9))).toBeUndefined();
    const second = await claimMessage(db, after(3.1));
    expect(second).toMatchObject({ id: first?.id, attempts: 2 });
    if (!second) return;
    expect(await settleMessage(db, second, 'the response was 500', after(3.2))).toBe('due');
    const third = await claimMessage(db, after(60));
    expect(third?.attempts).toBe(3);
    if (!third) return;
    expect(await settleMessage(db, third, 'the response was 500', after(25 * 60))).toBe('failed');
    expect(await claimMessage(db, after(48 * 60))).toBeUndefined();
  });

  it('are made and sent as ever after the clock was ahead and is set back', async () => {
    const { db } = test.database;
    const day = 24 * 60;
    await disconnected('Ada', 'imap.example.org');
    await look(day);
    expect(await look(day + 1)).toBe(1);
    const first = await claimMessage(db, after(day + 1));
    if (first) await settleMessage(db, first, 'the response was 500', after(day + 1));
    await disconnected('Bob', 'imap.example.net');
    await look(day + 2);
    // the clock is right again
    expect(await look(0)).toBe(1);
    expect(await claimMessage(db, after(0))).toMatchObject({ body: { opened: [{ name: 'Bob' }] } });
    expect(await claimMessage(db, after(0))).toMatchObject({ id: first?.id });
    expect(await claimMessage(db, after(0))).toBeUndefined();
    await recover();
    expect(await look(1)).toBe(0);
    expect(await look(5.1)).toBe(1);
  });

  it('are not repeated sooner by a worker whose clock is a little behind', async () => {
    const { db } = test.database;
    await disconnected('Ada', 'imap.example.org');
    await look(0);
    expect(await look(0.49)).toBe(0);
    expect(await look(-0.1)).toBe(0);
    expect(await look(1)).toBe(1);
    await disconnected('Bob', 'imap.example.net');
    await look(1);
    expect(await look(0.9)).toBe(0);
    expect(await claimMessage(db, after(0.9))).toBeUndefined();
    expect(await look(2)).toBe(0);
  });
});
