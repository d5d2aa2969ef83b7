import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import Value from 'typebox/value';
import { EVENT_DATA } from '../../src/contract/events.ts';
import { markRemoved } from '../../src/db/queries/accounts.ts';
import { accounts, trackingRecords } from '../../src/db/schema/index.ts';
import {
  findTracking,
  type Hit,
  recordHit,
  REPORTED_PER_MINUTE,
  saveTrackingRecord,
  type TrackingRecord,
} from '../../src/db/queries/tracking.ts';
import { newId } from '../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { storedEvents } from '../helpers/product/stored-events.ts';
import { waitFor } from '../helpers/assert/wait.ts';

const LINKS = ['https://shop.example/a?b=c&d=%20#e', 'http://other.example/', 'https://bücher.example/straße'];
const AGENT = 'Mozilla/5.0 (Test)';

let api: ApiUnderTest;
let account: string;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());
beforeEach(async () => {
  account = await storeAccount(api.database);
});

async function track(given: Partial<TrackingRecord> = {}): Promise<TrackingRecord> {
  const record = {
    id: newId('tracking'),
    accountId: account,
    emailId: newId('email'),
    messageId: '<m@example.test>',
    label: 'spring',
    opens: true,
    links: LINKS,
    createdAt: new Date(),
    ...given,
  };
  await api.database.db.transaction((tx) => saveTrackingRecord(tx, record));
  return record;
}

const fetchAt = (url: string, method: 'GET' | 'HEAD' = 'GET', headers: Record<string, string> = {}) =>
  api.app.inject({ method, url, headers: { 'user-agent': AGENT, ...headers } });
const events = () => storedEvents(api.database, account);

const NO_STORE = expect.stringContaining('no-store');

describe('the pixel', () => {
  it('is a transparent, uncacheable picture, and each load is reported', async () => {
    const { id, emailId } = await track();
    const before = Date.now();
    for (const url of [`/t/o/${id}.gif`, `/t/o/${id}.gif/`]) {
      const answer = await fetchAt(url);
      expect(answer.statusCode).toBe(200);
      expect(answer.headers).toMatchObject({ 'content-type': 'image/gif', 'cache-control': NO_STORE });
      expect(answer.rawPayload.subarray(0, 10)).toEqual(Buffer.from('GIF89a\x01\0\x01\0', 'latin1'));
    }
    const reported = await events();
    expect(reported).toHaveLength(2);
    expect(reported[0]).toEqual({
      type: 'tracking.open',
      objectId: emailId,
      data: {
        tracking_id: id,
        label: 'spring',
        message_id: '<m@example.test>',
        email_id: emailId,
        date: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        ip: '127.0.0.1',
        user_agent: AGENT,
      },
    });
    expect(Date.parse((reported[0]?.data as { date: string }).date)).toBeGreaterThanOrEqual(before);
    expect(Value.Check(EVENT_DATA['tracking.open'], reported[0]?.data)).toBe(true);
  });

  it('is a picture even when it records nothing', async () => {
    const { id } = await track({ opens: false });
    for (const file of [`${id}.gif`, id, `${newId('tracking')}.gif`, `${newId('email')}.gif`, 'x.gif', '%00.gif']) {
      const answer = await fetchAt(`/t/o/${file}`);
      expect([file, answer.statusCode, answer.headers['content-type']]).toEqual([file, 200, 'image/gif']);
    }
    expect(await events()).toEqual([]);
  });

  it('is not an open when requested by HEAD', async () => {
    const { id } = await track();
    const answer = await fetchAt(`/t/o/${id}.gif`, 'HEAD');
    expect([answer.statusCode, answer.headers['content-type'], answer.body]).toEqual([200, 'image/gif', '']);
    expect(await events()).toEqual([]);
  });

  it('reports a missing label as null, and a missing User-Agent as empty', async () => {
    const { id } = await track({ label: null });
    await api.app.inject({ method: 'GET', url: `/t/o/${id}.gif`, headers: { 'user-agent': '' } });
    expect((await events())[0]?.data).toMatchObject({ label: null, user_agent: '' });
  });

  it('truncates a long User-Agent, and removes control characters', async () => {
    const { id } = await track();
    await fetchAt(`/t/o/${id}.gif`, 'GET', { 'user-agent': `a\tb\x7f\x9f${'x'.repeat(2000)}` });
    const { user_agent } = (await events())[0]?.data as { user_agent: string };
    expect(user_agent).toBe(`abx${'x'.repeat(509)}`);
  });
});

describe('a tracked link', () => {
  it.each([
    [0, LINKS[0]],
    [1, LINKS[1]],
    [2, 'https://xn--bcher-kva.example/stra%C3%9Fe'],
  ])('leads to where number %i of the mail led, and is reported', async (n, target) => {
    const { id, emailId } = await track();
    const answer = await fetchAt(`/t/c/${id}/${n}`);
    expect([answer.statusCode, answer.headers.location]).toEqual([302, target]);
    expect(answer.headers['cache-control']).toEqual(NO_STORE);
    const [reported, ...more] = await events();
    expect(reported).toMatchObject({
      type: 'tracking.click',
      objectId: emailId,
      data: { tracking_id: id, label: 'spring', email_id: emailId, ip: '127.0.0.1', user_agent: AGENT, url: LINKS[n] },
    });
    expect(more).toEqual([]);
    expect(Value.Check(EVENT_DATA['tracking.click'], reported?.data)).toBe(true);
  });

  it('redirects HEAD without reporting it', async () => {
    const { id } = await track();
    const answer = await fetchAt(`/t/c/${id}/1`, 'HEAD');
    expect([answer.statusCode, answer.headers.location]).toEqual([302, LINKS[1]]);
    expect(await events()).toEqual([]);
  });

  it('redirects only to stored targets', async () => {
    const { id } = await track();
    const untracked = await track({ links: [] });
    const odd = await track({ links: ['javascript:alert(1)', 'https://x y', 'https://[', 'ftp://x.example/'] });
    const paths = [
      ...['3', '-1', '00', '01', '1e0', '0x1', '999999', 'x', '__proto__', 'length', '%2e'].map((n) => `${id}/${n}`),
      ...[0, 2, 3].map((n) => `${odd.id}/${n}`),
      ...[`${untracked.id}/0`, `${newId('tracking')}/0`, `${newId('email')}/0`, `x/0`, id],
    ];
    for (const path of paths) {
      const answer = await fetchAt(`/t/c/${path}`);
      expect([path, answer.statusCode, answer.headers.location]).toEqual([path, 404, undefined]);
      expect(answer.json()).toMatchObject({ status: 404, type: 'errors/not_found', title: 'Not found' });
    }
    expect(await events()).toEqual([]);
    const answer = await fetchAt(`/t/c/${id}/1?url=https://evil.example`);
    expect(answer.headers.location).toBe(LINKS[1]);
  });
});

describe('a record', () => {
  it('that is saved again is as it was saved last, and stays with its account', async () => {
    const record = await track();
    await track({ ...record, links: ['https://new.example/'], label: 'summer' });
    expect(await findTracking(api.database.db, record.id)).toEqual({
      ...record,
      links: ['https://new.example/'],
      label: 'summer',
    });
    const otherAccount = await storeAccount(api.database);
    await track({ ...record, accountId: otherAccount, links: ['https://evil.example/'] });
    expect(await findTracking(api.database.db, record.id)).toMatchObject({ accountId: account, label: 'summer' });
  });

  it('is erased with its account: the picture is still there, and no event is recorded', async () => {
    const record = await track();
    const { db } = api.database;
    await db.transaction((tx) => markRemoved(tx, account, new Date()));
    const [pixel, link] = [await fetchAt(`/t/o/${record.id}.gif`), await fetchAt(`/t/c/${record.id}/0`)];
    expect([pixel.statusCode, link.statusCode]).toEqual([200, 404]);
    // one that was found just before
    await recordHit(db, record, { date: new Date(), ip: '', userAgent: '' });
    await db.delete(trackingRecords).where(eq(trackingRecords.accountId, account));
    await db.update(accounts).set({ removedAt: null }).where(eq(accounts.id, account));
    await recordHit(db, record, { date: new Date(), ip: '', userAgent: '' });
    expect((await fetchAt(`/t/o/${record.id}.gif`)).statusCode).toBe(200);
    expect(await events()).toEqual([]);
  });

  it('and its hits are reported once and in order, under concurrent load', async () => {
    const { id } = await track();
    await Promise.all(Array.from({ length: 40 }, (_, n) => fetchAt(n % 2 ? `/t/o/${id}.gif` : `/t/c/${id}/0`)));
    // the reader is not kept waiting for long: what takes longer is recorded after the answer
    await waitFor(async () => (await events()).length >= 40, { timeoutMs: 25_000, what: 'the hits to be reported' });
    const types = (await events()).map(({ type }) => type).sort();
    expect(types).toEqual([...Array(20).fill('tracking.click'), ...Array(20).fill('tracking.open')]);
  });
});

describe('hits of one record in one minute', () => {
  const at = (seconds: number): Hit => ({
    date: new Date(Date.UTC(2026, 0, 1, 12, 0, seconds)),
    ip: '',
    userAgent: '',
  });

  it('are reported up to a rate, and again in the next minute', async () => {
    const record = await track();
    const { db } = api.database;
    for (let hit = 0; hit < REPORTED_PER_MINUTE + 5; hit++) await recordHit(db, record, at(hit % 60));
    expect(await events()).toHaveLength(REPORTED_PER_MINUTE);
    const [row] = await db.select().from(trackingRecords).where(eq(trackingRecords.id, record.id));
    expect(row).toMatchObject({ hitMinute: at(0).date, hitsInMinute: REPORTED_PER_MINUTE + 5 });
    await recordHit(db, record, at(60));
    // a process whose clock is behind
    await recordHit(db, record, at(59));
    expect(await events()).toHaveLength(REPORTED_PER_MINUTE + 2);
  });

  it('get the usual response above the rate, without waiting for a lock of the account', async () => {
    const { id } = await track();
    const { db, pool } = api.database;
    const hitMinute = new Date(Date.now() + 3_600_000);
    await db.update(trackingRecords).set({ hitMinute, hitsInMinute: REPORTED_PER_MINUTE });
    const holder = await pool.connect();
    try {
      await holder.query('begin');
      await holder.query('select 1 from accounts where id = $1 for update', [account]);
      const [pixel, link] = [await fetchAt(`/t/o/${id}.gif`), await fetchAt(`/t/c/${id}/0`)];
      expect([pixel.statusCode, link.statusCode, link.headers.location]).toEqual([200, 302, LINKS[0]]);
      const { rows } = await holder.query(
        "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
      );
      expect(rows).toEqual([]);
    } finally {
      await holder.query('rollback');
      holder.release();
    }
    expect(await events()).toEqual([]);
  });
});

describe("the reader's address", () => {
  /** one for each setting */
  const apis = new Map<string, ApiUnderTest>();
  afterAll(() => Promise.all([...apis.values()].map((other) => other.close())));

  const ipOf = async (trustProxy: boolean | number | string[], forwarded: string, remoteAddress = '10.0.0.9') => {
    const setting = JSON.stringify(trustProxy);
    const other = apis.get(setting) ?? (await apiUnderTest({ trustProxy }));
    apis.set(setting, other);
    account = await storeAccount(other.database);
    const record = { id: newId('tracking'), accountId: account, emailId: newId('email'), messageId: '<m@x>' };
    const more = { label: null, opens: true, links: [], createdAt: new Date() };
    await other.database.db.transaction((tx) => saveTrackingRecord(tx, { ...record, ...more }));
    const url = `/t/o/${record.id}.gif`;
    await other.app.inject({ method: 'GET', url, headers: { 'x-forwarded-for': forwarded }, remoteAddress });
    return (await storedEvents(other.database, account))[0]?.data['ip'];
  };

  it.each<[boolean | number | string[], string, string]>([
    [false, '203.0.113.7', '10.0.0.9'],
    [true, '203.0.113.7, 10.0.0.2', '203.0.113.7'],
    [1, '198.51.100.1, 203.0.113.7', '203.0.113.7'],
    [['10.0.0.0/8'], '198.51.100.1, 203.0.113.7, 10.1.1.1', '203.0.113.7'],
    [['172.16.0.0/12'], '203.0.113.7', '10.0.0.9'],
    [1, '2001:db8::7', '2001:db8::7'],
    [1, 'unknown', '10.0.0.9'],
    [1, '"><script>', '10.0.0.9'],
  ])('with TRUST_PROXY %j and %s is %s', async (trustProxy, forwarded, expected) => {
    expect(await ipOf(trustProxy, forwarded)).toBe(expected);
  });

  it('is IPv4 where it is', async () => {
    expect(await ipOf(false, '', '::ffff:192.0.2.5')).toBe('192.0.2.5');
  });
});

describe('with the database away', () => {
  it('the picture is served, and the link asks to retry', async () => {
    const other = await apiUnderTest();
    await other.app.ready();
    await other.database.close();
    const pixel = await other.app.inject({ method: 'GET', url: `/t/o/${newId('tracking')}.gif` });
    expect([pixel.statusCode, pixel.headers['content-type']]).toEqual([200, 'image/gif']);
    const link = await other.app.inject({ method: 'GET', url: `/t/c/${newId('tracking')}/0` });
    expect(link.statusCode).toBe(503);
    expect(link.json()).toMatchObject({ status: 503, type: 'errors/service_unavailable' });
    expect(link.headers).toMatchObject({ 'retry-after': '5', 'cache-control': NO_STORE });
    await other.close();
  });

  it('a link redirects even when its hit cannot be recorded', async () => {
    const { id } = await track();
    const { pool } = api.database;
    const holder = await pool.connect();
    try {
      await holder.query('begin');
      await holder.query('select 1 from accounts where id = $1 for update', [account]);
      // while the account is locked
      const answer = await fetchAt(`/t/c/${id}/0`);
      expect([answer.statusCode, answer.headers.location]).toEqual([302, LINKS[0]]);
    } finally {
      await holder.query('rollback');
      holder.release();
    }
  });

  it('no event is recorded of a hit whose transaction is rolled back', async () => {
    const record = await track();
    const { db } = api.database;
    const failing = {
      execute: db.execute.bind(db),
      transaction: (work: (tx: unknown) => Promise<void>) =>
        db.transaction(async (tx) => {
          await work(tx);
          throw new Error('the end of it');
        }),
    } as unknown as typeof db;
    await expect(recordHit(failing, record, { date: new Date(), ip: '', userAgent: '' })).rejects.toThrow(
      'the end of it',
    );
    expect(await events()).toEqual([]);
  });
});
