import { generateKeyPairSync, verify } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import type { Account } from '../../../src/contract/account.ts';
import type { DeviceSignIn, OAuth2Credentials, OAuthApp } from '../../../src/contract/oauth.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { joinLive, type Live } from '../../helpers/product/live.ts';
import { newMessageId } from '../../helpers/product/mail-text.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { listenOnFreePort } from '../../helpers/servers/free-port.ts';
import { type OAuthServers, startOAuthServers } from '../../helpers/servers/oauth-servers.ts';

/** Each kind of grant connects a mailbox, reads and sends, and gets further tokens as the first ones end. */

const TOKEN_SECONDS = 8;
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const SECRET = `whsec_${Buffer.from('canary-token-source-secret').toString('base64')}`;
const serviceAccount = generateKeyPairSync('rsa', { modulusLength: 2048 });
const CLIENT_EMAIL = 'mail@project.iam.example.test';

let live: Live;
let servers: OAuthServers;
let user: MailUser;
let box: Mailbox;
/** the caller's own service */
let source: Server;
let sourceUrl: string;
const sourceCalls: { query: Record<string, string>; headers: IncomingMessage['headers']; path: string }[] = [];

beforeAll(async () => {
  [live, servers] = await Promise.all([joinLive(), startOAuthServers({ tokenSeconds: TOKEN_SECONDS })]);
  source = createServer((request, response) => void answer(request).then((body) => response.end(body)));
  sourceUrl = `http://127.0.0.1:${await listenOnFreePort(source)}/mail?tenant=7`;
}, 180_000);
afterAll(async () => {
  source?.close();
  await live?.close();
  await servers?.stop();
}, 60_000);
beforeEach(async () => {
  user = await addUser({ dovecot: servers.dovecot });
  box = await openMailbox(user);
  live.boxes.add(box);
  servers.auth.script = () => undefined;
  servers.auth.requests.length = 0;
});

async function answer({ url = '', headers }: IncomingMessage): Promise<string> {
  const { searchParams } = new URL(url, 'http://127.0.0.1');
  sourceCalls.push({ query: Object.fromEntries(searchParams), headers, path: url });
  const accessToken = await servers.auth.accessToken(searchParams.get('user') ?? '');
  const expires_at = new Date((await servers.auth.expiryOf(accessToken)) ?? 0).toISOString();
  return JSON.stringify({ user: searchParams.get('user'), accessToken, expires_at });
}

const createApp = (more: object) => {
  const { clientId: client_id, clientSecret: client_secret, issuer } = servers.auth;
  const common = { provider: 'custom', name: 'Test provider', scope: 'mail', hosts: ['127.0.0.1'] };
  return live.api.post<OAuthApp>('/oauth/apps', { ...common, client_id, client_secret, issuer, ...more });
};

const connect = (oauth2: OAuth2Credentials, login = user.user) => {
  const side = (port: number) => ({ host: '127.0.0.1', port, encryption: 'none' });
  const sides = { imap: side(servers.dovecot.imapPort), smtp: side(servers.postfix.submissionPort) };
  return live.api.post<Account>('/auth/intent', {
    provider: 'imap',
    credentials: { user: login, oauth2, ...sides },
  });
};

/** The claims of an assertion that the key of the service account signed. */
function claimsOf(assertion: string): Record<string, string> {
  const [head = '', claims = '', signature = ''] = assertion.split('.');
  const signed = Buffer.from(`${head}.${claims}`);
  if (!verify('RSA-SHA256', signed, serviceAccount.publicKey, Buffer.from(signature, 'base64url')))
    throw new Error('the signature is wrong');
  return JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, string>;
}

/** Reads and sends with the account; its status never changes. */
async function readsAndSends(account: Account): Promise<void> {
  const calls = () => live.receiver.accepted({ account: account.id });
  const received = () => calls().flatMap((call) => (call.event.type === 'email.new' ? [emailOf(call).message_id] : []));
  const messageId = newMessageId();
  await box.append('INBOX', { subject: 'a mail', messageId, to: user.user });
  const sent = await live.api.post<{ message_id: string }>(`/${account.id}/emails/send`, {
    to: [{ email: user.user }],
    subject: 'sent',
    plain_text: 'sent with a token',
  });
  await waitFor(() => [messageId, sent.message_id].every((id) => received().includes(id)), { what: 'both emails' });
  expect(calls().filter(({ event }) => event.type.startsWith('account.status.'))).toEqual([]);
}

test('a refresh token of a client of the caller', async () => {
  const { clientId: client_id, clientSecret: client_secret, tokenUrl: token_url } = servers.auth;
  const refresh_token = await servers.auth.signIn(user.user);
  const account = await connect({ refresh_token, client_id, client_secret, token_url });
  await waitFor(() => servers.auth.requests.length >= 3, { timeoutMs: 40_000, what: 'three tokens' });
  await readsAndSends(account);
}, 90_000);

test('an access token, until it ends', async () => {
  const access_token = await servers.auth.accessToken(user.user);
  const expires_at = new Date(Date.now() + TOKEN_SECONDS * 1000).toISOString();
  const account = await connect({ access_token, expires_at });
  await readsAndSends(account);
  const { event } = await live.receiver.waitFor(
    (call) => call.event.account_id === account.id && call.event.type === 'account.status.disconnected',
    { timeoutMs: 60_000 },
  );
  expect(event.data).toMatchObject({ status: 'disconnected' });
}, 90_000);

test('client credentials of an app', async () => {
  servers.auth.appMailbox = user.user;
  const { id: app_id } = await createApp({});
  const account = await connect({ app_id, grant: 'client_credentials' });
  const issued = () => servers.auth.requests.filter(({ form }) => form.get('grant_type') === 'client_credentials');
  await waitFor(() => issued().length >= 3, { timeoutMs: 40_000, what: 'three tokens' });
  await readsAndSends(account);
}, 90_000);

test('a sign-in on another device, when the owner agrees', async () => {
  const { id: app_id } = await createApp({ scope: 'openid email offline_access' });
  const begin = (more: object = {}) => {
    const side = (port: number) => ({ host: '127.0.0.1', port, encryption: 'none' });
    const sides = { imap: side(servers.dovecot.imapPort), smtp: side(servers.postfix.submissionPort) };
    return live.api.post<DeviceSignIn>('/oauth/device', { app_id, user: user.user, ...sides, ...more });
  };
  const ended = async ({ id }: DeviceSignIn) => {
    const read = () => live.api.get<DeviceSignIn>(`/oauth/device/${id}`);
    await waitFor(async () => (await read()).status !== 'waiting', {
      timeoutMs: 40_000,
      what: 'the end of the sign-in',
    });
    return read();
  };
  const [agreed, refused, other] = [await begin({ state: 'headless' }), await begin(), await begin()];
  await servers.auth.answerDevice(refused.user_code, undefined);
  await servers.auth.answerDevice(other.user_code, 'someone@example.test');
  expect(await ended(refused)).toMatchObject({
    status: 'failed',
    status_detail: expect.stringMatching(/refused access/),
  });
  expect(await ended(other)).toMatchObject({
    status: 'failed',
    status_detail: expect.stringMatching(/another address/),
  });
  expect(await live.api.get(`/oauth/device/${agreed.id}`)).toMatchObject({ status: 'waiting' });
  await servers.auth.answerDevice(agreed.user_code, user.user);
  const { status, account_id: id } = await ended(agreed);
  expect([status, id]).toEqual(['connected', expect.stringMatching(/^acc_/)]);
  const account = await live.api.get<Account>(`/accounts/${id}`);
  live.api.connected.add(account.id);
  const { event } = await live.receiver.waitFor(
    (call) => call.event.account_id === id && call.event.type === 'account.add',
  );
  expect(event.data).toMatchObject({ state: 'headless' });
  await readsAndSends(account);
}, 120_000);

test('assertions of a service account, for the user of the mailbox', async () => {
  const assertions: string[] = [];
  servers.auth.script = async ({ form }) => {
    if (form.get('grant_type') !== JWT_BEARER) return undefined;
    const assertion = form.get('assertion') ?? '';
    assertions.push(assertion);
    const access_token = await servers.auth.accessToken(claimsOf(assertion)['sub'] ?? '');
    return { status: 200, body: { access_token, token_type: 'Bearer', expires_in: TOKEN_SECONDS } };
  };
  const private_key = serviceAccount.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const { id: app_id } = await createApp({ service_account: { client_email: CLIENT_EMAIL, private_key } });
  const account = await connect({ app_id, grant: 'service_account' });
  await waitFor(() => assertions.length >= 3, { timeoutMs: 40_000, what: 'three tokens' });
  for (const claims of assertions.map(claimsOf)) {
    expect(claims).toMatchObject({ iss: CLIENT_EMAIL, sub: user.user, scope: 'mail', aud: servers.auth.tokenUrl });
    expect(Number(claims['exp']) - Number(claims['iat'])).toBe(3600);
  }
  await readsAndSends(account);
  // a token of another subject opens another mailbox
  const failure = await connect({ app_id, grant: 'service_account', subject: 'someone@example.test' }).catch(String);
  expect(failure).toMatch(/refused the login/);
}, 90_000);

test("tokens of the caller's own service, whose requests are signed", async () => {
  const account = await connect({ token_source_url: sourceUrl, token_source_secret: SECRET });
  await waitFor(() => sourceCalls.length >= 3, { timeoutMs: 40_000, what: 'three tokens' });
  await readsAndSends(account);
  const [first, ...later] = sourceCalls;
  expect(first?.query).toEqual({ tenant: '7', proto: 'imap', user: user.user });
  for (const { query } of later)
    expect(query).toEqual({ tenant: '7', proto: 'imap', user: user.user, account: account.id });
  for (const { path, headers } of sourceCalls) {
    const signed = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [
      name,
      String(headers[name]),
    ]);
    expect(() => new Webhook(SECRET).verify(path, Object.fromEntries(signed) as Record<string, string>)).not.toThrow(
      /signature/i,
    );
  }
}, 90_000);
