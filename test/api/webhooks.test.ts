import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Compile } from 'typebox/compile';
import { Clean } from 'typebox/value';
import { EVENT_DATA, EVENT_TYPES, type EventEnvelope, type EventList } from '../../src/contract/events.ts';
import type { WebhookConversation, WebhookEndpoint } from '../../src/contract/webhook.ts';
import { recordEvents } from '../../src/db/outbox.ts';
import { newId } from '../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeEmail } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

let api: ApiUnderTest;
const retried: string[] = [];
const attempted: string[] = [];
beforeAll(async () => {
  api = await apiUnderTest({
    commands: {
      attemptWaiting: async (id) => void attempted.push(id),
      retryDelivery: async (id) => {
        retried.push(id);
        await api.database.pool.query(`update deliveries set status = 'pending' where id = $1`, [id]);
      },
    },
  });
});
afterAll(() => api.close());

const ENDPOINT = { url: 'https://93.184.215.14/hook', trigger_events: ['email.new'] };
const create = async (more: object = {}) =>
  (await api.call('POST', '/webhooks/endpoints', { body: { ...ENDPOINT, ...more } })).json<WebhookEndpoint>();

describe('webhook endpoints', () => {
  it('are created with a secret that reads return and the database encrypts', async () => {
    const account = await storeAccount(api.database);
    const headers = [{ name: 'Authorization', value: 'Bearer canary-value' }];
    const made = await create({ description: 'Mine', account_ids: [account, account], headers });
    expect(made).toEqual({
      object: 'WebhookEndpoint',
      id: expect.stringMatching(/^we_/),
      url: ENDPOINT.url,
      description: 'Mine',
      enabled: true,
      disabled_reason: null,
      failing_since: null,
      disables_at: null,
      breaker: { state: 'closed', until: null },
      trigger_events: ['email.new'],
      account_ids: [account],
      headers,
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      created_at: expect.any(String),
      updated_at: made.created_at,
    });
    expect(await api.get(`/webhooks/endpoints/${made.id}`)).toEqual(made);
    const { data } = await api.get<{ data: WebhookEndpoint[] }>('/webhooks/endpoints?limit=250');
    expect(data.find(({ id }) => id === made.id)).toEqual(made);
    const { rows } = await api.database.pool.query('select * from webhook_endpoints where id = $1', [made.id]);
    const bytes = Buffer.concat(Object.values(rows[0] as object).filter((value) => Buffer.isBuffer(value)));
    for (const canary of ['canary-value', made.secret]) expect(bytes.includes(canary)).toBe(false);
  });

  it('change field by field', async () => {
    const made = await create();
    const patch = async (body: object) =>
      (await api.call('PATCH', `/webhooks/endpoints/${made.id}`, { body })).json<WebhookEndpoint>();
    expect(await patch({ trigger_events: EVENT_TYPES })).toMatchObject({ url: made.url, secret: made.secret });
    expect(await patch({ description: 'x', headers: [{ name: 'X-A', value: '1' }] })).toMatchObject({
      trigger_events: EVENT_TYPES,
      headers: [{ name: 'X-A', value: '1' }],
    });
    await api.database.pool.query(
      `update webhook_endpoints set enabled = false, disabled_reason = 'gone' where id = $1`,
      [made.id],
    );
    expect(await patch({ description: null })).toMatchObject({
      enabled: false,
      disabled_reason: 'gone',
      description: null,
    });
    expect(await patch({ enabled: true })).toMatchObject({ enabled: true, disabled_reason: null });
    expect((await api.call('PATCH', `/webhooks/endpoints/${newId('endpoint')}`, { body: {} })).statusCode).toBe(404);
  });

  it.each(['https://me:50%@93.184.215.14/', 'https://%ff@93.184.215.14/'])(
    'may have a plain %% in the user and password of their URL (%s)',
    async (url) => {
      expect((await create({ url })).url).toBe(url);
    },
  );

  it('remain limited to an account that was removed until their accounts change, and are limited to no other unknown one', async () => {
    const [removed, kept] = [newId('account'), await storeAccount(api.database)];
    const { id } = await create({ account_ids: [kept] });
    await api.database.pool.query('update webhook_endpoints set account_ids = $2 where id = $1', [id, [removed]]);
    const patch = (accountIds: string[]) =>
      api.call('PATCH', `/webhooks/endpoints/${id}`, { body: { account_ids: accountIds } });
    for (const ids of [[removed], [removed, kept], [kept]]) {
      const { statusCode, json } = await patch(ids);
      expect([statusCode, json<WebhookEndpoint>().account_ids]).toEqual([200, ids]);
    }
    // it is no longer one of its accounts
    const refused = await patch([kept, removed]);
    expect([refused.statusCode, refused.json()]).toEqual([
      400,
      expect.objectContaining({ detail: 'account_ids.1 is not the id of an account' }),
    ]);
  });

  it('show failures until they are enabled again or get another URL', async () => {
    const { id } = await create();
    const path = `/webhooks/endpoints/${id}`;
    const at = (hours: number) => new Date(Date.now() + hours * 3_600_000);
    const fail = (until: Date, probe: Date | null) =>
      api.database.pool.query(
        `update webhook_endpoints set failing_since = $2, failed_attempts = 30, failures_in_a_row = 30, warned_at = $3,
           breaker_until = $4, breaker_openings = 4, breaker_probe_at = $5 where id = $1`,
        [id, at(-72), at(0), until, probe],
      );
    const failing = { failing_since: expect.any(String), disables_at: expect.any(String) };
    await fail(at(1), null);
    const seen = await api.get<WebhookEndpoint>(path);
    expect(seen).toMatchObject({ ...failing, breaker: { state: 'open', until: expect.any(String) } });
    expect(Date.parse(seen.disables_at ?? '') - Date.parse(seen.failing_since ?? '')).toBe(5 * 86_400_000);
    await fail(at(-1), null);
    expect(await api.get(path)).toMatchObject({ breaker: { state: 'half_open' } });
    await fail(at(1), at(0));
    expect(await api.get(path)).toMatchObject({ breaker: { state: 'half_open' } });
    const healthy = { failing_since: null, disables_at: null, breaker: { state: 'closed', until: null } };
    for (const body of [{ enabled: true }, { url: 'https://93.184.215.14/other' }]) {
      await fail(at(1), at(0));
      attempted.length = 0;
      expect((await api.call('PATCH', path, { body: { description: 'x' } })).json()).toMatchObject(failing);
      expect((await api.call('PATCH', path, { body })).json()).toMatchObject(healthy);
      expect(attempted.splice(0)).toEqual([id]);
      const { rows } = await api.database.pool.query('select * from webhook_endpoints where id = $1', [id]);
      expect(rows[0]).toMatchObject({ failures_in_a_row: 0, failed_attempts: 0, breaker_openings: 0, warned_at: null });
    }
  });

  it('are deleted', async () => {
    const { id } = await create();
    const answer = await api.call('DELETE', `/webhooks/endpoints/${id}`);
    expect(answer.json()).toEqual({ object: 'WebhookEndpointDeleted', id, success: true });
    expect((await api.call('GET', `/webhooks/endpoints/${id}`)).statusCode).toBe(404);
    expect((await api.call('DELETE', `/webhooks/endpoints/${id}`)).statusCode).toBe(404);
  });

  it('get a new secret, and not twice for one Idempotency-Key', async () => {
    const made = await create();
    const path = `/webhooks/endpoints/${made.id}`;
    const headers = { 'idempotency-key': made.id };
    const rotated = (await api.call('POST', `${path}/rotate-secret`, { headers })).json<WebhookEndpoint>();
    expect(rotated).toEqual({ ...made, secret: expect.stringMatching(/^whsec_/), updated_at: expect.any(String) });
    expect(rotated.secret).not.toBe(made.secret);
    expect((await api.call('POST', `${path}/rotate-secret`, { headers })).json()).toEqual(rotated);
    expect(await api.get(path)).toEqual(rotated);
    expect((await api.call('POST', `/webhooks/endpoints/${newId('endpoint')}/rotate-secret`)).statusCode).toBe(404);
  });

  it.each<[object, string]>([
    [{ url: 'ftp://example.com' }, 'url'],
    [{ url: 'nonsense' }, 'url'],
    [{ url: '' }, 'url'],
    [{ url: `https://example.com/${'x'.repeat(2048)}` }, 'url'],
    [{ url: 'http://127.0.0.1:3000/' }, 'url'],
    [{ url: 'http://2130706433/' }, 'url'],
    [{ url: 'http://[::ffff:10.0.0.1]/' }, 'url'],
    [{ url: 'http://169.254.169.254/latest/meta-data' }, 'url'],
    [{ trigger_events: [] }, 'trigger_events'],
    [{ trigger_events: ['email.unknown'] }, 'trigger_events'],
    [{ description: 'x'.repeat(256) }, 'description'],
    [{ enabled: 'yes' }, 'enabled'],
    [{ account_ids: ['nonsense'] }, 'account_ids.0'],
    [{ account_ids: [newId('account')] }, 'account_ids.0'],
    [{ headers: [{ name: 'Host', value: 'x' }] }, 'headers.0'],
    [{ headers: [{ name: 'content-type', value: 'x' }] }, 'headers.0'],
    [{ headers: [{ name: 'X-Email-Engine-Event', value: 'x' }] }, 'headers.0'],
    [{ headers: [{ name: 'webhook-id', value: 'x' }] }, 'headers.0'],
    [{ headers: [{ name: 'Transfer-Encoding', value: 'x' }] }, 'headers.0'],
    [{ headers: [{ name: 'a b', value: 'x' }] }, 'headers.0'],
    [{ headers: [{ name: 'X-A', value: 'a\r\nb: c' }] }, 'headers.0'],
    [{ headers: [{ name: 'X-A', value: 'x'.repeat(4096) }] }, 'headers.0'],
    [{ headers: Array.from({ length: 21 }, (_, n) => ({ name: `X-${n}`, value: 'x' })) }, 'headers'],
  ])('refuse %j', async (wrong, field) => {
    for (const [method, path] of [
      ['POST', ''],
      ['PATCH', `/${(await create()).id}`],
    ] as const) {
      const body = method === 'POST' ? { ...ENDPOINT, ...wrong } : wrong;
      const answer = await api.call(method, `/webhooks/endpoints${path}`, { body });
      expect([answer.statusCode, answer.json().detail]).toEqual([400, expect.stringContaining(field)]);
    }
  });
});

describe('a test of an endpoint', () => {
  it.each(EVENT_TYPES)('delivers a sample of %s to it alone, outside of every sequence', async (type) => {
    const account = await storeAccount(api.database);
    const [endpoint] = [await create({ account_ids: [account] }), await create({ trigger_events: EVENT_TYPES })];
    const path = `/webhooks/endpoints/${endpoint.id}/test`;
    const sent = (await api.call('POST', path, { body: { type } })).json<WebhookConversation>();
    expect(sent).toMatchObject({
      object: 'WebhookConversation',
      endpoint_id: endpoint.id,
      event_type: type,
      account_id: account,
      status: 'pending',
      attempts_count: 0,
      test: true,
    });
    await api.call('POST', path, { body: { type } });
    const { data } = await api.get<{ data: WebhookConversation[] }>(`/webhooks/conversations?account_id=${account}`);
    expect(data.map((record) => [record.endpoint_id, record.test])).toEqual([
      [endpoint.id, true],
      [endpoint.id, true],
    ]);
    const { payload } = await api.get<{ payload: EventEnvelope }>(`/webhooks/conversations/${sent.id}`);
    const { data: sample, ...head } = payload;
    expect(head).toEqual({
      object: 'Event',
      id: sent.event_id,
      type,
      created_at: expect.any(String),
      account_id: account,
      endpoint_id: endpoint.id,
      sequence: 0,
      test: true,
    });
    expect([...Compile(EVENT_DATA[type]).Errors(sample)]).toEqual([]);
    expect(Object.keys(Clean(EVENT_DATA[type], structuredClone(sample)) as object)).toEqual(Object.keys(sample));
    expect((await api.get<EventList>(`/webhooks/events?account_id=${account}`)).data).toEqual([]);
    const change = { type: 'account.status.errored' as const, objectId: account, data: {}, createdAt: new Date() };
    await api.database.db.transaction((tx) => recordEvents(tx, account, [change]));
    const { rows } = await api.database.pool.query(
      'select sequence::int from events where account_id = $1 and not test',
      [account],
    );
    expect(rows).toEqual([{ sequence: 1 }]);
  });

  it('uses the requested account, and is rejected when impossible', async () => {
    const account = await storeAccount(api.database);
    const endpoint = await create();
    const test = (body: object, id = endpoint.id) => api.call('POST', `/webhooks/endpoints/${id}/test`, { body });
    expect((await test({ type: 'email.new', account_id: account })).json().account_id).toBe(account);
    expect((await test({ type: 'email.new' })).json().account_id).toMatch(/^acc_/);
    const detail = async (body: object) => [(await test(body)).statusCode, (await test(body)).json().detail];
    expect(await detail({ type: 'email.unknown' })).toEqual([400, expect.stringContaining('type')]);
    expect(await detail({})).toEqual([400, expect.stringContaining('type')]);
    for (const account_id of ['nonsense', newId('account')]) {
      expect(await detail({ type: 'email.new', account_id })).toEqual([400, expect.stringContaining('account_id')]);
    }
    await api.call('PATCH', `/webhooks/endpoints/${endpoint.id}`, { body: { enabled: false } });
    expect(await detail({ type: 'email.new' })).toEqual([400, expect.stringContaining('disabled')]);
    expect((await test({ type: 'email.new' }, newId('endpoint'))).statusCode).toBe(404);
    const headers = { 'idempotency-key': 'test' };
    const other = await create();
    const twice = [1, 2].map(() =>
      api.call('POST', `/webhooks/endpoints/${other.id}/test`, { body: { type: 'email.new' }, headers }),
    );
    const [first, second] = (await Promise.all(twice)).map((answer) => answer.json<WebhookConversation>().id);
    expect(first).toBe(second);
  });
});

describe('the delivery log', () => {
  let account: string;
  let endpoint: WebhookEndpoint;
  const at = new Date('2026-03-04T05:06:07.890Z');
  const emailId = newId('email');
  beforeAll(async () => {
    await api.database.pool.query('delete from webhook_endpoints');
    account = await storeAccount(api.database);
    endpoint = await create({ account_ids: [account], trigger_events: ['email.new', 'account.status.errored'] });
    await api.database.db.transaction((tx) =>
      recordEvents(tx, account, [
        { type: 'email.new', objectId: emailId, data: { email: { id: emailId, subject: 'é' } }, createdAt: at },
        { type: 'account.status.errored', objectId: account, data: { status: 'errored' }, createdAt: at },
      ]),
    );
  });

  const list = async (query = '') =>
    (await api.get<{ data: WebhookConversation[] }>(`/webhooks/conversations?account_id=${account}&${query}`)).data;

  it('has one record for each event and endpoint', async () => {
    const records = await list();
    expect(records.map((record) => record.event_type).sort()).toEqual(['account.status.errored', 'email.new']);
    expect(records[0]).toMatchObject({
      object: 'WebhookConversation',
      endpoint_id: endpoint.id,
      endpoint_url: endpoint.url,
      status: 'pending',
      first_attempt: true,
      attempts_count: 0,
      http_status: null,
      last_attempt_at: null,
    });
    const [first] = await list('event_type=email.new');
    expect((await list(`event_id=${first?.event_id}`)).map(({ id }) => id)).toEqual([first?.id]);
    expect((await list(`email_id=${emailId}`)).map(({ id }) => id)).toEqual([first?.id]);
    expect(await list(`email_id=${emailId}&status=failed`)).toEqual([]);
    const all = `email_id=${emailId}&endpoint_id=${endpoint.id}&event_id=${first?.event_id}&event_type=email.new`;
    expect(await list(`${all}&status=pending&since=${first?.created_at}&until=9999-01-01T00:00:00Z`)).toHaveLength(1);
    expect(await list(`email_id=${newId('email')}`)).toEqual([]);
    expect(await list('status=failed')).toEqual([]);
    expect(await list(`endpoint_id=${newId('endpoint')}`)).toEqual([]);
    expect(await list(`endpoint_id=${endpoint.id}&status=pending`)).toHaveLength(2);
    expect(await list(`since=${first?.created_at}`)).toHaveLength(2);
    expect(await list(`until=${first?.created_at}`)).toHaveLength(0);
    expect(await api.get(`/webhooks/conversations?account_id=${account}&limit=1&offset=1`)).toMatchObject({
      object: 'WebhookConversations',
      has_more: false,
    });
    for (const wrong of ['status=done', 'event_type=email', 'since=now', 'limit=0']) {
      expect((await api.call('GET', `/webhooks/conversations?${wrong}`)).statusCode).toBe(400);
    }
  });

  it('names the mailbox, the email and the endpoint of a delivery', async () => {
    const [record] = await list('event_type=email.new');
    expect(record).toMatchObject({
      account_name: 'A name',
      email: { id: emailId, subject: null, from: null },
      endpoint_name: null,
    });
    const stored = await storeEmail(api.database, account, { subject: 'é' });
    await api.database.pool.query('update emails set id = $1 where id = $2', [emailId, stored.id]);
    await api.call('PATCH', `/webhooks/endpoints/${endpoint.id}`, { body: { description: 'Orders' } });
    const named = { email: { id: emailId, subject: 'é', from: 'Ann' }, endpoint_name: 'Orders' };
    expect((await list('event_type=email.new'))[0]).toMatchObject(named);
    expect(await api.get(`/webhooks/conversations/${record?.id}`)).toMatchObject(named);
    expect((await list('event_type=account.status.errored'))[0]).toMatchObject({ email: null });
  });

  it('shows a delivery with its body, workflow and attempts', async () => {
    const [record] = await list('event_type=email.new');
    await api.database.pool.query(
      `insert into delivery_attempts (delivery_id, number, at, http_status, response_body, error, error_kind, duration_ms)
       values ($1, 1, $2, 500, 'no', null, 'status', 12), ($1, 2, $2, null, null, 'the connection was refused', 'connect', 3)`,
      [record?.id, at],
    );
    await api.database.pool.query(
      `update deliveries set workflow_id = 'deliver/x', attempts_count = 2, error = 'the connection was refused',
         error_kind = 'connect', last_attempt_at = $2 where id = $1`,
      [record?.id, at],
    );
    expect(await api.get(`/webhooks/conversations/${record?.id}`)).toEqual({
      ...record,
      first_attempt: false,
      attempts_count: 2,
      error: 'the connection was refused',
      error_kind: 'connect',
      last_attempt_at: at.toISOString(),
      workflow_id: 'deliver/x',
      attempts: [
        {
          number: 1,
          at: at.toISOString(),
          http_status: 500,
          response_body: 'no',
          error: null,
          error_kind: 'status',
          duration_ms: 12,
        },
        {
          number: 2,
          at: at.toISOString(),
          http_status: null,
          response_body: null,
          error: 'the connection was refused',
          error_kind: 'connect',
          duration_ms: 3,
        },
      ],
      payload: {
        object: 'Event',
        id: record?.event_id,
        type: 'email.new',
        created_at: at.toISOString(),
        account_id: account,
        endpoint_id: endpoint.id,
        sequence: 1,
        data: { email: { id: emailId, subject: 'é' } },
      },
    });
    expect((await api.call('GET', `/webhooks/conversations/${newId('delivery')}`)).statusCode).toBe(404);
    expect((await list('last_outcome=failed&status=pending')).map(({ id }) => id)).toEqual([record?.id]);
    expect(await list('last_outcome=succeeded')).toEqual([]);
    await api.database.pool.query('update deliveries set error_kind = null where id = $1', [record?.id]);
    expect((await list('last_outcome=succeeded')).map(({ id }) => id)).toEqual([record?.id]);
  });

  it('retries a delivery, regardless of its status', async () => {
    const [record] = await list('event_type=account.status.errored');
    await api.database.pool.query(`update deliveries set status = 'delivered' where id = $1`, [record?.id]);
    const answer = await api.call('POST', `/webhooks/conversations/${record?.id}/retry`);
    expect(answer.json()).toMatchObject({ object: 'WebhookConversation', id: record?.id, status: 'pending' });
    expect(retried).toEqual([record?.id]);
    expect((await api.call('POST', `/webhooks/conversations/${newId('delivery')}/retry`)).statusCode).toBe(404);
  });
});
