import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { createConnectActivities } from '../../src/activities/connect.ts';
import { addSignIn } from '../../src/activities/connect-tokens.ts';
import { createDeviceActivities } from '../../src/activities/device-sign-in.ts';
import { toFailure } from '../../src/activities/failures.ts';
import { sleep } from '../../src/async.ts';
import type { ConnectIntent } from '../../src/contract/account.ts';
import { OTHER_ADDRESS } from '../../src/contract/oauth.ts';
import { intentLocation, saveIntent } from '../../src/db/access/connect-intents.ts';
import { saveDeviceSignIn } from '../../src/db/access/device-sign-ins.ts';
import { deleteApp } from '../../src/db/queries/oauth-apps.ts';
import { accounts, oauthTokens } from '../../src/db/schema/index.ts';
import { loginOf } from '../../src/mailbox/logins.ts';
import { loadSyncSettings, openCredentials } from '../../src/mailbox/settings.ts';
import { newId } from '../../src/new-id.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { FakeSmtp } from '../helpers/fakes/fake-smtp.ts';
import { LOOPBACK, testTokens } from '../helpers/product/mail-session.ts';
import { addUser, type MailUser } from '../helpers/product/mail-user.ts';
import { storeApp } from '../helpers/servers/auth-server.ts';
import { type OAuthServers, startOAuthServers } from '../helpers/servers/oauth-servers.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';

/** Connects by access tokens, on a Dovecot and a Postfix that ask the authorization server about each. */

type Intent = Omit<ConnectIntent, 'provider'>;

const host = '127.0.0.1';
const secrets = createSecrets({ current: randomBytes(32) });
let test: TestDatabase;
let servers: OAuthServers;
let user: MailUser;

beforeAll(async () => {
  test = await testDatabase();
  servers = await startOAuthServers();
});
afterAll(async () => {
  await servers.stop();
  await test.drop();
});
beforeEach(async () => {
  user = await addUser({ dovecot: servers.dovecot });
  servers.auth.script = () => undefined;
  servers.auth.requests.length = 0;
});

const tokens = () => testTokens({ db: test.database.db, secrets });
const ownClient = () => {
  const { clientId: client_id, clientSecret: client_secret, tokenUrl: token_url } = servers.auth;
  return { client_id, client_secret, token_url };
};
const sides = () => ({
  imap: { host, port: servers.dovecot.imapPort, encryption: 'none' },
  smtp: { host, port: servers.postfix.submissionPort, encryption: 'none' },
});

function activities() {
  return createConnectActivities({
    db: test.database.db,
    secrets,
    tokens: tokens(),
    outbound: LOOPBACK,
    allowInsecureMail: 'loopback',
    startAccount: async () => {},
    sources: { srv: async () => [], mx: async () => [], document: async () => undefined },
    loginTimeoutMs: 5_000,
  });
}

async function keep(intent: Intent): Promise<string> {
  const intentId = newId('intent');
  const sealed = secrets.seal(intentLocation(intentId), JSON.stringify({ provider: 'imap', ...intent }));
  await saveIntent(test.database.db, intentId, sealed, new Date());
  return intentId;
}

const newApp = () => storeApp(test.database, secrets, servers.auth);

const connect = async (intent: Intent) =>
  (await activities().verifyMailbox({ intentId: await keep(intent) })).accountId;

async function failureOf(intent: Intent) {
  const failure = await connect(intent).then(
    () => undefined,
    (error: unknown) => toFailure(error) as Error & { type: string; details: { detail: string }[] },
  );
  return { code: failure?.type, detail: failure?.details[0]?.detail ?? '' };
}

async function storedOf(accountId: string) {
  const [row] = await test.database.db.select().from(accounts).where(eq(accounts.id, accountId));
  const [token] = await test.database.db.select().from(oauthTokens).where(eq(oauthTokens.accountId, accountId));
  return {
    credentials: openCredentials(secrets, accountId, row?.credentials ?? Buffer.alloc(0)),
    token,
    status: row?.status,
  };
}

async function currentLogin(accountId: string) {
  const settings = await loadSyncSettings(test.database.db, accountId);
  if (!settings) throw new Error('no such account');
  return loginOf({ secrets, tokens: tokens() }, accountId, settings, 'imap');
}

describe('a mailbox', () => {
  it('is connected by an access token', async () => {
    const access_token = await servers.auth.accessToken(user.user);
    const accountId = await connect({ credentials: { user: user.user, oauth2: { access_token }, ...sides() } });
    expect((await currentLogin(accountId)).password).toBe(access_token);
  });

  it('is connected by a refresh token, which later logins use', async () => {
    const refresh_token = await servers.auth.signIn(user.user);
    const oauth2 = { refresh_token, ...ownClient() };
    const accountId = await connect({ credentials: { user: user.user, oauth2, ...sides() } });
    const { credentials, token } = await storedOf(accountId);
    expect(credentials).toEqual({ oauth2 });
    expect(token?.expiresAt?.getTime()).toBeGreaterThan(Date.now() + 3_500_000);
    await test.database.db.update(oauthTokens).set({ renewAt: new Date(0) });
    const later = await currentLogin(accountId);
    expect(await connect({ credentials: { imap: sides().imap }, account_id: accountId })).toBe(accountId);
    expect(later.token?.renewAt?.getTime()).toBeGreaterThan(Date.now());
    expect(servers.auth.requests.map(({ form }) => form.get('grant_type'))).toEqual(['refresh_token', 'refresh_token']);
  });

  it('may send with its own password', async () => {
    const refresh_token = await servers.auth.signIn(user.user);
    const smtp = { ...sides().smtp, user: user.user, password: user.password };
    const oauth2 = { refresh_token, ...ownClient() };
    const accountId = await connect({ credentials: { user: user.user, oauth2, imap: sides().imap, smtp } });
    expect((await storedOf(accountId)).credentials).toEqual({ smtpPassword: user.password, oauth2 });
  });

  it('changes from a password to tokens and back', async () => {
    const { user: name, password } = user;
    const accountId = await connect({ credentials: { user: name, password, ...sides() } });
    const oauth2 = { refresh_token: await servers.auth.signIn(name), ...ownClient() };
    expect(await connect({ credentials: { oauth2 }, account_id: accountId })).toBe(accountId);
    expect(await storedOf(accountId)).toMatchObject({ credentials: { oauth2 }, token: { failure: '' } });
    expect(await connect({ credentials: { password }, account_id: accountId })).toBe(accountId);
    const { credentials, token } = await storedOf(accountId);
    expect(credentials).toEqual({ imapPassword: password, smtpPassword: password });
    expect(token).toBeUndefined();
  });

  it('is not saved with a token of another user', async () => {
    const access_token = await servers.auth.accessToken((await addUser({ dovecot: servers.dovecot })).user);
    const failure = await failureOf({ credentials: { user: user.user, oauth2: { access_token }, ...sides() } });
    expect(failure.code).toBe('invalid_credentials');
    expect(failure.detail).toMatch(/IMAP server refused the login.*SMTP server refused the login/);
    expect(failure.detail).not.toContain(access_token);
  });
});

describe('an attempt that is repeated', () => {
  it('does not use the refresh token again', async () => {
    const credentials = {
      user: user.user,
      oauth2: { refresh_token: await servers.auth.signIn(user.user), ...ownClient() },
    };
    const closed = { ...sides(), smtp: { host, port: 1, encryption: 'none' } };
    const intentId = await keep({ credentials: { ...credentials, ...closed } });
    for (let count = 0; count < 3; count++) {
      await expect(activities().verifyMailbox({ intentId })).rejects.toMatchObject({ code: 'provider_error' });
    }
    expect(servers.auth.requests).toHaveLength(1);
  });
});

describe('tokens that were issued', () => {
  let recovered: Promise<unknown> | undefined;
  afterEach(() => recovered);

  /** Has statements of that kind on intents fail for a second, as on a full disk. */
  async function failIntents(kind: 'insert' | 'update'): Promise<void> {
    const { pool } = test.database;
    await pool.query(`
      create or replace function fail() returns trigger language plpgsql as
        $$ begin raise exception 'full' using errcode = '53100'; end $$;
      create trigger fails before ${kind} on connect_intents execute function fail()`);
    recovered = sleep(1_000).then(() => pool.query('drop trigger fails on connect_intents'));
  }

  it('to a connect are stored after a failure of the database', async () => {
    const oauth2 = { refresh_token: await servers.auth.signIn(user.user), ...ownClient() };
    const intentId = await keep({ credentials: { user: user.user, oauth2, ...sides() } });
    servers.auth.script = async () => {
      await failIntents('update');
      return undefined;
    };
    expect(await activities().verifyMailbox({ intentId })).toMatchObject({ accountId: expect.stringMatching(/^acc_/) });
    expect(servers.auth.requests).toHaveLength(1);
  });

  it('to a sign-in on another device are stored after a failure of the database', async () => {
    const { db } = test.database;
    const app = await newApp();
    const mailbox = { app_id: app.id, user: user.user };
    const code = { deviceCode: 'd', userCode: 'u', verificationUri: 'v', verificationUriComplete: null, intervalS: 5 };
    const signInId = newId('deviceSignIn');
    const [createdAt, expiresAt] = [new Date(), new Date(Date.now() + 60_000)];
    const request = { ...code, mailbox };
    await saveDeviceSignIn(db, secrets, { id: signInId, appId: app.id, request, createdAt, expiresAt });
    servers.auth.script = async () => {
      await failIntents('insert');
      return { status: 200, body: { access_token: 'a', refresh_token: 'r', expires_in: 3600 } };
    };
    const { pollDevice } = createDeviceActivities({ db, secrets, tokens: tokens() });
    const agreed = await pollDevice({ signInId });
    expect(agreed).toEqual({ intentId: expect.any(String) });
    expect(await pollDevice({ signInId })).toEqual(agreed);
    expect(servers.auth.requests).toHaveLength(1);
  });

  it('are not stored without their app, which was deleted in the meantime', async () => {
    const { db } = test.database;
    const app = await newApp();
    const oauth2 = { refresh_token: await servers.auth.signIn(user.user), app_id: app.id };
    servers.auth.script = async () => {
      await deleteApp(db, app.id);
      return undefined;
    };
    expect(await failureOf({ credentials: { user: user.user, oauth2, ...sides() } })).toEqual({
      code: 'invalid_parameters',
      detail: expect.stringMatching(/no OAuth app has this id/),
    });
    expect(await db.select().from(oauthTokens).where(eq(oauthTokens.appId, app.id))).toEqual([]);
  });
});

describe('a sign-in', () => {
  it.each([
    ['ann.lee@gmail.com', 'annlee@gmail.com', true],
    ['Ann.Lee+crm@gmail.com', 'annlee@gmail.com', true],
    ['annlee@googlemail.com', 'a.nnlee@gmail.com', true],
    ['annleeb@gmail.com', 'annlee@gmail.com', false],
    ['ann.lee@example.test', 'annlee@example.test', false],
    ['ann+crm@example.test', 'ann@example.test', false],
    ['annlee@gmail.com.example.test', 'ann.lee@gmail.com.example.test', false],
  ])('for %s by %s is one of the same mailbox: %s', (typed, signedIn, isSame) => {
    const issued = { accessToken: 'a', refreshToken: 'r', expiresAt: null, renewAt: null };
    const add = () =>
      addSignIn({ provider: 'imap', credentials: { user: typed } }, 'oap_1', { tokens: issued, addresses: [signedIn] });
    if (isSame) expect(add).not.toThrow();
    else expect(add).toThrow(expect.objectContaining({ code: 'invalid_credentials', detail: OTHER_ADDRESS }));
  });

  it('on another device asks at its interval, and never after its code has expired', async () => {
    const { db } = test.database;
    const app = await newApp();
    const code = { deviceCode: 'd', userCode: 'u', verificationUri: 'v', verificationUriComplete: null, intervalS: 5 };
    const signInId = newId('deviceSignIn');
    const [createdAt, expiresAt] = [new Date(), new Date(Date.now() + 600_000)];
    const request = { ...code, mailbox: { app_id: app.id, user: user.user } };
    await saveDeviceSignIn(db, secrets, { id: signInId, appId: app.id, request, createdAt, expiresAt });
    const { pollDevice } = createDeviceActivities({ db, secrets, tokens: tokens() });
    const polled = (answer: { status: number; body: object; headers?: Record<string, string> }) => {
      servers.auth.script = () => answer;
      return pollDevice({ signInId });
    };
    expect(await polled({ status: 400, body: { error: 'authorization_pending' } })).toEqual({ waitS: 5 });
    expect(await polled({ status: 400, body: { error: 'slow_down' } })).toEqual({ waitS: 10, slowerS: 5 });
    const away = (seconds: string) => polled({ status: 503, body: {}, headers: { 'retry-after': seconds } });
    expect(await away('60')).toEqual({ waitS: 65 });
    const { waitS } = (await away('3600')) as { waitS: number };
    expect(waitS).toBeGreaterThan(500);
    expect(waitS).toBeLessThanOrEqual(600);
  });
});

describe('a grant', () => {
  it('that was revoked is a refused login', async () => {
    const refresh_token = await servers.auth.signIn(user.user);
    await servers.auth.revoke(user.user);
    const failure = await failureOf({
      credentials: { user: user.user, oauth2: { refresh_token, ...ownClient() }, ...sides() },
    });
    expect(failure).toEqual({ code: 'invalid_credentials', detail: expect.stringMatching(/sign in again/) });
  });

  it('of a wrong client is refused, with the reason', async () => {
    const oauth2 = { refresh_token: await servers.auth.signIn(user.user), ...ownClient(), client_secret: 'wrong' };
    const failure = await failureOf({ credentials: { user: user.user, oauth2, ...sides() } });
    expect(failure).toEqual({
      code: 'provider_rejected',
      detail: expect.stringMatching(/client id or the client secret/),
    });
  });

  it.each([
    [{}, /exactly one/],
    [{ access_token: 'a', refresh_token: 'b' }, /exactly one/],
    [{ refresh_token: 'b' }, /needs app_id, or client_id and token_url/],
    [{ refresh_token: 'b', client_id: 'c', token_url: 'file:///etc/passwd' }, /token_url/],
    [{ access_token: 'a', client_id: 'c' }, /client_id does not belong/],
    [{ access_token: 'a\u0001auth=Bearer b' }, /printable ASCII/],
  ])('%j is refused by the name of the field', async (oauth2, detail) => {
    const failure = await failureOf({ credentials: { user: user.user, oauth2, ...sides() } });
    expect(failure).toEqual({ code: 'invalid_parameters', detail: expect.stringMatching(detail) });
  });

  it('and a password are not given together', async () => {
    const credentials = { user: user.user, password: 'p', oauth2: { access_token: 'a' }, ...sides() };
    expect((await failureOf({ credentials })).detail).toMatch(/both password and oauth2/);
  });

  it('is not sent to a private address, nor in clear over a network', async () => {
    const elsewhere = { refresh_token: 'r', client_id: 'c', token_url: 'http://192.0.2.1/token' };
    const failure = await failureOf({ credentials: { user: user.user, oauth2: elsewhere, ...sides() } });
    expect(failure).toEqual({ code: 'provider_error', detail: expect.stringMatching(/could not be reached/) });
  });
});

describe('the stored servers', () => {
  it('alone get a stored token', async () => {
    const oauth2 = { refresh_token: await servers.auth.signIn(user.user), ...ownClient() };
    const accountId = await connect({ credentials: { user: user.user, oauth2, ...sides() } });
    const hostile = await new FakeImap().listen();
    const imap = { host, port: hostile.port, encryption: 'none' };
    expect(await failureOf({ credentials: { imap }, account_id: accountId })).toEqual({
      code: 'invalid_parameters',
      detail: expect.stringMatching(/credentials\.imap\.password is needed/),
    });
    expect(hostile.log).toEqual([]);
    await hostile.close();
  });

  it('of an address get no new token unless they are named', async () => {
    const [imap, smtp] = [await new FakeImap().listen(), new FakeSmtp()];
    await smtp.listen();
    const at = (port: number) => ({ host, port, encryption: 'none' });
    const { user: name } = user;
    await connect({ credentials: { user: name, password: 'anything', imap: at(imap.port), smtp: at(smtp.port) } });
    const failure = await failureOf({ credentials: { user: name, oauth2: { access_token: 'canary-token' } } });
    expect(failure.detail).toMatch(/servers of this address are not known/);
    expect(JSON.stringify([imap.log, smtp.log])).not.toContain('canary-token');
    await Promise.all([imap.close(), smtp.close()]);
  });
});
