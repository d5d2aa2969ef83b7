import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Replay, ReplayStatus } from '../../src/contract/runs/replay.ts';
import type { WebhookEndpoint } from '../../src/contract/webhook.ts';
import { eraseEventsOf } from '../../src/db/coordination/removal.ts';
import { recordEvents } from '../../src/db/outbox.ts';
import { newId } from '../../src/new-id.ts';
import { cancelReplay } from '../../src/webhooks/log/replay-state.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { queueAsLogged } from '../helpers/assert/queue.ts';

let api: ApiUnderTest;
let account: string;
let endpoint: WebhookEndpoint;
const started: string[] = [];
beforeAll(async () => {
  api = await apiUnderTest({
    commands: {
      startReplay: async ({ id }) => void started.push(id),
      cancelReplay: (id) => cancelReplay(api.database.db, id),
    },
  });
  account = await storeAccount(api.database);
});
afterAll(() => api.close());
beforeEach(async () => {
  await api.database.pool.query('truncate webhook_endpoints, events, deliveries, pending_deliveries, replays');
  const body = { url: 'https://93.184.215.14/hook', trigger_events: ['email.new'] };
  endpoint = (await api.call('POST', '/webhooks/endpoints', { body })).json<WebhookEndpoint>();
  const event = () =>
    ({ type: 'email.new', objectId: newId('email'), data: { email: {} }, createdAt: new Date() }) as const;
  await api.database.db.transaction((tx) => recordEvents(tx, account, [event(), event(), event()]));
  await api.database.pool.query(`update deliveries set status = 'failed'`);
  await queueAsLogged(api.database);
});

const create = (body: object, headers: Record<string, string> = {}) =>
  api.call('POST', '/webhooks/replays', { body: { endpoint_id: endpoint.id, ...body }, headers });

describe('replays', () => {
  it('of an unknown account are refused', async () => {
    const response = await create({ account_ids: [account, newId('account')] });
    expect([response.statusCode, response.json<{ detail: string }>().detail]).toEqual([
      400,
      'account_ids.1 is not the id of an account',
    ]);
  });

  it('are created, read and cancelled', async () => {
    const since = '2020-01-01T00:00:00+01:00';
    const made = (
      await create({ since, status: 'failed', trigger_events: ['email.new'], account_ids: [account] })
    ).json<Replay>();
    expect(made).toEqual({
      object: 'Replay',
      id: expect.stringMatching(/^rpl_/),
      endpoint_id: endpoint.id,
      filter: {
        since: '2019-12-31T23:00:00.000Z',
        status: 'failed',
        trigger_events: ['email.new'],
        account_ids: [account],
      },
      status: 'running',
      total: 3,
      pending: 0,
      delivered: 0,
      failed: 0,
      skipped: 0,
      workflow_id: `replay/${made.id}`,
      created_at: expect.any(String),
      completed_at: null,
    });
    expect(started).toContain(made.id);
    expect(await api.get(`/webhooks/replays/${made.id}`)).toEqual(made);
    const cancelled = (await api.call('POST', `/webhooks/replays/${made.id}/cancel`)).json<Replay>();
    expect(cancelled).toEqual({ ...made, status: 'cancelled', completed_at: expect.any(String) });
    expect((await api.call('POST', `/webhooks/replays/${made.id}/cancel`)).json()).toEqual(cancelled);
  });

  it('are listed, newest first', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.unshift((await create({})).json<Replay>().id);
    await api.call('POST', `/webhooks/replays/${ids[1]}/cancel`);
    const list = async (query: string) => {
      const page = await api.get<{ data: { id: string; status: ReplayStatus }[]; has_more: boolean }>(
        `/webhooks/replays?${query}`,
      );
      return [page.data.map(({ id }) => id), page.has_more];
    };
    expect(await api.get('/webhooks/replays')).toMatchObject({ object: 'Replays' });
    expect(await list('')).toEqual([ids, false]);
    expect(await list('limit=1&offset=1')).toEqual([[ids[1]], true]);
    expect(await list('status=running')).toEqual([[ids[0], ids[2]], false]);
    expect(await list(`endpoint_id=${newId('endpoint')}`)).toEqual([[], false]);
  });

  it('leave out what was erased with its mailbox or folder', async () => {
    const { rows } = await api.database.pool.query<{ object_id: string }>('select object_id from deliveries limit 1');
    await eraseEventsOf(api.database.db, account, [rows[0]?.object_id ?? '']);
    expect((await create({})).json<Replay>().total).toBe(2);
  });

  it('are created once per Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'once' };
    const [one, two] = [await create({}, headers), await create({}, headers)];
    expect(two.json()).toEqual(one.json());
    expect((await create({ status: 'skipped' }, headers)).statusCode).toBe(409);
  });

  it('repeat what was counted, for every filter', async () => {
    const other = await storeAccount(api.database);
    const event = (type: 'email.new' | 'email.delete') => ({
      type,
      objectId: newId('email'),
      data: { email: {} },
      createdAt: new Date(),
    });
    const body = { trigger_events: ['email.new', 'email.delete'] };
    await api.call('PATCH', `/webhooks/endpoints/${endpoint.id}`, { body });
    await api.database.db.transaction((tx) => recordEvents(tx, other, [event('email.new'), event('email.delete')]));
    await queueAsLogged(api.database);
    const { rows } = await api.database.pool.query<{ event_id: string; object_id: string; created_at: Date }>(
      `update deliveries set status = case event_type when 'email.delete' then 'delivered' else 'failed' end, attempts_count = 1
       returning event_id, object_id, created_at`,
    );
    const [one, two] = rows;
    const later = new Date((one?.created_at.getTime() ?? 0) + 60_000).toISOString();
    for (const [filter, total] of [
      [{}, 5],
      [{ status: 'failed' }, 4],
      [{ trigger_events: ['email.delete'] }, 1],
      [{ account_ids: [other] }, 2],
      [{ email_id: one?.object_id }, 1],
      [{ event_id: two?.event_id }, 1],
      [{ email_id: one?.object_id, event_id: two?.event_id }, 0],
      [{ email_id: newId('email') }, 0],
      [{ since: later }, 0],
      [{ until: later }, 5],
      [{ last_outcome: 'failed' }, 0],
      [{ last_outcome: 'succeeded' }, 5],
      [{ last_outcome: 'succeeded', status: 'failed' }, 4],
    ] as const) {
      const counted = await api.call('POST', '/webhooks/replays/count', {
        body: { endpoint_id: endpoint.id, ...filter },
      });
      expect([filter, counted.json()]).toEqual([filter, { object: 'ReplayCount', total }]);
      const made = (await create(filter)).json<Replay>();
      expect([made.filter, made.total]).toEqual([filter, total]);
      await api.call('POST', `/webhooks/replays/${made.id}/cancel`);
    }
    expect(started).toHaveLength(new Set(started).size);
  });

  it('are rejected when they could repeat nothing', async () => {
    for (const [body, status, field] of [
      [{ endpoint_id: newId('endpoint') }, 404, 'endpoint'],
      [{ endpoint_id: 'nonsense' }, 404, 'endpoint'],
      [{ endpoint_id: undefined }, 400, 'endpoint_id'],
      [{ status: 'pending' }, 400, 'status'],
      [{ since: 'yesterday' }, 400, 'since'],
      [{ trigger_events: ['email.unknown'] }, 400, 'trigger_events'],
      [{ account_ids: 'acc' }, 400, 'account_ids'],
    ] as const) {
      const answer = await create(body);
      expect([answer.statusCode, answer.json().detail]).toEqual([status, expect.stringContaining(field)]);
    }
    await api.call('PATCH', `/webhooks/endpoints/${endpoint.id}`, { body: { enabled: false } });
    const disabled = await create({});
    expect([disabled.statusCode, disabled.json().detail]).toEqual([400, expect.stringContaining('endpoint_id')]);
    for (const path of [newId('replay'), 'nonsense']) {
      expect((await api.call('GET', `/webhooks/replays/${path}`)).statusCode).toBe(404);
      expect((await api.call('POST', `/webhooks/replays/${path}/cancel`)).statusCode).toBe(404);
    }
  });
});
