import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Session } from '../../../src/contract/access/session.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { createApiKey, deleteApiKey } from '../../../src/db/access/api-keys.ts';
import { newId } from '../../../src/new-id.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Sessions in a browser: the cookie stands for the key. */

let api: ApiUnderTest;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

const ORIGIN = 'http://127.0.0.1:3000';

async function signIn(key = api.key): Promise<{ cookie: string; header: string }> {
  const answer = await api.call('POST', '/session', { headers: { 'x-api-key': key } });
  expect(answer.statusCode).toBe(200);
  const header = String(answer.headers['set-cookie']);
  return { cookie: header.split(';')[0] ?? '', header };
}

/** A call with the cookie alone. */
function withCookie(method: 'GET' | 'POST' | 'DELETE', path: string, cookie: string, headers = {}) {
  return api.app.inject({
    method,
    url: `/api/v1${path}`,
    headers: {
      cookie,
      host: '127.0.0.1:3000',
      ...(method === 'POST' ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    ...(method === 'POST' ? { payload: '{"name":"made in a browser"}' } : {}),
  });
}

describe('a session', () => {
  it('stands for its key on every call', async () => {
    const { cookie } = await signIn();
    const answer = await withCookie('GET', '/session', cookie);
    expect(answer.statusCode).toBe(200);
    const session = answer.json<Session>();
    expect(session).toMatchObject({ object: 'Session', api_key_name: 'test' });
    expect(new Date(session.expires_at ?? 0).getTime()).toBeGreaterThan(Date.now());
    expect((await withCookie('GET', '/accounts', cookie)).statusCode).toBe(200);
  });

  it('has a cookie that scripts cannot read and other sites cannot send', async () => {
    const { header } = await signIn();
    expect(header).toMatch(/^email_api_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Expires=/);
    const secure = await apiUnderTest({ trustProxy: true });
    const answer = await secure.call('POST', '/session', { headers: { 'x-forwarded-proto': 'https' } });
    expect(String(answer.headers['set-cookie'])).toMatch(/^__Host-email_api_session=[^;]+; Path=\/; .*; Secure/);
    await secure.close();
  });

  it('says what it may do', async () => {
    const accountIds = [newId('account')];
    const { key } = await createApiKey(api.database.db, {
      name: 'narrow',
      expiresAt: null,
      permissions: 'read',
      accountIds,
    });
    const begun = await api.call('POST', '/session', { headers: { 'x-api-key': key } });
    expect(begun.json()).toMatchObject({ permissions: 'read', accounts: accountIds });
    const { cookie } = await signIn(key);
    expect((await withCookie('GET', '/session', cookie)).json()).toMatchObject({
      permissions: 'read',
      accounts: accountIds,
    });
    const { cookie: unlimited } = await signIn();
    expect((await withCookie('GET', '/session', unlimited)).json()).toMatchObject({
      permissions: 'full',
      accounts: null,
    });
  });

  it('is stored as a digest only', async () => {
    const { cookie } = await signIn();
    const token = cookie.split('=')[1] ?? '';
    const { rows } = await api.database.pool.query<{ text: string }>('select sessions::text as text from sessions');
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.some(({ text }) => text.includes(token) || text.includes(Buffer.from(token).toString('hex')))).toBe(
      false,
    );
  });

  it('rejects changes from pages of another origin', async () => {
    const { cookie } = await signIn();
    for (const headers of [
      {},
      { origin: 'https://evil.example' },
      { origin: 'http://127.0.0.1:4000' },
      { origin: 'null' },
      { origin: ORIGIN, 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
    ]) {
      const answer = await withCookie('POST', '/api-keys', cookie, headers);
      expect({ headers, status: answer.statusCode }).toEqual({ headers, status: 401 });
    }
    expect((await withCookie('POST', '/api-keys', cookie, { origin: ORIGIN })).statusCode).toBe(200);
    expect((await withCookie('POST', '/api-keys', cookie, { 'sec-fetch-site': 'same-origin' })).statusCode).toBe(200);
  });

  it('ends immediately on sign-out', async () => {
    const { cookie } = await signIn();
    const answer = await withCookie('DELETE', '/session', cookie, { origin: ORIGIN });
    expect(answer.statusCode).toBe(204);
    expect(String(answer.headers['set-cookie'])).toContain('Max-Age=0');
    expect((await withCookie('GET', '/accounts', cookie)).statusCode).toBe(401);
  });

  it('ends with its key: revoked or expired', async () => {
    const { apiKey, key } = await createApiKey(api.database.db, { name: 'short', expiresAt: null });
    const { cookie } = await signIn(key);
    await deleteApiKey(api.database.db, apiKey.id);
    expect((await withCookie('GET', '/accounts', cookie)).statusCode).toBe(401);

    const other = await createApiKey(api.database.db, { name: 'short', expiresAt: null });
    const { cookie: second } = await signIn(other.key);
    await api.database.pool.query(`update api_keys set expires_at = now() where id = $1`, [other.apiKey.id]);
    await waitFor(async () => (await withCookie('GET', '/accounts', second)).statusCode === 401);
  });

  it('ends after its time', async () => {
    const { cookie } = await signIn();
    await api.database.pool.query(`update sessions set expires_at = now() - interval '1 second'`);
    expect((await withCookie('GET', '/accounts', cookie)).statusCode).toBe(401);
  });

  it('cannot be created with another session or a wrong key', async () => {
    const { cookie } = await signIn();
    expect((await withCookie('POST', '/session', cookie, { origin: ORIGIN })).statusCode).toBe(401);
    expect((await api.call('POST', '/session', { headers: { 'x-api-key': 'x'.repeat(40) } })).statusCode).toBe(401);
  });

  it.each(['', 'x', 'a'.repeat(43), `${'a'.repeat(42)};`, '%00'])('is rejected with the token %j', async (token) => {
    expect((await withCookie('GET', '/accounts', `email_api_session=${token}`)).statusCode).toBe(401);
  });
});
