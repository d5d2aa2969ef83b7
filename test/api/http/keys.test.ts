import { createHash, randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { ApiKey } from '../../../src/contract/api-key.ts';
import { createApiKey, ensureFirstKey } from '../../../src/db/access/api-keys.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

const LIMIT = 5;
let api: ApiUnderTest;
beforeEach(async () => {
  api = await apiUnderTest({ wrongKeysPerMinute: LIMIT });
});
afterEach(() => api.close());

const call = (key: string, remoteAddress = '192.0.2.1') =>
  api.app.inject({ url: '/api/v1/accounts', headers: { 'x-api-key': key }, remoteAddress });
const wrongKey = () => `mbx_${randomBytes(6).toString('hex')}_${randomBytes(32).toString('hex')}`;
const statusesOf = async (keys: string[], address?: string) =>
  (await Promise.all(keys.map((key) => call(key, address)))).map(({ statusCode }) => statusCode);
const many = (length: number) => Array.from({ length }, wrongKey);

describe('wrong keys', () => {
  it('are limited by address', async () => {
    expect(await statusesOf(many(LIMIT))).toEqual(Array(LIMIT).fill(401));
    const limited = await call('guess-of-a-configured-key');
    expect(limited.statusCode).toBe(429);
    expect(limited.json()).toMatchObject({ type: 'errors/too_many_requests', status: 429 });
    const seconds = Number(limited.headers['retry-after']);
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(await statusesOf(many(3_000))).toEqual(Array(3_000).fill(429));
    expect(await statusesOf(many(1), '192.0.2.2')).toEqual([401]);
  });

  it('are counted per IPv6 network', async () => {
    for (let host = 1; host <= LIMIT; host += 1) {
      expect(await statusesOf(many(1), `2001:db8::${host}`)).toEqual([401]);
    }
    expect(await statusesOf(many(1), '2001:0db8:0:0:ffff::1')).toEqual([429]);
    expect(await statusesOf(many(1), '2001:db8:0:1::1')).toEqual([401]);
  });

  it('do not block valid keys of the same address, including new ones', async () => {
    expect((await call(api.key)).statusCode).toBe(200);
    await statusesOf(many(LIMIT));
    const { key: fresh } = await createApiKey(api.database.db, { name: 'fresh', expiresAt: null });
    const own = 'a-key-of-the-operators-own';
    await ensureFirstKey(api.database.db, own);
    const results = await Promise.all([statusesOf(many(500)), statusesOf([api.key, fresh, own, api.key])]);
    expect(results[0]).toEqual(Array(500).fill(429));
    expect(results[1]).toEqual([200, 200, 200, 200]);
  });

  it('cause a bounded number of look-ups once they are limited', async () => {
    await statusesOf(many(LIMIT));
    let queries = 0;
    const { pool } = api.database;
    const query = pool.query.bind(pool);
    pool.query = ((...args: Parameters<typeof query>) => {
      queries += 1;
      return query(...args);
    }) as typeof pool.query;
    await statusesOf(many(800));
    expect(queries).toBeLessThan(80);
  });

  it('do not include keys that were just revoked', async () => {
    const { apiKey, key } = await createApiKey(api.database.db, { name: 'short', expiresAt: null });
    expect((await call(key)).statusCode).toBe(200);
    await statusesOf(many(LIMIT));
    await api.call('DELETE', `/api-keys/${apiKey.id}`);
    expect((await call(key)).statusCode).toBe(401);
  });
});

describe('a key', () => {
  it('names the key that created it, even after its revocation', async () => {
    const parent = (await api.call('POST', '/api-keys', { body: { name: 'parent' } })).json();
    const { id: first } = (await api.get<{ data: ApiKey[] }>('/api-keys')).data[0] as ApiKey;
    expect(parent.created_by).toBe(first);
    const headers = { 'x-api-key': parent.api_key };
    const child = (await api.call('POST', '/api-keys', { body: { name: 'child' }, headers })).json();
    await api.call('DELETE', `/api-keys/${parent.id}`);
    const { data } = await api.get<{ data: ApiKey[] }>(`/api-keys?created_by=${parent.id}`);
    expect(data).toMatchObject([{ id: child.id, created_by: parent.id }]);
    expect((await call(child.api_key)).statusCode).toBe(200);
  });

  it('of the operator reveals neither itself nor its digest', async () => {
    const own = 'a-key-of-the-operators-own';
    await ensureFirstKey(api.database.db, own);
    await ensureFirstKey(api.database.db, own);
    const { data } = await api.get<{ data: ApiKey[] }>('/api-keys');
    const shown = data.filter(({ name }) => name === 'bootstrap');
    expect(shown).toHaveLength(1);
    const digest = createHash('sha256').update(own).digest('hex');
    expect(shown[0]?.prefix).toMatch(/^boot_[0-9a-f]{12}$/);
    expect(digest).not.toContain(shown[0]?.prefix.slice(5));
    expect((await call(own)).statusCode).toBe(200);
    await ensureFirstKey(api.database.db, 'another-key-of-the-operators-own');
    await waitFor(async () => (await call(own)).statusCode === 401);
    expect((await call('another-key-of-the-operators-own')).statusCode).toBe(200);
  });

  it('of the operator stays revoked at the next start, and another one is accepted', async () => {
    const own = 'a-key-of-the-operator-that-leaks';
    await ensureFirstKey(api.database.db, own);
    const { data } = await api.get<{ data: ApiKey[] }>('/api-keys');
    const id = data.find(({ name }) => name === 'bootstrap')?.id;
    expect((await api.call('DELETE', `/api-keys/${id}`)).statusCode).toBe(200);
    await ensureFirstKey(api.database.db, own);
    await waitFor(async () => (await call(own)).statusCode === 401);
    await ensureFirstKey(api.database.db, 'a-new-key-of-the-operator');
    expect((await call('a-new-key-of-the-operator')).statusCode).toBe(200);
  });

  it('of the operator is replaced by the next one whatever its form, and no other key is', async () => {
    const named = (await api.call('POST', '/api-keys', { body: { name: 'bootstrap' } })).json<{ api_key: string }>();
    const generated = `mbx_${'0'.repeat(12)}_${'1'.repeat(64)}`;
    await ensureFirstKey(api.database.db, generated);
    expect((await call(generated)).statusCode).toBe(200);
    await ensureFirstKey(api.database.db, 'the-next-key-of-the-operator');
    await waitFor(async () => (await call(generated)).statusCode === 401);
    expect((await call(named.api_key)).statusCode).toBe(200);
  });
});
