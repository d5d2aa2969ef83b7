import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { newId } from '../../src/new-id.ts';
import { QUEUES, removeWorkflowId, WORKFLOWS } from '../../src/workflows/names.ts';
import { type TestClient, testClient } from '../helpers/product/temporal-workers.ts';

let temporal: TestClient;
beforeAll(async () => {
  temporal = await testClient();
}, 60_000);
afterAll(() => temporal.close());

it('lists runs of the account again: one that Temporal did not list before is deleted before its row', async () => {
  const calls: string[] = [];
  const noted =
    <T>(name: string, value: T) =>
    async () => {
      calls.push(name);
      return value;
    };
  const listed = [false, true, true];
  const stop = await temporal.work({
    beginRemoval: noted('begin', true),
    stopRuns: noted('stop', undefined),
    awaitRuns: noted('await', undefined),
    deleteContents: noted('contents', undefined),
    eraseLog: noted('erase', true),
    deleteRuns: async () => {
      const isDone = listed.shift();
      calls.push(isDone ? 'runs' : 'runs are left');
      return isDone;
    },
    finishRemoval: noted('finish', undefined),
  });
  try {
    const accountId = newId('account');
    await temporal.client.workflow.execute(WORKFLOWS.removeAccount, {
      workflowId: removeWorkflowId(accountId),
      taskQueue: QUEUES.commands,
      args: [{ accountId }],
    });
  } finally {
    await stop();
  }
  const begun = ['begin', 'stop', 'contents', 'await', 'contents'];
  expect(calls).toEqual([...begun, 'erase', 'runs are left', 'erase', 'runs', 'runs', 'contents', 'finish']);
}, 60_000);
