import { randomBytes } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { type ConnectDeps, createConnectActivities } from '../../src/activities/connect.ts';
import { toFailure } from '../../src/activities/failures.ts';
import type { AuthIntent } from '../../src/contract/account.ts';
import { getAccount } from '../../src/db/queries/accounts.ts';
import { deleteIntent, intentLocation, readIntent, saveIntent } from '../../src/db/access/connect-intents.ts';
import { accounts, folders } from '../../src/db/schema/index.ts';
import type { DiscoverSources } from '../../src/discovery/discover.ts';
import { openCredentials, sealCredentials } from '../../src/mailbox/settings.ts';
import { newId } from '../../src/new-id.ts';
import { createOutbound } from '../../src/security/outbound.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { mailServers } from '../helpers/servers/mail-servers.ts';
import { testTokens } from '../helpers/product/mail-session.ts';
import { addUser, type MailUser, setPassword } from '../helpers/product/mail-user.ts';
import { openMailbox } from '../helpers/product/mailbox.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { storedEvents } from '../helpers/product/stored-events.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';

type Credentials = AuthIntent['credentials'];

const host = '127.0.0.1';
const secrets = createSecrets({ current: randomBytes(32) });
const nothing: DiscoverSources = { srv: async () => [], mx: async () => [], document: async () => undefined };
let test: TestDatabase;
let user: MailUser;

beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(async () => {
  user = await addUser();
});

const deps = (): ConnectDeps => ({
  db: test.database.db,
  secrets,
  tokens: testTokens({ db: test.database.db, secrets }),
  outbound: createOutbound({ allow: ['127.0.0.0/8'] }),
  allowInsecureMail: 'loopback',
  startAccount: async () => {},
  sources: nothing,
  loginTimeoutMs: 5_000,
});

const imapOf = ({ dovecot }: MailUser) => ({ host, port: dovecot.imapPort, encryption: 'none' });
const smtpOf = ({ submissionPort }: MailUser) => ({ host, port: submissionPort, encryption: 'none' });
const whole = (of: MailUser): Credentials => ({
  user: of.user,
  password: of.password,
  imap: imapOf(of),
  smtp: smtpOf(of),
});

async function keep(intent: Omit<AuthIntent, 'provider'>): Promise<string> {
  const intentId = newId('intent');
  const sealed = secrets.seal(intentLocation(intentId), JSON.stringify({ provider: 'imap', ...intent }));
  await saveIntent(test.database.db, intentId, sealed, new Date());
  return intentId;
}

async function connect(intent: Omit<AuthIntent, 'provider'>, more: Partial<ConnectDeps> = {}): Promise<string> {
  const { verifyMailbox } = createConnectActivities({ ...deps(), ...more });
  return (await verifyMailbox({ intentId: await keep(intent) })).accountId;
}

/** The failure as Temporal gets it, with its code and detail. */
async function failureOf(intent: Omit<AuthIntent, 'provider'>, more: Partial<ConnectDeps> = {}) {
  const before = await test.database.db.$count(accounts);
  const failure = await connect(intent, more).then(
    () => undefined,
    (error: unknown) => toFailure(error) as Error & { type: string; details: { detail: string }[] },
  );
  expect(await test.database.db.$count(accounts)).toBe(before);
  return { code: failure?.type, detail: failure?.details[0]?.detail ?? '' };
}

const eventsOf = (accountId: string) => storedEvents(test.database, accountId);

async function rowOf(accountId: string) {
  const [row] = await test.database.db.select().from(accounts).where(eq(accounts.id, accountId));
  if (!row) throw new Error('no such account');
  return row;
}

async function disconnect(accountId: string): Promise<void> {
  await test.database.db.update(accounts).set({ status: 'disconnected' }).where(eq(accounts.id, accountId));
}

describe('a new mailbox', () => {
  it('is saved with its folders as the baseline and reported by account.add', async () => {
    const accountId = await connect({ credentials: whole(user), state: 'my state', name: 'Ann' });
    const account = await getAccount(test.database.db, accountId);
    expect(account).toMatchObject({
      user_id: user.user,
      name: 'Ann',
      status: 'running',
      status_detail: '',
      initial_sync: null,
      authserv_id: null,
      retention_days: null,
      connection_params: {
        mail: { imap_host: host, imap_port: user.dovecot.imapPort, imap_user: user.user, imap_encryption: 'NONE' },
      },
    });
    expect(await eventsOf(accountId)).toEqual([
      { type: 'account.add', objectId: accountId, data: { account, state: 'my state' } },
    ]);
    const saved = await test.database.db.select().from(folders).where(eq(folders.accountId, accountId));
    const inbox = saved.find(({ role }) => role === 'INBOX');
    expect(inbox).toMatchObject({ uidNext: 1, baselineUidNext: 1, totalCount: 0 });
    expect(saved.map(({ role }) => role)).toEqual(expect.arrayContaining(['SENT', 'DRAFTS', 'TRASH', 'SPAM']));
  });

  it('has sealed passwords, and no state when none was given', async () => {
    const accountId = await connect({ credentials: whole(user) });
    const { credentials, name } = await rowOf(accountId);
    expect(credentials.includes(user.password)).toBe(false);
    expect(openCredentials(secrets, accountId, credentials)).toEqual({
      imapPassword: user.password,
      smtpPassword: user.password,
    });
    expect(name).toBe(user.user);
    expect((await eventsOf(accountId))[0]?.data).not.toHaveProperty('state');
  });

  it('is saved once by repeated attempts, and the intent loses its credentials', async () => {
    const { verifyMailbox } = createConnectActivities(deps());
    const intentId = await keep({ credentials: whole(user) });
    const first = await verifyMailbox({ intentId });
    expect(await verifyMailbox({ intentId })).toEqual(first);
    expect(await eventsOf(first.accountId)).toHaveLength(1);
    expect(await readIntent(test.database.db, intentId)).toEqual({ accountId: first.accountId });
  });

  it('has its initial sync pending when that was requested', async () => {
    const config = { initial_sync_enable: true, initial_sync_days: 7 };
    const account = await getAccount(test.database.db, await connect({ credentials: whole(user), config }));
    expect(account?.initial_sync).toEqual({
      status: 'pending',
      started_at: null,
      completed_at: null,
      days: 7,
      imported: 0,
    });
    const other = await addUser();
    const off = { initial_sync_enable: false, initial_sync_days: 7 };
    const without = await getAccount(test.database.db, await connect({ credentials: whole(other), config: off }));
    expect(without?.initial_sync).toBeNull();
  });

  it('works over STARTTLS and TLS, with the certificate checked', async () => {
    const { postfix } = mailServers();
    const { dovecot } = user;
    const starttls = { imap: { host, port: dovecot.imapPort, encryption: 'STARTTLS' } };
    await connect({ credentials: { ...whole(user), ...starttls, smtp: { ...smtpOf(user), encryption: 'starttls' } } });
    const other = await addUser();
    const tls = { imap: { host, port: dovecot.imapsPort, encryption: 'tls' } };
    const smtp = { host: 'localhost', port: postfix.smtpsPort, encryption: 'ssl' };
    const outbound = createOutbound({ allow: ['127.0.0.0/8'], lookup: async () => [{ address: host }] });
    const accountId = await connect({ credentials: { ...whole(other), ...tls, smtp } }, { outbound });
    expect(await rowOf(accountId)).toMatchObject({
      imapEncryption: 'SSL',
      smtpEncryption: 'SSL',
      smtpHost: 'localhost',
    });
    const wrongName = { ...smtp, host: 'mail.example.org' };
    const failed = await failureOf({ credentials: { ...whole(await addUser()), smtp: wrongName } }, { outbound });
    expect(failed).toMatchObject({ code: 'provider_error', detail: expect.stringMatching(/SMTP.*TLS failed/) });
  });

  it('is one account when three calls connect it at the same time', async () => {
    // Dovecot makes the folders at their first STATUS; its processes can deadlock when several do
    const box = await openMailbox(user);
    await box.client.list({ statusQuery: { messages: true } });
    await box.close();
    const ids = await Promise.all([1, 2, 3].map(() => connect({ credentials: whole(user) })));
    expect(new Set(ids).size).toBe(1);
    const types = (await eventsOf(ids[0] ?? '')).map(({ type }) => type);
    expect(types).toEqual(['account.add', 'account.reconnect', 'account.reconnect']);
  });
});

describe('a server that was left out', () => {
  const found = (of: MailUser): DiscoverSources => ({
    ...nothing,
    srv: async (name) => {
      const port = name.startsWith('_imap.') ? of.dovecot.imapPort : of.submissionPort;
      return /^_(imap|submission)\./.test(name) ? [{ name: 'localhost', port, priority: 0, weight: 0 }] : [];
    },
  });
  const outbound = createOutbound({ allow: ['127.0.0.0/8'], lookup: async () => [{ address: host }] });

  it('is discovered from the address', async () => {
    const credentials = { user: user.user, password: user.password };
    const accountId = await connect({ credentials }, { sources: found(user), outbound });
    expect(await rowOf(accountId)).toMatchObject({
      imapHost: 'localhost',
      imapPort: user.dovecot.imapPort,
      imapEncryption: 'STARTTLS',
      smtpPort: user.submissionPort,
    });
  });

  it('is named in the error when discovery does not find it', async () => {
    const { user: name, password } = user;
    const both = await failureOf({ credentials: { user: name, password } });
    expect(both.code).toBe('invalid_parameters');
    expect(both.detail).toMatch(/credentials\.imap and credentials\.smtp/);
    const smtp = await failureOf({ credentials: { user: name, password, imap: imapOf(user) } });
    expect(smtp.detail).toMatch(/credentials\.smtp /);
    const imap = await failureOf({ credentials: { user: name, password, smtp: smtpOf(user) } });
    expect(imap.detail).toMatch(/credentials\.imap /);
  });

  it.each([
    ['user', { password: 'x' }],
    ['password', { user: 'a@example.test' }],
  ])('the %s', async (field, given) => {
    const failure = await failureOf({ credentials: { ...given, imap: imapOf(user), smtp: smtpOf(user) } });
    expect(failure).toEqual({ code: 'invalid_parameters', detail: expect.stringContaining(`credentials.${field}`) });
  });
});

describe('a login that fails', () => {
  it('is reported when it was refused, by both sides', async () => {
    const failure = await failureOf({ credentials: { ...whole(user), password: 'canary-wrong' } });
    expect(failure.code).toBe('invalid_credentials');
    expect(failure.detail).toMatch(/IMAP server refused the login.*SMTP server refused the login/);
    expect(failure.detail).not.toMatch(/canary/);
    expect(failure.detail).not.toContain(user.user);
  });

  it.each(['imap', 'smtp'] as const)('is reported when it was refused by the %s side only', async (side) => {
    const credentials = whole(user);
    const block = { ...credentials[side], password: 'wrong', host, port: credentials[side]?.port ?? 0 };
    const failure = await failureOf({ credentials: { ...credentials, [side]: block } });
    expect(failure.code).toBe('invalid_credentials');
    expect(failure.detail).toMatch(new RegExp(`^the ${side.toUpperCase()} server refused`));
  });

  it.each(['imap', 'smtp'] as const)('is reported when the %s server is unreachable', async (side) => {
    const failure = await failureOf({ credentials: { ...whole(user), [side]: { host, port: 1, encryption: 'none' } } });
    expect(failure.code).toBe('provider_error');
    expect(failure.detail).toMatch(new RegExp(`${side.toUpperCase()}.*connection refused`));
  });

  it('is reported when a server speaks no TLS', async () => {
    const credentials = { ...whole(user), smtp: { ...smtpOf(user), encryption: 'ssl' } };
    const failure = await failureOf({ credentials });
    expect(failure).toMatchObject({ code: 'provider_error', detail: expect.stringMatching(/SMTP.*TLS failed/) });
  });

  it('is reported when a server does not answer', async () => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => sockets.add(socket));
    const silent = { host, port: await listenOnFreePort(server, host), encryption: 'none' };
    const failure = await failureOf(
      { credentials: { ...whole(user), imap: silent, smtp: silent } },
      { loginTimeoutMs: 500 },
    );
    expect(failure.code).toBe('provider_error');
    expect(failure.detail).toMatch(/IMAP.*timed out.*SMTP.*timed out/);
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  it('is reported when the server lists no folders', async () => {
    const server = await new FakeImap().listen();
    server.folders.clear();
    try {
      const imap = { host, port: server.port, encryption: 'none' };
      const failure = await failureOf({ credentials: { ...whole(user), imap } });
      expect(failure).toEqual({ code: 'provider_error', detail: 'the IMAP server lists no folders' });
    } finally {
      await server.close();
    }
  });

  it('is reported when the server opens INBOX, and does not list it', async () => {
    const server = await new FakeImap({ folders: { Work: [] } }).listen();
    server.script.answer = (text) => text.replace(/^\* LIST .*"?INBOX"?\r\n/gm, '');
    try {
      const imap = { host, port: server.port, encryption: 'none' };
      const failure = await failureOf({ credentials: { ...whole(user), imap } });
      expect(failure).toEqual({
        code: 'provider_error',
        detail: 'the IMAP server does not list INBOX; retry later',
      });
    } finally {
      await server.close();
    }
  });

  it('is reported when the server is a private one', async () => {
    const failure = await failureOf(
      { credentials: whole(user) },
      {
        outbound: createOutbound({ allow: [] }),
        allowInsecureMail: 'always',
      },
    );
    expect(failure.code).toBe('provider_error');
    expect(failure.detail).toMatch(/IMAP.*not allowed.*SMTP.*not allowed/);
  });
});

describe('encryption none', () => {
  it('is refused unless the setting allows it', async () => {
    const failure = await failureOf({ credentials: whole(user) }, { allowInsecureMail: 'never' });
    expect(failure).toEqual({
      code: 'invalid_parameters',
      detail: expect.stringMatching(/credentials\.imap\.encryption.*ALLOW_INSECURE_MAIL/),
    });
  });

  it('is refused beyond loopback when only loopback is allowed', async () => {
    const outbound = createOutbound({ allow: [], lookup: async () => [{ address: '192.0.43.8' }] });
    const imap = { ...imapOf(user), host: 'mail.example.org' };
    const failure = await failureOf({ credentials: { ...whole(user), imap } }, { outbound });
    expect(failure).toMatchObject({ code: 'invalid_parameters', detail: expect.stringContaining('credentials.imap') });
  });
});

describe('a mailbox that is connected already', () => {
  it('is reconnected, with what was left out kept', async () => {
    const accountId = await connect({ credentials: whole(user) });
    await disconnect(accountId);
    await setPassword(user, 'a-new-password');
    const credentials = { user: user.user, password: user.password };
    expect(await connect({ credentials, account_id: accountId, state: 's' })).toBe(accountId);
    const account = await getAccount(test.database.db, accountId);
    expect(account?.status).toBe('running');
    const [, ...reported] = await eventsOf(accountId);
    expect(reported).toEqual([
      { type: 'account.reconnect', objectId: accountId, data: { account, state: 's' } },
      {
        type: 'account.status.running',
        objectId: accountId,
        data: { status: 'running', previous_status: 'disconnected', status_detail: '' },
      },
    ]);
    const { credentials: sealed, watchEpoch } = await rowOf(accountId);
    expect(openCredentials(secrets, accountId, sealed)).toEqual({
      imapPassword: 'a-new-password',
      smtpPassword: 'a-new-password',
    });
    expect(watchEpoch).toBe(1);
  });

  it('is found by its host and user, and by its login address alone', async () => {
    const accountId = await connect({ credentials: whole(user) });
    expect(await connect({ credentials: { ...whole(user), user: user.user.toUpperCase() } })).toBe(accountId);
    expect(await connect({ credentials: { user: user.user, password: user.password } })).toBe(accountId);
    expect((await eventsOf(accountId)).map(({ type }) => type)).toEqual([
      'account.add',
      'account.reconnect',
      'account.reconnect',
    ]);
    expect(await test.database.db.$count(folders, eq(folders.accountId, accountId))).toBeGreaterThan(3);
  });

  it('keeps everything when the new login fails', async () => {
    const accountId = await connect({ credentials: whole(user) });
    const before = await rowOf(accountId);
    const failure = await failureOf({ credentials: { password: 'wrong' }, account_id: accountId });
    expect(failure.code).toBe('invalid_credentials');
    expect(await rowOf(accountId)).toEqual(before);
    expect(await eventsOf(accountId)).toHaveLength(1);
  });

  it('gets its stored passwords sent to no other server', async () => {
    const accountId = await connect({ credentials: whole(user) });
    const before = await rowOf(accountId);
    const received: string[] = [];
    const sockets = new Set<Socket>();
    const spy = createServer((socket) => {
      sockets.add(socket);
      socket.on('data', (bytes) => received.push(bytes.toString('latin1'))).on('error', () => {});
      socket.write('220 ready ESMTP\r\n* OK IMAP4rev1\r\n');
    });
    const other = { host, port: await listenOnFreePort(spy, host), encryption: 'none' };
    const imap = { ...imapOf(user), user: user.user, password: 'x' };
    const attacks: [string, Omit<AuthIntent, 'provider'>][] = [
      ['smtp', { account_id: accountId, credentials: { smtp: other } }],
      ['imap', { account_id: accountId, credentials: { imap: other } }],
      ['imap', { account_id: accountId, credentials: { user: user.user, imap: other } }],
      ['smtp', { credentials: { user: user.user, smtp: other } }],
      ['smtp', { credentials: { imap, smtp: other } }],
    ];
    for (const [side, intent] of attacks) {
      const failure = await failureOf(intent, { loginTimeoutMs: 500 });
      expect(failure).toEqual({
        code: 'invalid_parameters',
        detail: expect.stringContaining(`credentials.${side}.password`),
      });
    }
    expect(received).toEqual([]);
    expect(await rowOf(accountId)).toEqual(before);
    for (const socket of sockets) socket.destroy();
    spy.close();
  });

  it('requires new passwords when the stored ones cannot be decrypted, and saves them', async () => {
    const accountId = await connect({ credentials: whole(user) });
    const otherKey = createSecrets({ current: randomBytes(32) });
    const { credentials } = await rowOf(accountId);
    const unreadable = sealCredentials(otherKey, accountId, { imapPassword: 'a', smtpPassword: 'b' });
    expect(unreadable.equals(credentials)).toBe(false);
    await test.database.db.update(accounts).set({ credentials: unreadable }).where(eq(accounts.id, accountId));
    const failure = await failureOf({ credentials: {}, account_id: accountId });
    expect(failure).toEqual({ code: 'invalid_parameters', detail: expect.stringContaining('credentials.password') });
    expect(await connect({ credentials: { password: user.password }, account_id: accountId })).toBe(accountId);
    const { credentials: sealed } = await rowOf(accountId);
    expect(openCredentials(secrets, accountId, sealed).smtpPassword).toBe(user.password);
  });

  it('can have its initial sync turned on later, and again after it failed', async () => {
    const { db } = test.database;
    const accountId = await connect({ credentials: whole(user) });
    const config = { initial_sync_enable: true };
    const again = async () => {
      await connect({ credentials: {}, account_id: accountId, config });
      return (await getAccount(db, accountId))?.initial_sync;
    };
    expect(await again()).toMatchObject({ status: 'pending', days: 30 });
    for (const [stands, becomes] of [
      ['failed', 'pending'],
      ['running', 'running'],
      ['completed', 'completed'],
    ]) {
      await db.update(accounts).set({ initialSyncStatus: stands }).where(eq(accounts.id, accountId));
      expect(await again()).toMatchObject({ status: becomes });
    }
  });

  it('is refused under the id of an unknown account', async () => {
    for (const account_id of [newId('account'), newId('email'), 'acc_x', '']) {
      expect((await failureOf({ credentials: whole(user), account_id })).code).toBe('not_found');
    }
  });

  it('is refused under the id of another account, and another mailbox under its own', async () => {
    const other = await addUser();
    const mine = await connect({ credentials: whole(user) });
    await connect({ credentials: whole(other) });
    expect((await failureOf({ credentials: whole(other), account_id: mine })).code).toBe('already_exists');
    expect((await failureOf({ credentials: { user: other.user, password: 'x' }, account_id: mine })).code).toBe(
      'already_exists',
    );
    const third = await addUser();
    expect((await failureOf({ credentials: whole(third), account_id: mine })).code).toBe('invalid_parameters');
    const moved = { ...whole(user), imap: { ...imapOf(user), host: 'localhost' } };
    expect((await failureOf({ credentials: moved, account_id: mine })).code).toBe('invalid_parameters');
  });
});

describe('a connect whose caller has already got its response', () => {
  it('saves nothing', async () => {
    const intentId = await keep({ credentials: whole(user) });
    await deleteIntent(test.database.db, intentId);
    const { verifyMailbox } = createConnectActivities(deps());
    await expect(verifyMailbox({ intentId })).rejects.toMatchObject({ nonRetryable: true });
  });

  it('saves nothing even when both logins have succeeded', async () => {
    let intentId = '';
    const late: DiscoverSources = {
      ...nothing,
      srv: async (name) => {
        await deleteIntent(test.database.db, intentId);
        const port = name.startsWith('_submission.') ? user.submissionPort : 0;
        return port ? [{ name: 'localhost', port, priority: 0, weight: 0 }] : [];
      },
    };
    const outbound = createOutbound({ allow: ['127.0.0.0/8'], lookup: async () => [{ address: host }] });
    const { verifyMailbox } = createConnectActivities({ ...deps(), sources: late, outbound });
    const { user: name, password } = user;
    intentId = await keep({ credentials: { user: name, password, imap: imapOf(user) } });
    await expect(verifyMailbox({ intentId })).rejects.toMatchObject({ nonRetryable: true });
    const rows = await test.database.db.select().from(accounts).where(eq(accounts.userId, user.user));
    expect(rows).toEqual([]);
  });
});
