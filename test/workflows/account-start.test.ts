import { afterAll, describe, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import { createAccountActivities } from '../../src/activities/account.ts';
import { changeAccount } from '../../src/db/queries/accounts.ts';
import { newId } from '../../src/new-id.ts';
import { accountWorkflowId, QUEUES, SIGNALS, WORKFLOWS } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { startTestWorkers } from '../helpers/product/temporal-workers.ts';
import { testDatabase } from '../helpers/servers/postgres.ts';

/* A connect starts the workflow of its account with what it has just stored. */

const PATIENT = { timeoutMs: 25_000 };
const database = await testDatabase({ max: 4 });
const { db } = database.database;
const loads: string[] = [];
const starts: string[] = [];
/** what the next connect returns */
let connected: { accountId: string; isStarted?: boolean } = { accountId: '' };

const workers = await startTestWorkers({
  async loadAccount(input: { accountId: string }) {
    loads.push(input.accountId);
    return accounts.loadAccount(input);
  },
  async watchMailbox({ accountId }: { accountId: string }) {
    await workers.client.workflow.getHandle(accountWorkflowId(accountId)).signal(SIGNALS.mailboxConnected);
    await Context.current().cancelled;
  },
  async verifyMailbox() {
    return connected;
  },
  async startAccount({ accountId }: { accountId: string }) {
    starts.push(accountId);
  },
});
const accounts = createAccountActivities({ db, client: workers.client.workflow, heartbeatTimeoutMs: 20_000 });
afterAll(async () => {
  await workers.stop();
  await database.drop();
});

const handleOf = (id: string) => workers.client.workflow.getHandle(accountWorkflowId(id));
const stateOf = async (id: string) => (await handleOf(id).describe()).searchAttributes['MailStatus']?.[0];
const untilState = (id: string, state: string) => waitFor(async () => (await stateOf(id)) === state, PATIENT);
const upsertsOf = async (id: string) => {
  const { events } = await handleOf(id).fetchHistory();
  return (events ?? []).filter(({ upsertWorkflowSearchAttributesEventAttributes: upsert }) => upsert).length;
};

describe('the workflow of an account that was just stored', () => {
  it('loads nothing, and is listed as connecting from its start', async () => {
    const id = await storeAccount(database.database);
    await accounts.startAccount({ accountId: id });
    await untilState(id, 'running');
    expect(loads).not.toContain(id);
    expect(await upsertsOf(id)).toBe(1);
    await accounts.startAccount({ accountId: id });
    await waitFor(() => loads.includes(id), PATIENT);
    await handleOf(id).terminate();
  });

  it('loads what changed between its start and its first task', async () => {
    const id = await storeAccount(database.database);
    const stale = { status: 'running', initialSync: null, watch: true };
    await db.transaction((tx) => changeAccount(tx, id, { watch: false }));
    const options = { taskQueue: QUEUES.commands, workflowId: accountWorkflowId(id) };
    const args = [{ accountId: id, initial: stale }];
    // both signals are there before a worker of this queue polls
    await workers.client.workflow.start(WORKFLOWS.account, { ...options, args, startDelay: '1s' });
    for (let i = 0; i < 2; i++) await handleOf(id).signal(SIGNALS.reconnected);
    await untilState(id, 'unwatched');
    await handleOf(id).terminate();
  });

  it.each([
    { by: 'this version', isStarted: true },
    { by: 'this version, while Temporal refused the start', isStarted: false },
    { by: 'a worker of an earlier version' },
  ])('is started once by a connect: $by', async ({ isStarted }) => {
    const accountId = newId('account');
    connected = isStarted === undefined ? { accountId } : { accountId, isStarted };
    const run = await workers.client.workflow.start(WORKFLOWS.connectMailbox, {
      taskQueue: QUEUES.commands,
      workflowId: `connect/${newId('intent')}`,
      args: [{ intentId: newId('intent') }],
    });
    expect(await run.result()).toEqual({ accountId });
    expect(starts.includes(accountId)).toBe(isStarted !== true);
  });
});
