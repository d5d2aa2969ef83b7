import { generateKeyPairSync } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import type { PayloadCodec } from '@temporalio/common';
import type { Account } from '../../../src/contract/account.ts';
import type { DeviceSignIn, OAuth2Credentials, OAuthApp } from '../../../src/contract/oauth.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { listenOnFreePort } from '../../helpers/servers/free-port.ts';
import { type OAuthServers, startOAuthServers } from '../../helpers/servers/oauth-servers.ts';

/**
 * Tokens, client secrets, keys of service accounts and what a token source answers are in no log line, workflow history, event or
 * answer, and in the database only sealed.
 */

const TOKEN_SECONDS = 8;
const SOURCE_SECRET = `whsec_${Buffer.from('canary-token-source-secret').toString('base64')}`;
const WRONG_SECRET = 'canary-wrong-client-secret-98765';
const GIVEN_TOKEN = 'canary-access-token-of-the-caller-24680';
const keyOf = () => generateKeyPairSync('rsa', { modulusLength: 2048 });
const privateKey = keyOf().privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

let live: OwnLive;
let servers: OAuthServers;
let source: Server;
let sourceUrl: string;
/** all secrets that were used */
const secrets = new Set<string>([SOURCE_SECRET, WRONG_SECRET, GIVEN_TOKEN, ...privateKey.split('\n').slice(1, 20)]);
const answers: string[] = [];

beforeAll(async () => {
  [live, servers] = await Promise.all([
    startLive({ LOG_LEVEL: 'trace' }),
    startOAuthServers({ tokenSeconds: TOKEN_SECONDS }),
  ]);
  secrets.add(servers.auth.clientSecret);
  source = createServer((request, response) => {
    const user = new URL(request.url ?? '', 'http://127.0.0.1').searchParams.get('user') ?? '';
    void servers.auth.accessToken(user).then((accessToken) => {
      secrets.add(accessToken);
      response.end(JSON.stringify({ user, accessToken, expires_at: new Date(Date.now() + 8_000).toISOString() }));
    });
  });
  sourceUrl = `http://127.0.0.1:${await listenOnFreePort(source)}/mail`;
  await useEveryKind();
}, 240_000);
afterAll(async () => {
  source?.close();
  await live?.close();
  await servers?.stop();
}, 60_000);

const side = (port: number) => ({ host: '127.0.0.1', port, encryption: 'none' });
const sides = () => ({ imap: side(servers.dovecot.imapPort), smtp: side(servers.postfix.submissionPort) });
const newUser = () => addUser({ dovecot: servers.dovecot });

/** Keeps the answer, whether the call is refused or not. */
async function call<T>(method: string, path: string, body?: object): Promise<T> {
  const response = await live.api.request(method, path, body);
  const text = await response.text();
  answers.push(text);
  return JSON.parse(text) as T;
}

async function connect(oauth2: OAuth2Credentials, user: MailUser): Promise<Account> {
  const body = { provider: 'imap', credentials: { user: user.user, oauth2, ...sides() } };
  return call('POST', '/auth/intent', body);
}

async function useEveryKind(): Promise<void> {
  const { auth } = servers;
  const { clientId: client_id, clientSecret: client_secret, issuer } = auth;
  const common = { provider: 'custom', name: 'Test', scope: 'openid email offline_access', hosts: ['127.0.0.1'] };
  const createApp = (more: object) =>
    call<OAuthApp>('POST', '/oauth/apps', { ...common, client_id, client_secret, issuer, ...more });
  const app = await createApp({});
  const wrong = await createApp({ client_secret: WRONG_SECRET });
  await call('POST', `/oauth/apps/${wrong.id}/verify`, {});
  const service_account = { client_email: 'mail@project.iam.example.test', private_key: privateKey };
  const serviced = await createApp({ service_account });

  const owner = await newUser();
  const refresh_token = await auth.signIn(owner.user);
  secrets.add(refresh_token);
  const account = await connect({ refresh_token, app_id: app.id }, owner);
  const appUser = await newUser();
  auth.appMailbox = appUser.user;
  await connect({ app_id: app.id, grant: 'client_credentials' }, appUser);
  await connect({ token_source_url: sourceUrl, token_source_secret: SOURCE_SECRET }, await newUser());
  const deviceUser = await newUser();
  const device = await call<DeviceSignIn>('POST', '/oauth/device', {
    app_id: app.id,
    user: deviceUser.user,
    ...sides(),
  });
  await auth.answerDevice(device.user_code, deviceUser.user);
  const connected = async () => (await call<DeviceSignIn>('GET', `/oauth/device/${device.id}`)).status === 'connected';
  await waitFor(connected, { timeoutMs: 60_000, everyMs: 500, what: 'the mailbox of the device' });

  // refused, each of them
  await connect({ access_token: GIVEN_TOKEN }, await newUser());
  await connect({ refresh_token, app_id: wrong.id }, await newUser());
  await connect({ app_id: serviced.id, grant: 'service_account' }, await newUser());
  await call('POST', `/${account.id}/emails/send`, { to: [{ email: owner.user }], subject: 's', plain_text: 't' });
  await waitFor(() => auth.requests.length > 12, { timeoutMs: 60_000, what: 'further tokens' });
  for (const { form } of auth.requests)
    for (const name of ['refresh_token', 'device_code', 'assertion']) secrets.add(form.get(name) ?? '');
  for (const { rows } of [await live.pool.query<{ id: string }>('select id from accounts')])
    for (const { id } of rows) await call('GET', `/accounts/${id}`);
  for (const path of ['/oauth/apps', '/accounts', '/events', '/audit', '/webhooks/conversations', '/settings'])
    await call('GET', path);
  secrets.delete('');
}

/** The secrets that a text holds, in clear or as bytes that anybody can decode. */
function found(text: string): string[] {
  const forms = (value: string) => [
    value,
    Buffer.from(value).toString('base64').slice(0, -4),
    Buffer.from(value).toString('hex'),
  ];
  return [...secrets].filter((value) => forms(value).some((form) => text.includes(form)));
}

/** Every string and every byte of a value. */
function textIn(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('latin1');
  if (typeof value !== 'object' || value === null) return '';
  return Object.values(value).map(textIn).join('\n');
}

test('enough secrets were used', () => {
  expect(secrets.size).toBeGreaterThan(25);
});

test('none is in the output of the processes, even at the most verbose log level', async () => {
  const logs = await live.product.logs();
  expect(logs.length).toBeGreaterThan(1_000);
  expect(found(logs)).toEqual([]);
});

test('none is in an answer of the API or an event', () => {
  expect(answers.join('\n')).toMatch(/refused the login/);
  expect(found(answers.join('\n'))).toEqual([]);
  expect(found(live.receiver.calls.map(({ body }) => body.toString()).join('\n'))).toEqual([]);
});

test('none is in the database in clear', async () => {
  const { rows: tables } = await live.pool.query<{ name: string }>(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema not in ('pg_catalog', 'information_schema')`,
  );
  for (const { name } of tables) {
    const { rows } = await live.pool.query<{ row: string }>(`select t::text as row from ${name} t`);
    expect([name, found(rows.map(({ row }) => row).join('\n'))]).toEqual([name, []]);
  }
});

test('none is in a workflow history', async () => {
  const { address, namespace } = live.product.temporal;
  const connection = await Connection.connect({ address });
  const plain = { encoding: Buffer.from('binary/plain') };
  const asStored: PayloadCodec = {
    encode: async (payloads) => payloads,
    decode: async (payloads) => payloads.map((payload) => ({ ...payload, metadata: plain })),
  };
  const client = new Client({ connection, namespace, dataConverter: { payloadCodecs: [asStored] } });
  const types = new Set<string>();
  for await (const { workflowId, runId, type } of client.workflow.list()) {
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    expect([type, found(textIn(history))]).toEqual([type, []]);
    types.add(type);
  }
  await connection.close();
  expect([...types]).toEqual(expect.arrayContaining(['account', 'connectMailbox', 'connectByDevice', 'sendEmail']));
}, 60_000);
