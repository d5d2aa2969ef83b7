import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { AuditRecord, AuditRecordList } from '../../../src/contract/audit.ts';
import { ApiError } from '../../../src/contract/errors.ts';
import { createApiKey } from '../../../src/db/access/api-keys.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { deleteAuditRecordsBefore } from '../../../src/maintenance/retention.ts';
import { codecRoutes } from '../../../src/temporal/codec-server.ts';
import { routesOf } from '../../helpers/product/all-routes.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

const ORIGIN = 'https://temporal.example.test';
const TOKEN = 'a-token-of-the-operators';
/** The connect of the next call. */
let connect: () => Promise<string> = () => Promise.reject(new ApiError('invalid_credentials', 'no'));

let api: ApiUnderTest;
beforeAll(async () => {
  const done = () => Promise.resolve();
  api = await apiUnderTest({
    commands: {
      ...{
        connectMailbox: () => connect(),
        removeAccount: done,
        startBatch: done,
        startReplay: done,
        cancelReplay: done,
      },
      reparseMailbox: async (id) => ({
        ...{ object: 'MailboxReparse', account_id: id, status: 'completed', workflow_id: `reparse/${id}` },
        ...{ unchanged: 0, changed: 0, incomplete: 0, unreadable: 0 },
      }),
    },
    deps: {
      codecRoutes: codecRoutes({
        codec: { encode: async (payloads) => payloads, decode: async (payloads) => payloads },
        origin: ORIGIN,
        token: TOKEN,
      }),
    },
    trustProxy: 1,
  });
});
afterAll(() => api.close());

const page = (query = '') => api.get<AuditRecordList>(`/audit?${query}`);
const records = async (query = '') => (await page(query)).data;
const newest = async () => (await records('limit=1'))[0] as AuditRecord;
/** The action and the outcome of what was done to an object, oldest first. */
const doneTo = async (id: string) =>
  (await records(`object_id=${id}`)).map(({ action, outcome }) => [action, outcome]).reverse();

describe('the audit log', () => {
  it('records caller, action, address and outcome', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9', 'x-request-id': 'call-1' };
    const made = (await api.call('POST', '/api-keys', { body: { name: 'n' }, headers })).json();
    const [first] = (await api.get<{ data: { id: string }[] }>('/api-keys')).data;
    expect(await newest()).toEqual({
      object: 'AuditRecord',
      id: expect.stringMatching(/^aud_/),
      at: expect.any(String),
      action: 'api_key.create',
      outcome: 'done',
      status: 200,
      object_id: made.id,
      object_name: 'n',
      api_key_id: first?.id,
      person_id: null,
      actor: 'test',
      address: '203.0.113.9',
      request_id: 'call-1',
    });
    await api.call('DELETE', `/api-keys/${made.id}`);
    await api.call('DELETE', `/api-keys/${made.id}`);
    expect(await doneTo(made.id)).toEqual([
      ['api_key.create', 'done'],
      ['api_key.revoke', 'done'],
      ['api_key.revoke', 'refused'],
    ]);
  });

  it('distinguishes the first connect of an account from later ones', async () => {
    const { db } = api.database;
    const account = await storeAccount(api.database);
    const happen = (type: 'account.add' | 'account.reconnect') =>
      db.transaction((tx) => recordEvents(tx, account, [{ type, objectId: account, data: {}, createdAt: new Date() }]));
    const intent = (more: object = {}) => ({
      provider: 'imap',
      credentials: { user: 'a@b.test', password: 'canary' },
      ...more,
    });
    const post = (body: object) => api.call('POST', '/auth/intent', { body });
    await post(intent());
    expect(await newest()).toMatchObject({
      action: 'account.connect',
      outcome: 'refused',
      status: 401,
      object_id: null,
    });
    connect = () => happen('account.add').then(() => account);
    await post(intent());
    connect = () => happen('account.reconnect').then(() => account);
    await post(intent());
    connect = () => Promise.reject(new ApiError('provider_error', 'no'));
    await post(intent({ account_id: account }));
    await api.call('PATCH', `/accounts/${account}`, { body: { metadata: { canary: 'canary' } } });
    await api.call('POST', `/accounts/${account}/reparse`);
    await api.call('DELETE', `/accounts/${account}`);
    expect(await doneTo(account)).toEqual(
      expect.arrayContaining([
        ['account.connect', 'done'],
        ['account.reconnect', 'done'],
        ['account.update', 'done'],
        ['account.reparse', 'done'],
        ['account.remove', 'done'],
      ]),
    );
  });

  it('records operations on an endpoint and its replays, without request bodies', async () => {
    const url = 'https://93.184.215.14/canary?canary';
    const body = { url, trigger_events: ['email.new'], headers: [{ name: 'X-Own', value: 'canary' }] };
    const made = (await api.call('POST', '/webhooks/endpoints', { body })).json();
    const path = `/webhooks/endpoints/${made.id}`;
    await api.call('PATCH', path, { body: { description: 'Orders' } });
    await api.call('POST', `${path}/rotate-secret`);
    const delivery = (await api.call('POST', `${path}/test`, { body: { type: 'email.new' } })).json();
    const replay = (await api.call('POST', '/webhooks/replays', { body: { endpoint_id: made.id } })).json();
    await api.call('POST', `/webhooks/replays/${replay.id}/cancel`);
    await api.call('DELETE', path);
    expect(await doneTo(made.id)).toEqual([
      ['webhook_endpoint.create', 'done'],
      ['webhook_endpoint.update', 'done'],
      ['webhook_endpoint.rotate_secret', 'done'],
      // the delivery has its own id, the endpoint is the one in the path
      ['webhook_endpoint.test', 'done'],
      ['webhook_endpoint.delete', 'done'],
    ]);
    expect((await records(`object_id=${made.id}`)).map(({ object_name: name }) => name).reverse()).toEqual([
      // without a description, the host
      ...['93.184.215.14', '93.184.215.14', 'Orders', 'Orders', 'Orders'],
    ]);
    expect(delivery.id).toMatch(/^whc_/);
    expect(await doneTo(replay.id)).toEqual([
      ['replay.create', 'done'],
      ['replay.cancel', 'done'],
    ]);
    const { rows } = await api.database.pool.query('select * from audit_records');
    expect(JSON.stringify(rows)).not.toContain('canary');
  });

  it('names a key and a mailbox that no longer exist', async () => {
    const made = (await api.call('POST', '/api-keys', { body: { name: 'leaves' } })).json<{
      id: string;
      api_key: string;
    }>();
    const account = await storeAccount(api.database, { name: 'Support' });
    await api.call('DELETE', `/accounts/${account}`, { headers: { 'x-api-key': made.api_key } });
    await api.call('DELETE', `/api-keys/${made.id}`);
    await api.database.pool.query('delete from accounts where id = $1', [account]);
    const [removal] = await records('action=account.remove&limit=1');
    expect(removal).toMatchObject({ object_id: account, object_name: 'Support', api_key_id: made.id, actor: 'leaves' });
    const [revocation] = await records('action=api_key.revoke&limit=1');
    expect(revocation).toMatchObject({ object_id: made.id, object_name: 'leaves', actor: 'test' });
  });

  it('names a mailbox by its address until it is removed, and never stores the address', async () => {
    const address = 'canary-of-ada@example.test';
    for (const name of [address, `Ada <${address}>`]) {
      const account = await storeAccount(api.database, { userId: address, name });
      await api.call('PATCH', `/accounts/${account}`, { body: { metadata: { plan: 'a' } } });
      await api.call('DELETE', `/accounts/${account}`);
      const names = async () => (await records(`object_id=${account}`)).map(({ object_name: shown }) => shown);
      expect(new Set(await names())).toEqual(new Set([name]));
      await api.database.pool.query('update accounts set removed_at = now() where id = $1', [account]);
      expect(new Set(await names())).toEqual(new Set([null]));
    }
    const link = (await api.call('POST', '/auth/links', { body: { name: address } })).json<{ id: string }>();
    expect((await records(`object_id=${link.id}`))[0]).toMatchObject({ object_name: null });
    const { rows } = await api.database.pool.query('select r::text as row from audit_records r');
    expect(JSON.stringify(rows)).not.toContain('canary-of-ada');
  });

  it('records attempts of a limited key, and no call without a key', async () => {
    const reader = await createApiKey(api.database.db, { name: 'r', expiresAt: null, permissions: 'read' });
    const attempt = (key: string) =>
      api.call('POST', '/api-keys', { body: { name: 'x' }, headers: { 'x-api-key': key } });
    await attempt(reader.key);
    expect(await newest()).toMatchObject({
      action: 'api_key.create',
      outcome: 'refused',
      status: 403,
      api_key_id: reader.apiKey.id,
    });
    const before = (await newest()).id;
    await attempt('wrong');
    expect((await newest()).id).toBe(before);
  });

  it('has one record for a call that is repeated with its Idempotency-Key', async () => {
    const headers = { 'idempotency-key': 'once' };
    const [made] = await Promise.all([api.call('POST', '/api-keys', { body: { name: 'once' }, headers })]);
    await api.call('POST', '/api-keys', { body: { name: 'once' }, headers });
    expect(await doneTo(made.json().id)).toEqual([['api_key.create', 'done']]);
  });

  it('records every decoding of histories, except rejected ones', async () => {
    const decode = (token: string) =>
      api.app.inject({
        method: 'POST',
        url: '/temporal/codec/decode',
        headers: { origin: ORIGIN, authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        payload: '{"payloads":[]}',
      });
    expect((await decode(TOKEN)).statusCode).toBe(200);
    expect((await decode('wrong')).statusCode).toBe(401);
    const found = await records('action=history.decode');
    expect(found).toMatchObject([{ outcome: 'done', api_key_id: null, object_id: null }]);
  });

  it('can be narrowed and paged, newest first', async () => {
    const { data } = await page('limit=250');
    const times = data.map(({ at }) => at);
    expect(times).toEqual([...times].sort().reverse());
    const { at, api_key_id: key } = data.find(({ api_key_id }) => api_key_id !== null) as AuditRecord;
    const same = (wanted: (one: AuditRecord) => boolean) => data.filter(wanted).map(({ id }) => id);
    const ids = async (query: string) => (await records(`limit=250&${query}`)).map(({ id }) => id);
    expect(await ids('action=api_key.create')).toEqual(same(({ action }) => action === 'api_key.create'));
    expect(await ids(`api_key_id=${key}`)).toEqual(same(({ api_key_id }) => api_key_id === key));
    expect(await ids(`since=${at}`)).toEqual(same((one) => one.at >= at));
    expect(await ids(`until=${at}`)).toEqual(same((one) => one.at < at));
    const paged: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const next: AuditRecordList = await page(`limit=3${cursor ? `&cursor=${cursor}` : ''}`);
      paged.push(...next.data.map(({ id }) => id));
      cursor = next.cursor;
    }
    expect(paged).toEqual(data.map(({ id }) => id));
    expect((await api.call('GET', '/audit?cursor=x')).statusCode).toBe(400);
  });

  it('cannot be changed by a route, and deletes old records', async () => {
    expect(routesOf(api).filter(({ path }) => path.startsWith('/audit'))).toEqual([{ method: 'GET', path: '/audit' }]);
    const { pool, db } = api.database;
    const [oldest] = (await records('limit=250')).slice(-1);
    await pool.query(`update audit_records set at = now() - interval '91 days' where id = $1`, [oldest?.id]);
    expect(await deleteAuditRecordsBefore(db, new Date(Date.now() - 90 * 86_400_000))).toBe(1);
    expect((await records('limit=250')).map(({ id }) => id)).not.toContain(oldest?.id);
  });
});
