import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { withFailures } from '../../src/activities/failures.ts';
import { createSendActivities } from '../../src/activities/send-email.ts';
import { sends } from '../../src/db/schema/index.ts';
import { listFoldersWithStatus } from '../../src/imap/list.ts';
import { createLostRunLooks } from '../../src/maintenance/lost-runs.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { inputKeyOf, storeInput } from '../../src/outgoing/outgoing-input.ts';
import { loadDraft, recordDraft } from '../../src/outgoing/draft-state.ts';
import { loadSend, markSent, recordSend } from '../../src/outgoing/send-state.ts';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import type { MailboxDeps } from '../../src/mailbox/with-mailbox.ts';
import { finishSendWorkflowId, QUEUES, sendWorkflowId, WORKFLOWS } from '../../src/workflows/names.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { FakeImap } from '../helpers/fakes/fake-imap.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailboxDeps, storeServedAccount } from '../helpers/product/served-account.ts';
import { startTestWorkers, type TestWorkers } from '../helpers/product/temporal-workers.ts';
import { openSyncGround, type SyncGround } from '../helpers/product/watched-account.ts';

let ground: SyncGround;
let workers: TestWorkers;
let deps: MailboxDeps;
let imap: FakeImap;
let accountId: string;
let sendId: string;
/** attempts that have not ended */
let underWay = 0;
/** ends the submissions that the SMTP server does not answer */
const silent: ((error: Error) => void)[] = [];
/** what the SMTP server was given */
let submitted: Buffer | undefined;

const WAIT = { timeoutMs: 30_000 };

beforeAll(async () => {
  ground = await openSyncGround();
  deps = mailboxDeps(ground);
  const submitter = {
    // the server is given the message, and never says whether it has accepted it
    submit: async (_account: string, _smtp: unknown, message: { source: Buffer; beforeData(): Promise<void> }) => {
      await message.beforeData();
      submitted = message.source;
      return new Promise<never>((_, reject) => silent.push(reject));
    },
    drop: async () => {},
    close: async () => {},
  };
  const activities = createSendActivities({
    ...deps,
    submitter,
    publicUrl: 'http://127.0.0.1:3000',
    // the attempt of a terminated run stands for one that died with its worker
    renewMs: 3_600_000,
  });
  const submitEmail: typeof activities.submitEmail = async (ref) => {
    underWay++;
    return activities.submitEmail(ref).finally(() => underWay--);
  };
  workers = await startTestWorkers(withFailures({ ...activities, submitEmail }));
}, 60_000);
afterAll(async () => {
  await workers?.stop();
  await deps?.sessions.close();
  await ground?.close();
});

beforeEach(async () => {
  submitted = undefined;
  imap = await new FakeImap({ folders: { Sent: ['\\Sent'] } }).listen();
  const session = await openTestSession({ user: 'reader@example.test', password: 'p', imapPort: imap.port });
  const folders = await listFoldersWithStatus(session);
  await session.end();
  accountId = newId('account');
  await storeServedAccount(deps, accountId, { port: imap.port, folders });
  sendId = newId('email');
  const inputKey = inputKeyOf(accountId, sendId);
  const own = { apiKeyId: 'pk_1', apiKeyName: 'key', metadata: null, trackingId: null, tracking: null };
  await recordSend(deps.db, { ...own, id: sendId, accountId, draftId: null, inputKey });
  const input = { to: [{ email: 'bea@elsewhere.test' }], subject: 'Hello', plain_text: 'Hi' };
  await storeInput(deps.storage, inputKey, { input });
});
afterEach(async () => {
  // workers stop only once their activities have ended
  for (const end of silent.splice(0)) end(new MailError('provider_error', 'smtp', 'the test is over'));
  await waitFor(() => underWay === 0, WAIT);
  await imap.close();
});

const row = () => loadSend(deps.db, accountId, sendId);
const start = (type: string, workflowId: string) =>
  workers.client.workflow.start(type, { taskQueue: QUEUES.sends, workflowId, args: [{ accountId, sendId }] });
/** As much later as that a run must have been seen by then. */
const pass = () =>
  deps.db
    .update(sends)
    .set({ updatedAt: new Date(Date.now() - 20 * 60_000) })
    .where(eq(sends.id, sendId));

const looks = () =>
  createLostRunLooks({
    db: deps.db,
    client: workers.client,
    logger: createLogger('silent', 'test'),
    heartbeatTimeoutMs: 4_000,
  });

/** A send whose run was terminated after the message had begun to leave. */
async function loseSubmission(): Promise<void> {
  const run = await start(WORKFLOWS.sendEmail, sendWorkflowId(sendId));
  await waitFor(() => submitted !== undefined, WAIT);
  await run.terminate('by an operator');
  expect((await row())?.state).toBe('submitting');
  await pass();
}

describe('a send whose run was terminated while it was submitted', () => {
  it('is unknown when no copy of it is found, and is not sent again', async () => {
    await loseSubmission();
    submitted = undefined;
    await looks().submissions();
    await waitFor(async () => (await row())?.state === 'unknown', WAIT);
    expect(submitted).toBeUndefined();
  }, 60_000);

  it('is sent when its copy is in Sent, which gets its id', async () => {
    await loseSubmission();
    imap.add('Sent', submitted as Buffer, { flags: ['\\Seen'] });
    await looks().submissions();
    await waitFor(async () => (await row())?.storageKey === null, WAIT);
    expect(await row()).toMatchObject({ state: 'sent', hasProvisional: false, inputKey: null });
    expect(imap.folder('Sent').messages).toHaveLength(1);
  }, 60_000);
});

it('a send whose run is under way has no second one', async () => {
  const run = await start(WORKFLOWS.sendEmail, sendWorkflowId(sendId));
  await waitFor(() => submitted !== undefined, WAIT);
  await pass();
  await looks().submissions();
  const { runId, status } = await workers.client.workflow.getHandle(sendWorkflowId(sendId)).describe();
  expect([runId, status.name]).toEqual([run.firstExecutionRunId, 'RUNNING']);
  await run.terminate('the test is over');
}, 60_000);

it('a send whose copy was not filed when its run was lost gets another one for that', async () => {
  await loseSubmission();
  await markSent(deps.db, sendId, { rejected: [] });
  await pass();
  await looks().filings();
  await workers.client.workflow.getHandle(finishSendWorkflowId(sendId)).result();
  expect(await row()).toMatchObject({ storageKey: null, inputKey: null, hasProvisional: false });
  expect(imap.folder('Sent').messages).toHaveLength(1);
}, 60_000);

it('a send and a draft that have just begun are not given up by a worker whose clock is a minute ahead', async () => {
  const draftId = newId('draft');
  await recordDraft(deps.db, {
    ...{ id: draftId, accountId, inputKey: null, metadata: null, trackingId: null, tracking: null },
  });
  const { now } = Date;
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => now.call(Date) + 60_000);
  try {
    const { queuedSends, saves } = looks();
    await queuedSends();
    await saves();
  } finally {
    clock.mockRestore();
  }
  expect((await row())?.state).toBe('queued');
  expect((await loadDraft(deps.db, accountId, draftId))?.state).toBe('saving');
});
