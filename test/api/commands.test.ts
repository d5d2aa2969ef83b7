import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  CancelledFailure,
  Client,
  TimeoutFailure,
  type WorkflowClientInterceptor,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { eq } from 'drizzle-orm';
import type { DevicePoll } from '../../src/activities/device-sign-in.ts';
import { toFailure, withFailures } from '../../src/activities/failures.ts';
import { createRemoveActivities } from '../../src/activities/remove.ts';
import { announceWorker } from '../../src/db/coordination/workers.ts';
import { createFinishedRuns } from '../../src/db/coordination/finished-runs.ts';
import { execute } from '../../src/api/commands/run-workflow.ts';
import { createCommands } from '../../src/api/commands/index.ts';
import { CallOutage, workflowErrorToApiError } from '../../src/api/commands/run-errors.ts';
import type { Commands } from '../../src/api/deps.ts';
import type { AuthIntent } from '../../src/contract/account.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { getAccount } from '../../src/db/queries/accounts.ts';
import { deleteIntent, intentLocation, readIntent, linkIntent } from '../../src/db/access/connect-intents.ts';
import { accounts, connectIntents, events } from '../../src/db/schema/index.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { openStorage, type Storage } from '../../src/storage/storage.ts';
import { connectWorkflowId, deviceWorkflowId, removeWorkflowId } from '../../src/workflows/names.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { endRun } from '../helpers/assert/end-run.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { startTestWorkers, testClient, type TestWorkers } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';

const secrets = createSecrets({ current: randomBytes(32) });
const intent: AuthIntent = { provider: 'imap', credentials: { user: 'ann@example.test', password: 'canary-password' } };
let test: TestDatabase;
let workers: TestWorkers;
let commands: Commands;
let announcing: NodeJS.Timeout;

/** What the mail servers and the storage do, as each test wants it. */
let verify: (intentId: string) => Promise<string>;
let poll: () => Promise<DevicePoll>;
let wipe: () => Promise<void> = async () => {};
const startedAccounts: string[] = [];

const settle = (intentId: string, accountId: string) =>
  test.database.db.transaction((tx) => linkIntent(tx, intentId, accountId));

beforeAll(async () => {
  test = await testDatabase();
  const { db } = test.database;
  await announceWorker(db, 'test', 0);
  announcing = setInterval(() => void announceWorker(db, 'test', 0).catch(() => {}), 1_000);
  const storage = { deletePrefix: () => wipe() } as unknown as Storage;
  const late = { client: undefined as TestWorkers['client'] | undefined };
  workers = await startTestWorkers({
    ...withFailures({
      verifyMailbox: async ({ intentId }: { intentId: string }) => ({ accountId: await verify(intentId) }),
      pollDevice: () => poll(),
      startAccount: async ({ accountId }: { accountId: string }) => {
        startedAccounts.push(accountId);
      },
      deleteIntent: async ({ intentId }: { intentId: string }) => {
        await deleteIntent(db, intentId);
      },
    }),
    ...lazily(() => {
      if (!late.client) throw new Error('not ready');
      return createRemoveActivities({ db, storage, client: late.client.workflow, endMs: 100 });
    }),
  });
  late.client = workers.client;
  commands = within({ connectDeadlineMs: 10_000, removeDeadlineMs: 10_000 });
}, 60_000);
afterAll(async () => {
  clearInterval(announcing);
  await workers.stop();
  await test.drop();
});
afterEach(async () => {
  wipe = async () => {};
  expect(await test.database.db.$count(connectIntents)).toBe(0);
});

/** The activities need the client, which is there only once the workers are. */
function lazily(make: () => ReturnType<typeof createRemoveActivities>) {
  const names = [
    ...(['beginRemoval', 'stopRuns', 'awaitRuns', 'deleteContents'] as const),
    ...(['eraseLog', 'deleteRuns', 'finishRemoval'] as const),
  ];
  return Object.fromEntries(
    names.map((name) => [
      name,
      (input: { accountId: string; skipPending: boolean }): Promise<unknown> => make()[name](input),
    ]),
  );
}

const storage = openStorage('file:./.data/unused');

const within = (ms: Partial<{ connectDeadlineMs: number; removeDeadlineMs: number }>, client = workers.api) =>
  createCommands({
    client,
    db: test.database.db,
    secrets,
    storage,
    finished: createFinishedRuns(),
    retryDelivery: async () => {},
    attemptWaiting: async () => {},
    startBatch: async () => {},
    startReplay: async () => {},
    cancelReplay: async () => {},
    wakeImport: async () => {},
    ...ms,
  });

describe('connecting', () => {
  it('returns the account, and starts its workflow', async () => {
    const accountId = newId('account');
    verify = async (intentId) => {
      const saved = await readIntent(test.database.db, intentId);
      if (!saved || saved.accountId !== null) throw new Error('no intent');
      expect(JSON.parse(secrets.open(intentLocation(intentId), saved.sealed))).toEqual(intent);
      expect(saved.sealed.includes('canary')).toBe(false);
      await settle(intentId, accountId);
      return accountId;
    };
    expect(await commands.connectMailbox(intent)).toBe(accountId);
    expect(startedAccounts).toContain(accountId);
  });

  it.each([
    [new MailError('invalid_credentials', 'imap', 'refused'), 'invalid_credentials', 'refused'],
    [new MailError('provider_error', 'smtp', 'timed out'), 'provider_error', 'timed out'],
    [
      new ApiError('invalid_parameters', 'credentials.imap is missing'),
      'invalid_parameters',
      'credentials.imap is missing',
    ],
    [new ApiError('not_found', 'no account'), 'not_found', 'no account'],
    [new ApiError('already_exists', 'held'), 'already_exists', 'held'],
    [new TypeError('a bug'), 'unexpected_error', expect.not.stringContaining('bug')],
  ])('tells %s', async (error, code, detail) => {
    let tries = 0;
    verify = async () => {
      tries += 1;
      throw error;
    };
    await expect(commands.connectMailbox(intent)).rejects.toMatchObject({ name: 'ApiError', code, detail });
    expect(tries).toBe(1);
  });

  it('retries after a short outage of the storage', async () => {
    const accountId = newId('account');
    let tries = 0;
    verify = async (intentId) => {
      tries += 1;
      if (tries < 3) throw Object.assign(new Error('x'), { code: '57P01' });
      await settle(intentId, accountId);
      return accountId;
    };
    expect(await commands.connectMailbox(intent)).toBe(accountId);
  });

  it('gives up at the deadline, after which nothing is saved', async () => {
    let tried = '';
    let release = () => {};
    verify = async (intentId) => {
      tried = intentId;
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      return newId('account');
    };
    const answer = within({ connectDeadlineMs: 700 }).connectMailbox(intent);
    await expect(answer).rejects.toMatchObject({
      code: 'provider_error',
      detail: expect.stringMatching(/nothing was saved/),
    });
    expect(await settle(tried, newId('account'))).toBe(false);
    release();
    const handle = workers.client.workflow.getHandle(connectWorkflowId(tried));
    await waitFor(async () => (await handle.describe()).status.name !== 'RUNNING');
  });

  it('returns an account that was saved just before the deadline', async () => {
    const accountId = newId('account');
    let release = () => {};
    const answered = new Promise<void>((resolve) => {
      release = resolve;
    });
    let tried = '';
    verify = async (intentId) => {
      tried = intentId;
      await settle(intentId, accountId);
      await answered;
      return accountId;
    };
    expect(await within({ connectDeadlineMs: 3_000 }).connectMailbox(intent)).toBe(accountId);
    release();
    await workers.client.workflow.getHandle(connectWorkflowId(tried)).result();
  });

  /** A call whose first attempt never ends, and the run of it; later attempts save the account. */
  async function beginHeld(accountId: string) {
    let tried = '';
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    verify = async (intentId) => {
      if (tried === '') {
        tried = intentId;
        await held;
        throw new MailError('provider_error', 'imap', 'the attempt was given up');
      }
      await settle(intentId, accountId);
      return accountId;
    };
    const answer = commands.connectMailbox(intent);
    answer.catch(() => {});
    await waitFor(() => tried !== '');
    return { answer, release, handle: workers.client.workflow.getHandle(connectWorkflowId(tried)) };
  }

  it('says so when its run is terminated while it works', async () => {
    const { answer, release, handle } = await beginHeld(newId('account'));
    await endRun(workers.client, handle.workflowId, 'terminate');
    await expect(answer).rejects.toMatchObject({
      code: 'service_unavailable',
      detail: expect.stringMatching(/^the run of this call was terminated: /),
    });
    release();
  });

  it('waits for the run that a reset by an operator starts in its place', async () => {
    const accountId = newId('account');
    const { answer, release, handle } = await beginHeld(accountId);
    await endRun(workers.client, handle.workflowId, 'reset');
    expect(await answer).toBe(accountId);
    release();
  });

  it('reports that nothing was saved when no worker is available', async () => {
    const idle = await testClient();
    const answer = within({ connectDeadlineMs: 300 }, idle.api).connectMailbox(intent);
    await expect(answer).rejects.toMatchObject({
      code: 'service_unavailable',
      detail: 'no worker is available: nothing was saved',
    });
    await idle.close();
  });

  it('is refused within seconds when a worker is there, but too busy to take the run', async () => {
    const idle = await testClient();
    const began = performance.now();
    const call = { type: 'connectMailbox', workflowId: `untaken-${newId('change')}`, args: [], summary: 'x' };
    const answer = execute({ client: idle.api, hasWorker: async () => true }, { ...call, deadlineMs: 60_000 });
    await expect(answer).rejects.toMatchObject({ part: 'worker', begun: 'no' });
    expect(performance.now() - began).toBeLessThan(9_000);
    expect((await idle.client.workflow.getHandle(call.workflowId).describe()).status.name).toBe('TERMINATED');
    await idle.close();
  }, 20_000);
});

describe('waiting for an owner who signs in on another device', () => {
  it('has one run, whether it has ended or not when it is started again', async () => {
    const id = newId('deviceSignIn');
    poll = async () => ({ waitS: 1 });
    await commands.connectByDevice(id, 0);
    const run = workers.client.workflow.getHandle(deviceWorkflowId(id));
    const { runId } = await run.describe();
    await commands.connectByDevice(id, 0);
    poll = async () => ({ over: true });
    await run.result();
    await commands.connectByDevice(id, 0);
    expect((await run.describe()).runId).toBe(runId);
  });
});

describe('removing', () => {
  it('returns when everything is deleted, and finds nothing the second time', async () => {
    const accountId = await storeAccount(test.database);
    let wiped = false;
    wipe = async () => {
      wiped = true;
    };
    await commands.removeAccount(accountId);
    expect(wiped).toBe(true);
    expect(await getAccount(test.database.db, accountId)).toBeUndefined();
    await expect(commands.removeAccount(accountId)).rejects.toMatchObject({ code: 'not_found' });
    await workers.client.workflow.getHandle(removeWorkflowId(accountId)).result();
    expect(await test.database.db.$count(accounts)).toBe(0);
  });

  it('works for two concurrent callers', async () => {
    const accountId = await storeAccount(test.database);
    const ends = await Promise.allSettled([1, 2, 3].map(() => commands.removeAccount(accountId)));
    for (const end of ends) {
      if (end.status === 'rejected') expect(end.reason).toMatchObject({ code: 'not_found' });
    }
    expect(ends[0]?.status).toBe('fulfilled');
    expect(await getAccount(test.database.db, accountId)).toBeUndefined();
  });

  it.each([newId('account'), newId('email'), 'acc_', ''])('finds no account %j', async (id) => {
    await expect(commands.removeAccount(id)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('does not wait for slow storage: the account is removed, its files follow', async () => {
    const accountId = await storeAccount(test.database);
    let release = () => {};
    const slow = new Promise<void>((resolve) => {
      release = resolve;
    });
    wipe = () => slow;
    // the storage is still at it
    await within({ removeDeadlineMs: 700 }).removeAccount(accountId);
    expect(await getAccount(test.database.db, accountId)).toBeUndefined();
    release();
    await workers.client.workflow.getHandle(removeWorkflowId(accountId)).result();
  });

  it('removes an account again that a restore of the database brought back while its removal waited', async () => {
    const { db } = test.database;
    const accountId = await storeAccount(test.database);
    const [row] = await db.select().from(accounts).where(eq(accounts.id, accountId));
    await commands.removeAccount(accountId);
    const { runId } = await workers.client.workflow.getHandle(removeWorkflowId(accountId)).describe();
    await db.delete(events).where(eq(events.accountId, accountId));
    await db.delete(accounts).where(eq(accounts.id, accountId));
    await db.insert(accounts).values(row!);
    await commands.removeAccount(accountId);
    expect(await getAccount(db, accountId)).toBeUndefined();
    const { status } = await workers.client.workflow.getHandle(removeWorkflowId(accountId), runId).describe();
    expect(status.name).toBe('TERMINATED');
    await workers.client.workflow.getHandle(removeWorkflowId(accountId)).result();
  }, 30_000);

  it('does not end the removal that another call has begun of an account that a restore brought back', async () => {
    const { db } = test.database;
    const accountId = await storeAccount(test.database);
    const [row] = await db.select().from(accounts).where(eq(accounts.id, accountId));
    await commands.removeAccount(accountId);
    await db.delete(events).where(eq(events.accountId, accountId));
    await db.delete(accounts).where(eq(accounts.id, accountId));
    await db.insert(accounts).values(row!);
    // this call is slow to end the old removal: the other one has begun a new removal by then
    let begun: string | undefined;
    const slowToEnd: WorkflowClientInterceptor = {
      terminate: async (input, next) => {
        await commands.removeAccount(accountId);
        begun = (await workers.client.workflow.getHandle(removeWorkflowId(accountId)).describe()).runId;
        return next(input);
      },
    };
    const { connection, options } = workers.api;
    const { namespace, dataConverter } = options;
    const client = new Client({ connection, namespace, dataConverter, interceptors: { workflow: [slowToEnd] } });
    await within({ removeDeadlineMs: 10_000 }, client).removeAccount(accountId);
    const { status } = await workers.client.workflow.getHandle(removeWorkflowId(accountId), begun).describe();
    expect([begun, status.name]).toEqual([expect.any(String), 'RUNNING']);
    await workers.client.workflow.getHandle(removeWorkflowId(accountId)).result();
  }, 30_000);

  it('reports that the removal continues when no worker is available', async () => {
    const idle = await testClient();
    const accountId = await storeAccount(test.database);
    const answer = within({ removeDeadlineMs: 300 }, idle.api).removeAccount(accountId);
    await expect(answer).rejects.toMatchObject({
      code: 'service_unavailable',
      detail: expect.stringMatching(/no worker is available: .* its removal continues/),
    });
    expect(await getAccount(test.database.db, accountId)).toMatchObject({ id: accountId });
    await idle.close();
  });
});

describe('workflowErrorToApiError', () => {
  const nested = (inner: Error) =>
    new Error('workflow failed', { cause: new Error('activity failed', { cause: inner }) });

  it.each([
    [nested(toFailure(new ApiError('already_exists', 'taken'))), 'already_exists', 'taken'],
    [nested(new TimeoutFailure('x', undefined, 'START_TO_CLOSE')), 'provider_error', 'late'],
    [Object.assign(new Error('x'), { code: 4 }), 'service_unavailable', 'Temporal cannot be reached now: not known'],
    [new WorkflowUpdateRPCTimeoutOrCancelledError('x'), 'provider_error', 'late'],
    [nested(new CancelledFailure('x')), 'service_unavailable', 'the run was cancelled: not known'],
    [new CallOutage('worker', 'no'), 'service_unavailable', 'no worker is available: not done'],
    [new CallOutage('worker', 'yes'), 'service_unavailable', 'no worker is available: not known'],
    [
      nested(toFailure(Object.assign(new Error('canary'), { code: '57P01' }))),
      'service_unavailable',
      'the database cannot be reached now: not known',
    ],
    [nested(toFailure(new Error('canary'))), 'unexpected_error', 'something unexpected happened'],
    [new Error('canary'), 'unexpected_error', 'something unexpected happened'],
    ['thrown', 'unexpected_error', 'something unexpected happened'],
  ])('reads %#', (error, code, detail) => {
    expect(workflowErrorToApiError(error, 'late', { notDone: 'not done', mayBeDone: 'not known' })).toMatchObject({
      code,
      detail,
    });
  });
});
