import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import { accountStart } from '../../src/activities/account.ts';
import { toFailure } from '../../src/activities/failures.ts';
import { createChangeCommands } from '../../src/api/commands/changes.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { newId } from '../../src/new-id.ts';
import {
  accountWorkflowId,
  changeWorkflowId,
  QUERIES,
  QUEUES,
  searchableBy,
  SEARCH_ATTRIBUTES,
  SIGNALS,
  WORKFLOWS,
} from '../../src/workflows/names.ts';
import { startDeliveryRun } from '../../src/webhooks/dispatch/delivery-runs.ts';
import { MAX_BATCH, planRuns } from '../../src/webhooks/dispatch/plan-runs.ts';
import type { RunState } from '../../src/workflows/run-state.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** What the Temporal UI shows of a run: the ids by which it is found, and its state. */

const WAIT = { timeoutMs: 30_000 };
const unreachable = () => toFailure(new MailError('provider_error', 'imap', 'secret.example.test refused'));

let workers: TestWorkers;
/** fails the next watches of an account */
const failing = new Set<string>();
let kept = '';

beforeAll(async () => {
  workers = await startTestWorkers({
    loadAccount: async () => ({ status: 'running', initialSync: null }),
    setAccountStatus: async ({ status }: { status: string }) => status,
    async watchMailbox({ accountId }: { accountId: string }) {
      if (failing.has(accountId)) throw unreachable();
      await workers.client.workflow.getHandle(accountWorkflowId(accountId)).signal(SIGNALS.mailboxConnected);
      await Context.current().cancelled;
    },
    appendDraft: async () => ({ emailId: kept }),
    moveEmail: async () => {},
    deleteDraftMail: async () => {},
  });
}, 60_000);
afterAll(() => workers.stop());

const query = (workflowId: string) => workers.api.workflow.getHandle(workflowId).query<RunState>(QUERIES.state);

async function foundBy(id: string): Promise<string[]> {
  const found: string[] = [];
  const list = workers.api.workflow.list({ query: `${SEARCH_ATTRIBUTES.resourceIds} = "${id}"` });
  for await (const { workflowId } of list) found.push(workflowId);
  return found.sort();
}

async function startAccount(): Promise<string> {
  const accountId = newId('account');
  const { args, ...options } = accountStart(accountId, 5_000);
  await workers.api.workflow.start(WORKFLOWS.account, { ...options, args: [{ ...args[0], pace: 20 }] });
  return accountId;
}

describe('a run', () => {
  it.each(Object.values(WORKFLOWS))('of %s shows its state from its first task on', (type) => {
    const folder = join(import.meta.dirname, '../../src/workflows');
    const sources = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8'));
    const begin = new RegExp(`export async function ${type}\\((.*?)\\bawait\\b`, 's');
    const body = sources.map((source) => begin.exec(source)?.[1]).find((found) => found !== undefined);
    expect(body).toContain('trackState(');
  });

  it('is found by every id that it concerns', async () => {
    const [accountId, emailId, folderId] = [newId('account'), newId('email'), newId('folder')];
    const { moveEmail } = createChangeCommands({
      client: workers.api,
      hasWorker: () => Promise.resolve(true),
    });
    await moveEmail(accountId, emailId, folderId);
    await waitFor(async () => (await foundBy(folderId)).length === 1, WAIT);
    expect(await foundBy(emailId)).toEqual(await foundBy(folderId));
    expect((await foundBy(accountId))[0]).toMatch(changeWorkflowId(emailId, ''));
    expect(await foundBy(newId('email'))).toEqual([]);
  });

  it('is found by an id that became known while it ran', async () => {
    const [accountId, draftId] = [newId('account'), newId('draft')];
    kept = newId('email');
    const options = {
      taskQueue: QUEUES.commands,
      workflowId: `draft/${draftId}`,
      typedSearchAttributes: searchableBy(accountId, [draftId]),
    };
    await workers.api.workflow.execute(WORKFLOWS.saveDraft, {
      ...options,
      args: [{ accountId, draftId, previousId: null }],
    });
    await waitFor(async () => (await foundBy(kept)).length === 1, WAIT);
    expect(await foundBy(draftId)).toEqual([`draft/${draftId}`]);
  });

  it('is started whatever the number of ids, and found by as many as Temporal takes', async () => {
    const ids = Array.from({ length: 50 }, () => [newId('event'), newId('email')]).flat();
    const workflowId = `draft/${newId('draft')}/batch`;
    await workers.api.workflow.execute(WORKFLOWS.removeDraft, {
      taskQueue: QUEUES.commands,
      workflowId,
      args: [{ accountId: newId('account'), draftId: newId('draft') }],
      typedSearchAttributes: searchableBy(newId('account'), ids),
    });
    await waitFor(async () => (await foundBy(ids[50] ?? '')).length === 1, WAIT);
  });
});

describe('a delivery run', () => {
  it('is found by each of its emails, however many deliveries it has', async () => {
    const accountId = newId('account');
    const endpointId = newId('endpoint');
    const deliveries = Array.from({ length: MAX_BATCH }, (_, sequence) => ({
      ...{ id: newId('delivery'), eventId: newId('event'), objectId: newId('email'), eventType: 'email.new' as const },
      ...{ endpointId, accountId, sequence, runs: 0, line: 1, isFailing: false },
    }));
    const [run] = planRuns(deliveries, 1);
    await startDeliveryRun(workers.api, run!);
    const { workflowId } = run!;
    await waitFor(async () => (await foundBy(accountId)).length === 1, WAIT);
    const found = await Promise.all(deliveries.map(({ objectId }) => foundBy(objectId)));
    expect(found).toEqual(deliveries.map(() => [workflowId]));
    await workers.api.workflow.getHandle(workflowId).terminate();
  });
});

describe('the run of an account', () => {
  it('shows its state in words, and answers the query `state`', async () => {
    const accountId = await startAccount();
    const workflowId = accountWorkflowId(accountId);
    await waitFor(async () => (await query(workflowId)).state === 'running', WAIT);
    const { since, ...running } = await query(workflowId);
    expect(running).toEqual({ state: 'running', lastError: null, nextAttempt: null, counts: {} });
    expect(new Date(since).toISOString()).toBe(since);
    const handle = workers.api.workflow.getHandle(workflowId);
    expect(await (await handle.describe()).staticSummary()).toBe(`keep ${accountId} connected`);
    expect(await handle.query('__temporal_workflow_metadata')).toMatchObject({
      currentDetails: `**running** since ${since}`,
    });
    await waitFor(async () => (await foundBy(accountId)).join() === workflowId, WAIT);
    await handle.terminate();
  });

  it('says what failed, without what the provider said, and when the next attempt is due', async () => {
    const accountId = newId('account');
    failing.add(accountId);
    const { args, ...options } = accountStart(accountId, 5_000);
    await workers.api.workflow.start(WORKFLOWS.account, { ...options, args: [{ ...args[0], pace: 50 }] });
    const workflowId = accountWorkflowId(accountId);
    await waitFor(async () => (await query(workflowId)).nextAttempt !== null, WAIT);
    const state = await query(workflowId);
    expect(state).toMatchObject({
      state: 'connecting',
      lastError: 'provider_error imap',
      counts: { 'failures in a row': 1, 'refused logins in a row': 0 },
    });
    const handle = workers.api.workflow.getHandle(workflowId);
    const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain(`next attempt: ${state.nextAttempt}`);
    expect(currentDetails + JSON.stringify(state)).not.toContain('secret');
    await handle.terminate();
  });

  it('is being removed when it is cancelled', async () => {
    const accountId = await startAccount();
    const workflowId = accountWorkflowId(accountId);
    await waitFor(async () => (await query(workflowId)).state === 'running', WAIT);
    await workers.api.workflow.getHandle(workflowId).cancel();
    await workers.api.workflow
      .getHandle(workflowId)
      .result()
      .catch(() => {});
    expect(await query(workflowId)).toMatchObject({ state: 'removing' });
  });
});
