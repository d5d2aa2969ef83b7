import type { WorkflowClient } from '@temporalio/client';
import type { AccountStatus, InitialSyncStatus } from '../contract/account.ts';
import { accountIdsAfter, changeInitialSync, changeStatus } from '../db/queries/accounts.ts';
import type { Db } from '../db/driver/client.ts';
import { countAccounts, getAccountState } from '../db/queries/account-health.ts';
import { unfinishedImports } from '../db/queries/imports.ts';
import { deleteIntentsBefore } from '../db/access/connect-intents.ts';
import { type NewEvent, recordEvents } from '../db/outbox.ts';
import { wakeImportRun } from './import-history.ts';
import {
  accountWorkflowId,
  initialSyncWorkflowId,
  QUEUES,
  removeWorkflowId,
  SEARCH_KEYS,
  searchableBy,
  SIGNALS,
  WORKFLOWS,
} from '../workflows/names.ts';

export interface AccountDeps {
  db: Db;
  client: WorkflowClient;
  /** how long a watching activity may go without a heartbeat before another worker takes its mailbox over, ms */
  heartbeatTimeoutMs: number;
}

/** The state of an account, as its workflow needs it. */
export interface AccountState {
  status: AccountStatus;
  initialSync: InitialSyncStatus | null;
  /** false: no connection is held open; left out by earlier versions */
  watch?: boolean;
}

export type AccountActivities = ReturnType<typeof createAccountActivities>;

/** Accounts of one step of `ensureAccounts`. */
const BATCH = 50;
/** Lists the workflows of accounts that run. */
export const RUNNING = `WorkflowType = "${WORKFLOWS.account}" AND ExecutionStatus = "Running"`;
const INTENT_RETENTION_MS = 60 * 60 * 1000;

/** Activities of the `account` and `initialSync` workflows. */
export function createAccountActivities({ db, client, heartbeatTimeoutMs }: AccountDeps) {
  const startOptions = (accountId: string) => accountStart(accountId, heartbeatTimeoutMs);

  /**
   * Makes the account's workflow connect again; starts a missing one, which repairs a lost one. Starts the imports of the
   * account that are due, too.
   */
  async function startAccount({ accountId }: { accountId: string }): Promise<void> {
    const { args, typedSearchAttributes, ...options } = startOptions(accountId);
    const initial = await loadAccount({ accountId });
    await client.signalWithStart(WORKFLOWS.account, {
      ...options,
      args: args.map((input) => ({ ...input, initial })),
      typedSearchAttributes: [...typedSearchAttributes, { key: SEARCH_KEYS.mailStatus, value: 'connecting' }],
      signal: SIGNALS.reconnected,
      signalArgs: [],
    });
    for (const id of await unfinishedImports(db, accountId)) {
      await wakeImportRun(client, { id, accountId }, heartbeatTimeoutMs);
    }
  }

  /** Null when the account does not exist or is being removed. */
  async function loadAccount({ accountId }: { accountId: string }): Promise<AccountState | null> {
    const state = await getAccountState(db, accountId);
    return state ? { status: state.status, initialSync: state.initialSync, watch: state.watch } : null;
  }

  /**
   * Commits a change of status with its event. Returns the resulting status: not the requested one when the account
   * was reconnected after the watch with `watchEpoch`; null when the account does not exist.
   */
  async function setAccountStatus(input: {
    accountId: string;
    status: AccountStatus;
    detail: string;
    watchEpoch?: number;
  }): Promise<AccountStatus | null> {
    const { accountId, ...change } = input;
    return db.transaction(async (tx) => {
      const changed = await changeStatus(tx, accountId, change);
      if (changed) {
        const event = statusEvent(accountId, { ...change, ...changed }, new Date());
        await recordEvents(tx, accountId, [event]);
        return change.status;
      }
      return (await getAccountState(tx, accountId))?.status ?? null;
    });
  }

  /** How many emails the initial sync has imported; null when the account does not exist. */
  async function countImported({ accountId }: { accountId: string }): Promise<number | null> {
    return (await getAccountState(db, accountId))?.imported ?? null;
  }

  /**
   * Commits a step of the initial sync with its event. True: the sync is in the state `to`, by this call or an earlier
   * one. False: it was not requested, or has ended in another state.
   */
  async function setInitialSync(input: {
    accountId: string;
    to: 'running' | 'completed' | 'failed';
  }): Promise<boolean> {
    const { accountId, to } = input;
    return db.transaction(async (tx) => {
      const at = new Date();
      const from: InitialSyncStatus[] = to === 'running' ? ['pending'] : ['running'];
      const account = await changeInitialSync(tx, accountId, { from, to, at });
      if (!account) return (await getAccountState(tx, accountId))?.initialSync === to;
      const data = { initial_sync: account.initial_sync };
      await recordEvents(tx, accountId, [
        { type: `account.initial_sync.${to}`, objectId: accountId, data, createdAt: at },
      ]);
      return true;
    });
  }

  /**
   * Starts the workflows of accounts, and of removals under way, that are not running. Every worker does so when it starts,
   * which repairs lost workflows. Where as many run as there are accounts, it starts none of these.
   */
  async function ensureAccounts(): Promise<void> {
    await deleteIntentsBefore(db, new Date(Date.now() - INTENT_RETENTION_MS));
    const allRun = (await client.count(RUNNING)).count >= (await countAccounts(db));
    let after = '';
    for (;;) {
      const batch = await accountIdsAfter(db, after, BATCH);
      const wanted = batch.filter(({ removed }) => removed || !allRun);
      await Promise.all(
        wanted.map(({ id, removed }) =>
          client.start(removed ? WORKFLOWS.removeAccount : WORKFLOWS.account, {
            ...(removed ? removalStart(id)[1] : startOptions(id)),
            workflowIdConflictPolicy: 'USE_EXISTING',
          }),
        ),
      );
      const last = batch.at(-1);
      if (!last || batch.length < BATCH) return;
      after = last.id;
    }
  }

  return { startAccount, loadAccount, setAccountStatus, countImported, setInitialSync, ensureAccounts };
}

/** The start options of an account's workflow. `heartbeatTimeoutMs`: see AccountDeps. */
export function accountStart(accountId: string, heartbeatTimeoutMs: number) {
  return {
    taskQueue: QUEUES.commands,
    workflowId: accountWorkflowId(accountId),
    args: [{ accountId, heartbeatTimeoutMs }],
    typedSearchAttributes: searchableBy(accountId),
    staticSummary: `keep ${accountId} connected`,
  };
}

/** The type and the start options of the workflow that removes an account. */
export function removalStart(accountId: string) {
  const options = {
    taskQueue: QUEUES.commands,
    workflowId: removeWorkflowId(accountId),
    args: [{ accountId }],
    typedSearchAttributes: searchableBy(accountId),
    staticSummary: `remove ${accountId}`,
  };
  return [WORKFLOWS.removeAccount, options] as [string, typeof options];
}

/** The type and the start options of the workflow that imports the mail of an account. `heartbeatTimeoutMs`: see AccountDeps. */
export function importStart(accountId: string, heartbeatTimeoutMs: number) {
  const options = {
    taskQueue: QUEUES.commands,
    workflowId: initialSyncWorkflowId(accountId),
    args: [{ accountId, heartbeatTimeoutMs }],
    typedSearchAttributes: searchableBy(accountId),
    staticSummary: `import the last days of ${accountId}`,
  };
  return [WORKFLOWS.initialSync, options] as [string, typeof options];
}

/** The `account.status.…` event of a change of status. */
export function statusEvent(
  accountId: string,
  { status, previous, detail }: { status: AccountStatus; previous: AccountStatus; detail: string },
  createdAt: Date,
): NewEvent {
  const data = { status, previous_status: previous, status_detail: detail };
  return { type: `account.status.${status}`, objectId: accountId, data, createdAt };
}
