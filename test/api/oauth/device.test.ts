import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { ApiError } from '../../../src/contract/errors.ts';
import type { DeviceSignIn, OAuthApp } from '../../../src/contract/oauth.ts';
import { endDeviceSignIn } from '../../../src/db/access/device-sign-ins.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { LOOPBACK_FETCH } from '../../helpers/product/mail-session.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { type AuthServer, startAuthServer } from '../../helpers/servers/auth-server.ts';

let api: ApiUnderTest;
let server: AuthServer;
let app: OAuthApp;
let begun: [string, number][];
/** resolves when the first run of a test is started */
let startsFirst: Promise<void> | undefined;

beforeAll(async () => {
  server = await startAuthServer();
  const connectByDevice = async (id: string, intervalS: number) => {
    begun.push([id, intervalS]);
    if (begun.length === 1) await startsFirst;
  };
  api = await apiUnderTest({ deps: { fetch: LOOPBACK_FETCH }, commands: { connectByDevice } });
  app = await create({});
});
afterAll(async () => {
  await api.close();
  await server.close();
});
beforeEach(() => {
  begun = [];
  startsFirst = undefined;
});

async function create(more: object): Promise<OAuthApp> {
  const { clientId: client_id, clientSecret: client_secret, issuer } = server;
  const scope = 'openid email offline_access';
  const body = {
    provider: 'custom',
    name: 'Test provider',
    client_id,
    client_secret,
    issuer,
    scope,
    hosts: ['127.0.0.1'],
    ...more,
  };
  return (await api.call('POST', '/oauth/apps', { body })).json();
}

const begin = (more: object = {}, headers: Record<string, string> = {}) =>
  api.call('POST', '/oauth/device', { body: { app_id: app.id, user: 'ann@example.test', ...more }, headers });
const read = ({ id }: DeviceSignIn) => api.get<DeviceSignIn>(`/oauth/device/${id}`);

it('begins with a code and a page for the owner, and a run that waits', async () => {
  const response = await begin();
  const signIn = response.json<DeviceSignIn>();
  expect([response.statusCode, signIn]).toEqual([
    200,
    {
      object: 'DeviceSignIn',
      id: expect.stringMatching(/^dvc_/),
      app_id: app.id,
      status: 'waiting',
      status_detail: '',
      user_code: expect.stringMatching(/^[A-Z]{4}-[A-Z]{4}$/),
      verification_uri: `${server.issuer}/device`,
      verification_uri_complete: expect.stringContaining('user_code='),
      account_id: null,
      created_at: expect.any(String),
      expires_at: expect.any(String),
    },
  ]);
  expect(begun).toEqual([[signIn.id, 5]]);
  expect(await read(signIn)).toEqual(signIn);
});

it('is the same for all calls with one Idempotency-Key, whether or not the first has ended', async () => {
  let endFirst = () => {};
  startsFirst = new Promise((resolve) => (endFirst = resolve));
  const call = async () => {
    const { statusCode, body } = await begin({}, { 'idempotency-key': 'same' });
    return [statusCode, body];
  };
  const first = call();
  await waitFor(() => begun.length === 1);
  const [second, third] = await Promise.all([call(), call()]);
  endFirst();
  expect([second, third, await call()]).toEqual([await first, await first, await first]);
  const id = begun[0]?.[0] ?? '';
  expect(new Set(begun.map(([each]) => each))).toEqual(new Set([id]));
  const different = await begin({ user: 'bob@example.test' }, { 'idempotency-key': 'same' });
  expect(different.statusCode).toBe(409);
});

it('whose run could not be started is completed by the next call with its Idempotency-Key', async () => {
  startsFirst = Promise.reject(new ApiError('service_unavailable', 'away'));
  startsFirst.catch(() => {});
  expect((await begin({}, { 'idempotency-key': 'again' })).statusCode).toBe(503);
  const signIn = (await begin({}, { 'idempotency-key': 'again' })).json<DeviceSignIn>();
  expect(begun).toEqual([
    [signIn.id, 5],
    [signIn.id, 5],
  ]);
});

it('ends with the account, with a reason, or after its time', async () => {
  const { db, pool } = api.database;
  const [connected, failed, late] = await Promise.all([1, 2, 3].map(async () => (await begin()).json<DeviceSignIn>()));
  if (!connected || !failed || !late) throw new Error('unreachable');
  const accountId = await storeAccount(api.database);
  await endDeviceSignIn(db, connected.id, { accountId });
  expect(await read(connected)).toMatchObject({ status: 'connected', account_id: accountId, status_detail: '' });
  await endDeviceSignIn(db, failed.id, { failure: 'the owner refused access (access_denied)' });
  expect(await read(failed)).toMatchObject({ status: 'failed', status_detail: expect.stringMatching(/refused/) });
  await pool.query('update device_sign_ins set expires_at = now() where id = $1', [late.id]);
  expect(await read(late)).toMatchObject({ status: 'expired', account_id: null });
});

it('is refused with the reason', async () => {
  const google = await create({ provider: 'google', issuer: undefined });
  expect((await begin({ app_id: google.id })).json()).toMatchObject({
    detail: expect.stringMatching(/no sign-in on another/),
  });
  expect((await begin({ app_id: 'oap_01hzzzzzzzzzzzzzzzzzzzzzzz' })).statusCode).toBe(404);
  expect((await begin({ account_id: 'acc_01hzzzzzzzzzzzzzzzzzzzzzzz' })).statusCode).toBe(404);
  const wrong = await create({ client_secret: 'wrong' });
  const response = await begin({ app_id: wrong.id });
  expect([response.statusCode, response.json<{ detail: string }>().detail]).toEqual([
    422,
    expect.stringMatching(/client id or the client secret is wrong/),
  ]);
  expect(begun).toEqual([]);
});

it('keeps the device code sealed', async () => {
  const signIn = (await begin()).json<DeviceSignIn>();
  expect(Object.keys(signIn)).not.toContain('device_code');
  const { rows } = await api.database.pool.query<{ row: string }>(
    'select d::text as row from device_sign_ins d where id = $1',
    [signIn.id],
  );
  for (const word of [signIn.user_code, 'ann@example.test'])
    expect(rows[0]?.row).not.toContain(Buffer.from(word).toString('hex'));
});
