import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';

let api: ApiUnderTest;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

/** Where the page that is returned leads. */
const targetOf = (page: string): string =>
  (/content="0;url=([^"]*)"/.exec(page)?.[1] ?? '').replace(/&#(\d+);/g, (_, code: string) =>
    String.fromCharCode(Number(code)),
  );

it.each(['', '?state=made-up&code=1', '?state=made-up&error=access_denied&iss=https%3A%2F%2Fexample.test'])(
  'a return of the browser that no sign-in began leads to the page that says so (%s)',
  async (query) => {
    const { statusCode, headers, body } = await api.app.inject({ url: `/connect/oauth/callback${query}` });
    expect([statusCode, targetOf(body)]).toEqual([200, 'http://127.0.0.1:3000/connect/lost?error=expired']);
    expect(headers).toMatchObject({
      'content-security-policy': "default-src 'none'",
      'referrer-policy': 'no-referrer',
    });
    expect(body).not.toContain('made-up');
  },
);

it('a response of the provider counts for the browser that began the sign-in, once', async () => {
  const app = {
    ...{ provider: 'google', name: 'Test', client_id: 'c', client_secret: 's' },
    hosts: ['imap.example.test', 'smtp.example.test'],
  };
  expect((await api.call('POST', '/oauth/apps', { body: app })).statusCode).toBe(200);
  const link = (await api.call('POST', '/auth/links', { body: {} })).json<{ url: string }>().url;
  const path = new URL(link).pathname;
  const side = (host: string) => ({ host, port: 993 });
  const credentials = { user: 'ann@example.test', imap: side('imap.example.test'), smtp: side('smtp.example.test') };
  const begin = () =>
    api.app.inject({
      method: 'POST',
      url: `${path}/sign-in`,
      headers: { 'sec-fetch-site': 'same-origin' },
      payload: { credentials },
    });
  const answerTo = (url: string, cookie: string) => {
    const state = new URL(url).searchParams.get('state') ?? '';
    const query = new URLSearchParams({ state, error: 'access_denied', iss: 'https://accounts.google.com' });
    return api.app.inject({ url: `/connect/oauth/callback?${query.toString()}`, headers: { cookie } });
  };
  const began = await begin();
  const { url } = began.json<{ url: string }>();
  expect(Object.fromEntries(new URL(url).searchParams)).toMatchObject({
    login_hint: 'ann@example.test',
    code_challenge_method: 'S256',
    access_type: 'offline',
    redirect_uri: 'http://127.0.0.1:3000/connect/oauth/callback',
  });
  const cookie = String(began.headers['set-cookie']).split(';')[0] ?? '';
  const returned = await answerTo(url, cookie);
  expect(targetOf(returned.body)).toBe(`${link}?error=access_denied`);
  expect(targetOf((await answerTo(url, cookie)).body)).toMatch(/lost\?error=expired/);
  // closed in another window while its owner is at the provider: the page of the link says how it ended
  const third = await begin();
  const cookieOfThird = String(third.headers['set-cookie']).split(';')[0] ?? '';
  const other = await begin();
  expect(targetOf((await answerTo(other.json<{ url: string }>().url, cookie)).body)).toMatch(/lost\?error=expired/);
  const headers = { 'sec-fetch-site': 'same-origin' };
  expect((await api.app.inject({ method: 'POST', url: `${path}/cancel`, headers })).statusCode).toBe(200);
  const late = await answerTo(third.json<{ url: string }>().url, cookieOfThird);
  expect([late.statusCode, targetOf(late.body)]).toEqual([200, link]);
});
