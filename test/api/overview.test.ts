import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ulid } from 'ulid';
import type { Overview } from '../../src/contract/overview.ts';
import { recordEvents } from '../../src/db/outbox.ts';
import { readOverview } from '../../src/db/queries/overview.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** The overview, and the event stream. */

let api: ApiUnderTest;
let accountId: string;
beforeAll(async () => {
  api = await apiUnderTest();
  accountId = await storeAccount(api.database);
});
afterAll(() => api.close());

/** Deliveries and events as a busy installation has them, `count` over the last `minutes`. */
async function store(count: number, minutes: number): Promise<void> {
  await api.database.pool.query(
    `insert into deliveries (id, event_id, endpoint_id, endpoint_url, account_id, event_type, object_id, status, created_at)
    select 'whc_' || n, 'evt_' || n, 'we_1', 'https://example.com', $1, 'email.new', 'email_' || n,
      case when n % 100 = 0 then 'failed' when n % 100 = 1 then 'pending' when n % 100 = 2 then 'skipped' else 'delivered' end,
      now() - n * ($3 * interval '1 minute') / $2
    from generate_series(0, $2::int - 1) n`,
    [accountId, count, minutes],
  );
  await api.database.pool.query(
    `insert into events (id, account_id, type, sequence, object_id, data, created_at)
    select 'evt_' || n, $1, 'email.new', n + 1, 'email_' || n, '{}', now() - n * ($3 * interval '1 minute') / $2
    from generate_series(0, $2::int - 1) n`,
    [accountId, count, minutes],
  );
  await api.database.pool.query('analyze deliveries, events');
}

describe('the overview', () => {
  it('counts mailboxes by status, lists problems, and counts emails and deliveries per minute', async () => {
    const refused = await storeAccount(api.database, { name: 'Refused' });
    await api.database.pool.query(`update accounts set status = 'disconnected', status_detail = 'no' where id = $1`, [
      refused,
    ]);
    const since = new Date(Date.now() - 3_600_000);
    await api.database.pool.query(
      `insert into events (id, account_id, type, sequence, object_id, data, created_at)
      values ('evt_refused', $1, 'account.status.disconnected', 1, $1, '{}', $2)`,
      [refused, since],
    );
    await store(1_000, 50);
    const overview = await readOverview(api.database.pool, { period: 'hour' });
    expect(overview.accounts).toMatchObject({ total: 2, running: 1, disconnected: 1, errored: 0 });
    expect(overview.problems).toEqual([
      {
        ...{ kind: 'account_disconnected', id: refused, name: 'Refused', detail: 'no', since: since.toISOString() },
        ...{ server: 'mail.example.test', server_accounts: 0 },
      },
    ]);
    expect(overview.buckets).toHaveLength(60);
    const sum = (key: 'received' | 'delivered' | 'failed' | 'pending' | 'skipped') =>
      overview.buckets.reduce((total, bucket) => total + bucket[key], 0);
    expect([sum('received'), sum('delivered'), sum('failed'), sum('pending'), sum('skipped')]).toEqual([
      1_000, 970, 10, 10, 10,
    ]);
    expect(overview.deliveries.pending).toBe(10);
    await api.database.pool.query(
      `insert into attempt_counts (minute, endpoint_id, succeeded, failed)
      select date_trunc('minute', now()) - n * interval '1 minute', endpoint, 2, 1
      from generate_series(0, 119) n, unnest(array['we_1', 'we_2']) endpoint`,
    );
    const attempts = async (query: string) => {
      const { buckets } = await api.get<Overview>(`/overview?${query}`);
      const total = (key: 'attempts_ok' | 'attempts_failed') => buckets.reduce((all, bucket) => all + bucket[key], 0);
      return [total('attempts_ok'), total('attempts_failed')];
    };
    expect(await attempts('period=hour')).toEqual([240, 120]);
    expect(await attempts('period=day')).toEqual([480, 240]);
    expect(await attempts('endpoint_id=we_1')).toEqual([120, 60]);

    const day = await api.get<Overview>('/overview?period=day');
    expect(day.buckets).toHaveLength(96);
    expect(day.buckets.reduce((total, { delivered }) => total + delivered, 0)).toBe(970);
    const none = await api.get<Overview>('/overview?endpoint_id=we_none');
    expect(none.buckets.every(({ delivered, failed }) => delivered + failed === 0)).toBe(true);
    const one = await api.get<Overview>('/overview?endpoint_id=we_1');
    expect(one.buckets.reduce((total, { delivered }) => total + delivered, 0)).toBe(970);
  });

  it('reads only deliveries of its period, from indexes', async () => {
    const { rows } = await api.database.pool.query<{ 'QUERY PLAN': string }>(
      `explain select count(*) from deliveries where status in ('pending', 'failed', 'skipped')
        and status <> 'delivered' and created_at >= now() - interval '1 minute'`,
    );
    expect(rows.map((row) => row['QUERY PLAN']).join('\n')).toMatch(/Index.*deliveries_(open|created)/);
  });
});

describe('the stream of events', () => {
  let port = 0;
  beforeAll(async () => {
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const address = api.app.server.address();
    port = typeof address === 'object' && address ? address.port : 0;
  });

  const connect = async (query: string, key = api.key, more: Record<string, string> = {}) => {
    const path = `/api/v1/webhooks/events/stream${query}`;
    const call = get({ port, host: '127.0.0.1', path, headers: { 'X-API-KEY': key, ...more }, agent: false });
    const [response] = (await once(call, 'response')) as [IncomingMessage];
    const { statusCode: status, headers } = response;
    const seen = {
      status,
      type: headers['content-type'],
      text: '',
      ended: false,
      response,
      leave: () => call.destroy(),
    };
    response.setEncoding('utf8').on('data', (text: string) => (seen.text += text));
    response.on('close', () => (seen.ended = true)).on('error', () => {});
    return seen;
  };

  const makeKey = async (body: object) =>
    (await api.call('POST', '/api-keys', { body: { name: 'stream', ...body } })).json<{
      id: string;
      api_key: string;
    }>();

  it('has a place for as many as before as soon as the clients have gone', async () => {
    const { api_key: key } = await makeKey({});
    for (let round = 0; round < 3; round++) {
      const streams = await Promise.all(Array.from({ length: 20 }, () => connect('?types=account.reconnect', key)));
      expect(streams.map(({ status }) => status)).toEqual(Array<number>(20).fill(200));
      if (round === 0) expect((await connect('', key)).status).toBe(429);
      for (const stream of streams) stream.leave();
      // the API learns of it when the sockets have closed
      await sleep(500);
    }
  });

  it('continues where it was cut off, before there was an event too', async () => {
    const quiet = await storeAccount(api.database);
    const { api_key: key } = await makeKey({ account_ids: [quiet] });
    const cut = await connect('', key);
    await waitFor(() => cut.text !== '', { what: 'the beginning' });
    const begun = /^id: (.*)$/m.exec(cut.text)?.[1] ?? '';
    cut.leave();
    await api.database.db.transaction((tx) =>
      recordEvents(tx, quiet, [
        { type: 'account.add', objectId: quiet, data: { account: { id: quiet } }, createdAt: new Date() },
      ]),
    );
    const resumed = await connect('', key, { 'Last-Event-ID': begun });
    await waitFor(() => resumed.text.includes('event: account.add'), { what: 'what came since' });
    resumed.leave();
  });

  it('ends for a client that does not read when its key is revoked', async () => {
    const account = await storeAccount(api.database);
    const { id, api_key: key } = await makeKey({ account_ids: [account] });
    const stream = await connect('', key);
    stream.response.pause();
    const filler = 'x'.repeat(200_000);
    const event = { type: 'account.add' as const, objectId: account, data: { account: { id: account, filler } } };
    const events = Array.from({ length: 75 }, () => ({ ...event, createdAt: new Date() }));
    await api.database.db.transaction((tx) => recordEvents(tx, account, events));
    await sleep(2_000);
    await api.call('DELETE', `/api-keys/${id}`);
    await sleep(5_000);
    stream.response.resume();
    await waitFor(() => stream.ended, { what: 'the end of the stream' });
    expect(stream.text.match(/^event:/gm)?.length).toBeLessThan(events.length);
  });

  it('sends each event from now on, or after a given one, until the key is revoked', async () => {
    const made = await makeKey({});
    const all = await connect('', made.api_key);
    const others = await connect('?types=account.remove');
    expect(all).toMatchObject({ status: 200, type: 'text/event-stream; charset=utf-8' });

    const streamed = await storeAccount(api.database);
    const record = (type: 'account.add' | 'account.remove') =>
      api.database.db.transaction((tx) =>
        recordEvents(tx, streamed, [
          { type, objectId: streamed, data: { account: { id: streamed } }, createdAt: new Date() },
        ]),
      );
    await record('account.add');
    await waitFor(() => all.text.includes('event: account.add'), { what: 'the event' });
    const [, id] = /id: (evt_\w+)\nevent: account\.add\ndata: (\{.*\})\n\n/.exec(all.text) ?? [];
    await record('account.remove');
    await waitFor(() => others.text.includes('event: account.remove'), { what: 'the other event' });
    expect(others.text).not.toContain('account.add');
    const later = await connect(`?after=${id ?? ''}`);
    await waitFor(() => later.text.includes('event: account.remove'), { what: 'what came after' });
    expect(later.text).not.toContain('event: account.add');

    // one that is cut off before its first event gives an id to continue after, as browsers do; its filter does not matter
    const cut = await connect('?types=account.reconnect');
    await waitFor(() => cut.text !== '', { what: 'the beginning' });
    const begun = /^retry: 2000\nid: (evt_\w+)\n\n$/.exec(cut.text)?.[1] ?? '';
    await record('account.add');
    const resumed = await connect(`?after=${begun}`);
    await waitFor(() => resumed.text.includes('event: account.add'), { what: 'what came since' });
    expect(resumed.text.match(/^event:/gm)).toHaveLength(1);
    expect(resumed.text).not.toContain(begun);

    // one that was quiet until its id was no longer stored: a browser that is refused would not connect again
    const old = `evt_${ulid(Date.now() - 40 * 86_400_000).toLowerCase()}`;
    expect((await connect(`?after=${old}`)).status).toBe(400);
    const quiet = await connect('?types=account.add', api.key, { 'Last-Event-ID': old });
    expect(quiet.status).toBe(200);
    await waitFor(() => quiet.text.includes('event: account.add'), { what: 'the oldest event' });

    expect(all.ended).toBe(false);
    await api.call('DELETE', `/api-keys/${made.id}`);
    await waitFor(() => all.ended, { what: 'the end of the stream' });
    expect((await connect('?types=nothing')).status).toBe(400);
    expect((await connect('', 'x'.repeat(30))).status).toBe(401);
  });
});
