import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import type { OAuthApp } from '../../../src/contract/oauth.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { startTokenProxy, type TokenProxy } from '../../helpers/fakes/token-proxy.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { newMessageId } from '../../helpers/product/mail-text.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { type OAuthServers, startOAuthServers } from '../../helpers/servers/oauth-servers.ts';

/** A provider whose tokens last some seconds, and which ends every session with its token, in the middle of whatever it does. */

const TOKEN_SECONDS = 12;

let live: OwnLive;
let servers: OAuthServers;
let imap: TokenProxy;
let smtp: TokenProxy;
let app: OAuthApp;
let user: MailUser;
let box: Mailbox;

beforeAll(async () => {
  live = await startLive();
  servers = await startOAuthServers({ tokenSeconds: TOKEN_SECONDS });
  const { auth } = servers;
  imap = await startTokenProxy(servers.dovecot.imapPort, auth.expiryOf);
  smtp = await startTokenProxy(servers.postfix.submissionPort, auth.expiryOf);
  app = await live.api.post<OAuthApp>('/oauth/apps', {
    provider: 'custom',
    name: 'Test provider',
    client_id: auth.clientId,
    client_secret: auth.clientSecret,
    issuer: auth.issuer,
    scope: 'openid email offline_access',
    hosts: ['127.0.0.1'],
  });
}, 180_000);
afterAll(async () => {
  await imap?.close();
  await smtp?.close();
  await live?.close();
  await servers?.stop();
}, 60_000);
beforeEach(async () => {
  user = await addUser({ dovecot: servers.dovecot });
  box = await openMailbox(user);
  live.boxes.add(box);
  servers.auth.script = () => undefined;
});

const side = ({ port }: TokenProxy) => ({ host: '127.0.0.1', port, encryption: 'none' });

async function connect(more: object = {}): Promise<Account> {
  const oauth2 = { refresh_token: await servers.auth.signIn(user.user), app_id: app.id };
  const credentials = { user: user.user, oauth2, imap: side(imap), smtp: side(smtp) };
  return live.api.post<Account>('/auth/intent', { provider: 'imap', credentials, ...more });
}

async function append(): Promise<string> {
  const messageId = newMessageId();
  await box.append('INBOX', { subject: 'a mail', messageId, to: user.user });
  return messageId;
}

async function inboxIds(): Promise<(string | undefined)[]> {
  const lock = await box.client.getMailboxLock('INBOX');
  try {
    const found = await box.client.fetchAll('1:*', { envelope: true });
    return found.map(({ envelope }) => envelope?.messageId);
  } finally {
    lock.release();
  }
}

const eventsOf = ({ id }: Account) => live.receiver.accepted({ account: id });
const received = (account: Account) =>
  eventsOf(account).flatMap(({ event, ...call }) =>
    event.type === 'email.new' ? [emailOf({ event, ...call })?.message_id] : [],
  );
const statusEvents = (account: Account) =>
  eventsOf(account)
    .filter(({ event }) => event.type.startsWith('account.status.'))
    .map(({ event }) => [event.type, event.data]);

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test('no mail is lost, no email is sent twice and no status changes while tokens end', async () => {
  const account = await connect();
  const until = Date.now() + 4 * TOKEN_SECONDS * 1000;
  const before = imap.logins;
  const sent: string[] = [];
  const arrived: string[] = [];
  while (Date.now() < until) {
    arrived.push(await append());
    const { message_id } = await live.api.post<{ message_id: string }>(`/${account.id}/emails/send`, {
      to: [{ email: user.user }],
      subject: 'sent',
      plain_text: 'sent while tokens end',
    });
    sent.push(message_id);
    await pause(700);
  }
  const all = [...arrived, ...sent];
  await waitFor(() => all.every((id) => received(account).includes(id)), { timeoutMs: 30_000, what: 'every mail' });
  const incoming = received(account).filter((id) => arrived.includes(id ?? ''));
  expect(incoming).toHaveLength(arrived.length);
  const inbox = await inboxIds();
  for (const id of sent) expect(inbox.filter((each) => each === id)).toEqual([id]);
  expect(statusEvents(account)).toEqual([]);
  const periods = servers.auth.requests.length;
  console.log({
    periods,
    imapLogins: imap.logins - before,
    ended: imap.ended,
    sends: sent.length,
    mails: arrived.length,
  });
}, 120_000);

test('an import continues with the next token', async () => {
  const messages = Array.from({ length: 400 }, (_, index) => ({
    subject: `old ${index}`,
    messageId: newMessageId(),
    to: user.user,
  }));
  for (const message of messages) await box.append('INBOX', message);
  const endedBefore = imap.ended;
  // no token lasts as long as the import
  imap.delay = (data) => (/UID FETCH/.test(data.toString('latin1')) ? 2_500 : 0);
  const account = await connect({ config: { initial_sync_enable: true, initial_sync_days: 30 } });
  await live.receiver.waitFor(
    ({ event }) => event.account_id === account.id && event.type === 'account.initial_sync.completed',
    { timeoutMs: 150_000 },
  );
  imap.delay = () => 0;
  expect(imap.ended).toBeGreaterThan(endedBefore);
  expect(eventsOf(account).filter(({ event }) => event.type === 'account.initial_sync.failed')).toEqual([]);
  const { data } = await live.api.get<{ data: unknown[]; has_more: boolean }>(`/${account.id}/emails?limit=250`);
  expect(data).toHaveLength(250);
  expect((await live.api.get<Account>(`/accounts/${account.id}`)).initial_sync).toMatchObject({
    status: 'completed',
    imported: 400,
  });
}, 240_000);

test('an owner who withdraws access is disconnected with the reason, and loses nothing on return', async () => {
  const account = await connect();
  await append();
  const began = Date.now();
  await servers.auth.revoke(user.user);
  const { event } = await live.receiver.waitFor(
    ({ event }) => event.account_id === account.id && event.type === 'account.status.disconnected',
    { timeoutMs: 60_000 },
  );
  expect(Date.now() - began).toBeLessThan(60_000);
  expect(event.data).toMatchObject({ status: 'disconnected', status_detail: expect.stringMatching(/sign in again/) });
  const missed = await append();
  await connect({ account_id: account.id });
  await waitFor(() => received(account).includes(missed), { what: 'the mail of the pause' });
}, 120_000);

test('an app that fails leaves its accounts running, and says why once', async () => {
  const account = await connect();
  servers.auth.script = () => ({
    status: 401,
    body: { error: 'invalid_client', error_description: 'AADSTS7000222: expired.' },
  });
  const failing = async () => (await live.api.get<OAuthApp>(`/oauth/apps/${app.id}`)).status === 'failing';
  await waitFor(failing, { timeoutMs: 40_000, what: 'the app to be failing' });
  expect(await live.api.get(`/oauth/apps/${app.id}`)).toMatchObject({
    status_detail: expect.stringMatching(/secret of the app has expired/),
  });
  await pause(2 * TOKEN_SECONDS * 1000);
  expect(await live.api.get(`/accounts/${account.id}`)).toMatchObject({ status: 'running' });
  expect(statusEvents(account)).toEqual([]);
  expect((await live.product.logs()).match(/OAuth app is failing/g)).toHaveLength(1);
  const appEvents = () =>
    live.receiver
      .accepted()
      .flatMap(({ event }) => (event.type.startsWith('oauth_app.') ? [[event.type, event.data]] : []));
  expect(appEvents()).toEqual([
    [
      'oauth_app.failing',
      {
        app: expect.objectContaining({
          id: app.id,
          status: 'failing',
          status_detail: expect.stringMatching(/expired/),
        }),
      },
    ],
  ]);
  const metrics = async () => (await fetch(`${live.api.base}/metrics`)).text();
  expect(await metrics()).toMatch(/^oauth_apps_failing 1$/m);
  const missed = await append();
  servers.auth.script = () => undefined;
  await live.api.patch(`/oauth/apps/${app.id}`, { client_secret: servers.auth.clientSecret });
  await waitFor(() => received(account).includes(missed), { timeoutMs: 60_000, what: 'the mail of the failure' });
  expect(await live.api.get(`/oauth/apps/${app.id}`)).toMatchObject({ status: 'ok', failing_since: null });
  expect(await metrics()).toMatch(/^oauth_apps_failing 0$/m);
  await waitFor(() => appEvents().length === 2, { what: 'the event of the recovery' });
  expect(appEvents()[1]).toMatchObject([
    'oauth_app.recovered',
    { app: { id: app.id, status: 'ok', status_detail: '' } },
  ]);
}, 180_000);

test('no token and no secret is in logs, events, answers or the database', async () => {
  const account = await connect();
  await append();
  await waitFor(() => received(account).length === 1, { what: 'the mail' });
  const tables = await live.pool.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'public'`,
  );
  const rows = await Promise.all(
    tables.rows.map(({ name }) => live.pool.query(`select t::text as row from ${name} t`)),
  );
  const answers = await Promise.all(
    [`/accounts/${account.id}`, '/oauth/apps', '/accounts'].map((path) => live.api.get(path)),
  );
  const everything = [
    await live.product.logs(),
    JSON.stringify(answers),
    JSON.stringify(eventsOf(account)),
    JSON.stringify(rows.map((each) => each.rows)),
  ].join('\n');
  const secrets = servers.auth.requests.flatMap(({ form }) => [form.get('refresh_token'), form.get('client_secret')]);
  expect(secrets.length).toBeGreaterThan(0);
  for (const secret of new Set(secrets)) {
    if (secret === null) continue;
    for (const form of [
      secret,
      Buffer.from(secret).toString('hex'),
      Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    ]) {
      expect(everything.includes(form)).toBe(false);
    }
  }
}, 60_000);

test('removal with revoke takes the sign-in back at the provider', async () => {
  const refresh_token = await servers.auth.signIn(user.user);
  const credentials = {
    user: user.user,
    oauth2: { refresh_token, app_id: app.id },
    imap: side(imap),
    smtp: side(smtp),
  };
  const account = await live.api.post<Account>('/auth/intent', { provider: 'imap', credentials });
  expect(await live.api.delete(`/accounts/${account.id}?revoke=true`)).toMatchObject({ success: true, revoked: true });
  await expect(servers.auth.isValid(user.user)).resolves.toBe(false);
}, 60_000);
