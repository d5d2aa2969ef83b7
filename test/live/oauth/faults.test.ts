import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import type { OAuthApp } from '../../../src/contract/oauth.ts';
import { sleep } from '../../../src/async.ts';
import { newId } from '../../../src/new-id.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { EXCHANGE, GMAIL, type Dialect, TokenProvider, YAHOO } from '../../helpers/fakes/token-provider.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';
import { type AuthServer, type ScriptedAnswer, startAuthServer } from '../../helpers/servers/auth-server.ts';

/** Whose fault a refusal is, in the words of the providers: what becomes of the account, of its app, and of the next attempt. */

let live: OwnLive;
let auth: AuthServer;
let provider: TokenProvider;
let app: OAuthApp;
let connected: string;

beforeAll(async () => {
  [live, auth] = await Promise.all([startLive(), startAuthServer()]);
}, 120_000);
afterAll(async () => {
  await live?.close();
  await auth?.close();
}, 60_000);
beforeEach(async () => {
  auth.script = () => undefined;
  app = await live.api.post<OAuthApp>('/oauth/apps', {
    provider: 'custom',
    name: 'Test provider',
    client_id: auth.clientId,
    client_secret: auth.clientSecret,
    issuer: auth.issuer,
    scope: 'openid email offline_access',
    hosts: ['127.0.0.1'],
  });
});
afterEach(async () => {
  // its next request for a token would count as one of the next test
  await live.api.delete(`/accounts/${connected}`);
  await provider.close();
});

const read = ({ id }: Account) => live.api.get<Account>(`/accounts/${id}`);
const eventsOf = ({ id }: Account) =>
  live.receiver
    .accepted({ account: id })
    .flatMap(({ event }) => (event.type.startsWith('account.status.') ? [event.type] : []));
const until = (account: Account, status: Account['status']) =>
  waitFor(async () => (await read(account)).status === status, {
    timeoutMs: 30_000,
    what: `the account to be ${status}`,
  });

/** An account on a server with that dialect, in sync. */
async function connect(dialect: Dialect): Promise<Account> {
  provider = await new TokenProvider(dialect).listen();
  const user = `${newId('account').slice(4)}@example.test`;
  const oauth2 = { refresh_token: await auth.signIn(user), app_id: app.id };
  const side = ({ port }: { port: number }) => ({ host: '127.0.0.1', port, encryption: 'none' });
  const credentials = { user, oauth2, imap: side(provider.imap), smtp: side(provider.smtp) };
  const account = await live.api.post<Account>('/auth/intent', { provider: 'imap', credentials });
  connected = account.id;
  await waitFor(async () => (await read(account)).last_synced_at !== null, { what: 'the first sync pass' });
  auth.requests.length = 0;
  return account;
}

/** The token is due, and the connection is cut: the next login needs another token. */
async function renew({ id }: Account): Promise<void> {
  await live.pool.query(`update oauth_tokens set renew_at = now() - interval '1 second' where account_id = $1`, [id]);
  provider.cut();
}

const microsoft = (number: number, error: string, text: string): ScriptedAnswer => ({
  status: error === 'invalid_client' ? 401 : 400,
  body: { error, error_description: `AADSTS${number}: ${text} Trace ID: 0d1fbd64 Timestamp: 2026-11-25 09:00:00Z` },
});
const google = (error_description: string): ScriptedAnswer => ({
  status: 400,
  body: { error: 'invalid_grant', error_description },
});

describe('the token endpoint', () => {
  test.each<[string, Dialect, ScriptedAnswer, RegExp]>([
    [
      'a changed password at Microsoft',
      EXCHANGE,
      microsoft(50173, 'invalid_grant', 'The provided grant has expired due to it being revoked.'),
      /password was changed.*sign in again.*AADSTS50173/,
    ],
    [
      'a sign-in that was not used for 90 days at Microsoft',
      EXCHANGE,
      microsoft(700082, 'invalid_grant', 'The refresh token has expired due to inactivity.'),
      /not used for long.*sign in again.*AADSTS700082/,
    ],
    [
      'conditional access at Microsoft',
      EXCHANGE,
      microsoft(53003, 'interaction_required', 'Access has been blocked by Conditional Access policies.'),
      /conditional access.*administrator/,
    ],
    ['revoked access at Google', GMAIL, google('Token has been expired or revoked.'), /sign in again/],
    ['revoked access at Yahoo', YAHOO, google('Refresh token is invalid'), /sign in again/],
  ])('names the owner: %s disconnects the account, with the reason', async (_, dialect, answer, reason) => {
    const account = await connect(dialect);
    auth.script = () => answer;
    await renew(account);
    await until(account, 'disconnected');
    expect((await read(account)).status_detail).toMatch(reason);
    await waitFor(() => eventsOf(account).length > 0, { what: 'the event' });
    expect(eventsOf(account)).toEqual(['account.status.disconnected']);
    expect(await live.api.get(`/oauth/apps/${app.id}`)).toMatchObject({ status: 'ok' });
  });

  test.each<[string, ScriptedAnswer, RegExp]>([
    [
      'an expired secret',
      microsoft(7000222, 'invalid_client', 'The provided client secret keys are expired.'),
      /expired/,
    ],
    ['a wrong secret', microsoft(7000215, 'invalid_client', 'Invalid client secret provided.'), /value of the secret/],
    [
      'an unknown app',
      microsoft(700016, 'unauthorized_client', 'Application was not found.'),
      /no app with this client/,
    ],
  ])('names the operator: %s makes the app failing, and its account stays running', async (_, answer, reason) => {
    const account = await connect(EXCHANGE);
    const logins = provider.logins.length;
    auth.script = () => answer;
    await renew(account);
    const failing = async () => (await live.api.get<OAuthApp>(`/oauth/apps/${app.id}`)).status === 'failing';
    await waitFor(failing, { timeoutMs: 20_000, what: 'the app to be failing' });
    // the old token is valid for most of an hour
    await waitFor(() => provider.logins.length > logins, { timeoutMs: 20_000, what: 'a login with the old token' });
    const { status, status_detail } = await read(account);
    expect([status, status_detail]).toEqual(['running', expect.stringMatching(reason)]);
    expect(eventsOf(account)).toEqual([]);
    expect(auth.requests).toHaveLength(1);
  });

  test.each<[string, ScriptedAnswer]>([
    ['asks for patience', { status: 429, headers: { 'retry-after': '6' }, body: { error: 'temporarily_unavailable' } }],
    ['is away', { status: 503, headers: { 'retry-after': '6' }, body: 'Service Unavailable' }],
  ])('%s: it is asked again as it says, and the account notices nothing', async (_, answer) => {
    const account = await connect(GMAIL);
    const logins = provider.logins.length;
    auth.script = () => answer;
    await renew(account);
    await waitFor(() => provider.logins.length > logins, { timeoutMs: 20_000, what: 'a login with the old token' });
    const [first] = auth.requests;
    expect(auth.requests).toHaveLength(1);
    auth.script = () => undefined;
    provider.cut();
    await waitFor(() => provider.logins.length > logins + 1, { timeoutMs: 20_000, what: 'a further login' });
    expect(auth.requests).toHaveLength(1);
    await new Promise((resolve) => setTimeout(resolve, (first?.at ?? 0) + 6_500 - Date.now()));
    provider.cut();
    await waitFor(() => auth.requests.length === 2, { timeoutMs: 20_000, what: 'the second request' });
    expect(await read(account)).toMatchObject({ status: 'running', status_detail: '' });
    expect(eventsOf(account)).toEqual([]);
  });
});

describe('the IMAP server', () => {
  test.each<[string, Dialect, RegExp, string[]]>([
    ['Exchange', EXCHANGE, /IMAP server refused the login: AUTHENTICATE failed/, []],
    ['Gmail', GMAIL, /IMAP server refused the login: Invalid credentials \(Failure\)/, ['AQ==', 'AQ==']],
    ['Yahoo', YAHOO, /IMAP server refused the login: AUTHENTICATE Invalid credentials/, ['AQ==', 'AQ==']],
  ])('of %s refuses two new tokens: the account is disconnected', async (_, dialect, reason, acknowledged) => {
    const account = await connect(dialect);
    provider.refuses.imap = 2;
    provider.cut();
    await until(account, 'disconnected');
    expect((await read(account)).status_detail).toMatch(reason);
    expect(provider.acknowledged).toEqual(acknowledged);
    // the second login was made with a new token
    expect(auth.requests).toHaveLength(1);
  });

  test('of Exchange lets in and then refuses every command: no refused login, said with what to look at', async () => {
    const account = await connect(EXCHANGE);
    provider.says = () => 'BAD User is authenticated but not connected.';
    provider.cut();
    await until(account, 'errored');
    expect((await read(account)).status_detail).toMatch(/not connected.*IMAP may be switched off.*licence/);
    provider.says = () => undefined;
    await until(account, 'running');
    await waitFor(() => eventsOf(account).length === 2, { what: 'both events' });
    expect(eventsOf(account)).toEqual(['account.status.errored', 'account.status.running']);
    expect(auth.requests).toEqual([]);
  }, 90_000);

  test('of Exchange throttles: the next command comes no earlier than it says', async () => {
    const account = await connect(EXCHANGE);
    const throttled: number[] = [];
    provider.says = ({ name }) => {
      if (name === 'LOGOUT') return undefined;
      throttled.push(Date.now());
      return 'BAD Request is throttled. Suggested Backoff Time: 3000 milliseconds';
    };
    provider.cut();
    await waitFor(() => throttled.length === 4, { timeoutMs: 30_000, what: 'four refused commands' });
    provider.says = () => undefined;
    const pauses = throttled.slice(1).map((at, index) => at - (throttled[index] ?? 0));
    expect(Math.min(...pauses)).toBeGreaterThan(2_900);
    const { last_synced_at: before } = await read(account);
    await waitFor(async () => (await read(account)).last_synced_at !== before, {
      timeoutMs: 30_000,
      what: 'a sync pass',
    });
    expect(await read(account)).toMatchObject({ status: 'running' });
    expect(eventsOf(account)).toEqual([]);
  }, 90_000);

  test('of Exchange throttles one mailbox: another mailbox reconnects at once', async () => {
    const throttled = await connect(EXCHANGE);
    const first = provider;
    const account = await connect(EXCHANGE);
    const says = 'BAD Request is throttled. Suggested Backoff Time: 60000 milliseconds';
    first.says = ({ name }) => (name === 'LOGOUT' ? undefined : says);
    first.cut();
    const failureOf = async ({ id }: Account) =>
      (await live.pool.query<{ watch_failure: string }>('select watch_failure from accounts where id = $1', [id]))
        .rows[0]?.watch_failure;
    await waitFor(async () => (await failureOf(throttled))?.includes('Suggested Backoff'), {
      timeoutMs: 20_000,
      what: 'the pause to be noted',
    });
    const attempts = first.logins.length;
    const logins = provider.logins.length;
    provider.cut();
    await waitFor(() => provider.logins.length > logins, { timeoutMs: 10_000, what: 'the next login' });
    expect(await read(account)).toMatchObject({ status: 'running' });
    await sleep(20_000);
    expect(first.logins).toHaveLength(attempts);
    await live.api.delete(`/accounts/${throttled.id}`);
    await first.close();
  }, 120_000);
});

describe('the SMTP server', () => {
  async function send({ id }: Account) {
    const email = { to: [{ email: 'bob@example.test' }], subject: 'hello', plain_text: 'hello' };
    const response = await live.api.request('POST', `/${id}/emails/send`, email);
    return { status: response.status, detail: ((await response.json()) as { detail?: string }).detail };
  }

  test.each<[string, Dialect, string[], RegExp]>([
    ['Exchange', EXCHANGE, [], /Authentication unsuccessful/],
    ['Gmail', GMAIL, ['', ''], /Username and Password not accepted/],
    ['Yahoo', YAHOO, ['AQ==', 'AQ=='], /Authentication failed/],
  ])('of %s refuses two tokens: the send fails and the account is disconnected', async (_, dialect, errors, reason) => {
    const account = await connect(dialect);
    provider.refuses.smtp = 2;
    const response = await send(account);
    expect(response).toEqual({ status: 401, detail: expect.stringMatching(reason) });
    expect(provider.acknowledged).toEqual(errors);
    expect(provider.smtp.messages).toEqual([]);
    expect(auth.requests).toHaveLength(1);
    await until(account, 'disconnected');
    expect((await read(account)).status_detail).toMatch(reason);
  });

  test('refuses one token: the email is sent with the next one', async () => {
    const account = await connect(YAHOO);
    provider.refuses.smtp = 1;
    expect(await send(account)).toMatchObject({ status: 200 });
    expect(provider.smtp.messages).toHaveLength(1);
    expect(auth.requests).toHaveLength(1);
    expect(await read(account)).toMatchObject({ status: 'running', status_detail: '' });
  });

  test('of Exchange has authenticated SMTP switched off: the send says who can turn it on, and keeps the token', async () => {
    const account = await connect(EXCHANGE);
    provider.smtp.script = (moment) =>
      moment === 'AUTH'
        ? '535 5.7.139 Authentication unsuccessful, SmtpClientAuthentication is disabled for the Tenant.'
        : undefined;
    expect(await send(account)).toMatchObject({
      detail: expect.stringMatching(/administrator has to enable authenticated SMTP/),
    });
    expect(auth.requests).toEqual([]);
    expect(await read(account)).toMatchObject({ status: 'running' });
  });
});
