import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import type { OAuth2Credentials } from '../../src/contract/oauth.ts';
import { putTokens } from '../../src/db/coordination/oauth-tokens.ts';
import {
  type AppSecrets,
  type AppSettings,
  changeApp,
  getApp,
  markAppFailing,
  type StoredApp,
  takeProbe,
} from '../../src/db/queries/oauth-apps.ts';
import { accounts, oauthTokens } from '../../src/db/schema/index.ts';
import { sealCredentials } from '../../src/mailbox/settings.ts';
import { columnsOf } from '../../src/oauth/tokens.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { testTokens } from '../helpers/product/mail-session.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { type AuthServer, type ScriptedAnswer, startAuthServer, storeApp } from '../helpers/servers/auth-server.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';

const secrets = createSecrets({ current: randomBytes(32) });
const USER = 'ann@example.test';
let test: TestDatabase;
let server: AuthServer;
let accountId: string;

beforeAll(async () => {
  test = await testDatabase();
  server = await startAuthServer();
});
afterAll(async () => {
  await server.close();
  await test.drop();
});
beforeEach(async () => {
  server.script = () => undefined;
  accountId = await storeAccount(test.database);
});

const newTokens = () => testTokens({ db: test.database.db, secrets });
const ownClient = () => ({
  client_id: server.clientId,
  client_secret: server.clientSecret,
  token_url: server.tokenUrl,
});

/** Stores an account with a grant, as a connect does. */
async function store(oauth2: OAuth2Credentials): Promise<void> {
  const { db } = test.database;
  const first = await newTokens().first(oauth2, USER);
  const credentials = sealCredentials(secrets, accountId, { imapPassword: undefined, smtpPassword: undefined, oauth2 });
  await db.update(accounts).set({ credentials }).where(eq(accounts.id, accountId));
  const appId = oauth2.app_id ?? null;
  await db.transaction((tx) => putTokens(tx, { accountId, appId, ...columnsOf(secrets, accountId, first) }));
  server.requests.length = 0;
}

/** Moves the times of the token as if that many seconds had passed. */
async function pass(seconds: number): Promise<void> {
  await test.database.db.execute(sql`
    update oauth_tokens set expires_at = expires_at - make_interval(secs => ${seconds}),
      renew_at = renew_at - make_interval(secs => ${seconds}), retry_at = retry_at - make_interval(secs => ${seconds})
    where account_id = ${accountId}`);
}

const failed = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error as Error,
  );

describe('a token', () => {
  it('is used until it is due, which is at 65 to 95 % of its life', async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient() });
    const { value, renewAt } = await newTokens().current(accountId, 'imap');
    const part = ((renewAt?.getTime() ?? 0) - Date.now()) / 3_600_000;
    expect(part).toBeGreaterThan(0.64);
    expect(part).toBeLessThan(0.95);
    expect((await newTokens().current(accountId, 'smtp')).value).toBe(value);
    expect(server.requests).toHaveLength(0);
    await pass(3500);
    expect((await newTokens().current(accountId, 'imap')).value).not.toBe(value);
  });

  it('is due where fewer are', async () => {
    const { db } = test.database;
    // two a second are due in the first half of the time in which it may be renewed
    await db.execute(sql`insert into oauth_tokens (account_id, tokens, renew_at)
      select 'acc_' || s, '', now() + s * interval '0.5 s' from generate_series(2 * 2330, 2 * 2880) s`);
    let refreshToken: string | null = await server.signIn(USER);
    const dueIn: number[] = [];
    while (dueIn.length < 200 && refreshToken) {
      const got = await newTokens().first({ refresh_token: refreshToken, ...ownClient() }, USER);
      dueIn.push(((got.renewAt?.getTime() ?? 0) - Date.now()) / 1000);
      ({ refreshToken } = got);
    }
    await db.execute(sql`delete from oauth_tokens`);
    // 150 by two draws, 100 by one; four standard deviations below the first
    expect(dueIn.filter((seconds) => seconds > 2880).length).toBeGreaterThan(125);
  });

  it('is requested once by all callers of all workers', async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient() });
    for (let round = 0; round < 3; round++) {
      await pass(3700);
      server.requests.length = 0;
      const workers = [newTokens(), newTokens(), newTokens()];
      const got = await Promise.all(workers.flatMap((one) => [1, 2, 3].map(() => one.current(accountId, 'imap'))));
      expect(new Set(got.map(({ value }) => value)).size).toBe(1);
      // a second use of a refresh token would revoke all
      expect(server.requests).toHaveLength(1);
    }
  });

  it('is requested again when the server refused it', async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient() });
    const tokens = newTokens();
    const { value } = await tokens.current(accountId, 'imap');
    await tokens.refused(accountId, 'another one');
    expect((await tokens.current(accountId, 'imap')).value).toBe(value);
    await tokens.refused(accountId, value);
    expect((await tokens.current(accountId, 'imap')).value).not.toBe(value);
  });

  it('is not delayed by token endpoints of other accounts that respond late', async () => {
    const tokens = newTokens();
    const due = async (oauth2: OAuth2Credentials) => {
      accountId = await storeAccount(test.database);
      await store(oauth2);
      await pass(3700);
      return accountId;
    };
    const other = await startAuthServer();
    let respond = () => {};
    try {
      const { id } = await storeApp(test.database, secrets, other);
      const slow: string[] = [];
      for (let n = 0; n < 10; n++) {
        const refresh_token = await other.signIn(`${n}@example.test`);
        const own = { client_id: other.clientId, client_secret: other.clientSecret, token_url: other.tokenUrl };
        slow.push(await due({ refresh_token, ...(n % 2 ? own : { app_id: id }) }));
      }
      const responds = new Promise<void>((resolve) => {
        respond = resolve;
      });
      other.script = () => responds.then(() => undefined);
      other.requests.length = 0;
      const late = Promise.allSettled(slow.map((each) => tokens.current(each, 'imap')));
      await waitFor(() => other.requests.length > 1);
      const prompt = await due({ refresh_token: await server.signIn(USER), ...ownClient() });
      expect((await tokens.current(prompt, 'imap')).value).toMatch(/./);
      respond();
      expect((await late).map(({ status }) => status)).toEqual(slow.map(() => 'fulfilled'));
    } finally {
      respond();
      await other.close();
    }
  });

  it('that the caller gave is used until it expires', async () => {
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    await store({ access_token: 'given', expires_at });
    expect(await newTokens().current(accountId, 'imap')).toMatchObject({ value: 'given' });
    await store({ access_token: 'given' });
    expect(await newTokens().current(accountId, 'imap')).toMatchObject({ value: 'given', expiresAt: null });
    const past = await failed(
      newTokens().first({ access_token: 'given', expires_at: '2020-01-01T00:00:00.000Z' }, USER),
    );
    expect(past).toMatchObject({ code: 'invalid_credentials' });
  });

  it('is sealed in the database, like the refresh token', async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient() });
    await pass(3700);
    const { value } = await newTokens().current(accountId, 'imap');
    const [row] = await test.database.db.select().from(oauthTokens).where(eq(oauthTokens.accountId, accountId));
    const [account] = await test.database.db.select().from(accounts).where(eq(accounts.id, accountId));
    const stored =
      JSON.stringify([row, account]) + row?.tokens.toString('latin1') + account?.credentials.toString('latin1');
    for (const secret of [value, server.clientSecret]) expect(stored).not.toContain(secret);
  });
});

describe('a request that fails', () => {
  const answer = (status: number, body: unknown, headers: Record<string, string> = {}) => {
    server.script = () => ({ status, body, headers });
  };

  it('keeps the old token in use while it is valid, and follows no earlier than the provider allows', async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient() });
    const tokens = newTokens();
    const { value } = await tokens.current(accountId, 'imap');
    await pass(3500);
    answer(429, {}, { 'retry-after': '40' });
    const spare = await tokens.current(accountId, 'imap');
    expect(spare.value).toBe(value);
    const waits = (spare.renewAt?.getTime() ?? 0) - Date.now();
    expect(waits).toBeGreaterThan(35_000);
    await tokens.current(accountId, 'imap');
    expect(server.requests).toHaveLength(1);
    server.script = () => undefined;
    await pass(45);
    expect((await tokens.current(accountId, 'imap')).value).not.toBe(value);
  });

  it("is the provider's failure once the old token has expired", async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient() });
    await pass(3700);
    answer(503, 'busy');
    expect(await failed(newTokens().current(accountId, 'smtp'))).toMatchObject({
      code: 'provider_error',
      side: 'smtp',
    });
    await failed(newTokens().current(accountId, 'smtp'));
    expect(server.requests).toHaveLength(1);
  });

  it('is a refused login when the owner took the permission back', async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient() });
    await server.revoke(USER);
    await pass(3500);
    const error = await failed(newTokens().current(accountId, 'imap'));
    expect(error).toMatchObject({ code: 'invalid_credentials', detail: expect.stringMatching(/sign in again/) });
  });

  it("of the caller's own client is a failure of the account when its secret is wrong", async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient(), client_secret: server.clientSecret });
    await pass(3700);
    answer(401, {
      error: 'invalid_client',
      error_description: 'AADSTS7000222: The provided client secret keys are expired.',
    });
    const error = await failed(newTokens().current(accountId, 'imap'));
    expect(error).toMatchObject({
      ...{ name: 'MailError', code: 'provider_error', side: 'imap' },
      detail: expect.stringMatching(/secret of the app has expired/),
    });
  });

  it('loses no refresh token when the database fails after the response', async () => {
    await store({ refresh_token: await server.signIn(USER), ...ownClient() });
    await pass(3700);
    // ends the transaction that waits for the response
    server.script = async () => {
      await test.database.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()
           and state = 'idle in transaction' and pid <> pg_backend_pid()`,
      );
      return undefined;
    };
    const tokens = newTokens();
    const { value } = await tokens.current(accountId, 'imap');
    server.script = () => undefined;
    expect((await tokens.current(accountId, 'imap')).value).toBe(value);
    await pass(3700);
    expect((await tokens.current(accountId, 'imap')).value).not.toBe(value);
  });
});

describe('an app', () => {
  const newApp = (more: Partial<AppSecrets & AppSettings> = {}) => storeApp(test.database, secrets, server, more);
  const serviceAccount = () => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    return { serviceAccountEmail: 'mail@project.example.test', privateKey: pem };
  };
  const refuse = (error: string, status = 400) => {
    server.script = () => ({ status, body: { error } });
  };
  const issue = () => {
    server.script = () => ({ status: 200, body: { access_token: 'a', expires_in: 3600 } });
  };
  const isFailing = async ({ id }: StoredApp) =>
    (await getApp(test.database.db, secrets, id))?.failingSince instanceof Date;

  /** An app that fails and may be tested now, with two accounts whose tokens have expired. */
  async function failingApp(): Promise<{ app: StoredApp; ids: [string, string] }> {
    const app = await newApp();
    const ids: string[] = [];
    for (const user of [USER, 'bob@example.test']) {
      accountId = await storeAccount(test.database);
      await store({ refresh_token: await server.signIn(user), app_id: app.id });
      await pass(3700);
      ids.push(accountId);
    }
    await markAppFailing(test.database.db, app, 'the client secret is wrong');
    await test.database.db.execute(sql`update oauth_apps set probe_at = null where id = ${app.id}`);
    return { app, ids: ids as [string, string] };
  }

  it('is not failing by a connect that is refused', async () => {
    const app = await newApp();
    refuse('unauthorized_client');
    const error = await failed(newTokens().first({ refresh_token: 'of another client', app_id: app.id }, USER));
    expect(error).toMatchObject({ name: 'AppFailing', detail: expect.stringMatching(/may not use/) });
    const none = await failed(newTokens().first({ grant: 'service_account', app_id: app.id }, USER));
    expect(none).toMatchObject({ name: 'AppFailing', detail: expect.stringMatching(/has no service account/) });
    expect(await isFailing(app)).toBe(false);
  });

  it('is not failing by a domain that does not allow its service account', async () => {
    const app = await newApp(serviceAccount());
    issue();
    await store({ grant: 'service_account', app_id: app.id });
    await pass(3700);
    refuse('unauthorized_client', 401);
    const refused = { code: 'invalid_credentials', detail: expect.stringMatching(/administrator of the domain/) };
    const first = newTokens().first({ grant: 'service_account', app_id: app.id }, 'bob@elsewhere.test');
    expect(await failed(first)).toMatchObject(refused);
    expect(await failed(newTokens().current(accountId, 'imap'))).toMatchObject(refused);
    expect(await isFailing(app)).toBe(false);
  });

  describe('that serves several organizations', () => {
    const error_description = "AADSTS700016: Application 'c' was not found in the directory 'Contoso'.";
    const notFound = { status: 400, body: { error: 'unauthorized_client', error_description } };
    /** An app whose account is refused in its organization once the token is that old; `check`: the response without a user. */
    async function refusedAfter(seconds: number, check: ScriptedAnswer | undefined): Promise<StoredApp> {
      const app = await newApp({ tenant: 'common' });
      await store({ refresh_token: await server.signIn(USER), app_id: app.id });
      await pass(seconds);
      server.script = ({ form }) => (form.get('grant_type') === 'authorization_code' ? check : notFound);
      return app;
    }

    it('is not failing by one that has removed it', async () => {
      const app = await refusedAfter(3700, undefined);
      const error = await failed(newTokens().current(accountId, 'imap'));
      expect(error).toMatchObject({ code: 'invalid_credentials', detail: expect.stringMatching(/its administrator/) });
      expect(await isFailing(app)).toBe(false);
      expect(server.requests).toHaveLength(2);
    });

    it('is failing when its provider does not know it at all, and disconnects no account', async () => {
      const app = await refusedAfter(3500, notFound);
      expect((await newTokens().current(accountId, 'imap')).value).toMatch(/./);
      expect(await isFailing(app)).toBe(true);
      await pass(200);
      const error = await failed(newTokens().current(accountId, 'imap'));
      expect(error).toMatchObject({ name: 'AppFailing', detail: expect.stringMatching(/no app with this client id/) });
      server.script = () => undefined;
      await test.database.db.execute(sql`update oauth_apps set probe_at = null where id = ${app.id}`);
      await pass(30);
      await newTokens().current(accountId, 'imap');
      expect(await isFailing(app)).toBe(false);
    });

    it('disconnects no account when its provider may not have looked at the client', async () => {
      const malformed = 'AADSTS9002313: Invalid request. Request is malformed or invalid.';
      const body = { error: 'invalid_grant', error_description: malformed };
      const app = await refusedAfter(3700, { status: 400, body });
      expect(await failed(newTokens().current(accountId, 'imap'))).toMatchObject({ code: 'provider_error' });
      expect(await isFailing(app)).toBe(false);
    });

    it('is checked again when its provider does not say whether it knows it', async () => {
      const app = await refusedAfter(3700, { status: 429, headers: { 'retry-after': '40' }, body: {} });
      const tokens = newTokens();
      expect(await failed(tokens.current(accountId, 'imap'))).toMatchObject({ code: 'provider_error' });
      expect(await isFailing(app)).toBe(false);
      await pass(30);
      await failed(tokens.current(accountId, 'imap'));
      expect(server.requests).toHaveLength(2);
      server.script = () => undefined;
      await pass(15);
      expect((await tokens.current(accountId, 'imap')).value).toMatch(/./);
    });
  });

  it('that fails is tested by the accounts that use it, whatever is connected in the meantime', async () => {
    const { app, ids } = await failingApp();
    refuse('unauthorized_client');
    await failed(newTokens().first({ refresh_token: 'of another client', app_id: app.id }, USER));
    server.script = () => undefined;
    await newTokens().current(ids[0], 'imap');
    expect(await isFailing(app)).toBe(false);
  });

  it('that fails is tested by another account at once when an owner took the permission back', async () => {
    const { app, ids } = await failingApp();
    refuse('invalid_grant');
    expect(await failed(newTokens().current(ids[0], 'imap'))).toMatchObject({ code: 'invalid_credentials' });
    server.script = () => undefined;
    await newTokens().current(ids[1], 'imap');
    expect(await isFailing(app)).toBe(false);
  });

  it('that is corrected during a request is not failing by its refusal, and is tested at once', async () => {
    const { db } = test.database;
    const app = await newApp();
    await store({ refresh_token: await server.signIn(USER), app_id: app.id });
    await pass(3700);
    server.script = async () => {
      await changeApp(db, secrets, app.id, (before) => ({ ...before, name: 'Corrected' }));
      return { status: 401, body: { error: 'invalid_client' } };
    };
    expect(await failed(newTokens().current(accountId, 'imap'))).toMatchObject({ name: 'AppFailing' });
    expect(await isFailing(app)).toBe(false);
    expect(await takeProbe(db, app.id)).toBe(true);
  });
});
