import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { afterAll, describe, expect, it, jest } from '@jest/globals';
import { Context, heartbeat } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import { retryWatch } from '../../src/maintenance/lost-watches.ts';
import { newId } from '../../src/new-id.ts';
import { accountWorkflowId, QUEUES, SIGNALS, WORKFLOWS } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { testClient } from '../helpers/product/temporal-workers.ts';

/** The id of the worker of this test, which stands for a lost one. */
const LOST = randomUUID();
const isLost = (id: string) => id === LOST;
/** `PendingActivityState` of Temporal's API. */
const CANCEL_REQUESTED = 3;
const PATIENT = { timeoutMs: 25_000 };

/** What each attempt of a watch got from the one before it, by account. */
const attempts = new Map<string, unknown[]>();
const attemptsOf = (accountId: string) => attempts.get(accountId) ?? [];
/** ends watches whose worker is lost, which notice nothing */
const ends: (() => void)[] = [];

const workers = await testClient();
const stop = await workers.work(
  {
    async loadAccount() {
      return { status: 'running', initialSync: null, watch: true };
    },
    async watchMailbox({ accountId }: { accountId: string }) {
      attempts.set(accountId, [...attemptsOf(accountId), Context.current().info.heartbeatDetails]);
      await workers.client.workflow.getHandle(accountWorkflowId(accountId)).signal(SIGNALS.mailboxConnected);
      heartbeat({ isReported: true });
      await new Promise<void>((resolve) => ends.push(resolve));
    },
  },
  undefined,
  `${process.pid}@${hostname()} ${LOST}`,
);
afterAll(async () => {
  for (const end of ends) end();
  await stop();
  await workers.close();
});

async function start() {
  const id = newId('account');
  const workflow = await workers.client.workflow.start(WORKFLOWS.account, {
    taskQueue: QUEUES.commands,
    workflowId: accountWorkflowId(id),
    args: [{ accountId: id, heartbeatTimeoutMs: 120_000 }],
  });
  await waitFor(async () => (await stateOf(id)) === 'running', PATIENT);
  return { id, workflow };
}

const stateOf = async (id: string) => {
  const { searchAttributes } = await workers.client.workflow.getHandle(accountWorkflowId(id)).describe();
  return searchAttributes['MailStatus']?.[0];
};
const eventsOf = async (id: string) => {
  const { events } = await workers.client.workflow.getHandle(accountWorkflowId(id)).fetchHistory();
  return events?.length;
};

/** Until Temporal waits for an activity to end that it wants cancelled. */
const untilCancelRequested = (workflow: WorkflowHandle) =>
  waitFor(async () => {
    const { raw } = await workflow.describe();
    return Number(raw.pendingActivities?.[0]?.state) === CANCEL_REQUESTED;
  }, PATIENT);

describe('the watch of a lost worker', () => {
  it('is retried, with what it reported and without an event in the history of its workflow', async () => {
    const { id, workflow } = await start();
    const before = await eventsOf(id);
    await retryWatch(workers.client, id, isLost);
    await waitFor(() => attemptsOf(id).length === 2, PATIENT);
    expect(attemptsOf(id)).toEqual([undefined, { isReported: true }]);
    const { raw } = await workflow.describe();
    expect(raw.pendingActivities).toMatchObject([{ attempt: 2 }]);
    // the second attempt of this test signals once more: that signal, and its task
    expect((await eventsOf(id))! - before!).toBeLessThanOrEqual(5);
    await workflow.terminate();
  });

  it('begins anew with another workflow task where an earlier version has it', async () => {
    const { id, workflow } = await start();
    const described = await workflow.describe();
    described.raw.pendingActivities![0]!.lastWorkerIdentity = `${process.pid}@${hostname()}`;
    const handle = { ...workflow, describe: async () => described };
    jest.spyOn(workers.client.workflow, 'getHandle').mockReturnValueOnce(handle as WorkflowHandle<never>);
    await retryWatch(workers.client, id, isLost);
    await waitFor(() => attemptsOf(id).length === 2, PATIENT);
    expect(attemptsOf(id)).toEqual([undefined, undefined]);
    await workflow.terminate();
  });

  it('continues where it is with a live worker', async () => {
    const { id, workflow } = await start();
    const before = await eventsOf(id);
    await retryWatch(workers.client, id, () => false);
    const { raw } = await workflow.describe();
    expect(raw.pendingActivities).toMatchObject([{ attempt: 1 }]);
    expect(await eventsOf(id)).toBe(before);
    await workflow.terminate();
  });

  it('holds up neither new settings nor the end of the workflow', async () => {
    const { id, workflow } = await start();
    await workflow.signal(SIGNALS.reconnected);
    await untilCancelRequested(workflow);
    await retryWatch(workers.client, id, isLost);
    await waitFor(() => attemptsOf(id).length === 2, PATIENT);
    await workflow.cancel();
    await untilCancelRequested(workflow);
    await retryWatch(workers.client, id, isLost);
    await expect(workflow.result()).rejects.toThrow();
  });

  it('does nothing where no workflow runs', async () => {
    await retryWatch(workers.client, newId('account'), isLost);
    const { id, workflow } = await start();
    await workflow.terminate();
    await retryWatch(workers.client, id, isLost);
    expect(attemptsOf(id)).toHaveLength(1);
  });
});
