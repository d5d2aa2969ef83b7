import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { AuthIntent } from '../../src/contract/account.ts';
import type { AuthLink, AuthLinkCreated, LinkPage } from '../../src/contract/auth-link.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { newId } from '../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

/** Links to the hosted connect page, and the routes of that page. */

let api: ApiUnderTest;
let accountId: string;
let intents: AuthIntent[] = [];
let connect: (intent: AuthIntent) => Promise<string> = () => Promise.resolve(accountId);

beforeAll(async () => {
  api = await apiUnderTest({
    commands: {
      connectMailbox: (intent) => {
        intents.push(intent);
        return connect(intent);
      },
    },
  });
  accountId = await storeAccount(api.database, { userId: 'ada@example.test' });
});
afterAll(() => api.close());
beforeEach(() => {
  intents = [];
  connect = () => Promise.resolve(accountId);
});

const PUBLIC = 'http://127.0.0.1:3000';
const LOGIN = { credentials: { user: 'ada@example.test', password: 'secret' } };

async function makeLink(body: object = {}): Promise<{ link: AuthLinkCreated; token: string }> {
  const answer = await api.call('POST', '/auth/links', { body });
  expect(answer.statusCode).toBe(200);
  const link = answer.json<AuthLinkCreated>();
  return { link, token: link.url.split('/').at(-1) ?? '' };
}

/** Makes a call as a browser on the page. */
function onPage(token: string, path: string, body?: object, headers: Record<string, string> = {}) {
  return api.app.inject({
    method: body ? 'POST' : 'GET',
    url: `/connect/${token}${path}`,
    headers: {
      host: '127.0.0.1:3000',
      origin: PUBLIC,
      ...(body ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    ...(body ? { payload: JSON.stringify(body) } : {}),
  });
}

describe('a link', () => {
  it('has a URL with a token that is stored as a digest alone', async () => {
    const { link, token } = await makeLink({ expires_in: 600 });
    expect(link).toMatchObject({ object: 'AuthLink', id: expect.stringMatching(/^lnk_/) });
    expect(link.url).toMatch(/^http:\/\/127\.0\.0\.1:3000\/connect\/[\w-]{43}$/);
    expect(new Date(link.expires_at).getTime() - Date.now()).toBeLessThanOrEqual(600_000);
    const { rows } = await api.database.pool.query<{ text: string }>('select auth_links::text as text from auth_links');
    expect(rows.some(({ text }) => text.includes(token))).toBe(false);
  });

  it.each([
    [{ redirect_url: 'javascript:alert(1)' }, 'redirect_url'],
    [{ redirect_url: 'https://user:pw@example.com/' }, 'redirect_url'],
    [{ redirect_url: 'nowhere' }, 'redirect_url'],
    [{ expires_in: 10 }, 'expires_in'],
    [{ config: { initial_sync_days: 99 } }, 'config.initial_sync_days'],
    [{ config: { history: 0 } }, 'config.history'],
    [{ config: { folders: { include: [] } } }, 'config.folders.include'],
    [{ config: { retention_days: 0 } }, 'config.retention_days'],
    [{ brand: { name: ' ' } }, 'brand.name'],
    [{ brand: { name: 'Harbour\u202e' } }, 'brand.name'],
    [{ brand: { name: 'x'.repeat(81) } }, 'brand.name'],
    [{ brand: { logo: 'http://cdn.example/logo.png' } }, 'brand.logo'],
    [{ brand: { logo: 'https://user:pw@cdn.example/logo.png' } }, 'brand.logo'],
    [{ brand: { logo: 'data:text/html;base64,PHA+' } }, 'brand.logo'],
    [{ brand: { logo: `data:image/png;base64,${'A'.repeat(65_536)}` } }, 'brand.logo'],
  ])('is refused with %j', async (body, field) => {
    const answer = await api.call('POST', '/auth/links', { body });
    expect(answer.statusCode).toBe(400);
    expect(answer.json<{ detail: string }>().detail).toContain(field);
  });

  it('is rejected for an unknown account', async () => {
    const answer = await api.call('POST', '/auth/links', { body: { account_id: newId('account') } });
    expect(answer.statusCode).toBe(404);
  });
});

describe('the list of links', () => {
  interface Links {
    data: AuthLink[];
    has_more: boolean;
  }
  const list = (query = '') => api.get<Links>(`/auth/links${query}`);
  const idsOf = ({ data }: Links) => data.map(({ id }) => id);
  const revoke = (id: string) => api.call('DELETE', `/auth/links/${id}`);

  it('has them newest first, by page and by status, without their URLs', async () => {
    await api.database.pool.query('delete from auth_links');
    const { link: used, token } = await makeLink({ name: 'Ada', state: 's', redirect_url: 'https://app.example/' });
    await onPage(token, '', LOGIN);
    const { link: cancelled, token: unwanted } = await makeLink();
    await onPage(unwanted, '/cancel', {});
    const { link: expired } = await makeLink();
    await api.database.pool.query('update auth_links set expires_at = now() where id = $1', [expired.id]);
    const { link: open, token: openToken } = await makeLink({ account_id: accountId });

    const all = await list();
    expect([idsOf(all), all.has_more]).toEqual([[open.id, expired.id, cancelled.id, used.id], false]);
    expect(all.data.map(({ status }) => status)).toEqual(['open', 'expired', 'cancelled', 'used']);
    const { url: _, ...rest } = used;
    expect(all.data[3]).toEqual({
      ...rest,
      status: 'used',
      connected_account_id: accountId,
      used_at: expect.any(String),
    });
    expect(rest).toMatchObject({ status: 'open', name: 'Ada', state: 's', redirect_url: 'https://app.example/' });
    expect(JSON.stringify(all)).not.toContain(openToken);
    for (const { id, status } of all.data) expect(idsOf(await list(`?status=${status}`))).toEqual([id]);
    expect(idsOf(await list(`?account_id=${accountId}`))).toEqual([open.id]);
    const second = await list('?limit=2&offset=1');
    expect([idsOf(second), second.has_more]).toEqual([[expired.id, cancelled.id], true]);
  });

  it('reports a link as expired once its key is revoked', async () => {
    const made = (await api.call('POST', '/api-keys', { body: { name: 'k' } })).json<{ id: string; api_key: string }>();
    const headers = { 'x-api-key': made.api_key };
    const { id } = (await api.call('POST', '/auth/links', { body: {}, headers })).json<AuthLink>();
    const status = async () => (await list()).data.find((link) => link.id === id)?.status;
    expect(await status()).toBe('open');
    await api.call('DELETE', `/api-keys/${made.id}`);
    expect(await status()).toBe('expired');
    expect(idsOf(await list('?status=open'))).not.toContain(id);
  });

  it('omits a revoked link, whose page is not found and whose revocation is audited', async () => {
    const { link, token } = await makeLink();
    const answer = await revoke(link.id);
    expect([answer.statusCode, answer.json()]).toEqual([200, { object: 'AuthLinkDeleted', id: link.id }]);
    expect((await onPage(token, '/link')).statusCode).toBe(404);
    expect((await onPage(token, '', LOGIN)).statusCode).toBe(404);
    expect(intents).toEqual([]);
    expect(idsOf(await list())).not.toContain(link.id);
    expect((await revoke(link.id)).statusCode).toBe(404);
    const { data } = await api.get<{ data: object[] }>(`/audit?object_id=${link.id}&action=auth_link.revoke`);
    expect(data).toMatchObject([{ outcome: 'refused' }, { outcome: 'done' }]);
  });

  it('does not revoke a used link, or a link with a login in progress', async () => {
    const { link, token } = await makeLink();
    let finish: (id: string) => void = () => {};
    connect = () => new Promise((resolve) => (finish = resolve));
    const login = onPage(token, '', LOGIN);
    while (intents.length === 0) await new Promise((resolve) => setImmediate(resolve));
    const early = await revoke(link.id);
    expect([early.statusCode, early.headers['retry-after']]).toEqual([429, '60']);
    finish(accountId);
    await login;
    const late = await revoke(link.id);
    expect([late.statusCode, late.json<{ detail: string }>().detail]).toEqual([
      404,
      'this link has already connected a mailbox',
    ]);
    expect((await onPage(token, '/link')).json<LinkPage>().status).toBe('used');
  });
});

describe('its page', () => {
  it('connects one mailbox with the settings of the link', async () => {
    const folders = { exclude: ['Archive/*'] };
    const config = {
      initial_sync_enable: true,
      initial_sync_days: 3,
      history: 'all',
      watch: false,
      folders,
      retention_days: 90,
    };
    const { token } = await makeLink({
      redirect_url: 'https://app.example/done?a=1',
      state: 'customer 7',
      name: 'Ada',
      config,
    });
    const answer = await onPage(token, '', LOGIN);
    expect(answer.statusCode).toBe(200);
    const back = new URL(answer.json<{ redirect_url: string }>().redirect_url);
    expect(Object.fromEntries(back.searchParams)).toEqual({ a: '1', account_id: accountId, state: 'customer 7' });
    expect(intents).toEqual([
      {
        provider: 'imap',
        by_link: true,
        ...LOGIN,
        state: 'customer 7',
        name: 'Ada',
        config,
      },
    ]);

    expect((await onPage(token, '', LOGIN)).statusCode).toBe(404);
    expect(intents).toHaveLength(1);
    expect((await onPage(token, '/link')).json<LinkPage>().status).toBe('used');
  });

  it('gives the result of a login once more, to the session of the page that made it', async () => {
    const { token } = await makeLink({ redirect_url: 'https://app.example/', state: 's' });
    const [session, other] = ['a'.repeat(32), 'b'.repeat(32)];
    const result = (of: string, headers = {}) => onPage(token, '/result', { session: of }, headers);
    connect = () => Promise.reject(new ApiError('invalid_credentials', 'no'));
    expect((await onPage(token, '', { ...LOGIN, session: other })).statusCode).toBe(401);
    expect((await result(other)).statusCode).toBe(404);
    connect = () => Promise.resolve(accountId);
    const first = await onPage(token, '', { ...LOGIN, session });
    expect(first.json()).toMatchObject({ redirect_url: `https://app.example/?account_id=${accountId}&state=s` });
    expect((await result(session)).json()).toEqual(first.json());
    for (const { statusCode, body } of [
      await result(other),
      await onPage((await makeLink()).token, '/result', { session }),
    ])
      expect([statusCode, body]).toEqual([404, expect.not.stringContaining(accountId)]);
    expect((await result(session, { origin: 'https://elsewhere.example' })).statusCode).toBe(401);
    expect((await onPage(token, '/result', { session: 'short' })).statusCode).toBe(400);
  });

  it('reconnects the account of the link and shows its address', async () => {
    const { token } = await makeLink({ account_id: accountId });
    expect((await onPage(token, '/link')).json<LinkPage>()).toMatchObject({
      status: 'open',
      address: 'ada@example.test',
      back_url: null,
    });
    expect((await onPage(token, '', LOGIN)).statusCode).toBe(200);
    expect(intents[0]).toMatchObject({ account_id: accountId });
  });

  it('has the name and logo of its link, in place of the installation', async () => {
    const logo = 'data:image/png;base64,iVBORw0KGgo=';
    const { link, token } = await makeLink({ brand: { name: 'شركة الميناء', logo } });
    expect(link.brand_name).toBe('شركة الميناء');
    const { brand } = (await onPage(token, '/link')).json<LinkPage>();
    expect(brand).toEqual({ name: 'شركة الميناء', color: null, logo_url: logo });
    const { token: plain } = await makeLink({ brand: { logo } });
    expect((await onPage(plain, '/link')).json<LinkPage>().brand).toMatchObject({ name: 'Email API', logo_url: logo });
    const [listed] = (await api.get<{ data: AuthLink[] }>('/auth/links?limit=1')).data;
    expect(listed).not.toHaveProperty('logo');
  });

  it('says what the provider of the account to reconnect takes', async () => {
    const { token } = await makeLink({ account_id: accountId });
    const help = async () => (await onPage(token, '/link')).json<LinkPage>().login;
    expect(await help()).toMatchObject({ password_login: 'password', provider: null });
    await api.database.pool.query('update accounts set imap_host = $2 where id = $1', [
      accountId,
      'outlook.office365.com',
    ]);
    try {
      expect(await help()).toMatchObject({ password_login: 'none', provider: 'microsoft' });
    } finally {
      await api.database.pool.query('update accounts set imap_host = $2 where id = $1', [
        accountId,
        'mail.example.test',
      ]);
    }
    expect((await onPage((await makeLink()).token, '/link')).json<LinkPage>().login).toBeNull();
  });

  it('stays open after a rejected login', async () => {
    const { token } = await makeLink();
    connect = () => Promise.reject(new ApiError('invalid_credentials', 'the server said no'));
    const refused = await onPage(token, '', LOGIN);
    expect(refused.statusCode).toBe(401);
    expect(refused.json<{ detail: string }>().detail).toBe('the server said no');
    connect = () => Promise.resolve(accountId);
    expect((await onPage(token, '', LOGIN)).statusCode).toBe(200);
  });

  it('connects one mailbox when it is submitted twice concurrently', async () => {
    const { token } = await makeLink();
    let finish: (id: string) => void = () => {};
    connect = () => new Promise((resolve) => (finish = resolve));
    const first = onPage(token, '', LOGIN);
    while (intents.length === 0) await new Promise((resolve) => setImmediate(resolve));
    const second = await onPage(token, '', LOGIN);
    expect([second.statusCode, second.headers['retry-after']]).toEqual([429, '60']);
    finish(accountId);
    expect((await first).statusCode).toBe(200);
    expect(intents).toHaveLength(1);
  });

  it('limits the number of logins', async () => {
    const { token } = await makeLink();
    connect = () => Promise.reject(new ApiError('invalid_credentials', 'no'));
    const statuses = [];
    for (let attempt = 0; attempt < 12; attempt += 1) statuses.push((await onPage(token, '', LOGIN)).statusCode);
    expect(statuses.slice(0, 10)).toEqual(Array(10).fill(401));
    expect(statuses.slice(10)).toEqual([429, 429]);
    expect(intents).toHaveLength(10);
  });

  it('has expired after fifty failed logins', async () => {
    const { link, token } = await makeLink();
    connect = () => Promise.reject(new ApiError('invalid_credentials', 'no'));
    await api.database.pool.query('update auth_links set attempts_in_all = 48 where id = $1', [link.id]);
    for (const status of ['open', 'expired']) {
      expect((await onPage(token, '', LOGIN)).statusCode).toBe(401);
      expect((await onPage(token, '/link')).json<LinkPage>().status).toBe(status);
    }
    expect((await onPage(token, '', LOGIN)).statusCode).toBe(404);
    expect(intents).toHaveLength(2);
  });

  it('redirects an owner who cancels, and is closed afterwards', async () => {
    const { token } = await makeLink({ redirect_url: 'https://app.example/done', state: 's' });
    const answer = await onPage(token, '/cancel', {});
    expect(answer.json<{ redirect_url: string }>().redirect_url).toBe(
      'https://app.example/done?error=cancelled&state=s',
    );
    expect((await onPage(token, '', LOGIN)).statusCode).toBe(404);
    expect((await onPage(token, '/link')).json<LinkPage>().status).toBe('cancelled');
  });

  it.each([
    ['no password', { user: 'ada@example.test' }],
    [
      'a password of the SMTP server alone',
      { user: 'ada@example.test', smtp: { host: 'smtp.evil.test', port: 465, user: 'x', password: 'y' } },
    ],
  ])('connects nothing with %s, however the mailbox is stored', async (_, credentials) => {
    for (const body of [{}, { account_id: accountId }]) {
      const { token } = await makeLink(body);
      const answer = await onPage(token, '', { credentials });
      expect([answer.statusCode, answer.json().detail]).toEqual([400, 'credentials.password is missing']);
    }
    expect(intents).toEqual([]);
  });

  it('ends when the key that created it is revoked', async () => {
    const made = (await api.call('POST', '/api-keys', { body: { name: 'leaked' } })).json<{
      id: string;
      api_key: string;
    }>();
    const headers = { 'x-api-key': made.api_key };
    const { url } = (await api.call('POST', '/auth/links', { body: {}, headers })).json<AuthLinkCreated>();
    const token = url.split('/').at(-1) ?? '';
    expect((await onPage(token, '/link')).statusCode).toBe(200);
    await api.call('DELETE', `/api-keys/${made.id}`);
    expect((await onPage(token, '/link')).statusCode).toBe(404);
    expect((await onPage(token, '', LOGIN)).statusCode).toBe(404);
  });

  it('is in the audit log with the account and the key', async () => {
    const { token } = await makeLink();
    await onPage(token, '', LOGIN);
    const [record] = (await api.get<{ data: object[] }>(`/audit?object_id=${accountId}&limit=1`)).data;
    expect(record).toMatchObject({
      action: expect.stringMatching(/^account\.(re)?connect$/),
      outcome: 'done',
      object_id: accountId,
    });
  });

  it('reports an expired link, and redirects with the error', async () => {
    const { link, token } = await makeLink({ redirect_url: 'https://app.example/done' });
    await api.database.pool.query('update auth_links set expires_at = now() where id = $1', [link.id]);
    expect((await onPage(token, '/link')).json<LinkPage>()).toMatchObject({
      status: 'expired',
      back_url: 'https://app.example/done?error=expired',
    });
    expect((await onPage(token, '', LOGIN)).statusCode).toBe(404);
    expect(intents).toEqual([]);
  });

  it('rejects calls from pages of other origins', async () => {
    const { token } = await makeLink();
    for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
      expect((await onPage(token, '', LOGIN, headers)).statusCode).toBe(401);
      expect((await onPage(token, '/cancel', {}, headers)).statusCode).toBe(401);
    }
    expect(intents).toEqual([]);
  });

  it.each(['x', 'a'.repeat(43), `${'a'.repeat(20)}%00`])('is none for the token %s', async (token) => {
    expect((await onPage(token, '/link')).statusCode).toBe(404);
    expect((await onPage(token, '', LOGIN)).statusCode).toBe(404);
  });

  it('limits calls from one address', async () => {
    const limited = await apiUnderTest({ trustProxy: true });
    const call = () =>
      limited.app.inject({ url: `/connect/${'a'.repeat(43)}/link`, headers: { 'x-forwarded-for': '203.0.113.7' } });
    const statuses = [];
    for (let index = 0; index < 62; index += 1) statuses.push((await call()).statusCode);
    expect(statuses.slice(0, 60)).toEqual(Array(60).fill(404));
    expect(statuses.slice(60)).toEqual([429, 429]);
    await limited.close();
  });
});
