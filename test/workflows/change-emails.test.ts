import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { withFailures } from '../../src/activities/failures.ts';
import { startBatchRun } from '../../src/api/commands/batches.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import { batchWorkflowId } from '../../src/workflows/names.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';

/** A change of many emails as a run: its steps, and its end when it cannot be made. */

let workers: TestWorkers;
let steps: number[] = [];
const ended: object[] = [];
let failure: Error | undefined;

const progress = (pending: number) => ({ total: 3, changed: 3 - pending, failed: 0, pending });

beforeAll(async () => {
  workers = await startTestWorkers(
    withFailures({
      async changeEmailsOf() {
        if (failure) throw failure;
        return progress(steps.shift() ?? 0);
      },
      async failBatch(input: object) {
        ended.push(input);
        return { total: 3, changed: 0, failed: 3, pending: 0 };
      },
    }),
  );
}, 60_000);
afterAll(() => workers.stop());

async function run(): Promise<{ batchId: string; result: unknown }> {
  const [batchId, accountId] = [newId('batch'), newId('account')];
  await startBatchRun(workers.api, { id: batchId, accountId });
  return { batchId, result: await workers.client.workflow.getHandle(batchWorkflowId(batchId)).result() };
}

it('makes steps until no email is pending', async () => {
  steps = [2, 1];
  expect((await run()).result).toEqual(progress(0));
  expect([steps, ended]).toEqual([[], []]);
});

it('ends when the account cannot be changed: what is pending fails', async () => {
  failure = new MailError('invalid_credentials', 'imap', 'the provider rejected the login');
  const { batchId, result } = await run();
  expect(result).toMatchObject({ failed: 3, pending: 0 });
  expect(ended).toEqual([
    { batchId, error: { code: 'invalid_credentials', detail: 'the provider rejected the login' } },
  ]);
});
