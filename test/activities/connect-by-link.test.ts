import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { type ConnectDeps, createConnectActivities } from '../../src/activities/connect.ts';
import { toFailure } from '../../src/activities/failures.ts';
import type { ConnectIntent } from '../../src/contract/account.ts';
import { intentLocation, saveIntent } from '../../src/db/access/connect-intents.ts';
import { accounts, imports } from '../../src/db/schema/index.ts';
import type { DiscoverSources } from '../../src/discovery/discover.ts';
import { newId } from '../../src/new-id.ts';
import { createOutbound } from '../../src/security/outbound.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { FakeSmtp } from '../helpers/fakes/fake-smtp.ts';
import { testTokens } from '../helpers/product/mail-session.ts';
import { addUser, type MailUser, setPassword } from '../helpers/product/mail-user.ts';
import { freePort } from '../helpers/servers/free-port.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';

/** A link's holder, and anyone else who connects a mailbox without owning it. */

type Intent = Omit<ConnectIntent, 'provider'>;

const host = '127.0.0.1';
const secrets = createSecrets({ current: randomBytes(32) });
const nothing: DiscoverSources = { srv: async () => [], mx: async () => [], document: async () => undefined };
let test: TestDatabase;
let owner: MailUser;
/** the attacker's servers, on the host of the owner's: they accept every login */
let imap: FakeImap;
let smtp: FakeSmtp;

beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(async () => {
  owner = await addUser();
  imap = new FakeImap();
  smtp = new FakeSmtp();
  await Promise.all([imap.listen(), smtp.listen()]);
});
afterEach(() => Promise.all([imap.close(), smtp.close()]));

async function connect(intent: Intent, more: Partial<ConnectDeps> = {}): Promise<string> {
  const { verifyMailbox } = createConnectActivities({
    db: test.database.db,
    secrets,
    tokens: testTokens({ db: test.database.db, secrets }),
    outbound: createOutbound({ allow: ['127.0.0.0/8'] }),
    allowInsecureMail: 'loopback',
    startAccount: async () => {},
    sources: nothing,
    loginTimeoutMs: 5_000,
    ...more,
  });
  const intentId = newId('intent');
  const sealed = secrets.seal(intentLocation(intentId), JSON.stringify({ provider: 'imap', ...intent }));
  await saveIntent(test.database.db, intentId, sealed, new Date());
  return (await verifyMailbox({ intentId })).accountId;
}

async function failureOf(intent: Intent) {
  const failure = await connect(intent).then(
    () => undefined,
    (error: unknown) => toFailure(error) as Error & { type: string; details: { detail: string }[] },
  );
  return { code: failure?.type, detail: failure?.details[0]?.detail ?? '' };
}

async function rowOf(accountId: string) {
  const [row] = await test.database.db.select().from(accounts).where(eq(accounts.id, accountId));
  if (!row) throw new Error('no such account');
  return row;
}

const at = (port: number) => ({ host, port, encryption: 'none' });
const whole = (of: MailUser) => ({
  user: of.user,
  password: of.password,
  imap: at(of.imapPort),
  smtp: at(of.submissionPort),
});
const hostile = (user: string) => ({ user, password: 'anything', imap: at(imap.port), smtp: at(smtp.port) });
const seen = () => JSON.stringify([imap.log, smtp.log]);

describe('the holder of a link', () => {
  it('cannot connect by a grant, which may open any mailbox of an app', async () => {
    const credentials = {
      ...whole(owner),
      smtp: at(smtp.port),
      oauth2: { app_id: 'oap_1', grant: 'client_credentials' as const },
    };
    for (const each of [credentials, { ...credentials, password: undefined }] as Intent['credentials'][]) {
      expect((await failureOf({ credentials: each, by_link: true })).code).toBe('invalid_parameters');
    }
    expect(seen()).toBe('[[],[]]');
  });

  it('connects a mailbox with what the link says of it, and changes nothing else when it reconnects', async () => {
    const intent = { credentials: whole(owner), by_link: true as const };
    const folders = { exclude: ['Archive'] };
    const config = { history: 'all' as const, watch: false, folders, retention_days: 90 };
    const accountId = await connect({ ...intent, config });
    const chosen = { folderChoice: folders, watch: false, retentionDays: 90 };
    expect(await rowOf(accountId)).toMatchObject(chosen);
    const begun = await test.database.db.select().from(imports).where(eq(imports.accountId, accountId));
    expect(begun).toMatchObject([{ since: null, until: null }]);
    expect(await connect({ ...intent, config: {} })).toBe(accountId);
    expect(await rowOf(accountId)).toMatchObject(chosen);
    await connect({ ...intent, config: { folders: null, watch: true, retention_days: null } });
    expect(await rowOf(accountId)).toMatchObject({ folderChoice: null, watch: true, retentionDays: null });
  });

  it('cannot point an account at other servers on its host', async () => {
    const accountId = await connect({ credentials: whole(owner) });
    const before = await rowOf(accountId);
    const { user, password } = owner;
    const others = [
      { credentials: hostile(user) },
      { credentials: hostile(user), account_id: accountId },
      { credentials: { ...hostile(user), smtp: at(owner.submissionPort) }, account_id: accountId },
      { credentials: { ...hostile(user.toUpperCase()), smtp: { ...at(owner.submissionPort), user, password } } },
    ];
    for (const intent of others) {
      expect((await failureOf({ ...intent, by_link: true })).code).toBe('invalid_credentials');
      expect(await rowOf(accountId)).toEqual(before);
    }
  });

  it('may change the port with the password of the mailbox, which the stored server accepts', async () => {
    const accountId = await connect({ credentials: whole(owner) });
    const moved = { ...whole(owner), imap: { ...at(owner.dovecot.imapPort), encryption: 'starttls' } };
    expect(await connect({ credentials: moved, by_link: true })).toBe(accountId);
    expect(await rowOf(accountId)).toMatchObject({ imapEncryption: 'STARTTLS' });
    await setPassword(owner, 'a-new-password');
    const imaps = { host, port: owner.dovecot.imapsPort, encryption: 'ssl' };
    const again = { ...whole(owner), imap: imaps };
    expect(await connect({ credentials: again, by_link: true, account_id: accountId })).toBe(accountId);
    expect(await rowOf(accountId)).toMatchObject({ imapEncryption: 'SSL', imapPort: imaps.port });
  });

  it('cannot change the port of a server that is gone, as the holder of a key can', async () => {
    const accountId = await connect({ credentials: whole(owner) });
    await test.database.db
      .update(accounts)
      .set({ imapPort: await freePort() })
      .where(eq(accounts.id, accountId));
    const refused = await failureOf({ credentials: whole(owner), by_link: true });
    expect(refused).toEqual({ code: 'provider_error', detail: expect.stringMatching(/must accept.*refused/) });
    expect(await connect({ credentials: whole(owner) })).toBe(accountId);
    expect(await rowOf(accountId)).toMatchObject({ imapPort: owner.imapPort });
  });

  it('gets no password of an owner who connects with a link later', async () => {
    await connect({ credentials: hostile(owner.user), by_link: true });
    const refused = await failureOf({ credentials: whole(owner), by_link: true });
    expect(refused.code).toBe('invalid_credentials');
    expect(seen()).not.toContain(owner.password);
  });

  it.each([{}, { smtp: at(1) }])('learns not that a mailbox is connected, with %j', async (more) => {
    const unknown = await addUser();
    await connect({ credentials: whole(owner) });
    const guess = (user: string) => ({ user, password: 'wrong', ...more });
    const account_id = await connect({ credentials: whole(await addUser()) });
    for (const intent of [{}, { account_id }]) {
      const of = (user: string) => failureOf({ ...intent, credentials: guess(user), by_link: true });
      const ofImap = (user: string) =>
        failureOf({ ...intent, credentials: { ...guess(user), imap: at(owner.imapPort) }, by_link: true });
      expect(await of(owner.user)).toEqual(await of(unknown.user));
      expect(await ofImap(owner.user)).toEqual(await ofImap(unknown.user));
    }
  });
});

describe('a password', () => {
  it('goes to no server that others named for its address', async () => {
    await connect({ credentials: { ...hostile(owner.user), imap: { ...at(imap.port), user: 'evil' } } });
    const { user, password } = owner;
    expect((await failureOf({ credentials: { user, password } })).detail).toContain('not known');
    const discovered: DiscoverSources = {
      ...nothing,
      srv: async (name) => {
        const port = name.startsWith('_imap.') ? owner.imapPort : owner.submissionPort;
        return /^_(imap|submission)\./.test(name) ? [{ name: 'localhost', port, priority: 0, weight: 0 }] : [];
      },
    };
    const outbound = createOutbound({ allow: ['127.0.0.0/8'], lookup: async () => [{ address: host }] });
    const accountId = await connect({ credentials: { user, password } }, { sources: discovered, outbound });
    expect(await rowOf(accountId)).toMatchObject({ imapHost: 'localhost', imapPort: owner.imapPort });
    expect(seen()).not.toContain(password);
    expect(seen()).not.toContain(Buffer.from(`\0${user}\0${password}`).toString('base64'));
  });

  it('goes to no SMTP server that was named with another IMAP server of the host', async () => {
    await connect({ credentials: hostile(owner.user) });
    const connectionsBefore = smtp.connections;
    const { user, password } = owner;
    const failure = await failureOf({ credentials: { user, password, imap: at(owner.imapPort) } });
    expect(failure.detail).toContain('credentials.smtp');
    expect(smtp.connections).toBe(connectionsBefore);
  });
});
