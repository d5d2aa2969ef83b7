import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, it, jest } from '@jest/globals';
import type { WorkflowClient } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq, sql } from 'drizzle-orm';
import { withFailures } from '../../src/activities/failures.ts';
import { createRemoveActivities, dropOnRemoval } from '../../src/activities/remove.ts';
import type { ServerLogin } from '../../src/contract/account.ts';
import type { EventType } from '../../src/contract/events.ts';
import { getAccount, knownAccountIds, listAccounts } from '../../src/db/queries/accounts.ts';
import { createAuthLink, endAttempt, findAuthLink } from '../../src/db/access/auth-links.ts';
import { readDataKey, saveDataKey } from '../../src/db/coordination/data-keys.ts';
import { readKey, reserveKey, storeResponse } from '../../src/db/access/idempotency.ts';
import { createLeaseNotifications, inLease, LEASES_CHANNEL, takeLease } from '../../src/db/coordination/lease.ts';
import { listenTo } from '../../src/db/driver/listen.ts';
import { recordEvents } from '../../src/db/outbox.ts';
import {
  accounts,
  apiKeys,
  authLinks,
  deliveries,
  deliveryAttempts,
  drafts,
  emailContents,
  events,
  folders,
  locations,
  sends,
  trackingRecords,
} from '../../src/db/schema/index.ts';
import { createSessionPool } from '../../src/imap/pool.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { createOutbound } from '../../src/security/outbound.ts';
import { createSubmitter } from '../../src/smtp/submit.ts';
import { openStorage, type Storage } from '../../src/storage/storage.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { FakeSmtp } from '../helpers/fakes/fake-smtp.ts';
import { waitForCollected } from '../helpers/fakes/garbage.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { storedEvents } from '../helpers/product/stored-events.ts';
import { accountRunIds, ID_PREFIXES, WORKFLOWS } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { queueAsLogged } from '../helpers/assert/queue.ts';

let test: TestDatabase;
let dir: string;
let storage: Storage;
beforeAll(async () => {
  test = await testDatabase();
  dir = await mkdtemp(join(tmpdir(), 'remove-'));
  storage = openStorage(pathToFileURL(dir).href);
});
afterAll(async () => {
  await test.drop();
  await rm(dir, { recursive: true });
});

/** Runs of Temporal as the activities see them. */
let running: Set<string>;
/** those of them that Temporal shows by their account, with their types */
let shown: Map<string, string>;
/** those whose workflow tasks keep failing */
let stuck: Set<string>;
let calls: string[];
const notFound = () => Object.assign(new Error('x'), { name: 'WorkflowNotFoundError' });
const client = {
  options: { namespace: 'default' },
  workflowService: {
    listWorkflowExecutions: async () => ({
      executions: [...shown].map(([workflowId, name]) => ({ execution: { workflowId }, status: 1, type: { name } })),
    }),
  },
  getHandle: (id: string) => ({
    cancel: async () => {
      calls.push(`cancel ${id}`);
      if (!running.has(id)) throw notFound();
    },
    terminate: async () => {
      calls.push(`terminate ${id}`);
      running.delete(id);
    },
    describe: async () => {
      if (!running.has(id)) throw notFound();
      return { status: { name: 'RUNNING' }, raw: { pendingWorkflowTask: { attempt: stuck.has(id) ? 3 : 1 } } };
    },
    signal: async () => void calls.push(`signal ${id}`),
  }),
} as unknown as WorkflowClient;

let accountId: string;
beforeEach(async () => {
  accountId = await storeAccount(test.database, { name: 'Ann', userId: 'ann@example.test' });
  running = new Set();
  shown = new Map();
  stuck = new Set();
  calls = [];
});

const activities = () => createRemoveActivities({ db: test.database.db, storage, client, endMs: 300 });
const run = <T>(activity: (input: { accountId: string }) => Promise<T>): Promise<T> =>
  new MockActivityEnvironment().run(activity, { accountId });

it('makes the account unknown and deletes its credentials, with one event', async () => {
  const { db } = test.database;
  expect(await run(activities().beginRemoval)).toBe(true);
  expect(await run(activities().beginRemoval)).toBe(true);
  expect(await getAccount(db, accountId)).toBeUndefined();
  expect(await knownAccountIds(db, [accountId])).toEqual(new Set());
  const listed = await listAccounts(db, { search: accountId, offset: 0, limit: 20 });
  expect(listed).toEqual({ data: [], hasMore: false });
  const [row] = await db.select().from(accounts).where(eq(accounts.id, accountId));
  expect(row?.credentials).toHaveLength(0);
  expect(await storedEvents(test.database, accountId)).toEqual([
    {
      type: 'account.remove',
      objectId: accountId,
      data: { account: { id: accountId, user_id: 'ann@example.test', name: 'Ann', provider: 'imap' } },
    },
  ]);
});

it('finds nothing to remove in an account that does not exist', async () => {
  accountId = newId('account');
  expect(await run(activities().beginRemoval)).toBe(false);
});

it('takes the lease of the account from its watch', async () => {
  const { db } = test.database;
  const lease = await takeLease(db, accountId);
  if (!lease) throw new Error('no lease');
  await run(activities().beginRemoval);
  await expect(inLease(db, lease, async () => {})).rejects.toThrow(/another holder/);
  await expect(inLease(db, { accountId, watchEpoch: null }, async () => {})).rejects.toThrow(/another holder/);
  expect(await takeLease(db, accountId)).toBeUndefined();
});

it('closes the connections of the account in every process, and its password leaves memory', async () => {
  const logger = createLogger('silent', 'test');
  const smtp = await new FakeSmtp().listen();
  const imap = await new FakeImap().listen();
  const outbound = createOutbound({ allow: ['127.0.0.0/8'] });
  const [submitter, sessions] = [createSubmitter({ outbound }), createSessionPool({ outbound })];
  const leases = createLeaseNotifications();
  let isListening = false;
  const receive = (payload: string | undefined) => {
    isListening = true;
    leases.receive(payload);
  };
  const listener = listenTo(test.url, { [LEASES_CHANNEL]: receive }, logger);
  const replaceThreads = jest.fn();
  dropOnRemoval(leases, { pools: [sessions, submitter], parser: { replaceThreads } }, logger);
  try {
    const use = async () => {
      const login = (port: number): ServerLogin => ({
        host: '127.0.0.1',
        port,
        user: 'ann',
        password: 'canary-password',
        encryption: 'NONE',
      });
      const logins = { smtp: login(smtp.port), imap: login(imap.port) };
      const envelope = { from: 'ann@example.test', to: ['bob@example.test'] };
      const message = { envelope, source: Buffer.from('Subject: x\r\n\r\nx'), beforeData: async () => {} };
      await submitter.submit(accountId, logins.smtp, message);
      await sessions.use(accountId, logins.imap, async () => {});
      return [new WeakRef(logins.smtp), new WeakRef(logins.imap)];
    };
    const logins = await use();
    await waitFor(() => isListening);
    expect([smtp.sessions.size, imap.sessions.size]).toEqual([1, 1]);
    // a new watch is not a removal
    await takeLease(test.database.db, accountId);
    await run(activities().beginRemoval);
    await waitFor(() => smtp.sessions.size === 0 && imap.sessions.size === 0);
    for (const login of logins) await waitForCollected(login, 'the login of a removed account');
    await waitFor(() => replaceThreads.mock.calls.length === 1, { what: 'new threads that read mail' });
  } finally {
    await Promise.all([listener.close(), submitter.close(), sessions.close(), smtp.close(), imap.close()]);
  }
});

it('deletes rows and files of this account only, and keeps the log', async () => {
  const { db } = test.database;
  const other = await storeAccount(test.database);
  for (const id of [accountId, other]) {
    await storage.put(`${id}/raw/x.eml`, Buffer.from('mail'));
    await db.execute(sql`insert into locations (folder_id, uid, account_id, seen, identity, weak_identity)
      select ${newId('folder')}, n, ${id}, false, 'i', 'w' from generate_series(1, 4500) n`);
    await db
      .insert(folders)
      .values({ id: newId('folder'), accountId: id, path: 'INBOX', name: 'INBOX', createdAt: new Date() });
    await db
      .insert(emailContents)
      .values({ emailId: newId('email'), accountId: id, body: '', bodyPlain: '', headers: [], attachments: [] });
    const [emailId, at] = [newId('email'), new Date()];
    const of = { accountId: id, messageId: '<m@x>', createdAt: at };
    await db.insert(sends).values({ ...of, id: emailId, apiKeyId: 'pk', apiKeyName: 'key', updatedAt: at });
    await db.insert(drafts).values({ ...of, id: newId('draft') });
    await db
      .insert(trackingRecords)
      .values({ ...of, id: newId('tracking'), emailId, opens: true, links: ['https://shop.example/'] });
  }
  await run(activities().beginRemoval);
  await run(activities().deleteContents);
  await run(activities().deleteContents);
  await run(activities().finishRemoval);
  for (const table of [accounts, folders, locations, emailContents, sends, drafts, trackingRecords]) {
    const of = (id: string) => db.$count(table, eq('accountId' in table ? table.accountId : table.id, id));
    expect(await of(accountId)).toBe(0);
    expect(await of(other)).toBeGreaterThan(0);
  }
  expect(await readdir(dir)).not.toContain(accountId);
  expect(await storage.size(`${other}/raw/x.eml`)).toBe(4);
  expect(await db.$count(events, eq(events.accountId, accountId))).toBe(1);
});

const CANARY = 'canary-of-the-mail';

/** An event with one delivery in that state, whose attempts were answered with what was sent. */
async function storeDelivered(id: string, type: EventType, status: 'pending' | 'delivered'): Promise<void> {
  const { db } = test.database;
  const [eventId, deliveryId, createdAt] = [newId('event'), newId('delivery'), new Date()];
  await db.transaction(async (tx) => {
    const data = { email: { id: eventId, subject: CANARY } };
    await recordEvents(tx, id, [{ type, objectId: eventId, data, createdAt }]);
  });
  const [event] = await db.select().from(events).where(eq(events.objectId, eventId));
  const of = { eventId: event?.id ?? '', endpointId: 'we_1', endpointUrl: 'https://hook.test', objectId: eventId };
  const answer = { httpStatus: 500, responseBody: CANARY, error: 'answered 500', errorKind: 'status' };
  await db
    .insert(deliveries)
    .values({ ...of, ...answer, id: deliveryId, accountId: id, eventType: type, status, createdAt });
  await db.insert(deliveryAttempts).values({ ...answer, deliveryId, number: 1, at: createdAt, durationMs: 1 });
  await queueAsLogged(test.database);
}

const eraseLog = (skipPending: boolean) =>
  new MockActivityEnvironment().run(activities().eraseLog, { accountId, skipPending });

/** Every value of every table as text, including sealed ones. */
async function dump(): Promise<string> {
  const { rows: tables } = await test.database.pool.query<{ name: string }>(
    `select quote_ident(table_name) as name from information_schema.tables where table_schema = 'public'`,
  );
  const texts: string[] = [];
  for (const { name } of tables) {
    const { rows } = await test.database.pool.query<{ row: string }>(`select t::text as row from ${name} t`);
    texts.push(...rows.map(({ row }) => `${name}: ${row}`));
  }
  return texts.join('\n');
}

it('erases the content of the log, except events with pending deliveries until these have ended', async () => {
  const { db } = test.database;
  await storeDelivered(accountId, 'email.new', 'delivered');
  await storeDelivered(accountId, 'email.new', 'pending');
  const other = await storeAccount(test.database);
  await storeDelivered(other, 'email.new', 'delivered');
  await run(activities().beginRemoval);
  expect(await eraseLog(false)).toBe(false);
  const left = async () =>
    (await db.select().from(events).where(eq(events.accountId, accountId)).orderBy(events.sequence)).map(
      ({ type, data }) => [type, data.includes(CANARY)],
    );
  expect(await left()).toEqual([
    ['email.new', false],
    ['email.new', true],
    ['account.remove', false],
  ]);
  expect(await eraseLog(true)).toBe(true);
  expect((await left()).every(([, hasContent]) => !hasContent)).toBe(true);
  const [log, attempts] = [
    await db.select().from(deliveries).where(eq(deliveries.accountId, accountId)).orderBy(deliveries.sequence),
    await db.select().from(deliveryAttempts),
  ];
  expect(log.map(({ status, httpStatus, responseBody }) => [status, httpStatus, responseBody])).toEqual([
    ['delivered', 500, null],
    ['skipped', 500, null],
  ]);
  expect(attempts.filter(({ responseBody }) => responseBody === CANARY)).toHaveLength(1);
  const rest = (await dump()).split('\n').filter((row) => row.includes(CANARY));
  expect(rest.every((row) => row.includes(other) || row.startsWith('delivery_attempts'))).toBe(true);
});

it('erases whose account it was, also from its last event once that is delivered', async () => {
  await run(activities().beginRemoval);
  expect(await eraseLog(false)).toBe(true);
  const text = (await dump()).split('\n').filter((row) => row.includes(accountId));
  expect(text.length).toBeGreaterThan(1);
  expect(text.filter((row) => row.includes('ann@example.test') || row.includes('Ann'))).toEqual([]);
  expect(await storedEvents(test.database, accountId)).toEqual([
    {
      type: 'account.remove',
      objectId: accountId,
      data: { account: { id: accountId, user_id: '', name: '', provider: 'imap' } },
    },
  ]);
});

it('erases whose account it was after an hour, though its last event is pending, which is delivered without it', async () => {
  await run(activities().beginRemoval);
  const { db } = test.database;
  const [event] = await db.select().from(events).where(eq(events.accountId, accountId));
  await db.insert(deliveries).values({
    ...{ id: newId('delivery'), accountId, eventId: event?.id ?? '', eventType: 'account.remove', objectId: accountId },
    ...{ endpointId: 'we_1', endpointUrl: 'https://hook.test', status: 'pending', createdAt: new Date() },
  });
  await queueAsLogged(test.database);
  const named = async () =>
    (await dump()).split('\n').some((row) => row.includes(accountId) && row.includes('ann@example.test'));
  expect([await eraseLog(false), await named()]).toEqual([false, true]);
  expect([await eraseLog(true), await named()]).toEqual([false, false]);
  await db.update(deliveries).set({ status: 'failed' }).where(eq(deliveries.accountId, accountId));
  expect(await eraseLog(true)).toBe(true);
});

it('deletes responses to idempotent calls and the key of stored mail', async () => {
  const { db } = test.database;
  const key = { apiKeyId: 'pk_1', key: `call of ${accountId}` };
  await reserveKey(db, key, Buffer.from('x'));
  await storeResponse(db, key, { status: 200, sealedBody: Buffer.from('sealed'), accountId });
  await saveDataKey(db, accountId, Buffer.from('sealed key'));
  await run(activities().beginRemoval);
  expect(await readDataKey(db, accountId)).toBeUndefined();
  expect(await saveDataKey(db, accountId, Buffer.from('another'))).toBeUndefined();
  await run(activities().deleteContents);
  expect(await readKey(db, key)).toBeUndefined();
});

it('deletes the links that connected the account, or are to connect it again', async () => {
  const { db } = test.database;
  const apiKeyId = newId('apiKey');
  await db.insert(apiKeys).values({
    id: apiKeyId,
    name: 'k',
    prefix: 'p',
    digest: Buffer.from(apiKeyId.padEnd(32).slice(-32)),
    issuedAt: new Date(),
  });
  const link = (names: string | null) =>
    createAuthLink(db, {
      redirectUrl: `https://app.test/${CANARY}`,
      state: CANARY,
      name: CANARY,
      accountId: names,
      config: {},
      brand: { name: CANARY },
      apiKeyId,
      expiresAt: new Date(Date.now() + 60_000),
    });
  const other = await storeAccount(test.database);
  const [again, first, late, kept, unused] = await Promise.all([
    link(accountId),
    link(null),
    link(null),
    link(other),
    link(null),
  ]);
  await endAttempt(db, first.id, accountId);
  await run(activities().beginRemoval);
  await run(activities().deleteContents);
  // a login that had connected the account says so only now
  await endAttempt(db, late.id, accountId);
  expect(await eraseLog(true)).toBe(true);
  expect(await findAuthLink(db, again.token)).toBeUndefined();
  const left = await db.select().from(authLinks);
  expect(left.map(({ id }) => id).sort()).toEqual([kept.id, unused.id].sort());
});

it('keeps the row of an account that is not being removed', async () => {
  await run(activities().finishRemoval);
  expect(await getAccount(test.database.db, accountId)).toMatchObject({ id: accountId });
});

it.each(['stopRuns', 'awaitRuns', 'deleteContents', 'eraseLog', 'deleteRuns'] as const)(
  'does not remove an account that a restore of the database brought back: %s',
  async (step) => {
    const { db } = test.database;
    await storage.put(`${accountId}/raw/x.eml`, Buffer.from('mail'));
    await db
      .insert(folders)
      .values({ id: newId('folder'), accountId, path: 'INBOX', name: 'INBOX', createdAt: new Date() });
    await storeDelivered(accountId, 'email.new', 'delivered');
    for (const id of [...accountRunIds(accountId), `send/${newId('email')}`]) {
      running.add(id);
      shown.set(id, WORKFLOWS.sendEmail);
    }
    const failing = new MockActivityEnvironment().run(withFailures(activities())[step], {
      accountId,
      skipPending: true,
      isErased: true,
    });
    await expect(failing).rejects.toMatchObject({ nonRetryable: true, message: 'already_exists AccountRestored' });
    expect(calls).toEqual([]);
    expect(await storage.size(`${accountId}/raw/x.eml`)).toBe(4);
    expect(await db.$count(folders, eq(folders.accountId, accountId))).toBe(1);
    const [event] = await db.select().from(events).where(eq(events.accountId, accountId));
    expect(event?.data).toContain(CANARY);
    // an account that is gone has nothing to lose
    accountId = newId('account');
    await new MockActivityEnvironment().run(activities()[step], { accountId, skipPending: true });
  },
);

it('cancels the runs of the account, whether they exist or not', async () => {
  await run(activities().beginRemoval);
  running.add(`account/${accountId}`);
  await run(activities().stopRuns);
  expect(calls.toSorted()).toEqual(
    accountRunIds(accountId)
      .map((id) => `cancel ${id}`)
      .toSorted(),
  );
});

const IDS_OF_ACCOUNT = ['account', 'initial-sync', 'verify', 'reparse'];

it.each(Object.values(WORKFLOWS).filter((type) => type !== 'housekeeping' && type !== 'replay'))(
  'ends a run of %s with the account, but for the removal and what is still to be delivered',
  async (type) => {
    const prefix = ID_PREFIXES[type]?.replace('/', '') ?? '';
    const isNamedByAccount = IDS_OF_ACCOUNT.includes(prefix);
    const id = `${prefix}/${isNamedByAccount ? accountId : newId('email')}`;
    running.add(id);
    // Temporal may not show it yet
    if (!isNamedByAccount) shown.set(id, type);
    await run(activities().beginRemoval);
    await run(activities().stopRuns);
    expect(calls.includes(`cancel ${id}`)).toBe(!['removeAccount', 'deliverWebhooks'].includes(type));
  },
);

it('waits for the runs, and terminates those that do not end', async () => {
  await run(activities().beginRemoval);
  await run(activities().awaitRuns);
  expect(calls).toEqual([]);
  running.add(`account/${accountId}`);
  await run(activities().awaitRuns);
  expect(calls).toEqual([`terminate account/${accountId}`]);
});

it('ends deliveries that wait once nothing is left to deliver, and terminates those that no worker can continue', async () => {
  await run(activities().beginRemoval);
  for (const id of ['deliver/waits', 'deliver/stuck']) {
    running.add(id);
    shown.set(id, WORKFLOWS.deliverWebhooks);
  }
  stuck.add('deliver/stuck');
  const deleteRuns = (isErased: boolean) =>
    new MockActivityEnvironment().run(activities().deleteRuns, { accountId, isErased });
  expect([await deleteRuns(false), calls]).toEqual([false, []]);
  expect([await deleteRuns(true), calls]).toEqual([false, ['signal deliver/waits', 'terminate deliver/stuck']]);
});
