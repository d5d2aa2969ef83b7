import { randomUUID } from 'node:crypto';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sleep } from '../../../src/async.ts';
import type { ConnectIntent } from '../../../src/contract/account.ts';
import { newId } from '../../../src/new-id.ts';
import { createLogger } from '../../../src/runtime/logger.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';

let api: ApiUnderTest;
let connectMailbox: (intent: ConnectIntent) => Promise<string>;
const connects: ConnectIntent[] = [];
const lines: Record<string, unknown>[] = [];
beforeAll(async () => {
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  api = await apiUnderTest({
    commands: {
      connectMailbox: async (intent) => {
        connects.push(intent);
        return connectMailbox(intent);
      },
    },
    deps: { logger: createLogger('warn', 'api', sink) },
  });
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

const OWN_APP = {
  ...{ provider: 'google', name: 'Test', client_id: 'c', client_secret: 's' },
  hosts: ['imap.example.test', 'smtp.example.test'],
};
const side = (host: string) => ({ host, port: 993 });
const credentials = { user: 'ann@example.test', imap: side('imap.example.test'), smtp: side('smtp.example.test') };
const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' };

async function createApp(more: object = {}): Promise<void> {
  expect((await api.call('POST', '/oauth/apps', { body: { ...OWN_APP, ...more } })).statusCode).toBe(200);
}

/** A sign-in that a browser begins: where it goes, and the cookie that it gets. */
async function begin(link: string, given: object = credentials) {
  const url = `${new URL(link).pathname}/sign-in`;
  const response = await api.app.inject({ method: 'POST', url, headers: SAME_ORIGIN, payload: { credentials: given } });
  const cookie = String(response.headers['set-cookie']).split(';')[0] ?? '';
  return { url: response.json<{ url: string }>().url, cookie };
}

function returnTo(url: string, cookie: string, answer: Record<string, string> = { error: 'access_denied' }) {
  const state = new URL(url).searchParams.get('state') ?? '';
  const query = new URLSearchParams({ state, iss: 'https://accounts.google.com', ...answer });
  return api.app.inject({ url: `/connect/oauth/callback?${query.toString()}`, headers: { cookie } });
}

const newLink = async (body: object = {}) =>
  (await api.call('POST', '/auth/links', { body })).json<{ url: string }>().url;

describe('a response of the provider', () => {
  beforeAll(() => createApp());

  it('counts for the browser that began the sign-in', async () => {
    const link = await newLink();
    const { url, cookie } = await begin(link);
    expect(Object.fromEntries(new URL(url).searchParams)).toMatchObject({
      login_hint: 'ann@example.test',
      code_challenge_method: 'S256',
      access_type: 'offline',
      redirect_uri: 'http://127.0.0.1:3000/connect/oauth/callback',
    });
    const other = await begin(link);
    expect(targetOf((await returnTo(url, other.cookie)).body)).toMatch(/lost\?error=expired/);
    expect(targetOf((await returnTo(url, '')).body)).toMatch(/lost\?error=expired/);
    // neither has ended the sign-in
    expect(targetOf((await returnTo(url, cookie)).body)).toBe(`${link}?error=access_denied`);
  });

  it('counts for each of the pages that an owner has open', async () => {
    const link = await newLink();
    const [one, other] = [await begin(link), await begin(link)];
    expect(one.cookie.split('=')[0]).not.toBe(other.cookie.split('=')[0]);
    const both = `${one.cookie}; ${other.cookie}`;
    const first = await returnTo(one.url, both);
    expect([targetOf(first.body), first.headers['set-cookie']]).toEqual([`${link}?error=access_denied`, undefined]);
    expect(targetOf((await returnTo(other.url, both)).body)).toBe(`${link}?error=access_denied`);
  });

  it('leads on to the page that says how its link ended, closed in another window', async () => {
    const link = await newLink();
    const { url, cookie } = await begin(link);
    const path = new URL(link).pathname;
    const closed = await api.app.inject({ method: 'POST', url: `${path}/cancel`, headers: SAME_ORIGIN });
    expect(closed.statusCode).toBe(200);
    const late = await returnTo(url, cookie);
    expect([late.statusCode, targetOf(late.body)]).toEqual([200, link]);
  });

  it('connects once, and a reload leads on as the first one does, during the login and after it', async () => {
    const link = await newLink({ redirect_url: 'https://caller.example.test/done', state: '42' });
    const accountId = newId('account');
    connects.length = 0;
    let connected: (id: string) => void = () => {};
    connectMailbox = () => new Promise((resolve) => (connected = resolve));
    const { url, cookie } = await begin(link);
    const first = returnTo(url, cookie, { code: 'c1' });
    await waitFor(() => connects.length === 1, { what: 'the login' });
    const reloaded = returnTo(url, cookie, { code: 'c1' });
    await sleep(100);
    connected(accountId);
    const done = `https://caller.example.test/done?account_id=${accountId}&state=42`;
    expect([targetOf((await first).body), targetOf((await reloaded).body)]).toEqual([done, done]);
    expect(targetOf((await returnTo(url, cookie, { code: 'c1' })).body)).toBe(done);
    expect(connects).toEqual([expect.objectContaining({ sign_in: expect.objectContaining({ code: 'c1' }) })]);
  });
});

describe('a provider that refuses the app', () => {
  it.each([
    [
      "AADSTS700016: Application with identifier 'c' was not found in the directory 'Contoso'.",
      /no app with this client id/,
    ],
    ["AADSTS7000112: Application 'c'(Mail of Contoso) is disabled.", /disabled in the organization/],
  ])('is logged with the reason, and the page says who has to act (%s)', async (error_description, reason) => {
    const host = `${randomUUID()}.example.test`;
    const app = { provider: 'microsoft', name: 'Test', client_id: 'c', client_secret: 's', hosts: [host] };
    const { id } = (await api.call('POST', '/oauth/apps', { body: app })).json<{ id: string }>();
    const link = await newLink();
    const { url, cookie } = await begin(link, { user: 'ann@example.test', imap: side(host), smtp: side(host) });
    const state = new URL(url).searchParams.get('state') ?? '';
    const query = new URLSearchParams({ state, error: 'unauthorized_client', error_description });
    const returned = await api.app.inject({ url: `/connect/oauth/callback?${query.toString()}`, headers: { cookie } });
    expect(targetOf(returned.body)).toBe(`${link}?error=provider_rejected`);
    expect(lines).toContainEqual(
      expect.objectContaining({
        msg: 'provider refused an OAuth app at a sign-in',
        appId: id,
        detail: expect.stringMatching(reason),
      }),
    );
    expect(JSON.stringify(lines)).not.toContain('Contoso');
  });
});

describe('the sign-in of a host', () => {
  const atHost = (host: string) => ({ user: 'ann@example.test', imap: side(host), smtp: side(host) });
  const clientOf = async (host: string) =>
    new URL((await begin(await newLink(), atHost(host))).url).searchParams.get('client_id');
  const service_account = { client_email: 'mail@project.example.test', private_key: 'k' };

  it('is that of an app with a client for people', async () => {
    const host = 'one.example.test';
    await createApp({ hosts: [host], client_id: 'robot', client_secret: undefined, service_account });
    const link = await newLink();
    const url = `${new URL(link).pathname}/servers?address=ann@example.test&imap_host=${host}`;
    expect((await api.app.inject({ url })).json()).toMatchObject({ sign_in: null });
    await createApp({ hosts: [host], client_id: 'people', name: 'People' });
    expect((await api.app.inject({ url })).json()).toMatchObject({ sign_in: { name: 'Google' } });
    expect(await clientOf(host)).toBe('people');
  });

  it('is that of an app that works, and of the one for the most tenants', async () => {
    const host = 'two.example.test';
    const app = { provider: 'microsoft', hosts: [host] };
    for (const tenant of ['contoso.example', 'consumers', 'organizations', 'common'])
      await createApp({ ...app, tenant, client_id: tenant });
    const fails = (id: string) =>
      api.database.pool.query(`update oauth_apps set failing_since = now(), failure = 'x' where client_id = $1`, [id]);
    const chosen = [await clientOf(host)];
    for (const id of ['common', 'organizations', 'contoso.example', 'consumers']) {
      await fails(id);
      chosen.push(await clientOf(host));
    }
    expect(chosen).toEqual(['common', 'organizations', 'consumers', 'consumers', 'common']);
  });
});
