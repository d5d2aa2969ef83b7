import { Context } from '@temporalio/activity';
import type { WorkflowClient, WorkflowHandle } from '@temporalio/client';
import { markRemoved } from '../db/queries/accounts.ts';
import type { Db } from '../db/driver/client.ts';
import type { LeaseNotifications } from '../db/coordination/lease.ts';
import { recordEvents } from '../db/outbox.ts';
import {
  checkNotRestored,
  deleteAccountRow,
  deleteLinksOf,
  deleteMailRows,
  eraseAccount,
  eraseEvents,
  isBeingRemoved,
} from '../db/coordination/removal.ts';
import type { Logger } from '../runtime/logger.ts';
import type { Storage } from '../storage/storage.ts';
import { eraseResponses, skipOfRemoved } from '../webhooks/log/delivery-state.ts';
import {
  accountRunIds,
  isStuck,
  OUTLIVES_ACCOUNT,
  removeWorkflowId,
  SEARCH_ATTRIBUTES,
  SIGNALS,
  WORKFLOWS,
} from '../workflows/names.ts';
import { withHeartbeat } from './heartbeat.ts';

interface RunsOfRemoved {
  accountId: string;
  isErased?: boolean;
}

export interface RemoveDeps {
  db: Db;
  storage: Storage;
  client: WorkflowClient;
  /** how long the runs of an account may take to end before they are terminated, ms; for tests */
  endMs?: number;
}

export type RemoveActivities = ReturnType<typeof createRemoveActivities>;

/** The gRPC status when another attempt has deleted the run. */
const GRPC_NOT_FOUND = 5;
/** WorkflowExecutionStatus of Temporal's API. */
const RUNNING = 1;

/** Longer than a heartbeat interval: a watching activity learns of its cancellation from a heartbeat. */
const RUN_END_MS = 90_000;

/** The work of an account has ended this long after its removal began, since its connections are closed. */
const WORK_ENDS_MS = 5_000;

/**
 * Closes this process's pooled connections of every account whose removal begins: its passwords stay in memory no longer
 * than the work that uses them. Some seconds later it replaces the parser's threads, whose memory may hold its mail.
 */
export function dropOnRemoval(
  leases: Pick<LeaseNotifications, 'onRemoved'>,
  dropped: { pools: readonly { drop(accountId: string): void | Promise<void> }[]; parser: { replaceThreads(): void } },
  logger: Logger,
): void {
  let replacing: NodeJS.Timeout | undefined;
  leases.onRemoved((accountId) => {
    for (const pool of dropped.pools) {
      Promise.resolve(pool.drop(accountId)).catch((err: unknown) => {
        logger.warn({ err, accountId }, 'could not close the connections of a removed account');
      });
    }
    replacing ??= setTimeout(() => {
      replacing = undefined;
      dropped.parser.replaceThreads();
    }, WORK_ENDS_MS).unref();
  });
}

/**
 * Activities of the `removeAccount` workflow; each is idempotent. Temporal keeps the run through a restore of the database: those
 * that would harm an account which the restore brought back throw AccountRestored, which ends the run.
 */
export function createRemoveActivities({ db, storage, client, endMs = RUN_END_MS }: RemoveDeps) {
  /** Marks the account as removed: readers no longer find it. False: it does not exist. */
  async function beginRemoval({ accountId }: { accountId: string }): Promise<boolean> {
    return db.transaction(async (tx) => {
      const at = new Date();
      const account = await markRemoved(tx, accountId, at);
      if (!account) return isBeingRemoved(tx, accountId);
      const { id, user_id, name, provider } = account;
      const data = { account: { id, user_id, name, provider } };
      await recordEvents(tx, accountId, [{ type: 'account.remove', objectId: accountId, data, createdAt: at }]);
      return true;
    });
  }

  /** Cancels the account's runs, which can no longer write in any case. */
  async function stopRuns({ accountId }: { accountId: string }): Promise<void> {
    await checkNotRestored(db, accountId);
    for (const workflowId of await runsOf(client, accountId)) {
      await unlessEnded(client.getHandle(workflowId).cancel());
    }
  }

  /** Waits until the account's runs have ended; terminates those that do not end. */
  async function awaitRuns({ accountId }: { accountId: string }): Promise<void> {
    await checkNotRestored(db, accountId);
    await awaitEnds(client, accountId, endMs);
  }

  /** Deletes the account's mail: rows, then files. */
  async function deleteContents({ accountId }: { accountId: string }): Promise<void> {
    await withHeartbeat(async () => {
      await checkNotRestored(db, accountId);
      await deleteMailRows(db, accountId);
      await checkNotRestored(db, accountId);
      await storage.deletePrefix(`${accountId}/`);
    });
  }

  /**
   * Erases everything but ids, types and times from events, deliveries and the account's row; deletes its links. An event
   * with a pending delivery keeps its content until then; `skipPending`: skips such deliveries, except that of
   * `account.remove`, which continues without whose account it was. False: content or a pending delivery is left.
   */
  async function eraseLog({ accountId, skipPending }: { accountId: string; skipPending: boolean }): Promise<boolean> {
    return withHeartbeat(async () => {
      await checkNotRestored(db, accountId);
      await eraseAccount(db, accountId);
      await deleteLinksOf(db, accountId);
      if (skipPending) await skipOfRemoved(db, accountId);
      const isErased = await eraseEvents(db, accountId, { evenPending: skipPending });
      await eraseResponses(db, accountId);
      return isErased;
    });
  }

  /**
   * Deletes the account's closed runs from Temporal, with their histories. `isErased`: nothing is left to deliver, so runs
   * that wait for their next attempt end now. False: some are still running.
   */
  async function deleteRuns({ accountId, isErased = false }: RunsOfRemoved): Promise<boolean> {
    return withHeartbeat(async () => {
      await checkNotRestored(db, accountId);
      return deleteClosedRuns(client, accountId, isErased);
    });
  }

  /** Deletes the account's own row, for which `ensureAccounts` restarts a lost removal until then. */
  async function finishRemoval({ accountId }: { accountId: string }): Promise<void> {
    await deleteAccountRow(db, accountId);
  }

  return { beginRemoval, stopRuns, awaitRuns, deleteContents, eraseLog, deleteRuns, finishRemoval };
}

async function awaitEnds(client: WorkflowClient, accountId: string, endMs: number): Promise<void> {
  const until = performance.now() + endMs;
  const context = Context.current();
  for (const workflowId of await runsOf(client, accountId)) {
    const handle = client.getHandle(workflowId);
    while (await isRunning(handle)) {
      if (performance.now() >= until) {
        await unlessEnded(handle.terminate('the account is removed'));
        break;
      }
      context.heartbeat();
      await context.sleep(500);
    }
  }
}

async function deleteClosedRuns(client: WorkflowClient, accountId: string, isErased: boolean): Promise<boolean> {
  const { namespace } = client.options;
  let running = 0;
  for await (const { execution: workflowExecution, status, type } of listRuns(client, accountId)) {
    // the removal itself, whose history names only the account
    if (!workflowExecution || workflowExecution.workflowId === removeWorkflowId(accountId)) continue;
    if (Number(status) === RUNNING) {
      running += 1;
      const handle = client.getHandle(workflowExecution.workflowId ?? '');
      // started while the others were stopped, or not listed by then
      if (!OUTLIVES_ACCOUNT.includes(type?.name ?? '')) await unlessEnded(handle.cancel());
      else if (isErased && type?.name === WORKFLOWS.deliverWebhooks) await unlessEnded(endDelivery(handle));
      continue;
    }
    await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution }).catch((error: unknown) => {
      if ((error as { code?: unknown }).code !== GRPC_NOT_FOUND) throw error;
    });
  }
  return running === 0;
}

/** Ends a run without pending deliveries, which may wait for its next attempt, or be stuck. */
async function endDelivery(handle: WorkflowHandle): Promise<void> {
  if (isStuck(await handle.describe())) await handle.terminate('its workflow tasks failed');
  else await handle.signal(SIGNALS.retryNow);
}

/** Every run of the account that Temporal lists, undecoded: runs of other programs may hold undecryptable data. */
async function* listRuns(client: WorkflowClient, accountId: string) {
  let nextPageToken: Uint8Array | undefined;
  do {
    const page = await client.workflowService.listWorkflowExecutions({
      namespace: client.options.namespace,
      query: `${SEARCH_ATTRIBUTES.mailAccount} = "${accountId}"`,
      ...(nextPageToken ? { nextPageToken } : {}),
    });
    yield* page.executions;
    nextPageToken = page.nextPageToken;
  } while (nextPageToken && nextPageToken.length > 0);
}

/** The runs that must end with the account: those that its id names, and the others that Temporal lists. */
async function runsOf(client: WorkflowClient, accountId: string): Promise<Set<string>> {
  const ids = new Set(accountRunIds(accountId));
  for await (const { execution, status, type } of listRuns(client, accountId)) {
    const ends = Number(status) === RUNNING && !OUTLIVES_ACCOUNT.includes(type?.name ?? '');
    if (ends && execution?.workflowId) ids.add(execution.workflowId);
  }
  return ids;
}

async function isRunning(handle: { describe(): Promise<{ status: { name: string } }> }): Promise<boolean> {
  return (await unlessEnded(handle.describe()))?.status.name === 'RUNNING';
}

/** Undefined when the run does not exist or has ended. */
async function unlessEnded<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof Error && error.name === 'WorkflowNotFoundError') return undefined;
    throw error;
  }
}
