import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { OAuthApp, OAuthAppVerification } from '../../../src/contract/oauth.ts';
import { putTokens } from '../../../src/db/coordination/oauth-tokens.ts';
import { holdApp } from '../../../src/db/queries/oauth-apps.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { LOOPBACK_FETCH } from '../../helpers/product/mail-session.ts';
import { type AuthServer, startAuthServer } from '../../helpers/servers/auth-server.ts';

let api: ApiUnderTest;
let server: AuthServer;

beforeAll(async () => {
  server = await startAuthServer();
  api = await apiUnderTest({ deps: { fetch: LOOPBACK_FETCH } });
});
afterAll(async () => {
  await api.close();
  await server.close();
});
beforeEach(() => {
  server.script = () => undefined;
});

const custom = () => ({
  provider: 'custom',
  name: 'Test provider',
  client_id: server.clientId,
  client_secret: server.clientSecret,
  issuer: server.issuer,
  scope: 'openid email offline_access',
  hosts: ['IMAP.example.test', 'smtp.example.test'],
});

async function create(body: object): Promise<OAuthApp> {
  const response = await api.call('POST', '/oauth/apps', { body });
  expect([response.statusCode, response.body]).toEqual([200, expect.any(String)]);
  return response.json();
}

/** Whether a statement on that table waits for a lock. */
async function isWaiting(table: string): Promise<boolean> {
  const { rowCount } = await api.database.pool.query(
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like $1`,
    [`%${table}%`],
  );
  return rowCount !== 0;
}

const detailOf = async (body: object) => {
  const response = await api.call('POST', '/oauth/apps', { body });
  expect(response.statusCode).toBe(400);
  return response.json<{ detail: string }>().detail;
};

describe('an app', () => {
  it('of a known provider has its endpoints, scope and servers', async () => {
    const {
      redirect_url,
      created_at: _,
      updated_at: _updated,
      id,
      ...app
    } = await create({
      provider: 'microsoft',
      name: 'CRM',
      client_id: '11111111-2222-3333-4444-555555555555',
      client_secret: 'canary-secret',
      tenant: 'contoso.onmicrosoft.us',
      cloud: 'us_government',
    });
    expect(id).toMatch(/^oap_/);
    expect(redirect_url).toBe('http://127.0.0.1:3000/connect/oauth/callback');
    expect(app).toMatchObject({
      object: 'OAuthApp',
      has_client_secret: true,
      token_url: 'https://login.microsoftonline.us/contoso.onmicrosoft.us/oauth2/v2.0/token',
      scope: expect.stringContaining('https://outlook.office365.us/IMAP.AccessAsUser.All'),
      hosts: ['outlook.office365.us', 'smtp.office365.us'],
      status: 'ok',
      status_detail: '',
      failing_since: null,
    });
    expect(JSON.stringify(app)).not.toContain('canary-secret');
  });

  it('of any other server has the endpoints of its metadata', async () => {
    expect(await create(custom())).toMatchObject({
      issuer: server.issuer,
      authorization_url: `${server.issuer}/auth`,
      token_url: server.tokenUrl,
      hosts: ['imap.example.test', 'smtp.example.test'],
    });
  });

  it.each([
    [{ issuer: undefined }, /needs issuer/],
    [{ scope: undefined }, /needs scope/],
    [{ hosts: undefined }, /hosts/],
    [{ tenant: 'common' }, /tenant and cloud/],
    [{ issuer: 'ftp://example.test' }, /https/],
    [{ provider: 'google' }, /no other provider/],
    [
      { provider: 'fastmail', issuer: undefined, service_account: { client_email: 'a@b.c', private_key: 'k' } },
      /belongs to google and custom/,
    ],
  ])('with %j is refused, and says why', async (change, detail) => {
    expect(await detailOf({ ...custom(), ...change })).toMatch(detail);
  });

  it('whose metadata is that of another server is refused', async () => {
    expect(await detailOf({ ...custom(), issuer: server.issuer.replace('127.0.0.1', 'localhost') })).toMatch(
      /metadata/,
    );
    expect(await detailOf({ ...custom(), issuer: 'http://127.0.0.1:9' })).toMatch(/connection refused/);
  });

  it('is listed, changed and deleted', async () => {
    const app = await create(custom());
    const changed = await api.call('PATCH', `/oauth/apps/${app.id}`, { body: { name: 'New', client_secret: null } });
    expect(changed.json()).toMatchObject({ name: 'New', has_client_secret: false, token_url: app.token_url });
    expect(await api.get(`/oauth/apps/${app.id}`)).toEqual(changed.json());
    const { data } = await api.get<{ data: OAuthApp[] }>('/oauth/apps?limit=250');
    expect(data.map(({ id }) => id)).toContain(app.id);
    expect((await api.call('DELETE', `/oauth/apps/${app.id}`)).json()).toEqual({
      object: 'OAuthAppDeleted',
      id: app.id,
      success: true,
    });
    expect((await api.call('GET', `/oauth/apps/${app.id}`)).statusCode).toBe(404);
    expect((await api.call('DELETE', `/oauth/apps/${app.id}`)).statusCode).toBe(404);
  });

  it('keeps both of two changes at one time', async () => {
    const { id } = await create(custom());
    for (let n = 0; n < 10; n++) {
      const changes = [{ name: `name ${n}` }, { client_id: `client ${n}` }, { scope: `scope ${n}` }];
      await Promise.all(changes.map((body) => api.call('PATCH', `/oauth/apps/${id}`, { body })));
      expect(await api.get(`/oauth/apps/${id}`)).toMatchObject(Object.assign({}, ...changes));
    }
  });

  it('is not deleted while accounts log in with it', async () => {
    const app = await create(custom());
    const tokens = { tokens: Buffer.from('sealed'), expiresAt: null, renewAt: null };
    await api.database.db.transaction((tx) => putTokens(tx, { accountId: `acc_${app.id}`, appId: app.id, ...tokens }));
    expect((await api.call('DELETE', `/oauth/apps/${app.id}`)).statusCode).toBe(409);
  });

  it('is not deleted while a connect stores its first account', async () => {
    const app = await create(custom());
    const tokens = { tokens: Buffer.from('sealed'), expiresAt: null, renewAt: null };
    let deletion: Promise<number> | undefined;
    await api.database.db.transaction(async (tx) => {
      expect(await holdApp(tx, app.id)).toBe(true);
      deletion = api.call('DELETE', `/oauth/apps/${app.id}`).then(({ statusCode }) => statusCode);
      await waitFor(() => isWaiting('oauth_apps'), { what: 'the deletion to wait' });
      await putTokens(tx, { accountId: `acc_${app.id}`, appId: app.id, ...tokens });
    });
    expect(await deletion).toBe(409);
  });

  it('keeps its secrets sealed', async () => {
    const app = await create({ ...custom(), client_secret: 'canary-secret-in-the-table' });
    const { rows } = await api.database.pool.query<{ row: string }>(
      'select a::text as row from oauth_apps a where id = $1',
      [app.id],
    );
    expect(rows[0]?.row).not.toContain(Buffer.from('canary-secret').toString('hex'));
    expect(rows[0]?.row).not.toContain('canary-secret');
  });
});

describe('a verification', () => {
  async function verify(body: object, wanted: object = {}): Promise<OAuthAppVerification> {
    const app = await create(body);
    const response = await api.call('POST', `/oauth/apps/${app.id}/verify`, { body: wanted });
    expect(response.statusCode).toBe(200);
    return response.json();
  }

  it('accepts a client that the server knows', async () => {
    expect(await verify(custom())).toMatchObject({
      ok: true,
      checks: [{ subject: 'client', outcome: 'ok', detail: '' }],
    });
  });

  it('says that the secret is wrong', async () => {
    expect(await verify({ ...custom(), client_secret: 'wrong' })).toMatchObject({
      ok: false,
      checks: [
        {
          subject: 'client',
          outcome: 'wrong',
          detail: expect.stringMatching(/client id or the client secret is wrong/),
        },
      ],
    });
  });

  it('names the redirect address that is not registered, in the words of Microsoft', async () => {
    const error_description =
      "AADSTS50011: The redirect URI 'http://127.0.0.1:3000/connect/oauth/callback' specified in the request does not match.";
    server.script = () => ({ status: 400, body: { error: 'invalid_request', error_description } });
    expect((await verify(custom())).checks).toEqual([
      { subject: 'client', outcome: 'ok', detail: '' },
      { subject: 'redirect', outcome: 'wrong', detail: expect.stringMatching(/not registered.*AADSTS50011/) },
    ]);
  });

  it.each([
    [
      'unauthorized_client',
      "AADSTS700016: Application with identifier 'a' was not found.",
      /no app with this client id/,
    ],
    ['unauthorized_client', "AADSTS7000112: Application 'a'(Mail) is disabled.", /disabled in the organization/],
    ['invalid_client', 'AADSTS7000215: Invalid client secret provided.', /secret is wrong: enter the value/],
    [
      'invalid_client',
      "AADSTS7000222: The provided client secret keys for app 'a' are expired.",
      /secret.*has expired/,
    ],
  ])('says what is wrong with the app in the words of Microsoft (%s, %s)', async (error, error_description, detail) => {
    server.script = () => ({ status: 400, body: { error, error_description } });
    const { ok, checks } = await verify(custom());
    expect([ok, checks]).toEqual([
      false,
      [{ subject: 'client', outcome: 'wrong', detail: expect.stringMatching(detail) }],
    ]);
  });

  it('does not blame the app for a server that is away', async () => {
    server.script = () => ({ status: 503, body: 'busy' });
    const { ok, checks } = await verify(custom());
    expect(ok).toBe(true);
    expect(checks).toMatchObject([{ subject: 'client', outcome: 'unknown' }]);
  });

  it('requests tokens without a user and for a user of a domain, as asked', async () => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const google = {
      provider: 'google',
      name: 'Workspace',
      client_id: '1234567890',
      service_account: {
        client_email: 'mail@project.iam.gserviceaccount.com',
        private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      },
    };
    // its endpoint is on the public internet, which the tests do not reach
    const wanted = { subject: 'ann@example.test', application_access: true };
    const checked = async (body: object) =>
      (await verify(body, wanted)).checks.map(({ subject, outcome }) => [subject, outcome]);
    const both = [
      ['application_access', 'unknown'],
      ['service_account', 'unknown'],
    ];
    expect(await checked(google)).toEqual(both);
    expect(await checked({ ...google, client_secret: 'of a client for people' })).toEqual([
      ['client', 'unknown'],
      ...both,
    ]);
  });

  it('of a service account asks nothing about a client for people, which it has not', async () => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const private_key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const service_account = { client_email: 'mail@project.example.test', private_key };
    server.script = ({ form }) =>
      form.get('grant_type') === 'authorization_code'
        ? { status: 400, body: { error: 'invalid_request', error_description: 'client_secret is missing.' } }
        : { status: 200, body: { access_token: 'a', token_type: 'Bearer', expires_in: 3600 } };
    const { client_secret: _, ...body } = custom();
    expect(await verify({ ...body, service_account }, { subject: 'ann@example.test' })).toMatchObject({
      ok: true,
      checks: [{ subject: 'service_account', outcome: 'ok', detail: '' }],
    });
    expect(await verify({ ...body, service_account })).toMatchObject({
      checks: [{ subject: 'service_account', outcome: 'unknown', detail: expect.stringMatching(/subject/) }],
    });
  });
});
