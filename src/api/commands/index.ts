import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { AuthIntent, ConnectIntent } from '../../contract/account.ts';
import { ApiError } from '../../contract/errors.ts';
import { isId } from '../../contract/ids.ts';
import { getAccount } from '../../db/queries/accounts.ts';
import { hasWorker } from '../../db/coordination/workers.ts';
import type { Db } from '../../db/driver/client.ts';
import type { FinishedRuns } from '../../db/coordination/finished-runs.ts';
import { deleteIntent, intentLocation, saveIntent } from '../../db/access/connect-intents.ts';
import { newId } from '../../new-id.ts';
import type { Secrets } from '../../security/secrets.ts';
import type { Storage } from '../../storage/storage.ts';
import {
  connectWorkflowId,
  deviceWorkflowId,
  QUEUES,
  removeWorkflowId,
  UPDATES,
  WORKFLOWS,
} from '../../workflows/names.ts';
import type { Commands } from '../deps.ts';
import type { SendLimits } from '../send-input.ts';
import { createChangeCommands } from './changes.ts';
import { createDraftCommands } from './drafts.ts';
import { workflowErrorToApiError } from './run-errors.ts';
import { execute, type RunDeps } from './run-workflow.ts';
import { reparseMailbox } from './reparse.ts';
import { listRuns } from './runs.ts';
import { createSendCommands } from './sends.ts';
import { createTurns, type Turns } from './turns.ts';
import { reloadAccount, syncMailbox } from './sync.ts';
import { verifyMailbox } from './verify.ts';

export interface CommandDeps {
  client: Client;
  db: Db;
  secrets: Secrets;
  storage: Storage;
  /** default: DEFAULT_SEND_LIMITS */
  sendLimits?: SendLimits;
  finished: FinishedRuns;
  retryDelivery: Commands['retryDelivery'];
  attemptWaiting: Commands['attemptWaiting'];
  startBatch: Commands['startBatch'];
  startReplay: Commands['startReplay'];
  cancelReplay: Commands['cancelReplay'];
  wakeImport: Commands['wakeImport'];
  /** how long callers wait, ms; for tests */
  connectDeadlineMs?: number;
  removeDeadlineMs?: number;
  changeDeadlineMs?: number;
}

const CONNECT_DEADLINE_MS = 45_000;
/** The part of the deadline that a connect waits for its turn, 21 s: a login, which may take 20 s (src/imap/session.ts), ends in time. */
const CONNECT_TURN_PART = 21 / 45;
const REMOVE_DEADLINE_MS = 20_000;
/** Of one mail server: one that does not respond keeps each for as long as a login may take. */
const CONNECTS_AT_ONCE = 25;

/** Commands that start workflows, one function each; failures are ApiErrors. */
export function createCommands(given: CommandDeps): Commands {
  const deps = { ...given, hasWorker: () => hasWorker(given.db) };
  const connects = createTurns(CONNECTS_AT_ONCE);
  return {
    connectMailbox: (intent) => connectMailbox({ ...deps, connects }, intent),
    connectByDevice: (signInId, intervalS) => connectByDevice(deps, signInId, intervalS),
    removeAccount: (accountId) => removeAccount(deps, accountId),
    retryDelivery: deps.retryDelivery,
    listRuns: (accountId, page) => listRuns(deps.client, accountId, page),
    attemptWaiting: deps.attemptWaiting,
    startBatch: deps.startBatch,
    startReplay: deps.startReplay,
    cancelReplay: deps.cancelReplay,
    wakeImport: deps.wakeImport,
    verifyMailbox: (accountId) => verifyMailbox(deps, accountId),
    syncMailbox: (accountId) => syncMailbox(deps, accountId),
    reloadAccount: (accountId) => reloadAccount(deps.client, accountId),
    reparseMailbox: (accountId) => reparseMailbox(deps, accountId),
    ...createChangeCommands(deps),
    ...createSendCommands(deps),
    ...createDraftCommands(deps),
  };
}

/**
 * Seals the caller's settings, has the workflow verify them, and returns the account's id. When this throws, nothing is
 * saved: the intent is deleted, and without it the workflow cannot save.
 */
async function connectMailbox(
  deps: CommandDeps & RunDeps & { connects: Turns },
  intent: ConnectIntent,
): Promise<string> {
  const { client, db, secrets } = deps;
  const intentId = newId('intent');
  await saveIntent(db, intentId, secrets.seal(intentLocation(intentId), JSON.stringify(intent)), new Date());
  const workflowId = connectWorkflowId(intentId);
  let failure: unknown;
  try {
    await execute(deps, {
      type: WORKFLOWS.connectMailbox,
      workflowId,
      args: [{ intentId }],
      summary: 'log in to a mailbox and connect it',
      turn: { turns: deps.connects, key: serverOf(intent), part: CONNECT_TURN_PART },
      deadlineMs: deps.connectDeadlineMs ?? CONNECT_DEADLINE_MS,
    });
  } catch (error) {
    failure = error;
  }
  // It may have been saved just as the deadline passed.
  const accountId = await deleteIntent(db, intentId).catch((error: unknown) => {
    throw workflowErrorToApiError(error, LATE_CONNECT, MAY_BE_SAVED);
  });
  if (accountId) return accountId;
  // not awaited: without its intent the workflow saves nothing in any case
  void stop(client, workflowId);
  throw workflowErrorToApiError(failure, LATE_CONNECT, { notDone: NOTHING_SAVED, mayBeDone: NOTHING_SAVED });
}

/** Starts the run that waits for the owner, once. */
async function connectByDevice({ client }: CommandDeps, signInId: string, intervalS: number): Promise<void> {
  try {
    await client.workflow.start(WORKFLOWS.connectByDevice, {
      taskQueue: QUEUES.commands,
      workflowId: deviceWorkflowId(signInId),
      args: [{ signInId, intervalS }],
      staticSummary: 'wait for an owner who signs in on another device, then connect the mailbox',
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return;
    throw workflowErrorToApiError(error, NOTHING_SAVED);
  }
}

/** What the turns of connects are counted by: the IMAP server, the stored account, or the domain that names the server. */
function serverOf({ account_id: accountId, credentials: { user = '', imap } }: AuthIntent): string {
  return imap?.host.toLowerCase() ?? accountId ?? user.slice(user.lastIndexOf('@') + 1).toLowerCase();
}

/** Returns once everything is deleted; after the deadline as soon as readers no longer find the account. */
async function removeAccount(deps: CommandDeps & RunDeps, accountId: string): Promise<void> {
  const { client, db } = deps;
  if (!isId('account', accountId) || !(await getAccount(db, accountId))) throw notFound();
  try {
    const run = await runRemoval(deps, accountId);
    // that run has removed the account before a restore of the database, and waits for the delivery of its last events
    if (await getAccount(db, accountId)) {
      await endWith(client, run, 'the account was restored, and is removed again');
      await runRemoval(deps, accountId);
    }
  } catch (error) {
    // Marked as removed: the caller need not wait for the rest.
    if (!(await getAccount(db, accountId))) return;
    throw workflowErrorToApiError(error, LATE_REMOVAL, { notDone: LATE_REMOVAL, mayBeDone: LATE_REMOVAL });
  }
}

/** Returns the run that it started or attached to. */
function runRemoval(deps: CommandDeps & RunDeps, accountId: string): Promise<WorkflowHandle> {
  return execute(deps, {
    type: WORKFLOWS.removeAccount,
    workflowId: removeWorkflowId(accountId),
    accountId,
    args: [{ accountId }],
    summary: `remove ${accountId}`,
    repeats: true,
    isKept: true,
    deadlineMs: deps.removeDeadlineMs ?? REMOVE_DEADLINE_MS,
    until: async ({ handle }) => {
      await handle.executeUpdate<void, []>(UPDATES.deleted);
      return handle;
    },
  });
}

/** Terminates this run, unless it has ended; not a later one, which another call may have begun. */
async function endWith(client: Client, run: WorkflowHandle, reason: string): Promise<void> {
  try {
    await client.withDeadline(Date.now() + STOP_MS, () => run.terminate(reason));
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

function notFound(): ApiError {
  return new ApiError('not_found', 'no account has this id');
}

const LATE_CONNECT = 'the mail servers did not respond in time; nothing was saved';
const NOTHING_SAVED = 'nothing was saved';
const MAY_BE_SAVED = { notDone: NOTHING_SAVED, mayBeDone: 'the mailbox may have been connected' };
const LATE_REMOVAL = 'the account was not removed in time; its removal continues';

const STOP_MS = 5_000;

async function stop(client: Client, workflowId: string): Promise<void> {
  try {
    await client.withDeadline(Date.now() + STOP_MS, () => client.workflow.getHandle(workflowId).cancel());
  } catch {
    // It has ended, or was never started; without its intent it saves nothing in any case.
  }
}
