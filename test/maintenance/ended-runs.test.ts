import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Context } from '@temporalio/activity';
import { eq, sql } from 'drizzle-orm';
import { createAccountActivities } from '../../src/activities/account.ts';
import { withFailures } from '../../src/activities/failures.ts';
import { createImportHistoryActivities, wakeImportRun } from '../../src/activities/import-history.ts';
import { createRemoveActivities } from '../../src/activities/remove.ts';
import { createReplayActivities } from '../../src/activities/replay.ts';
import { createDraftActivities } from '../../src/activities/save-draft.ts';
import { createSendActivities } from '../../src/activities/send-email.ts';
import { ApiError } from '../../src/contract/errors.ts';
import { createImport } from '../../src/db/coordination/import-state.ts';
import { getAccount, markRemoved } from '../../src/db/queries/accounts.ts';
import { getImport } from '../../src/db/queries/imports.ts';
import { startBatchRun } from '../../src/api/commands/batches.ts';
import { createBatch, getBatch } from '../../src/db/queries/batches.ts';
import { completeBatch, itemsChanged, nextOfBatch } from '../../src/mailbox/store/batches.ts';
import { createReplay, getReplay } from '../../src/db/queries/replays.ts';
import { drafts } from '../../src/db/schema/index.ts';
import { touchSynced } from '../../src/mailbox/settings.ts';
import { checkAccounts, startHousekeeping } from '../../src/maintenance/account-health.ts';
import { createLostRunLooks } from '../../src/maintenance/lost-runs.ts';
import { newId } from '../../src/new-id.ts';
import { loadDraft, recordDraft } from '../../src/outgoing/draft-state.ts';
import { clearProvisional, loadSend, markSent, markSubmitting, recordSend } from '../../src/outgoing/send-state.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { createLostRuns } from '../../src/webhooks/dispatch/lost-runs.ts';
import { startReplayRun } from '../../src/webhooks/log/replay-runs.ts';
import {
  accountWorkflowId,
  draftWorkflowId,
  finishSendWorkflowId,
  importHistoryWorkflowId,
  HOUSEKEEPING_WORKFLOW_ID,
  initialSyncWorkflowId,
  QUEUES,
  removeDraftWorkflowId,
  removeWorkflowId,
  batchWorkflowId,
  replayWorkflowId,
  SIGNALS,
  sendWorkflowId,
  WORKFLOWS,
} from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { type End, ENDS, endRun } from '../helpers/assert/end-run.ts';
import { type Deliveries, deliveryTests } from '../helpers/product/deliveries.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { testClient, type TestClient } from '../helpers/product/temporal-workers.ts';

/*
 * Each workflow whose end leaves a state that users see × each way in which an operator can end a run. The run is ended while
 * it works; what it was doing is lost. Then the maintenance of a worker runs, with short intervals.
 */
/** For the ends of one kind. */
const LIMIT_MS = 5 * 60_000;

/** The state that users see within a minute. */
type Expected = string | Record<End, string>;
const EXPECTED: Record<string, Expected> = {
  account: 'running, in sync',
  initialSync: 'completed',
  importHistory: { terminate: 'completed', cancel: 'cancelled', delete: 'completed', reset: 'completed' },
  removeAccount: 'gone',
  'sendEmail before the message leaves': { terminate: 'failed', cancel: 'failed', delete: 'failed', reset: 'sent' },
  'sendEmail while the message leaves': 'unknown',
  finishSend: 'sent, filed',
  saveDraft: { terminate: 'failed', cancel: 'failed', delete: 'failed', reset: 'active' },
  removeDraft: 'removed',
  deliverWebhooks: { terminate: 'failed', cancel: 'failed', delete: 'delivered', reset: 'delivered' },
  changeEmails: 'completed',
  replay: { terminate: 'completed', cancel: 'cancelled', delete: 'completed', reset: 'completed' },
  housekeeping: 'running',
};
/** Their callers wait for the response, and no state stays (test/api/commands.test.ts). */
const ANSWERED = [
  'changeMailbox',
  'updateEmail',
  'connectMailbox',
  'deleteDraft',
  'verifyMailbox',
  'syncMailbox',
  'reparse',
];
/** Its state ends by its time (test/api/oauth). */
const TIMED = ['connectByDevice'];

/** One run under way, and the state that users see of its work. */
interface Subject {
  workflowId: string;
  state(): Promise<string>;
  /** makes what is stored of the work as old as it must be to be missed, where that takes long */
  age?(): Promise<unknown>;
}

const logger = createLogger('silent', 'test');
let the: Deliveries;
let temporal: TestClient;
let stopWorkers: () => Promise<void>;
let looking: Promise<void> | undefined;
let isOver = false;

/** attempts under way, by what they work on; ends them as the loss of their worker would */
const attempts = new Map<string, (() => void)[]>();
/** what later attempts are not held for */
const ended = new Set<string>();

/** An attempt that works until its run is ended. */
async function work(id: string): Promise<void> {
  if (ended.has(id)) return;
  const context = Context.current();
  const beat = setInterval(() => context.heartbeat(), 100);
  const lost = new Promise<never>((_, reject) => {
    const end = () => reject(new Error('the worker is lost'));
    attempts.set(id, [...(attempts.get(id) ?? []), end]);
  });
  await Promise.race([lost, context.cancelled]).finally(() => clearInterval(beat));
}

const loadOf = (ref: { accountId: string; sendId: string }) => loadSend(the.db, ref.accountId, ref.sendId);

function activities() {
  const { db } = the;
  const { client } = temporal;
  const none = async () => {};
  const storage = { delete: none, deletePrefix: none, list: async () => [], deleteUnfinished: none };
  const deps = {
    db,
    storage,
    logger,
    client: client.workflow,
    lostRuns: createLostRuns({ db, client, logger }),
  } as never;
  const real = {
    account: createAccountActivities({ db, client: client.workflow, heartbeatTimeoutMs: 2_000 }),
    remove: createRemoveActivities(deps),
    older: createImportHistoryActivities({ db }),
    replay: createReplayActivities({ db }),
    send: createSendActivities(deps),
    draft: createDraftActivities(deps),
  };
  const scripted = {
    async watchMailbox({ accountId }: { accountId: string }) {
      const context = Context.current();
      await client.workflow.getHandle(accountWorkflowId(accountId)).signal(SIGNALS.mailboxConnected);
      const beat = setInterval(() => {
        context.heartbeat();
        void touchSynced(db, { accountId, watchEpoch: null }, new Date()).catch(() => {});
      }, 200);
      await work(accountId).catch(() => {});
      await context.cancelled.finally(() => clearInterval(beat));
    },
    async importMailbox({ accountId }: { accountId: string }) {
      await work(accountId);
      return { done: true };
    },
    async importOlderMail({ id }: { id: string }) {
      await work(id);
      return { done: true };
    },
    async deleteContents(ref: { accountId: string }) {
      await work(ref.accountId);
      await real.remove.deleteContents(ref);
    },
    async submitEmail(ref: { accountId: string; sendId: string }) {
      const send = await loadOf(ref);
      if (send?.state === 'submitting') throw new ApiError('provider_error', 'no copy is in Sent');
      if (send?.state !== 'queued') throw new ApiError('provider_error', 'this send was given up');
      if (send.metadata === 'queued') await work(ref.sendId);
      await markSubmitting(db, ref.sendId, { messageId: '<m@test>', storageKey: 'key', result: { rejected: [] } });
      await work(ref.sendId);
      await markSent(db, ref.sendId, { rejected: [] });
      await clearProvisional(db, ref.sendId);
      return { finished: true };
    },
    async fileSentCopy({ sendId }: { sendId: string }) {
      await work(sendId);
      await clearProvisional(db, sendId);
      return 'done';
    },
    removeSentDraft: async () => 'done',
    forwardedBy: async () => null,
    async appendDraft({ accountId, draftId }: { accountId: string; draftId: string }) {
      await work(draftId);
      const draft = await loadDraft(db, accountId, draftId);
      if (draft?.state !== 'saving') throw new ApiError('provider_error', 'saving this draft failed');
      await db.update(drafts).set({ state: 'active' }).where(eq(drafts.id, draftId));
      return { emailId: null };
    },
    async deleteDraftMail({ draftId }: { draftId: string }) {
      await work(draftId);
      await db.update(drafts).set({ emailId: null }).where(eq(drafts.id, draftId));
    },
    async changeEmailsOf({ batchId }: { batchId: string }) {
      await work(batchId);
      await itemsChanged(db, batchId, (await nextOfBatch(db, batchId, 10))?.items ?? []);
      return completeBatch(db, batchId);
    },
    async feedReplay(ref: { replayId: string }) {
      await work(ref.replayId);
      return real.replay.feedReplay(ref);
    },
    deleteExpired: async () => ({ done: true }),
    repairDeliveries: async () => {},
  };
  const { account, remove, older, replay, send, draft } = real;
  return withFailures({ ...account, ...remove, ...older, ...replay, ...send, ...draft, ...scripted });
}

const start = (type: string, workflowId: string, input: object, taskQueue: string = QUEUES.commands) =>
  temporal.client.workflow.start(type, { workflowId, taskQueue, args: [input] });

const own = { apiKeyId: 'pk_1', apiKeyName: 'key', trackingId: null, tracking: null };
async function storeSend(metadata: string | null): Promise<{ accountId: string; sendId: string }> {
  const [accountId, sendId] = [await storeAccount(the), newId('email')];
  await recordSend(the.db, { ...own, id: sendId, accountId, draftId: null, metadata, inputKey: null });
  return { accountId, sendId };
}
const stateOfSend = (ref: { accountId: string; sendId: string }) => async () => (await loadOf(ref))?.state ?? 'gone';

async function beginSend(metadata: string | null): Promise<Subject> {
  const ref = await storeSend(metadata);
  const workflowId = sendWorkflowId(ref.sendId);
  await start(WORKFLOWS.sendEmail, workflowId, ref, QUEUES.sends);
  await waitFor(() => attempts.has(ref.sendId));
  return { workflowId, state: stateOfSend(ref) };
}

async function storeDraft(state: 'saving' | 'superseded'): Promise<{ accountId: string; draftId: string }> {
  const [accountId, draftId] = [await storeAccount(the), newId('draft')];
  const { trackingId, tracking } = own;
  await recordDraft(the.db, { id: draftId, accountId, inputKey: null, metadata: null, trackingId, tracking });
  await the.db
    .update(drafts)
    .set({ state, supersededBy: newId('draft'), emailId: state === 'saving' ? null : newId('email') })
    .where(eq(drafts.id, draftId));
  return { accountId, draftId };
}

/** Begins the work of each kind as the product does, and waits until it is under way. */
const BEGIN: Record<string, () => Promise<Subject>> = {
  async account() {
    const accountId = await storeAccount(the);
    await start(WORKFLOWS.account, accountWorkflowId(accountId), { accountId, heartbeatTimeoutMs: 2_000 });
    await waitFor(() => attempts.has(accountId));
    return {
      workflowId: accountWorkflowId(accountId),
      state: async () => {
        const account = await getAccount(the.db, accountId);
        const { rows } = await the.db.execute(
          sql`select from accounts where id = ${accountId} and last_synced_at > now() - interval '2 seconds'`,
        );
        return `${account?.status}, ${rows.length > 0 ? 'in sync' : 'late'}`;
      },
    };
  },
  async initialSync() {
    const accountId = await storeAccount(the, { initialSyncDays: 7 });
    const input = { accountId, heartbeatTimeoutMs: 2_000, pace: 0.1 };
    await start(WORKFLOWS.initialSync, initialSyncWorkflowId(accountId), input);
    await waitFor(() => attempts.has(accountId));
    // in sync: the account is watched
    await the.db.execute(sql`update accounts set last_synced_at = now() + interval '1 hour' where id = ${accountId}`);
    const state = async () => (await getAccount(the.db, accountId))?.initial_sync?.status ?? 'none';
    return { workflowId: initialSyncWorkflowId(accountId), state };
  },
  async importHistory() {
    const ref = { id: newId('import'), accountId: await storeAccount(the) };
    await createImport(the.db, { ...ref, since: null, until: null, folders: null });
    await wakeImportRun(temporal.client.workflow, ref, 2_000);
    await waitFor(() => attempts.has(ref.id));
    const state = async () => (await getImport(the.db, ref.accountId, ref.id))?.status ?? 'none';
    return { workflowId: importHistoryWorkflowId(ref.id), state };
  },
  async removeAccount() {
    const accountId = await storeAccount(the);
    await the.db.transaction((tx) => markRemoved(tx, accountId, new Date()));
    await start(WORKFLOWS.removeAccount, removeWorkflowId(accountId), { accountId });
    await waitFor(() => attempts.has(accountId));
    return {
      workflowId: removeWorkflowId(accountId),
      state: async () => {
        const { rows } = await the.db.execute(sql`select from accounts where id = ${accountId}`);
        return rows.length === 0 ? 'gone' : 'being removed';
      },
    };
  },
  'sendEmail before the message leaves': () => beginSend('queued'),
  'sendEmail while the message leaves': () => beginSend(null),
  async finishSend() {
    const ref = await storeSend(null);
    await markSubmitting(the.db, ref.sendId, { messageId: '<m@test>', storageKey: 'key', result: { rejected: [] } });
    await markSent(the.db, ref.sendId, { rejected: [] });
    await start(WORKFLOWS.finishSend, finishSendWorkflowId(ref.sendId), ref, QUEUES.sends);
    await waitFor(() => attempts.has(ref.sendId));
    const state = async () => {
      const send = await loadOf(ref);
      return `${send?.state}, ${send?.storageKey === null ? 'filed' : 'not filed'}`;
    };
    return { workflowId: finishSendWorkflowId(ref.sendId), state };
  },
  async saveDraft() {
    const ref = await storeDraft('saving');
    await start(WORKFLOWS.saveDraft, draftWorkflowId(ref.draftId), { ...ref, previousId: null });
    await waitFor(() => attempts.has(ref.draftId));
    const state = async () => (await loadDraft(the.db, ref.accountId, ref.draftId))?.state ?? 'gone';
    return { workflowId: draftWorkflowId(ref.draftId), state };
  },
  async removeDraft() {
    const ref = await storeDraft('superseded');
    await start(WORKFLOWS.removeDraft, removeDraftWorkflowId(ref.draftId), ref);
    await waitFor(() => attempts.has(ref.draftId));
    const state = async () =>
      (await loadDraft(the.db, ref.accountId, ref.draftId))?.emailId === null ? 'removed' : 'shown as an email';
    return { workflowId: removeDraftWorkflowId(ref.draftId), state };
  },
  async deliverWebhooks() {
    const [emailId, accountId] = [newId('email'), await storeAccount(the)];
    await the.endpoint({ accountIds: [accountId] });
    the.receiver.answer = ({ event }) => (ended.has((event.data as { email: { id: string } }).email.id) ? 200 : 500);
    await the.happen([emailId], 'email.new', accountId);
    const entry = async () => (await the.log()).find(({ objectId }) => objectId === emailId);
    await waitFor(async () => (await entry())?.attemptsCount === 1);
    const workflowId = (await entry())?.workflowId ?? '';
    attempts.set(workflowId, [() => void ended.add(emailId)]);
    const age = () =>
      the.db.execute(sql`
        update pending_deliveries set due_at = due_at - interval '1 minute', started_at = started_at - interval '1 minute'
        where object_id = ${emailId}`);
    return { workflowId, state: async () => (await entry())?.status ?? 'none', age };
  },
  async changeEmails() {
    const [id, accountId] = [newId('batch'), newId('account')];
    await createBatch(the.db, { id, accountId, change: { trash: true }, emailIds: [newId('email')] });
    await startBatchRun(temporal.client, { id, accountId });
    await waitFor(() => attempts.has(id));
    return {
      workflowId: batchWorkflowId(id),
      state: async () => (await getBatch(the.db, accountId, id))?.status ?? 'none',
    };
  },
  async replay() {
    const [id, endpointId] = [newId('replay'), await the.endpoint({ triggerEvents: ['email.delete'] })];
    await createReplay(the.db, { id, endpointId, filter: {} });
    await startReplayRun(temporal.client, { id, endpointId });
    await waitFor(() => attempts.has(id));
    const state = async () => (await getReplay(the.db, id))?.status ?? 'none';
    return { workflowId: replayWorkflowId(id), state };
  },
  async housekeeping() {
    await startHousekeeping(temporal.client);
    const handle = temporal.client.workflow.getHandle(HOUSEKEEPING_WORKFLOW_ID);
    await waitFor(async () => (await handle.describe()).historyLength > 10);
    const { runId } = await handle.describe();
    const state = async () => {
      const run = await handle.describe().catch(() => undefined);
      // a run that is asked to end is shown as running until it does
      if (run?.runId === runId && run.status.name === 'RUNNING') return 'not ended';
      return run?.status.name.toLowerCase() ?? 'none';
    };
    return { workflowId: HOUSEKEEPING_WORKFLOW_ID, state };
  },
};

/** The work that a run is named after. */
const workOf = (workflowId: string) =>
  [...attempts.keys()].find((id) => workflowId === id || workflowId.includes(id)) ?? '';

async function endAndSettle(kind: string, how: End, expected: string): Promise<string> {
  const subject = await BEGIN[kind]!();
  const id = workOf(subject.workflowId);
  // deliveries have a separate namespace
  const { client } = subject.workflowId.startsWith('deliver/') ? the : temporal;
  await endRun(client, subject.workflowId, how);
  ended.add(id);
  if (how === 'delete') await subject.age?.();
  if (how !== 'cancel') for (const lose of attempts.get(id) ?? []) lose();
  const settled = waitFor(async () => (await subject.state()) === expected, { timeoutMs: 60_000 });
  await settled.catch(() => undefined);
  return subject.state();
}

const expectedOf = (kind: string, how: End): string => {
  const expected = EXPECTED[kind] as Expected;
  return typeof expected === 'string' ? expected : expected[how];
};

/** The states that users saw after each end; all are tried at the same time, but for those of the one housekeeping run. */
const results = new Map<string, Promise<Map<End, string>>>();
const ran = (kind: string) => results.get(kind) as Promise<Map<End, string>>;

async function tryAll(kind: string): Promise<Map<End, string>> {
  const states = new Map<End, string>();
  const attempt = async (how: End) => {
    states.set(how, await endAndSettle(kind, how, expectedOf(kind, how)).catch((error: unknown) => String(error)));
  };
  if (kind !== 'housekeeping') await Promise.all(ENDS.map(attempt));
  else for (const how of ENDS) await attempt(how);
  return states;
}

/** What a worker does every few seconds, with shorter intervals. */
async function lookAround(): Promise<void> {
  const { db } = the;
  const { client } = temporal;
  const ensureSearchAttributes = async () => {};
  const health = { db, client, logger, pollMs: 1_000, heartbeatTimeoutMs: 2_000, ensureSearchAttributes };
  const looks = Object.values(createLostRunLooks({ db, client, logger, heartbeatTimeoutMs: 2_000 }, 1_000));
  const deliveries = createLostRuns({ db, client: the.client, logger });
  while (!isOver) {
    for (const look of looks) await look();
    await checkAccounts(health);
    await deliveries.findTerminated();
    await deliveries.findOverdue();
    await the.relayOnce();
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

beforeAll(async () => {
  the = await startDeliveries();
  temporal = await testClient();
  const all = activities();
  await the.work({ webhook: { retryScheduleMs: [6_000, 500], timeoutMs: 5_000 } });
  stopWorkers = await temporal.work(all, Object.values(QUEUES));
  looking = lookAround();
  for (const kind of Object.keys(EXPECTED)) results.set(kind, tryAll(kind));
}, 60_000);
afterAll(async () => {
  await Promise.all(results.values());
  isOver = true;
  await looking;
  for (const lost of attempts.values()) for (const lose of lost) lose();
  await stopWorkers();
  await temporal.close();
  await the.stop();
}, 60_000);
// its hooks follow those above
const startDeliveries = deliveryTests();

describe('every workflow', () => {
  it('is in this table', () => {
    const types = new Set([...Object.keys(EXPECTED).map((name) => name.split(' ')[0]), ...ANSWERED, ...TIMED]);
    expect([...types].toSorted()).toEqual(Object.values(WORKFLOWS).toSorted());
  });
});

describe.each(Object.keys(EXPECTED))('%s', (kind) => {
  it.each(ENDS)(
    'shows the state that is true after a %s',
    async (how) => {
      expect((await ran(kind)).get(how)).toBe(expectedOf(kind, how));
    },
    LIMIT_MS,
  );
});
