import { tmpdir } from 'node:os';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq } from 'drizzle-orm';
import { accounts } from '../../src/db/schema/index.ts';
import { createLoginTurns } from '../../src/activities/login-turns.ts';
import { createMailboxActivities } from '../../src/activities/mailbox.ts';
import { createRunningWatches } from '../../src/mailbox/running-watches.ts';
import { createUndelivered } from '../../src/mailbox/ingest/undelivered.ts';
import { changeAccount, insertAccount } from '../../src/db/queries/accounts.ts';
import { beginImport, createImport } from '../../src/db/coordination/import-state.ts';
import { createLeaseNotifications } from '../../src/db/coordination/lease.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import type { FolderChoice } from '../../src/contract/mailbox-config.ts';
import { sealCredentials } from '../../src/mailbox/settings.ts';
import { loadFolders } from '../../src/mailbox/store/folders.ts';
import { newId } from '../../src/new-id.ts';
import { createOutbound } from '../../src/security/outbound.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { testTokens } from '../helpers/product/mail-session.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';
import { waitFor } from '../helpers/assert/wait.ts';

let ground: SyncGround;
beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());

let server: FakeImap;
let accountId: string;
beforeEach(async () => {
  server = await new FakeImap().listen();
  accountId = newId('account');
  const side = { host: '127.0.0.1', port: server.port, user: 'ann', encryption: 'NONE' } as const;
  const credentials = sealCredentials(secrets, accountId, { imapPassword: 'secret', smtpPassword: 'secret' });
  await ground.database.database.db.transaction((tx) =>
    insertAccount(tx, {
      id: accountId,
      userId: 'ann@example.test',
      name: 'Ann',
      mailboxKey: accountId,
      imap: side,
      smtp: side,
      credentials,
      initialSyncDays: null,
      at: new Date(),
    }),
  );
});
afterEach(() => server.close());

const secrets = createSecrets({ current: Buffer.alloc(32, 7) });
const leases = createLeaseNotifications();
const watches = createRunningWatches();

/** what made the account `disconnected` */
const refusals: string[] = [];

function activities(signalConnected: () => Promise<void> = async () => {}) {
  return createMailboxActivities({
    db: ground.database.database.db,
    storage: ground.storage,
    tempDir: tmpdir(),
    parser: ground.parser,
    logger: createLogger('silent', 'test'),
    tokens: testTokens({ db: ground.database.database.db, secrets }),
    secrets,
    outbound: createOutbound({ allow: ['127.0.0.0/8'] }),
    undelivered: createUndelivered(createLogger('silent', 'test')),
    sync: { pollMs: 60_000, loginCheckMs: 100 },
    logins: createLoginTurns({
      db: ground.database.database.db,
      logger: createLogger('silent', 'test'),
      perMinute: 6_000,
    }),
    leases,
    signalConnected,
    markDisconnected: async (_, detail) => void refusals.push(detail),
    markRunning: async () => {},
    heartbeatMs: 20,
    watches,
  });
}

/** Runs the activity; counts its heartbeats. */
function watch(signalConnected: () => Promise<void>, heartbeatDetails?: object) {
  const heartbeats: { count: number; last?: unknown } = { count: 0 };
  const { watchMailbox } = activities(signalConnected);
  const env = new MockActivityEnvironment({ heartbeatDetails });
  env.on('heartbeat', (details: unknown) => {
    heartbeats.count += 1;
    heartbeats.last = details;
  });
  const ended = env.run(watchMailbox, { accountId });
  ended.catch(() => {});
  return { heartbeats, ended };
}

const isLogin = ({ name }: { name: string }) => ['LOGIN', 'AUTHENTICATE'].includes(name.toUpperCase());

describe('watching a mailbox', () => {
  it('sends heartbeats until its last part has ended, and reports the failure of the first', async () => {
    let release = () => {};
    const isConnected = new Promise<void>((resolve) => (release = resolve));
    let connects = 0;
    let refused = 0;
    server.script.command = (command, session) => {
      if (connects === 0 || !isLogin(command)) return false;
      refused += 1;
      session.done(command, 'NO [AUTHENTICATIONFAILED] no');
      return true;
    };
    // the watching part is held up while the login of another part is refused
    const { heartbeats, ended } = watch(() => {
      connects += 1;
      return isConnected;
    });
    await waitFor(() => refused > 0);
    await waitFor(() => server.sessions.size === 0);
    const before = heartbeats.count;
    await waitFor(() => heartbeats.count > before + 5, { timeoutMs: 5_000 });
    release();
    await expect(ended).rejects.toMatchObject({ type: 'invalid_credentials' });
    const { db } = ground.database.database;
    const [row] = await db.select({ failure: accounts.watchFailure }).from(accounts).where(eq(accounts.id, accountId));
    expect(row?.failure).toBe('the IMAP server refused the login: no');
  });

  it('connects to no mailbox whose account has `watch` false, so that its workflow loads it again', async () => {
    const { db } = ground.database.database;
    await db.update(accounts).set({ watch: false }).where(eq(accounts.id, accountId));
    const { ended } = watch(async () => {});
    await expect(ended).rejects.toMatchObject({ type: 'lease_lost' });
    expect(server.log).toEqual([]);
  });

  it('that ends while it connects has not failed', async () => {
    server.script.command = isLogin;
    const { ended } = watch(async () => {});
    await waitFor(() => server.log.some(isLogin));
    watches.end(1);
    await ended;
    const { db } = ground.database.database;
    const [row] = await db.select({ failure: accounts.watchFailure }).from(accounts).where(eq(accounts.id, accountId));
    expect(row?.failure).toBe('');
  });

  it('reports a connected mailbox once, though an attempt follows the loss of its worker', async () => {
    let reports = 0;
    const report = async () => void (reports += 1);
    const first = watch(report);
    await waitFor(() => reports === 1);
    await waitFor(() => first.heartbeats.last !== undefined);
    watches.end(1);
    await first.ended;
    const second = watch(report, first.heartbeats.last as object);
    const { db } = ground.database.database;
    await db.update(accounts).set({ lastSyncedAt: null }).where(eq(accounts.id, accountId));
    await waitFor(async () => (await db.select().from(accounts).where(eq(accounts.id, accountId)))[0]?.lastSyncedAt);
    await waitFor(() => second.heartbeats.count > 2);
    watches.end(1);
    await second.ended;
    expect(second.heartbeats.last).toEqual(first.heartbeats.last);
    expect(reports).toBe(1);
  });

  it('ends without a failure when other workers watch too few mailboxes, and is counted until then', async () => {
    let connects = 0;
    const { ended } = watch(async () => {
      connects += 1;
    });
    await waitFor(() => connects === 1);
    expect(watches.count()).toBe(1);
    watches.end(1);
    await ended;
    expect(watches.count()).toBe(0);
    await waitFor(() => server.sessions.size === 0);
  });

  it('immediately closes every connection, also one being opened, when another worker takes the mailbox', async () => {
    let isConnected = false;
    let hanging = 0;
    server.script.command = (command) => {
      if (!isConnected || !isLogin(command)) return false;
      hanging += 1;
      return true;
    };
    const { ended } = watch(async () => {
      isConnected = true;
    });
    await waitFor(() => hanging > 0);
    leases.receive(`${accountId} 1000`);
    // a login may take 20 s
    await waitFor(() => server.sessions.size === 0, { timeoutMs: 5_000 });
    await ended;
  });
});

describe('importing older mail', () => {
  it('makes an account without a watch `disconnected` when its login is refused twice', async () => {
    const { db } = ground.database.database;
    await changeAccount(db, accountId, { watch: false });
    const id = newId('import');
    await createImport(db, { id, accountId, since: null, until: null, folders: null });
    await beginImport(db, { id, accountId });
    server.script.command = (command, session) => {
      if (!isLogin(command)) return false;
      session.done(command, 'NO [AUTHENTICATIONFAILED] no');
      return true;
    };
    refusals.length = 0;
    const ended = new MockActivityEnvironment().run(activities().importOlderMail, { id });
    await expect(ended).rejects.toMatchObject({ type: 'invalid_credentials' });
    expect(server.log.filter(isLogin)).toHaveLength(2);
    expect(refusals).toEqual(['the IMAP server refused the login: no']);
  });
});

describe('a new choice of folders', () => {
  /** The stored folders after a sync with this choice: the id of each path. */
  async function sync(folderChoice: FolderChoice): Promise<Record<string, string>> {
    const { db } = ground.database.database;
    await changeAccount(db, accountId, { folderChoice });
    await new MockActivityEnvironment().run(activities().syncStore, { accountId });
    return Object.fromEntries((await loadFolders(db, accountId)).map(({ path, id }) => [path, id]));
  }

  it('keeps a folder that it includes by the role of a folder above it, which was not stored', async () => {
    server.createFolder('Archive', ['\\Archive']);
    server.createFolder('Archive/2024');
    const before = await sync({ include: ['INBOX', 'Archive/2024'] });
    expect(Object.keys(before).sort()).toEqual(['Archive/2024', 'INBOX']);
    expect(await sync({ include: ['INBOX', 'ARCHIVE'] })).toEqual({ ...before, Archive: expect.any(String) });
  });

  it('keeps a folder that another program has renamed to what it includes', async () => {
    server.createFolder('Old');
    const before = await sync({ exclude: ['SPAM'] });
    server.renameFolder('Old', 'Work');
    expect(await sync({ include: ['INBOX', 'Work'] })).toEqual({ INBOX: before.INBOX, Work: before.Old });
    expect(await sync({ include: ['INBOX'] })).toEqual({ INBOX: before.INBOX });
  });
});
