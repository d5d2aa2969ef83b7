import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { defaultPayloadConverter, type Payload, type PayloadCodec } from '@temporalio/common';
import {
  accountWorkflowId,
  QUEUES,
  removeWorkflowId,
  SIGNALS,
  verifyWorkflowId,
  WORKFLOWS,
} from '../../src/workflows/names.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';
import { newId } from '../../src/new-id.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK */
const SCHEDULE_ACTIVITY_TASK = 1;

/*
 * A program without the key reaches Temporal, such as one of another user of this machine. It may read clear text in the
 * store; our workflows refuse its inputs.
 */
describe('an input that this installation did not seal', () => {
  let workers: TestWorkers;
  let foreign: Client;
  let connection: Connection;
  /** the copied payloads that the foreign client sends as they are */
  let copied: Payload[] | undefined;
  const ran: string[] = [];
  let release = () => {};

  beforeAll(async () => {
    const held = new Promise<void>((resolve) => (release = resolve));
    const note = (name: string) => async (input: { accountId: string }) => void ran.push(`${name} ${input.accountId}`);
    workers = await startTestWorkers({
      verifyStore: async (input: { accountId: string }) => {
        ran.push(`verifyStore ${input.accountId}`);
        await held;
      },
      beginRemoval: async (input: { accountId: string }) => {
        ran.push(`beginRemoval ${input.accountId}`);
        await held;
        return false;
      },
      stopRuns: note('stopRuns'),
      deleteContents: note('deleteContents'),
      awaitRuns: note('awaitRuns'),
      // something is left the first time
      eraseLog: async () => ran.push('eraseLog') > 0 && ran.filter((name) => name === 'eraseLog').length > 1,
      deleteRuns: async () => true,
      finishRemoval: note('finishRemoval'),
    });
    const { namespace } = workers.client.options;
    connection = await Connection.connect({ address: process.env['TEST_TEMPORAL_ADDRESS'] ?? '' });
    const codec: PayloadCodec = {
      encode: async (payloads) => copied ?? payloads,
      decode: async (payloads) => payloads,
    };
    foreign = new Client({ connection, namespace, dataConverter: { payloadCodecs: [codec] } });
  });
  afterAll(async () => {
    release();
    await connection.close();
    await workers.stop();
  });

  const start = (client: Client, type: string, workflowId: string, accountId: string) =>
    client.workflow.start(type, { workflowId, taskQueue: QUEUES.commands, args: [{ accountId }] });
  /** What the history says of its failure, which the foreign client cannot decrypt. */
  const failureOf = async (handle: WorkflowHandle) => {
    await expect(handle.result()).rejects.toThrow();
    const { events } = await handle.fetchHistory();
    return events?.at(-1)?.workflowExecutionFailedEventAttributes?.failure?.applicationFailureInfo?.type;
  };

  it('starts nothing', async () => {
    const accountId = newId('account');
    const handle = await start(foreign, WORKFLOWS.removeAccount, removeWorkflowId(accountId), accountId);
    expect(await failureOf(handle)).toBe('Unsealed');
    expect(ran).toEqual([]);
  });

  it('starts nothing with what was copied from the history of another workflow', async () => {
    const accountId = newId('account');
    const own = await start(workers.client, WORKFLOWS.verifyMailbox, verifyWorkflowId(accountId), accountId);
    await waitFor(() => ran.includes(`verifyStore ${accountId}`));
    const { events } = await own.fetchHistory();
    copied = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads as Payload[];
    expect(copied).toHaveLength(1);
    const moved = await start(foreign, WORKFLOWS.removeAccount, removeWorkflowId(accountId), accountId);
    expect(await failureOf(moved)).toBe('Unsealed');
    await own.terminate();
    const disguised = await start(foreign, WORKFLOWS.removeAccount, verifyWorkflowId(accountId), accountId);
    expect(await failureOf(disguised)).toBe('Unsealed');
    copied = undefined;
    expect(ran).toEqual([`verifyStore ${accountId}`]);
  });

  it('is refused as the result of an activity: the run fails', async () => {
    const accountId = newId('account');
    const own = await start(workers.client, WORKFLOWS.verifyMailbox, verifyWorkflowId(accountId), accountId);
    await waitFor(() => ran.includes(`verifyStore ${accountId}`));
    const activityId = (await own.describe()).raw.pendingActivities?.[0]?.activityId ?? '';
    const { namespace } = workers.client.options;
    const plain = {
      payloads: [defaultPayloadConverter.toPayload({ folders: 1, messages: 1, differences: 0, left: 0 })],
    };
    const request = { namespace, workflowId: own.workflowId, activityId, result: plain };
    await connection.workflowService.respondActivityTaskCompletedById(request);
    expect(await failureOf(own)).toBe('Unsealed');
  });

  it('reaches no activity that a foreign worker schedules on our queues', async () => {
    const { namespace } = workers.client.options;
    const accountId = newId('account');
    const taskQueue = `foreign-${accountId}`;
    const { workflowId } = await foreign.workflow.start('foreign', { workflowId: taskQueue, taskQueue, args: [] });
    const service = connection.workflowService;
    const task = await connection.withDeadline(Date.now() + 10_000, () =>
      service.pollWorkflowTaskQueue({ namespace, taskQueue: { name: taskQueue } }),
    );
    const scheduleActivityTaskCommandAttributes = {
      activityId: '1',
      activityType: { name: 'deleteContents' },
      taskQueue: { name: QUEUES.commands },
      input: { payloads: [defaultPayloadConverter.toPayload({ accountId })] },
      startToCloseTimeout: msToTs('10s'),
    };
    await service.respondWorkflowTaskCompleted({
      namespace,
      taskToken: task.taskToken,
      commands: [{ commandType: SCHEDULE_ACTIVITY_TASK, scheduleActivityTaskCommandAttributes }],
    });
    const handle = foreign.workflow.getHandle(workflowId);
    const failed = async () =>
      (await handle.fetchHistory()).events?.find(({ activityTaskFailedEventAttributes: failed }) => failed);
    await waitFor(async () => (await failed()) !== undefined);
    const { failure } = (await failed())?.activityTaskFailedEventAttributes ?? {};
    expect(failure?.applicationFailureInfo?.type).toBe('Unsealed');
    expect(ran.filter((name) => name.startsWith('deleteContents'))).not.toContain(`deleteContents ${accountId}`);
    await handle.terminate();
  });

  it('reaches no run as an update, a query or a signal, and does the run no harm', async () => {
    const accountId = newId('account');
    const own = await start(workers.client, WORKFLOWS.removeAccount, removeWorkflowId(accountId), accountId);
    await waitFor(() => ran.includes(`beginRemoval ${accountId}`));
    const handle = foreign.workflow.getHandle(own.workflowId);
    await expect(handle.executeUpdate('deleted', { args: [{ plain: true }] })).rejects.toThrow();
    await expect(handle.query('state', { plain: true })).rejects.toThrow();
    await handle.signal(SIGNALS.retryNow, { plain: true });
    release();
    await own.result();
    expect(ran).toContain(`finishRemoval ${accountId}`);
  });

  it('is what every workflow refuses, whatever its type', async () => {
    const accountId = newId('account');
    for (const [type, workflowId] of [
      [WORKFLOWS.account, accountWorkflowId(accountId)],
      [WORKFLOWS.sendEmail, `send/${newId('email')}`],
      [WORKFLOWS.changeMailbox, `change/${newId('email')}/1`],
      [WORKFLOWS.replay, 'replay/1'],
    ] as const) {
      expect([type, await failureOf(await start(foreign, type, workflowId, accountId))]).toEqual([type, 'Unsealed']);
    }
  });
});
