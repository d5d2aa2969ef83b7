import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import type { WorkflowHandle } from '@temporalio/client';
import { newId } from '../../src/new-id.ts';
import {
  accountWorkflowId,
  initialSyncWorkflowId,
  QUEUES,
  reparseWorkflowId,
  SIGNALS,
  syncWorkflowId,
  verifyWorkflowId,
  WORKFLOWS,
} from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { testClient, type TestClient } from '../helpers/product/temporal-workers.ts';

/*
 * Temporal ends an activity that is cancelled before a worker has it, and writes a detail into the history, unsealed. All
 * places of the workers are taken here: none has the queues of the mailboxes and of the background.
 */
let temporal: TestClient;
let stopWorkers: () => Promise<void>;
const loads: string[] = [];
const watches: string[] = [];

const activities = {
  async loadAccount({ accountId }: { accountId: string }) {
    loads.push(accountId);
    return { status: 'running', initialSync: null };
  },
  setInitialSync: async () => true,
  countImported: async () => 0,
  async watchMailbox({ accountId }: { accountId: string }) {
    watches.push(accountId);
    const context = Context.current();
    const beat = setInterval(() => context.heartbeat(), 50);
    await context.cancelled.finally(() => clearInterval(beat));
  },
};

beforeAll(async () => {
  temporal = await testClient();
  stopWorkers = await temporal.work(activities, [QUEUES.commands]);
});
afterAll(async () => {
  await stopWorkers();
  await temporal.close();
});

const start = (type: string, workflowId: string, accountId: string) =>
  temporal.client.workflow.start(type, { workflowId, taskQueue: QUEUES.commands, args: [{ accountId }] });
const isScheduled = async (handle: WorkflowHandle) => {
  const { raw } = await handle.describe();
  return (raw.pendingActivities ?? []).some(({ activityType }) =>
    ['watchMailbox', 'importMailbox', 'verifyStore', 'syncStore', 'reparseEmails'].includes(activityType?.name ?? ''),
  );
};

describe('an activity that is cancelled before a worker has it', () => {
  it('is replaced by one with the new settings after a reconnect, which runs as soon as a worker has room', async () => {
    const accountId = newId('account');
    const handle = await start(WORKFLOWS.account, accountWorkflowId(accountId), accountId);
    await waitFor(() => isScheduled(handle));
    await handle.signal(SIGNALS.reconnected);
    await waitFor(() => loads.filter((id) => id === accountId).length === 2);
    await waitFor(() => isScheduled(handle));
    const stop = await temporal.work(activities, [QUEUES.mailboxes]);
    await waitFor(() => watches.includes(accountId));
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    await stop();
  });

  it.each([
    [WORKFLOWS.account, accountWorkflowId],
    [WORKFLOWS.initialSync, initialSyncWorkflowId],
    [WORKFLOWS.verifyMailbox, verifyWorkflowId],
    [WORKFLOWS.syncMailbox, syncWorkflowId],
    [WORKFLOWS.reparse, reparseWorkflowId],
  ] as const)('lets the run of %s end', async (type, idOf) => {
    const accountId = newId('account');
    const handle = await start(type, idOf(accountId), accountId);
    await waitFor(() => isScheduled(handle));
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
  });
});
