import { createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { permissionsOf, returnUrl } from '../../src/api/person-sign-in.ts';
import type { AuditRecordList } from '../../src/contract/audit.ts';
import type { Session } from '../../src/contract/access/session.ts';
import { createIdentityProvider } from '../../src/oauth/identity.ts';
import { createOutbound } from '../../src/security/outbound.ts';
import { createOutboundFetch } from '../../src/security/outbound-fetch.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { type AuthServer, signJwt, startAuthServer } from '../helpers/servers/auth-server.ts';

/** Sign-in of people, with ID tokens that a test makes in place of the identity provider, signed by its key. */

let api: ApiUnderTest;
let auth: AuthServer;
const secrets = createSecrets({ current: randomBytes(32) });
const GROUPS = { full: ['admins'], operate: ['operators'], read: ['viewers'] };
const ORIGIN = 'http://127.0.0.1:3000';

beforeAll(async () => {
  auth = await startAuthServer();
  const fetch = createOutboundFetch({
    ...{ outbound: createOutbound({ allow: ['127.0.0.0/8'] }), timeoutMs: 5_000, maxBytes: 100_000 },
    allowsLoopbackHttp: true,
  });
  const { issuer, clientId, clientSecret } = auth;
  const client = { issuer, clientId, clientSecret, scope: 'openid profile email', groupsClaim: 'groups' };
  api = await apiUnderTest({
    deps: { secrets, signIn: { provider: createIdentityProvider(fetch, client), groups: GROUPS } },
  });
});
afterAll(async () => {
  await api.close();
  await auth.close();
});

interface Begun {
  state: string;
  nonce: string;
  cookie: string;
  url: URL;
}

/** Calls are limited by address. */
let visitors = 0;
const visitor = () => ({ remoteAddress: `192.0.2.${(visitors = (visitors + 1) % 250)}` });

async function begin(query = ''): Promise<Begun> {
  const { statusCode, headers } = await api.app.inject({ url: `/sign-in/oidc${query}`, ...visitor() });
  expect(statusCode).toBe(302);
  const url = new URL(String(headers['location']));
  const [state = '', nonce = ''] = ['state', 'nonce'].map((name) => url.searchParams.get(name) ?? '');
  const set = String(headers['set-cookie']);
  expect(set).toMatch(/; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600$/);
  return { state, nonce, cookie: set.split(';')[0] ?? '', url };
}

const now = () => Math.floor(Date.now() / 1000);
const claimsOf = (begun: Begun, more: object = {}) => ({
  ...{ iss: auth.issuer, sub: 'ada', aud: auth.clientId, iat: now(), exp: now() + 300, nonce: begun.nonce },
  ...{ name: 'Ada Lovelace', email: 'ada@example.test', groups: ['operators'] },
  ...more,
});

/** The callback, where the token endpoint answers with this ID token. */
async function comeBack(
  begun: Begun,
  { token, query = {}, cookie = begun.cookie }: { token: string | undefined; query?: object; cookie?: string },
) {
  auth.script = () => ({
    status: 200,
    body: {
      access_token: 'a',
      token_type: 'Bearer',
      expires_in: 60,
      ...(token === undefined ? {} : { id_token: token }),
    },
  });
  const parameters = { code: 'any', state: begun.state, iss: auth.issuer, ...query };
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  const answer = await api.app.inject({
    url: `/sign-in/oidc/callback?${new URLSearchParams(given).toString()}`,
    headers: { cookie },
    ...visitor(),
  });
  const target = (/content="0;url=([^"]*)"/.exec(answer.body)?.[1] ?? '').replace(/&#(\d+);/g, (_, code: string) =>
    String.fromCharCode(Number(code)),
  );
  const cookies = [answer.headers['set-cookie'] ?? []].flat();
  const session = cookies.find((one) => one.startsWith('email_api_session='));
  return { target, session: session?.split(';')[0], set: session };
}

async function signIn(claims: object = {}, query = '') {
  const begun = await begin(query);
  return comeBack(begun, { token: auth.sign(claimsOf(begun, claims)) });
}

function as(session: string | undefined, method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) {
  return api.app.inject({
    ...{ method, url: `/api/v1${path}` },
    headers: { cookie: session ?? '', origin: ORIGIN, host: '127.0.0.1:3000' },
    ...(body ? { payload: body } : {}),
  });
}
const sessionOf = async (session: string | undefined) => (await as(session, 'GET', '/session')).json<Session>();
const newestAudit = async () => (await api.get<AuditRecordList>('/audit?limit=1')).data[0];

describe('a sign-in at the identity provider', () => {
  it('asks for a code with PKCE, a state and a nonce', async () => {
    const { url } = await begin();
    expect(url.origin).toBe(auth.issuer);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      ...{ response_type: 'code', client_id: auth.clientId, scope: 'openid profile email' },
      ...{ redirect_uri: `${ORIGIN}/sign-in/oidc/callback`, code_challenge_method: 'S256' },
    });
    const again = await begin();
    for (const name of ['state', 'nonce', 'code_challenge'])
      expect(again.url.searchParams.get(name)).not.toBe(url.searchParams.get(name));
  });

  it('begins a session of the person, who is named in it and in the audit log', async () => {
    const { target, session, set } = await signIn({}, '?return=%2Fdeliveries%3Fstatus%3Dfailed');
    expect(target).toBe(`${ORIGIN}/deliveries?status=failed`);
    expect(set).toMatch(/^email_api_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Expires=/);
    const { person, ...rest } = await sessionOf(session);
    expect(person).toEqual({
      ...{ id: expect.stringMatching(/^per_/), name: 'Ada Lovelace <ada@example.test>' },
      source: 'identity_provider',
    });
    expect(rest).toMatchObject({ api_key_id: null, permissions: 'operate', accounts: null });
    const ends = new Date(rest.expires_at ?? '').getTime() - Date.now();
    expect(ends).toBeGreaterThan(11.9 * 3_600_000);
    expect(ends).toBeLessThan(12.1 * 3_600_000);
    expect(await newestAudit()).toMatchObject({
      ...{ action: 'session.create', outcome: 'done', api_key_id: null, person_id: person?.id },
      actor: 'Ada Lovelace <ada@example.test>',
    });
    expect((await api.get<{ data: { id: string }[] }>('/api-keys')).data).toHaveLength(1);
    expect((await as(session, 'DELETE', '/session')).statusCode).toBe(204);
    expect((await as(session, 'GET', '/session')).statusCode).toBe(401);
  });

  it.each([
    ['admins', 'full', [200, 200, 200]],
    ['operators', 'operate', [200, 200, 403]],
    ['viewers', 'read', [200, 403, 403]],
  ])('gives members of %s the permissions %s', async (group, permissions, statuses) => {
    const { session } = await signIn({ sub: group, groups: ['others', group] });
    expect((await sessionOf(session)).permissions).toBe(permissions);
    const endpoint = { url: 'https://93.184.215.14/hook', trigger_events: ['email.new'] };
    const answers = [
      await as(session, 'GET', '/overview'),
      await as(session, 'POST', '/webhooks/endpoints', endpoint),
      await as(session, 'POST', '/api-keys', { name: 'escalation' }),
    ];
    expect(answers.map(({ statusCode }) => statusCode)).toEqual(statuses);
    if (permissions !== 'full') expect((await as(session, 'DELETE', `/api-keys/${'x'}`)).statusCode).toBe(403);
  });

  it('ends the earlier sessions of a person who is in no group any longer', async () => {
    const { session } = await signIn({ sub: 'leaver', groups: ['admins'] });
    expect((await as(session, 'GET', '/session')).statusCode).toBe(200);
    const again = await signIn({ sub: 'leaver', groups: ['others'] });
    expect(again).toMatchObject({ target: `${ORIGIN}/sign-in?error=no_role`, session: undefined });
    expect((await as(session, 'GET', '/session')).statusCode).toBe(401);
    expect(await newestAudit()).toMatchObject({
      outcome: 'refused',
      status: 403,
      actor: expect.stringMatching(/^Ada/),
    });
  });

  it('changes what earlier sessions of the person may do', async () => {
    const { session } = await signIn({ sub: 'demoted', groups: ['admins'] });
    expect((await sessionOf(session)).permissions).toBe('full');
    await signIn({ sub: 'demoted', groups: ['viewers'] });
    const { person } = await sessionOf(session);
    await waitFor(async () => (await sessionOf(session)).permissions === 'read');
    // one person, whatever their address is now
    const { session: last } = await signIn({ sub: 'demoted', email: 'new@example.test', groups: 'viewers' });
    expect((await sessionOf(last)).person?.id).toBe(person?.id);
    // a look-up is used for half a second
    await waitFor(async () => (await sessionOf(last)).person?.name === 'Ada Lovelace <new@example.test>');
  });

  it('does not take an address for a person: the subject counts', async () => {
    const one = await sessionOf((await signIn({ sub: 'one', email: 'same@example.test' })).session);
    const two = await sessionOf((await signIn({ sub: 'two', email: 'same@example.test' })).session);
    expect(one.person?.id).not.toBe(two.person?.id);
  });
});

describe('a response that is not in order', () => {
  const { privateKey: foreignKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const hmac = (text: Buffer) => createHmac('sha256', auth.clientSecret).update(text).digest();
  const tokens: [what: string, token: (begun: Begun) => string | undefined][] = [
    ['no ID token', () => undefined],
    ['another nonce', (begun) => auth.sign(claimsOf(begun, { nonce: 'another' }))],
    ['no nonce', (begun) => auth.sign(claimsOf(begun, { nonce: undefined }))],
    ['another audience', (begun) => auth.sign(claimsOf(begun, { aud: 'another-app' }))],
    ['another authorized party', (begun) => auth.sign(claimsOf(begun, { aud: [auth.clientId, 'b'], azp: 'b' }))],
    ['an expired token', (begun) => auth.sign(claimsOf(begun, { iat: now() - 900, exp: now() - 600 }))],
    ['a foreign issuer', (begun) => auth.sign(claimsOf(begun, { iss: 'https://evil.example' }))],
    ['no subject', (begun) => auth.sign(claimsOf(begun, { sub: undefined }))],
    [
      'a foreign signature',
      (begun) => signJwt({ alg: 'RS256', kid: 'signs' }, claimsOf(begun), (text) => sign('sha256', text, foreignKey)),
    ],
    ['no signature', (begun) => signJwt({ alg: 'none' }, claimsOf(begun), () => Buffer.alloc(0))],
    ['the client secret as its key', (begun) => signJwt({ alg: 'HS256' }, claimsOf(begun), hmac)],
  ];
  it.each(tokens)('begins no session: %s', async (_, tokenOf) => {
    const begun = await begin();
    expect(await comeBack(begun, { token: tokenOf(begun) })).toMatchObject({
      target: `${ORIGIN}/sign-in?error=refused`,
      session: undefined,
    });
  });

  it.each([
    ['another state', { state: 'another' }],
    ['no state', { state: undefined }],
    ['a foreign iss', { iss: 'https://evil.example' }],
    ['no iss', { iss: undefined }],
    ['no code', { code: undefined }],
    ['a refusal', { code: undefined, error: 'access_denied' }],
  ])('begins no session: %s', async (_, query) => {
    const begun = await begin();
    const before = auth.requests.length;
    expect(await comeBack(begun, { token: auth.sign(claimsOf(begun)), query })).toMatchObject({
      target: `${ORIGIN}/sign-in?error=refused`,
      session: undefined,
    });
    // the code was not sent on
    expect(auth.requests).toHaveLength(before);
  });

  it('counts in the browser that began it only, and for ten minutes', async () => {
    const [own, other] = [await begin(), await begin()];
    const token = auth.sign(claimsOf(own));
    expect((await comeBack(own, { token, cookie: other.cookie })).target).toMatch(/error=refused$/);
    expect((await comeBack(own, { token, cookie: '' })).target).toMatch(/error=expired$/);
    expect((await comeBack(own, { token, cookie: `${own.cookie.slice(0, -4)}AAAA` })).target).toMatch(/error=expired$/);
    const [name = '', value = ''] = own.cookie.split('=');
    const at = { table: 'cookies', column: name, id: '' };
    const began = JSON.parse(secrets.open(at, Buffer.from(value, 'base64url'))) as { endsAt: number };
    const late = secrets.seal(at, JSON.stringify({ ...began, endsAt: Date.now() - 1 })).toString('base64url');
    expect((await comeBack(own, { token, cookie: `${name}=${late}` })).target).toMatch(/error=expired$/);
    expect((await comeBack(own, { token })).session).toBeDefined();
  });
});

describe('the way back', () => {
  it.each([
    ...['https://evil.example', '//evil.example', '/\\evil.example', '/\t/evil.example', '\\\\evil.example'],
    ...['javascript:alert(1)', '/../../evil', '/sign-in/oidc', '/sign-in', 'deliveries', '', '/a//evil.example', '/%'],
  ])('leads nowhere else: %j', (asked) => {
    for (const publicUrl of ['https://mail.example', 'https://mail.example/api']) {
      const { origin, pathname } = new URL(returnUrl(asked, publicUrl));
      expect(origin).toBe('https://mail.example');
      expect(pathname.startsWith(new URL(`${publicUrl}/`).pathname)).toBe(true);
      expect(pathname).not.toMatch(/sign-in|evil\.example$/);
    }
  });

  it('leads to the page that was asked for', () => {
    expect(returnUrl('/audit?action=a%20b', 'https://mail.example/x')).toBe(
      'https://mail.example/x/audit?action=a%20b',
    );
    expect(returnUrl(null, 'https://mail.example/x')).toBe('https://mail.example/x/');
  });
});

it('takes the most that a group allows', () => {
  expect(permissionsOf(['viewers', 'admins'], GROUPS)).toBe('full');
  expect(permissionsOf([], GROUPS)).toBeUndefined();
  expect(permissionsOf([], { ...GROUPS, read: ['*'] })).toBe('read');
});

it('is not offered without a setting, and says so to the sign-in page', async () => {
  const plain = await apiUnderTest();
  expect((await plain.app.inject({ url: '/sign-in/options' })).json()).toEqual({ oidc: false, password: false });
  expect((await plain.app.inject({ url: '/sign-in/oidc' })).statusCode).toBe(404);
  await plain.close();
  expect((await api.app.inject({ url: '/sign-in/options' })).json()).toEqual({ oidc: true, password: false });
});

it('leads to the sign-in page while the identity provider is away', async () => {
  const away = createIdentityProvider(() => Promise.reject(new Error('connection refused')), {
    ...{ issuer: 'https://id.example', clientId: 'c', scope: 'openid', groupsClaim: 'groups' },
  });
  const lonely = await apiUnderTest({ deps: { signIn: { provider: away, groups: GROUPS } } });
  const { statusCode, headers } = await lonely.app.inject({ url: '/sign-in/oidc' });
  expect([statusCode, headers['location']]).toEqual([302, `${ORIGIN}/sign-in?error=unavailable`]);
  await lonely.close();
});
