import { afterEach, describe, expect, it } from '@jest/globals';
import { createApiKey } from '../../../src/db/access/api-keys.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';

let api: ApiUnderTest;
afterEach(() => api.close());

const call = (options: { key?: string; address?: string; headers?: Record<string, string> } = {}) =>
  api.app.inject({
    url: '/api/v1/accounts',
    headers: { 'x-api-key': options.key ?? api.key, ...options.headers },
    remoteAddress: options.address ?? '192.0.2.1',
  });
const statuses = async (count: number, options: Parameters<typeof call>[0]) => {
  const found: number[] = [];
  for (let index = 0; index < count; index += 1) found.push((await call(options)).statusCode);
  return found;
};

describe('calls', () => {
  it('are not limited, and have no limit headers, by default', async () => {
    api = await apiUnderTest();
    expect((await call()).headers).not.toHaveProperty('ratelimit-limit');
  });

  it('are limited per key across addresses', async () => {
    api = await apiUnderTest({ requestsPerMinute: { key: 3, address: 0 } });
    const left = [];
    for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
      left.push((await call({ address })).headers['ratelimit-remaining']);
    }
    expect(left).toEqual(['2', '1', '0']);
    const limited = await call({ address: '192.0.2.4' });
    expect(limited.json()).toMatchObject({ status: 429, type: 'errors/too_many_requests', title: 'Too many requests' });
    expect(limited.headers).toMatchObject({ 'ratelimit-limit': '3', 'ratelimit-remaining': '0' });
    const seconds = Number(limited.headers['retry-after']);
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(limited.headers['ratelimit-reset']).toBe(String(seconds));
    const { key } = await createApiKey(api.database.db, { name: 'other', expiresAt: null });
    expect((await call({ key })).statusCode).toBe(200);
  });

  it('are limited per address across keys, and per IPv6 network', async () => {
    api = await apiUnderTest({ requestsPerMinute: { key: 0, address: 2 } });
    const { key } = await createApiKey(api.database.db, { name: 'other', expiresAt: null });
    expect([await statuses(1, { key }), await statuses(2, {})].flat()).toEqual([200, 200, 429]);
    expect(await statuses(1, { key: 'wrong' })).toEqual([429]);
    expect(await statuses(1, { address: '192.0.2.2' })).toEqual([200]);
    const found = [];
    for (const address of ['2001:db8::1', '2001:db8:0:0:ffff::1', '2001:0db8::2']) {
      found.push(...(await statuses(1, { address })));
    }
    expect(found).toEqual([200, 200, 429]);
  });

  it('are counted by the address that a trusted proxy reports', async () => {
    const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });
    api = await apiUnderTest({ requestsPerMinute: { key: 0, address: 1 }, trustProxy: ['192.0.2.0/24'] });
    expect(await statuses(1, from('203.0.113.1'))).toEqual([200]);
    expect(await statuses(1, from('203.0.113.2'))).toEqual([200]);
    expect(await statuses(1, from('9.9.9.9, 203.0.113.2'))).toEqual([429]);
    const direct = { address: '198.51.100.1' };
    expect(await statuses(1, { ...direct, ...from('203.0.113.3') })).toEqual([200]);
    expect(await statuses(1, { ...direct, ...from('203.0.113.4') })).toEqual([429]);
  });

  it.each([
    ['ports', ['203.0.113.1:1', '203.0.113.1:2', '[2001:db8::1]:1', '[2001:db8::1]:2'], [200, 429, 200, 429]],
    ['text', ['a', 'b', 'c, 203.0.113.1', 'd, e', '203.0.113.1, f'], [200, 429, 200, 429, 429]],
  ])('are counted by no %s that a client sends in place of an address', async (_what, forwarded, expected) => {
    api = await apiUnderTest({ requestsPerMinute: { key: 0, address: 1 }, trustProxy: true });
    const found = [];
    for (const address of forwarded) found.push(...(await statuses(1, { headers: { 'x-forwarded-for': address } })));
    expect(found).toEqual(expected);
  });

  it('show the limit that is closer to exhaustion', async () => {
    api = await apiUnderTest({ requestsPerMinute: { key: 5, address: 3 } });
    await call({ address: '192.0.2.9' });
    await call({ address: '192.0.2.8' });
    await call({ address: '192.0.2.7' });
    expect((await call()).headers).toMatchObject({ 'ratelimit-limit': '5', 'ratelimit-remaining': '1' });
    expect((await call({ address: '192.0.2.9' })).headers).toMatchObject({
      'ratelimit-limit': '5',
      'ratelimit-remaining': '0',
    });
  });

  it('without a key are not limited', async () => {
    api = await apiUnderTest({ requestsPerMinute: { key: 1, address: 1 } });
    for (let index = 0; index < 3; index += 1) expect((await api.app.inject({ url: '/health' })).statusCode).toBe(200);
  });
});
