import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Account, AuthIntent } from '../../src/contract/account.ts';
import type { ApiKey } from '../../src/contract/api-key.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { ensureFirstKey } from '../../src/db/access/api-keys.ts';
import { newId } from '../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { testDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { waitFor } from '../helpers/assert/wait.ts';

let api: ApiUnderTest;
const connected: AuthIntent[] = [];
const removed: string[] = [];
const reloaded: string[] = [];
let connect: (intent: AuthIntent) => Promise<string> = () => Promise.reject(new Error('not set'));
beforeAll(async () => {
  api = await apiUnderTest({
    commands: {
      connectMailbox: (intent) => {
        connected.push(intent);
        return connect(intent);
      },
      removeAccount: async (id) => {
        removed.push(id);
      },
      reloadAccount: async (id) => {
        reloaded.push(id);
      },
      syncMailbox: async (id) => ({
        object: 'MailboxSync',
        account_id: id,
        status: 'completed',
        workflow_id: `sync/${id}`,
      }),
    },
  });
});
afterAll(() => api.close());

const INTENT = { provider: 'imap', credentials: { user: 'me@example.test', password: 'secret' } };

describe('connecting', () => {
  it('returns the account', async () => {
    const id = await storeAccount(api.database, { initialSyncDays: 5 });
    connect = () => Promise.resolve(id);
    const config = { initial_sync_enable: true, initial_sync_days: 30 };
    const answer = await api.call('POST', '/auth/intent', { body: { ...INTENT, config, unknown: 1 } });
    expect([answer.statusCode, answer.json<Account>().id]).toEqual([200, id]);
    expect(answer.json<Account>().initial_sync).toEqual({
      status: 'pending',
      started_at: null,
      completed_at: null,
      days: 5,
      imported: 0,
    });
    expect(answer.body).not.toContain('secret');
    expect(await api.get(`/accounts/${id}`)).toEqual(answer.json());
  });

  it('returns the cause of a failure', async () => {
    connect = () => Promise.reject(new ApiError('invalid_credentials', 'IMAP refused the login'));
    const answer = await api.call('POST', '/auth/intent', { body: INTENT });
    expect(answer.json()).toEqual({
      status: 401,
      type: 'errors/invalid_credentials',
      title: 'Invalid credentials',
      detail: 'IMAP refused the login',
      request_id: answer.headers['x-request-id'],
    });
  });

  it.each<[object, string]>([
    [{ ...INTENT, provider: 'gmail' }, 'provider'],
    [{ provider: 'imap' }, 'credentials'],
    [{ ...INTENT, config: { initial_sync_days: 31 } }, 'config.initial_sync_days'],
    [{ ...INTENT, config: { initial_sync_enable: 'true' } }, 'config.initial_sync_enable'],
    [{ ...INTENT, state: 'x'.repeat(1001) }, 'state'],
    [{ ...INTENT, credentials: { ...INTENT.credentials, imap: { host: 'x', port: '993' } } }, 'credentials.imap.port'],
    [{ ...INTENT, credentials: { ...INTENT.credentials, imap: { port: 993 } } }, 'credentials.imap.host'],
  ])('refuses %j', async (body, field) => {
    const answer = await api.call('POST', '/auth/intent', { body });
    expect([answer.statusCode, answer.json().detail]).toEqual([400, expect.stringContaining(field)]);
  });
});

describe('an account', () => {
  it('has every field of the contract', async () => {
    const id = await storeAccount(api.database, { name: 'Mine', userId: 'me@example.test' });
    const account = await api.get<Account>(`/accounts/${id}`);
    expect(account).toEqual({
      object: 'Account',
      id,
      user_id: 'me@example.test',
      name: 'Mine',
      provider: 'imap',
      status: 'running',
      status_detail: '',
      is_locked: false,
      metadata: {},
      connection_params: {
        mail: {
          imap_host: 'mail.example.test',
          imap_port: 993,
          imap_user: id,
          imap_encryption: 'SSL',
          smtp_host: 'mail.example.test',
          smtp_port: 465,
          smtp_user: id,
          smtp_encryption: 'SSL',
        },
      },
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      last_synced_at: null,
      initial_sync: null,
      authserv_id: null,
      retention_days: null,
      folders: null,
      watch: true,
    });
  });

  it('is watched or not, which its workflow learns with each change', async () => {
    const id = await storeAccount(api.database);
    const patch = (watch: unknown) => api.call('PATCH', `/accounts/${id}`, { body: { watch } });
    const epoch = async () => {
      const { rows } = await api.database.pool.query<{ epoch: string }>(
        'select watch_epoch as epoch from accounts where id = $1',
        [id],
      );
      return Number(rows[0]?.epoch);
    };
    expect((await patch(false)).json()).toMatchObject({ id, watch: false });
    expect(await epoch()).toBe(1);
    expect((await patch(false)).json()).toMatchObject({ watch: false });
    // an unchanged watch continues
    expect(await epoch()).toBe(1);
    expect((await patch(true)).json()).toMatchObject({ watch: true });
    expect(await epoch()).toBe(2);
    expect(reloaded).toEqual([id, id, id]);
    for (const wrong of ['false', 0, null]) {
      const answer = await patch(wrong);
      expect([answer.statusCode, answer.json().detail]).toEqual([400, expect.stringContaining('watch')]);
    }
  });

  it('is synced by the command', async () => {
    const id = await storeAccount(api.database);
    const answer = await api.call('POST', `/accounts/${id}/sync`);
    expect(answer.json()).toEqual({
      object: 'MailboxSync',
      account_id: id,
      status: 'completed',
      workflow_id: `sync/${id}`,
    });
    expect((await api.call('POST', `/accounts/${newId('account')}/sync`)).statusCode).toBe(404);
  });

  it('stores mail for a number of days, or as long as it is in the mailbox; metadata stays', async () => {
    const id = await storeAccount(api.database);
    const patch = async (body: object) => {
      const answer = await api.call('PATCH', `/accounts/${id}`, { body });
      return [answer.statusCode, answer.json<Account>().retention_days];
    };
    await patch({ metadata: { a: '1' } });
    expect(await patch({ retention_days: 90 })).toEqual([200, 90]);
    expect((await api.get<Account>(`/accounts/${id}`)).metadata).toEqual({ a: '1' });
    expect(await patch({ metadata: {} })).toEqual([200, 90]);
    for (const wrong of [0, -1, 3651, 1.5, '30']) expect((await patch({ retention_days: wrong }))[0]).toBe(400);
    expect(await patch({ retention_days: null })).toEqual([200, null]);
  });

  it('has the name of the server whose results of authentication are believed', async () => {
    const id = await storeAccount(api.database);
    const patch = async (authserv_id: unknown) => {
      const answer = await api.call('PATCH', `/accounts/${id}`, { body: { authserv_id } });
      return [answer.statusCode, answer.json<Account>().authserv_id];
    };
    expect(await patch('mx.Example.test')).toEqual([200, 'mx.Example.test']);
    for (const wrong of ['', 'a b', 'a;b', 'a"b', '(a)', 'ü', 'a=b', 1, 'x'.repeat(256)])
      expect((await patch(wrong))[0]).toBe(400);
    expect(await patch(null)).toEqual([200, null]);
  });

  it('replaces its metadata entirely', async () => {
    const id = await storeAccount(api.database);
    const patch = (body: unknown) => api.call('PATCH', `/accounts/${id}`, { body });
    expect((await patch({ metadata: { a: '1', 'b c': 'é' } })).json()).toMatchObject({
      id,
      metadata: { a: '1', 'b c': 'é' },
    });
    expect((await patch({ metadata: { d: '2' }, name: 'ignored' })).json().metadata).toEqual({ d: '2' });
    for (const metadata of [
      { a: 1 },
      { a: null },
      [],
      'x',
      Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`k${n}`, ''])),
    ]) {
      const answer = await patch({ metadata });
      expect([answer.statusCode, answer.json().detail]).toEqual([400, expect.stringContaining('metadata')]);
    }
    expect((await patch({})).statusCode).toBe(400);
    expect((await patch({ metadata: { 'a\0': 'x' } })).statusCode).toBe(400);
    expect((await api.call('PATCH', `/accounts/${newId('account')}`, { body: { metadata: {} } })).statusCode).toBe(404);
    expect((await api.get<Account>(`/accounts/${id}`)).metadata).toEqual({ d: '2' });
  });

  it('is removed by the command', async () => {
    const id = await storeAccount(api.database);
    const answer = await api.call('DELETE', `/accounts/${id}`);
    expect(answer.json()).toEqual({ object: 'AccountDeleted', id, success: true });
    expect(removed).toEqual([id]);
  });

  it('is found by name, id and status', async () => {
    const own = await apiUnderTest();
    const one = await storeAccount(own.database, { name: 'First 100%' });
    const two = await storeAccount(own.database, { name: 'Second' });
    await own.database.pool.query(`update accounts set status = 'errored' where id = $1`, [two]);
    const list = async (query: string) =>
      (await own.get<{ data: Account[] }>(`/accounts?${query}`)).data.map(({ id }) => id);
    expect(await list('')).toEqual([one, two]);
    expect(await list('status=errored')).toEqual([two]);
    expect(await list('search=FIRST%20100%25')).toEqual([one]);
    expect(await list(`search=${two.slice(4, 20)}`)).toContain(two);
    expect(await list('search=_irst')).toEqual([]);
    expect(await list('offset=1')).toEqual([two]);
    expect(await own.get('/accounts?limit=1')).toMatchObject({ object: 'Accounts', has_more: true });
    expect((await own.call('GET', '/accounts?status=unknown')).statusCode).toBe(400);
    expect((await own.call('GET', '/accounts?offset=-1')).statusCode).toBe(400);
    expect((await own.call('GET', '/accounts?offset=99999999999999999999')).statusCode).toBe(400);
    await own.close();
  });
});

describe('API keys', () => {
  const tryKey = async (key: string) =>
    (await api.app.inject({ url: '/api/v1/accounts', headers: { 'x-api-key': key } })).statusCode;

  it('are shown once, listed without their value, and stop working immediately', async () => {
    const created = (await api.call('POST', '/api-keys', { body: { name: 'CI' } })).json();
    expect(created).toMatchObject({
      object: 'ApiKey',
      name: 'CI',
      role: 'service',
      expires_at: null,
      last_used_at: null,
    });
    expect(created.api_key.startsWith(created.prefix)).toBe(true);
    expect(await tryKey(created.api_key)).toBe(200);
    const listed = async () =>
      (await api.get<{ data: ApiKey[] }>('/api-keys?limit=250')).data.find(({ id }) => id === created.id);
    await waitFor(async () => (await listed())?.last_used_at !== null);
    expect(JSON.stringify(await listed())).not.toContain(created.api_key);
    const dump = await api.database.pool.query('select k::text from api_keys k');
    expect(JSON.stringify(dump.rows)).not.toContain(created.api_key.split('_').at(-1));
    const deleted = await api.call('DELETE', `/api-keys/${created.id}`);
    expect(deleted.json()).toEqual({ object: 'ApiKeyDeleted', id: created.id });
    expect(await tryKey(created.api_key)).toBe(401);
    expect((await api.call('DELETE', `/api-keys/${created.id}`)).statusCode).toBe(404);
  });

  it('expire', async () => {
    const body = { name: 'short', expires_at: new Date(Date.now() + 60_000).toISOString() };
    const created = (await api.call('POST', '/api-keys', { body })).json();
    expect(created.expires_at).toBe(body.expires_at);
    expect(await tryKey(created.api_key)).toBe(200);
    await api.database.pool.query(`update api_keys set expires_at = now() where id = $1`, [created.id]);
    await waitFor(async () => (await tryKey(created.api_key)) === 401);
    const never = { name: 'never', expires_at: '9999-12-31T23:59:59-23:59' };
    expect((await api.call('POST', '/api-keys', { body: never })).json().expires_at).toBe('9999-12-31T23:59:59.999Z');
    const past = { name: 'past', expires_at: '2020-01-01T00:00:00Z' };
    expect((await api.call('POST', '/api-keys', { body: past })).json().detail).toContain('expires_at');
  });

  it('must be complete: parts, altered and invented keys fail', async () => {
    const last = api.key.endsWith('0') ? '1' : '0';
    for (const wrong of [
      api.key.slice(0, -1),
      api.key.slice(0, -1) + last,
      api.key.split('_').slice(0, 2).join('_'),
      'x',
      'é',
      ' ',
    ]) {
      expect([wrong, await tryKey(wrong)]).toEqual([wrong, 401]);
    }
  });

  it('exist from the first start, and the configured one follows its setting', async () => {
    const { database, drop } = await testDatabase();
    const [made, second] = await Promise.all([
      ensureFirstKey(database.db, undefined),
      ensureFirstKey(database.db, undefined),
    ]);
    expect([made, second].filter((key) => key !== undefined)).toHaveLength(1);
    const keys = async () => (await database.pool.query('select name from api_keys order by issued_at, id')).rows;
    for (const setting of ['a-configured-key-0001', 'a-configured-key-0001', 'a-configured-key-0002']) {
      expect(await ensureFirstKey(database.db, setting)).toBeUndefined();
      expect(await keys()).toEqual([{ name: 'first key' }, { name: 'bootstrap' }]);
    }
    expect(await ensureFirstKey(database.db, undefined)).toBeUndefined();
    const own = await apiUnderTest({ deps: { pool: database.pool } });
    const enter = (key: string) => own.app.inject({ url: '/api/v1/api-keys', headers: { 'x-api-key': key } });
    expect((await enter('a-configured-key-0002')).statusCode).toBe(200);
    expect((await enter('a-configured-key-0001')).statusCode).toBe(401);
    expect((await enter(made ?? second ?? '')).statusCode).toBe(200);
    await own.close();
    await drop();
  });
});
