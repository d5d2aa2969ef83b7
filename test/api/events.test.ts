import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { EVENT_TYPES, type EventList, type EventType } from '../../src/contract/events.ts';
import { eraseEventsOf } from '../../src/db/coordination/removal.ts';
import type { Tx } from '../../src/db/driver/client.ts';
import { alignPositions } from '../../src/db/queries/event-feed.ts';
import { recordEvents } from '../../src/db/outbox.ts';
import { newId } from '../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { waitFor } from '../helpers/assert/wait.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());
beforeEach(() => api.database.pool.query('truncate events, deliveries'));

const happen = (tx: Tx, account: string, types: EventType[] = ['email.new']) =>
  recordEvents(
    tx,
    account,
    types.map((type) => ({ type, objectId: newId('email'), data: { email: { subject: 'é' } }, createdAt: new Date() })),
  );
const commit = async (account: string, types?: EventType[]) => {
  await api.database.db.transaction((tx) => happen(tx, account, types));
  await settle();
};
const feed = (query = '') => api.get<EventList>(`/webhooks/events?${query}`);

/** Waits until transactions of other databases of the server hold back nothing that was committed before. */
async function settle(): Promise<void> {
  const { pool } = api.database;
  const { rows } = await pool.query<{ next: string }>('select pg_snapshot_xmax(pg_current_snapshot())::text as next');
  await waitFor(async () => {
    const passed = 'select from (select pg_snapshot_xmin(pg_current_snapshot()) as xmin) s where xmin >= $1::xid8';
    return (await pool.query(passed, [rows[0]?.next])).rowCount === 1;
  });
}
/** The events of a page as `account/sequence`. */
const names = async (query = '') => (await feed(query)).data.map((event) => `${event.account_id}/${event.sequence}`);

/** A transaction that stays open until `end` is called. */
async function open(work: (tx: Tx) => Promise<unknown>): Promise<() => Promise<void>> {
  let end = () => {};
  const ended = new Promise<void>((resolve) => (end = resolve));
  let transaction: Promise<void> = Promise.resolve();
  await new Promise<void>((begun, failed) => {
    transaction = api.database.db.transaction(async (tx) => {
      await work(tx);
      begun();
      await ended;
    });
    transaction.catch(failed);
  });
  return () => {
    end();
    return transaction;
  };
}

describe('the list of events', () => {
  it('has the events as they are delivered, oldest first, in pages', async () => {
    const account = await storeAccount(api.database);
    await commit(account, ['email.new', 'email.update', 'email.delete']);
    await commit(account, ['account.status.errored']);
    const all = await feed();
    expect(all).toMatchObject({ object: 'Events', has_more: false, cursor: null });
    expect(all.data.map(({ sequence, type }) => [sequence, type])).toEqual([
      [1, 'email.new'],
      [2, 'email.update'],
      [3, 'email.delete'],
      [4, 'account.status.errored'],
    ]);
    expect(all.data[0]).toEqual({
      object: 'Event',
      id: expect.stringMatching(/^evt_/),
      type: 'email.new',
      created_at: expect.any(String),
      account_id: account,
      endpoint_id: null,
      sequence: 1,
      data: { email: { subject: 'é' } },
    });
    const first = await feed('limit=3');
    expect(first).toEqual({ ...all, data: all.data.slice(0, 3), has_more: true, cursor: all.data[2]?.id });
    expect((await feed(`limit=3&after=${first.cursor}`)).data).toEqual(all.data.slice(3));
    expect((await feed(`limit=3&cursor=${first.cursor}`)).data).toEqual(all.data.slice(3));
    expect((await feed(`after=${all.data[3]?.id}`)).data).toEqual([]);
    const newest = await feed('limit=3&order=desc');
    const back = all.data.toReversed();
    expect(newest).toEqual({ ...all, data: back.slice(0, 3), has_more: true, cursor: back[2]?.id });
    const older = await feed(`limit=3&order=desc&cursor=${newest.cursor}`);
    expect(older).toEqual({ ...all, data: back.slice(3) });
    expect((await feed(`limit=3&order=desc&account_id=${account}`)).data).toEqual(back.slice(0, 3));
    expect((await feed(`order=desc&account_id=${account}&cursor=${newest.cursor}`)).data).toEqual(back.slice(3));
    expect((await api.call('GET', '/webhooks/events?order=up')).statusCode).toBe(400);
  });

  it('is narrowed to types and to an account, also after an event of another one', async () => {
    const accounts = [await storeAccount(api.database), await storeAccount(api.database)].sort();
    const [one = '', two = ''] = accounts;
    await api.database.db.transaction(async (tx) => {
      for (const account of accounts) await happen(tx, account, ['email.new', 'email.update']);
    });
    await commit(one, ['email.new', 'email.delete']);
    const { data } = await feed();
    expect(data.map((event) => `${event.account_id}/${event.sequence}`)).toEqual([
      ...[`${one}/1`, `${one}/2`, `${two}/1`, `${two}/2`],
      ...[`${one}/3`, `${one}/4`],
    ]);
    expect(await names(`account_id=${two}`)).toEqual([`${two}/1`, `${two}/2`]);
    expect(await names('types=email.new')).toEqual([`${one}/1`, `${two}/1`, `${one}/3`]);
    expect(await names('types=email.update,email.delete')).toEqual([`${one}/2`, `${two}/2`, `${one}/4`]);
    for (const [index, { id }] of data.entries()) {
      const later = data.slice(index + 1);
      for (const account of accounts) {
        const wanted = later.filter((event) => event.account_id === account).map((event) => event.id);
        expect((await feed(`account_id=${account}&after=${id}`)).data.map((event) => event.id)).toEqual(wanted);
      }
    }
    expect(await names(`account_id=${one}&types=email.new&limit=1`)).toEqual([`${one}/1`]);
  });

  it('never gets an event before one that it has shown, however late its transaction commits', async () => {
    const [slow, fast] = [await storeAccount(api.database), await storeAccount(api.database)];
    await commit(fast);
    const seen = await feed();
    const end = await open((tx) => happen(tx, slow));
    await api.database.db.transaction((tx) => happen(tx, fast));
    const during = await feed(`after=${seen.data.at(-1)?.id}`);
    await end();
    await settle();
    const last = during.data.at(-1) ?? seen.data.at(-1);
    const after = await feed(`after=${last?.id}`);
    const all = [...seen.data, ...during.data, ...after.data].map((event) => `${event.account_id}/${event.sequence}`);
    expect(all).toHaveLength(3);
    expect(all).toEqual(await names());
    expect(new Set(all)).toEqual(new Set([`${fast}/1`, `${slow}/1`, `${fast}/2`]));
  });

  it('keeps the order of an account when a transaction that began earlier comes later', async () => {
    const account = await storeAccount(api.database);
    // its number is the smaller one, its event the second
    let go = () => {};
    const may = new Promise<void>((resolve) => (go = resolve));
    let numbered = () => {};
    const hasNumber = new Promise<void>((resolve) => (numbered = resolve));
    const early = api.database.db.transaction(async (tx) => {
      await tx.execute(sql`select pg_current_xact_id()`);
      numbered();
      await may;
      await happen(tx, account);
    });
    await hasNumber;
    await api.database.db.transaction((tx) => happen(tx, account));
    go();
    await early;
    await settle();
    expect(await names()).toEqual([`${account}/1`, `${account}/2`]);
  });

  it('explains why it rejects an `after`', async () => {
    const old = `evt_${'01hq0000000000000000000000'}`;
    for (const [query, detail] of [
      [`after=${newId('event')}`, 'not the id of a stored event'],
      [`after=evt_${'z'.repeat(26)}`, 'not the id of a stored event'],
      [`after=evt_7${'z'.repeat(25)}`, 'not the id of a stored event'],
      [`after=${old}`, 'more than 30 days old'],
      ['after=nonsense', 'after is not the id'],
      ['cursor=nonsense', 'after is not the id'],
      ['types=email.unknown', 'email.unknown'],
      ['types=,', 'types'],
      ['limit=0', 'limit'],
    ]) {
      const answer = await api.call('GET', `/webhooks/events?${query}`);
      expect([answer.statusCode, answer.json().detail]).toEqual([400, expect.stringContaining(detail as string)]);
    }
  });

  it('leaves out events whose content was erased, and continues after them', async () => {
    const account = await storeAccount(api.database);
    await commit(account, ['email.new', 'email.update', 'email.new']);
    const { data } = await feed();
    const { rows } = await api.database.pool.query<{ object_id: string }>(
      'select object_id from events where id = $1',
      [data[1]?.id],
    );
    await eraseEventsOf(api.database.db, account, [rows[0]?.object_id ?? '']);
    expect(await names()).toEqual([`${account}/1`, `${account}/3`]);
    expect(await names(`after=${data[1]?.id}`)).toEqual([`${account}/3`]);
    expect(await names(`limit=2&order=desc&account_id=${account}`)).toEqual([`${account}/3`, `${account}/1`]);
  });

  it('continues in order after the database is restored from a dump', async () => {
    const [one, two] = [await storeAccount(api.database), await storeAccount(api.database)];
    await commit(one);
    await commit(two);
    await commit(one);
    const before = await feed();
    await api.database.pool.query('update events set position = position + 1000000000000');
    expect(await names()).toEqual([]);
    await alignPositions(api.database.db, EVENT_TYPES);
    await alignPositions(api.database.db, EVENT_TYPES);
    await commit(two);
    expect((await feed()).data.slice(0, 3)).toEqual(before.data);
    expect(await names(`after=${before.data[2]?.id}`)).toEqual([`${two}/2`]);
  });
});
