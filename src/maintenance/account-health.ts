import type { Client } from '@temporalio/client';
import {
  type AccountToRun,
  countConnected,
  findDueVerifications,
  findRunsToEnsure,
  findUnreported,
  markRunsEnsured,
  markVerificationBegun,
  notInSyncDetail,
} from '../db/queries/account-health.ts';
import { markInSyncAgain, markNotInSync, UNMARKED_AT_ONCE } from '../db/queries/accounts.ts';
import type { Db } from '../db/driver/client.ts';
import { inChunks } from '../db/driver/in-chunks.ts';
import { recordEvents } from '../db/outbox.ts';
import type { Logger } from '../runtime/logger.ts';
import {
  HOUSEKEEPING_WORKFLOW_ID,
  QUEUES,
  SEARCH_ATTRIBUTES,
  SEARCH_KEYS,
  searchableBy,
  SIGNALS,
  verifyWorkflowId,
  WORKFLOWS,
} from '../workflows/names.ts';
import { accountStart, RUNNING, statusEvent } from '../activities/account.ts';
import { ensureRun } from './ensure-run.ts';

/*
 * When the workflow of an account ends, so does its watch: an operator may terminate it, Temporal's store may be lost.
 * Temporal cannot repair that. So a worker reads Postgres every few seconds: `last_synced_at` says which accounts are not
 * in sync, and their workflows are started if they do not run.
 */

export interface HealthDeps {
  db: Db;
  client: Client;
  logger: Logger;
  /** milliseconds between two sync passes of a watch; see Config.sync */
  pollMs: number;
  /** how long a watching activity may be silent, ms */
  heartbeatTimeoutMs: number;
  /** registers what the workflows need in Temporal's store, where that is lost */
  ensureSearchAttributes(): Promise<void>;
}

/** Not in sync for so long (and longer than between two passes): the workflow is started, unless it runs. */
const START_AFTER_MS = 15_000;
/** Not in sync for so long: the account reports it. */
const REPORT_AFTER_MS = 5 * 60_000;
const AT_ONCE = 20;
/** Calls to Temporal in one check, for accounts that may all be running. */
const STARTS_OF_ONE_LOOK = 200;
const STARTS_WHERE_MISSING = 2_000;
/** Visibility may be some seconds late: the next check corrects what this one missed. */
const RUNNING_ACCOUNTS = `${RUNNING} AND ${SEARCH_ATTRIBUTES.mailStatus} != "disconnected"`;
/** Started by one check: all accounts of an installation are spread over the day. */
const VERIFICATIONS_AT_ONCE = 2;

/**
 * Starts missing workflows and due verifications, and reports which accounts are not in sync and which are in sync again.
 */
export async function checkAccounts(deps: HealthDeps): Promise<void> {
  const now = Date.now();
  await reportAll(deps, new Date(now));
  await ensureAccountRuns(deps, new Date(now - Math.max(START_AFTER_MS, 1.4 * deps.pollMs)));
  // marked when Temporal has it: the others stay due at the next check
  for (const accountId of await findDueVerifications(deps.db, VERIFICATIONS_AT_ONCE)) {
    await deps.client.workflow.start(WORKFLOWS.verifyMailbox, {
      taskQueue: QUEUES.commands,
      workflowId: verifyWorkflowId(accountId),
      args: [{ accountId }],
      typedSearchAttributes: searchableBy(accountId),
      staticSummary: `compare what is stored of ${accountId} with its mailbox`,
      workflowIdConflictPolicy: 'USE_EXISTING',
    });
    await markVerificationBegun(deps.db, accountId);
  }
  await startHousekeeping(deps.client);
}

/**
 * Starts the workflows of accounts that were last in sync before `before`, unless they run; replaces those that are stuck. Most accounts that are late for
 * hours have a workflow, and a server that is down: Temporal is asked for each of them rarely, unless it runs fewer
 * workflows than there are accounts.
 */
async function ensureAccountRuns(deps: HealthDeps, before: Date): Promise<void> {
  const { db, client } = deps;
  const areMissing = (await client.workflow.count(RUNNING_ACCOUNTS)).count < (await countConnected(db));
  const limit = areMissing ? STARTS_WHERE_MISSING : STARTS_OF_ONE_LOOK;
  const late = await findRunsToEnsure(db, before, { limit, isSpaced: !areMissing });
  if (late.length > 0) await deps.ensureSearchAttributes();
  for (let start = 0; start < late.length; start += AT_ONCE) {
    const some = late.slice(start, start + AT_ONCE);
    await Promise.all(some.map((account) => ensureAccountRun(deps, account)));
    await markRunsEnsured(
      db,
      some.map(({ id }) => id),
    );
  }
}

/**
 * Starts the workflow of an account, unless it runs. One that waits for a signal gets it, where the store has settings that it
 * does not know: the process that stored them ended before it sent the signal.
 */
async function ensureAccountRun(deps: HealthDeps, { id, watch }: AccountToRun): Promise<void> {
  const options = accountStart(id, deps.heartbeatTimeoutMs);
  const run = await ensureRun(deps, [WORKFLOWS.account, options]);
  const state = run?.typedSearchAttributes.get(SEARCH_KEYS.mailStatus);
  if (state !== 'disconnected' && !(state === 'unwatched' && watch)) return;
  deps.logger.warn({ accountId: id, state }, 'account has newer settings than its workflow');
  await deps.client.workflow.getHandle(options.workflowId).signal(SIGNALS.reconnected);
}

/** Starts the housekeeping workflow of the installation, unless it runs. */
export async function startHousekeeping(client: Client): Promise<void> {
  await client.workflow.start(WORKFLOWS.housekeeping, {
    workflowId: HOUSEKEEPING_WORKFLOW_ID,
    taskQueue: QUEUES.commands,
    staticSummary: 'delete what has expired, start what does not run',
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
}

async function reportAll({ db, logger }: HealthDeps, now: Date): Promise<void> {
  for (const { id, since, failure } of await findUnreported(db, new Date(now.getTime() - REPORT_AFTER_MS))) {
    const detail = notInSyncDetail(since, failure || 'no worker watches the mailbox');
    await db.transaction(async (tx) => {
      const status = await markNotInSync(tx, id, since, detail);
      if (!status) return;
      logger.warn({ accountId: id, since }, 'account not in sync');
      await recordEvents(tx, id, [statusEvent(id, { status, previous: status, detail }, now)]);
    });
  }
  await inChunks(UNMARKED_AT_ONCE, () => reportInSyncAgain(db, logger, now));
}

async function reportInSyncAgain(db: Db, logger: Logger, now: Date): Promise<{ rowCount: number }> {
  const unmarked = await db.transaction(async (tx) => {
    const some = await markInSyncAgain(tx);
    for (const { id, status } of some) {
      if (status !== 'running') continue;
      await recordEvents(tx, id, [statusEvent(id, { status, previous: status, detail: '' }, now)]);
    }
    return some;
  });
  for (const { id, status } of unmarked)
    if (status === 'running') logger.info({ accountId: id }, 'account in sync again');
  return { rowCount: unmarked.length };
}
