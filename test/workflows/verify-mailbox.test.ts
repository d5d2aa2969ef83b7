import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { withFailures } from '../../src/activities/failures.ts';
import { syncMailbox } from '../../src/api/commands/sync.ts';
import { verifyMailbox } from '../../src/api/commands/verify.ts';
import type { Verification } from '../../src/mailbox/verify.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import { withRequestId } from '../../src/runtime/request-context.ts';
import { REQUEST_ID_MEMO, syncWorkflowId, verifyWorkflowId } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';

/** A verification as a run, and the response to its caller. */

let workers: TestWorkers;
let verifyStore: () => Promise<Verification>;
let syncStore: () => Promise<void>;

beforeAll(async () => {
  workers = await startTestWorkers(withFailures({ verifyStore: () => verifyStore(), syncStore: () => syncStore() }));
}, 60_000);
afterAll(() => workers.stop());

const runs = () => ({ client: workers.api, hasWorker: () => Promise.resolve(true) });

describe('a verification', () => {
  it('returns what was found', async () => {
    const accountId = newId('account');
    const folderId = newId('folder');
    const counts = {
      folders: 3,
      messages: 12,
      differences: 1,
      left: 0,
      kinds: { flags: 1 },
      resolved: { counters: 2 },
    };
    verifyStore = async () => ({ ...counts, sample: [{ folderId, kind: 'flags', uid: 7 }] });
    expect(await verifyMailbox(runs(), accountId)).toEqual({
      object: 'MailboxVerification',
      account_id: accountId,
      status: 'completed',
      workflow_id: verifyWorkflowId(accountId),
      ...counts,
      sample: [{ folder_id: folderId, kind: 'flags', uid: 7 }],
    });
  });

  it('fails with the error of the provider', async () => {
    verifyStore = () => Promise.reject(new MailError('invalid_credentials', 'imap', 'the login was refused'));
    await expect(verifyMailbox(runs(), newId('account'))).rejects.toMatchObject({
      code: 'invalid_credentials',
      detail: 'the login was refused',
    });
  });
});

describe('a sync', () => {
  it('says that it has ended, also when an attempt failed', async () => {
    const accountId = newId('account');
    let attempts = 0;
    syncStore = async () => {
      if (++attempts === 1) throw new MailError('provider_error', 'imap', 'the connection was cut');
    };
    expect(await syncMailbox(runs(), accountId)).toEqual({
      object: 'MailboxSync',
      account_id: accountId,
      status: 'completed',
      workflow_id: syncWorkflowId(accountId),
    });
    expect(attempts).toBe(2);
  });

  it('is repeated once for all calls that come while it is under way', async () => {
    const accountId = newId('account');
    let passes = 0;
    let end = () => {};
    syncStore = () => {
      passes += 1;
      return passes === 1 ? new Promise((resolve) => (end = resolve)) : Promise.resolve();
    };
    const first = withRequestId('the-first-call', () => syncMailbox(runs(), accountId));
    await waitFor(() => passes === 1);
    const others = [syncMailbox(runs(), accountId), syncMailbox(runs(), accountId)];
    const handle = workers.api.workflow.getHandle(syncWorkflowId(accountId));
    const signals = async () =>
      (await handle.fetchHistory()).events?.filter((event) => event.workflowExecutionSignaledEventAttributes).length;
    await waitFor(async () => (await signals()) === 3);
    const { memo } = await handle.describe();
    expect(memo).toMatchObject({ [REQUEST_ID_MEMO]: 'the-first-call' });
    end();
    for (const { status } of await Promise.all([first, ...others])) expect(status).toBe('completed');
    expect(passes).toBe(2);
    expect(await syncMailbox(runs(), accountId)).toMatchObject({ status: 'completed' });
    expect(passes).toBe(3);
  });

  it('fails with the error of the provider', async () => {
    syncStore = () => Promise.reject(new MailError('invalid_credentials', 'imap', 'the login was refused'));
    await expect(syncMailbox(runs(), newId('account'))).rejects.toMatchObject({ code: 'invalid_credentials' });
  });
});
