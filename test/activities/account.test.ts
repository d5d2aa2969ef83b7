import type { WorkflowClient } from '@temporalio/client';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { createAccountActivities } from '../../src/activities/account.ts';
import { getAccount, markRemoved } from '../../src/db/queries/accounts.ts';
import { readIntent, saveIntent } from '../../src/db/access/connect-intents.ts';
import { accounts } from '../../src/db/schema/index.ts';
import { newId } from '../../src/new-id.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { storedEvents } from '../helpers/product/stored-events.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

/** Records the workflows that it is asked to start. */
const started: { type: string; options: Record<string, unknown> }[] = [];
const note = async (type: string, options: Record<string, unknown>) => {
  started.push({ type, options });
};
let running = 0;
const client = {
  start: note,
  signalWithStart: note,
  count: async () => ({ count: running }),
} as unknown as WorkflowClient;
const activities = () => createAccountActivities({ db: test.database.db, client, heartbeatTimeoutMs: 20_000 });
const eventsOf = (accountId: string) => storedEvents(test.database, accountId);

let accountId: string;
beforeEach(async () => {
  accountId = await storeAccount(test.database, { initialSyncDays: 7 });
  started.length = 0;
  running = 0;
});

async function remove(id: string): Promise<void> {
  await test.database.db.transaction((tx) => markRemoved(tx, id, new Date()));
}

describe('a change of status', () => {
  it('is committed with its event, once', async () => {
    const change = { accountId, status: 'errored', detail: 'timed out' } as const;
    const since = new Date('2024-05-06T07:08:09Z');
    await test.database.db.update(accounts).set({ lastSyncedAt: since }).where(eq(accounts.id, accountId));
    const detail = 'not in sync since 2024-05-06T07:08:09.000Z: timed out';
    expect(await activities().setAccountStatus(change)).toBe('errored');
    expect(await activities().setAccountStatus(change)).toBe('errored');
    expect(await getAccount(test.database.db, accountId)).toMatchObject({
      status: 'errored',
      status_detail: detail,
    });
    expect(await eventsOf(accountId)).toEqual([
      {
        type: 'account.status.errored',
        objectId: accountId,
        data: { status: 'errored', previous_status: 'running', status_detail: detail },
      },
    ]);
  });

  it('to disconnected stores only its reason', async () => {
    await activities().setAccountStatus({ accountId, status: 'disconnected', detail: 'refused' });
    expect(await getAccount(test.database.db, accountId)).toMatchObject({ status_detail: 'refused' });
  });

  it('is not made for a watch that was replaced', async () => {
    const { db } = test.database;
    await db.update(accounts).set({ watchEpoch: 5 }).where(eq(accounts.id, accountId));
    const late = { accountId, status: 'disconnected', detail: 'refused', watchEpoch: 4 } as const;
    expect(await activities().setAccountStatus(late)).toBe('running');
    expect(await eventsOf(accountId)).toEqual([]);
    expect(await activities().setAccountStatus({ ...late, watchEpoch: 5 })).toBe('disconnected');
  });

  it('is not made for a removed account', async () => {
    await remove(accountId);
    const change = { accountId, status: 'errored', detail: '' } as const;
    expect(await activities().setAccountStatus(change)).toBeNull();
    expect(await activities().loadAccount({ accountId })).toBeNull();
    expect(await activities().countImported({ accountId })).toBeNull();
    expect(await eventsOf(accountId)).toEqual([]);
  });
});

describe('the initial sync', () => {
  const typesOf = async () => (await eventsOf(accountId)).map(({ type }) => type);

  it('is reported when it starts and when it is complete, once each', async () => {
    const { setInitialSync } = activities();
    for (const to of ['running', 'running', 'completed', 'completed'] as const) {
      expect(await setInitialSync({ accountId, to })).toBe(true);
    }
    const reported = await eventsOf(accountId);
    expect(reported.map(({ type }) => type)).toEqual([
      'account.initial_sync.running',
      'account.initial_sync.completed',
    ]);
    const account = await getAccount(test.database.db, accountId);
    expect(reported[1]?.data).toEqual({ initial_sync: account?.initial_sync });
    expect(account?.initial_sync).toEqual({
      status: 'completed',
      started_at: expect.any(String),
      completed_at: expect.any(String),
      days: 7,
      imported: 0,
    });
    expect(reported[0]?.data).toMatchObject({ initial_sync: { status: 'running', completed_at: null } });
  });

  it('is reported when it failed', async () => {
    const { setInitialSync } = activities();
    await setInitialSync({ accountId, to: 'running' });
    expect(await setInitialSync({ accountId, to: 'failed' })).toBe(true);
    expect(await typesOf()).toEqual(['account.initial_sync.running', 'account.initial_sync.failed']);
    expect((await getAccount(test.database.db, accountId))?.initial_sync).toMatchObject({ completed_at: null });
  });

  it('does not start again after its end, nor when it was not requested', async () => {
    const { setInitialSync } = activities();
    await setInitialSync({ accountId, to: 'running' });
    await setInitialSync({ accountId, to: 'completed' });
    expect(await setInitialSync({ accountId, to: 'running' })).toBe(false);
    expect(await setInitialSync({ accountId, to: 'failed' })).toBe(false);
    expect(await typesOf()).toHaveLength(2);
    const off = await storeAccount(test.database);
    expect(await setInitialSync({ accountId: off, to: 'running' })).toBe(false);
    expect(await eventsOf(off)).toEqual([]);
  });
});

describe('starting workflows', () => {
  it('signals the workflow of the account, and starts a lost one', async () => {
    await activities().startAccount({ accountId });
    expect(started).toEqual([
      {
        type: 'account',
        options: expect.objectContaining({
          workflowId: `account/${accountId}`,
          taskQueue: 'commands',
          signal: 'reconnected',
          args: [
            {
              accountId,
              heartbeatTimeoutMs: 20_000,
              initial: { status: 'running', initialSync: 'pending', watch: true },
            },
          ],
        }),
      },
    ]);
  });

  it('starts the missing workflow of each account and of each removal', async () => {
    const many = await Promise.all(Array.from({ length: 60 }, () => storeAccount(test.database)));
    await remove(accountId);
    await activities().ensureAccounts();
    const ids = started.map(({ type, options }) => `${type} ${String(options['workflowId'])}`);
    expect(ids).toEqual(expect.arrayContaining(many.map((id) => `account account/${id}`)));
    expect(ids).toContain(`removeAccount remove/${accountId}`);
    expect(new Set(ids).size).toBe(ids.length);
    expect(started.every(({ options }) => options['workflowIdConflictPolicy'] === 'USE_EXISTING')).toBe(true);
  });

  it('asks for no account where all of their workflows run', async () => {
    await test.database.db.delete(accounts);
    const [one, other] = [await storeAccount(test.database), await storeAccount(test.database)];
    running = 2;
    await activities().ensureAccounts();
    expect(started).toEqual([]);
    running = 1;
    await activities().ensureAccounts();
    expect(started.map(({ options }) => options['workflowId']).sort()).toEqual(
      [one, other].map((id) => `account/${id}`).sort(),
    );
  });

  it('deletes expired intents of callers that gave up', async () => {
    const { db } = test.database;
    const [old, young] = [newId('intent'), newId('intent')];
    await saveIntent(db, old, Buffer.from('x'), new Date(Date.now() - 2 * 60 * 60 * 1000));
    await saveIntent(db, young, Buffer.from('x'), new Date());
    await activities().ensureAccounts();
    expect(await readIntent(db, old)).toBeUndefined();
    expect(await readIntent(db, young)).toEqual({ sealed: Buffer.from('x'), accountId: null });
  });
});
