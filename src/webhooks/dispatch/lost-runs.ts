import type { Client } from '@temporalio/client';
import type { Db } from '../../db/driver/client.ts';
import { getInstallationValue, setInstallationValue } from '../../db/coordination/installation.ts';
import type { Logger } from '../../runtime/logger.ts';
import { unavailablePart } from '../../outage.ts';
import { WORKFLOWS } from '../../workflows/names.ts';
import { getRunState, terminateRun } from './delivery-runs.ts';
import { pendingOfRun, startedDeliveries } from './delivery-queries.ts';
import { failDeliveries, releaseDeliveries } from '../log/delivery-state.ts';

export interface LostRunsDeps {
  db: Db;
  client: Client;
  logger: Logger;
}

/** Terminations of the last two minutes before the previous look are checked again, ms: visibility may be late. */
const LOOK_BACK_MS = 120_000;
/** A delivery whose attempt is late by this is checked, ms: the run of a slow call responds that it is under way. */
const OVERDUE_MS = 40_000;
/** Deliveries of one statement. */
const PAGE = 500;
/** Calls to Temporal at a time: a few hundred a second, which leaves it to the runs. */
const PARALLEL_CHECKS = 10;
const NAMESPACE = 'temporal_namespace';
const ENDED = 'its run was ended before the delivery was made';

/** Finds deliveries whose runs will not make them, and repairs them. */
export interface LostRuns {
  /** Fails the deliveries of runs that an operator has terminated, and releases those that such a run was never given. */
  findTerminated(): Promise<void>;
  /** Repairs the runs of all deliveries when Temporal has lost its store: the id of its namespace has changed. */
  findLostStore(): Promise<void>;
  /** Repairs deliveries that are late: their run does not exist, has ended, cannot continue, or was never given them. */
  findOverdue(onProgress?: () => void): Promise<void>;
}

/** See LostRuns. Terminations from before it was made, but for the last two minutes, are left to `findOverdue`. */
export function createLostRuns({ db, client, logger }: LostRunsDeps): LostRuns {
  /** terminated executions that were checked, and when they were last listed */
  const seen = new Set<string>();
  let lookedAt = Date.now();

  /** `deliveryIds`: deliveries that this run has according to the store. */
  async function repairRun(workflowId: string, deliveryIds: readonly string[]): Promise<void> {
    if (deliveryIds.length === 0) return;
    const run = await getRunState(client.workflow, workflowId);
    if (run.is === 'running') return;
    // it is terminated: also those that are not late, or not on this page
    const ids = run.is === 'stuck' ? await pendingOfRun(db, workflowId) : deliveryIds;
    const given = new Set(run.is === 'ended' ? run.deliveryIds : []);
    const failed = ids.filter((id) => given.has(id));
    const released = ids.filter((id) => !given.has(id));
    logger.warn({ workflowId, run: run.is, failed, released }, 'delivery run lost; repairing its deliveries');
    if (failed.length > 0) await failDeliveries(db, failed, { workflowId, error: ENDED });
    if (released.length > 0) await releaseDeliveries(db, released, workflowId);
    // afterwards: the deliveries of a terminated run fail
    if (run.is === 'stuck') await terminateRun(client.workflow, { workflowId }, 'its workflow tasks failed');
  }

  async function findTerminated(): Promise<void> {
    const began = Date.now();
    const since = new Date(Math.min(lookedAt, began) - LOOK_BACK_MS).toISOString();
    const query = `WorkflowType = "${WORKFLOWS.deliverWebhooks}" AND ExecutionStatus IN ("Terminated", "TimedOut") AND CloseTime > "${since}"`;
    const found = new Set<string>();
    await inParallel(client.workflow.list({ query }), async ({ workflowId, runId }) => {
      found.add(runId);
      if (seen.has(runId)) return;
      // a reset terminates the execution before it: the state of the last one counts
      const repair = async () => repairRun(workflowId, await pendingOfRun(db, workflowId));
      if (await orSkip(logger, workflowId, repair)) seen.add(runId);
    });
    // all that had been terminated by then: a look that fails or takes long leaves no gap
    lookedAt = began;
    for (const runId of seen) if (!found.has(runId)) seen.delete(runId);
  }

  async function findLostStore(): Promise<void> {
    const { namespace } = client.options;
    const { namespaceInfo } = await client.workflowService.describeNamespace({ namespace });
    const id = `${namespace} ${namespaceInfo?.id ?? ''}`;
    const known = await getInstallationValue(db, NAMESPACE);
    if (known === id) return;
    if (known !== undefined) {
      logger.warn('Temporal store was replaced; starting pending deliveries again');
      await repairRuns();
    }
    await setInstallationValue(db, NAMESPACE, id);
  }

  /** Repairs the runs of the started deliveries that are late by `lateMs`, or of all. */
  async function repairRuns({ lateMs, onProgress = () => {} }: { lateMs?: number; onProgress?: () => void } = {}) {
    for (let afterId: string | undefined = ''; afterId !== undefined; ) {
      const page = await startedDeliveries(db, { lateMs, afterId, limit: PAGE });
      const byRun = new Map<string, string[]>();
      for (const { id, workflowId } of page) byRun.set(workflowId, [...(byRun.get(workflowId) ?? []), id]);
      await inParallel(byRun, async ([workflowId, ids]) => {
        onProgress();
        await orSkip(logger, workflowId, () => repairRun(workflowId, ids));
      });
      afterId = page.length < PAGE ? undefined : page.at(-1)?.id;
    }
  }

  const findOverdue = (onProgress?: () => void) =>
    repairRuns({ lateMs: OVERDUE_MS, ...(onProgress ? { onProgress } : {}) });

  return { findTerminated, findLostStore, findOverdue };
}

/**
 * Repairs one run. If its state cannot be read, for example because its input was sealed with a key that is gone, this is logged
 * and other runs are repaired. Resolves with whether it was repaired. Rejects while Temporal or the database is unavailable.
 */
async function orSkip(logger: Logger, workflowId: string, repair: () => Promise<void>): Promise<boolean> {
  try {
    await repair();
    return true;
  } catch (err) {
    if (unavailablePart(err)) throw err;
    logger.warn({ err, workflowId }, 'could not check delivery run; skipping it');
    return false;
  }
}

/** Does the work for all items, PARALLEL_CHECKS at a time. */
async function inParallel<T>(items: AsyncIterable<T> | Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  // one iterator, of which each takes the next item
  const shared = (async function* () {
    yield* items;
  })();
  const checks = Array.from({ length: PARALLEL_CHECKS }, async () => {
    for await (const item of shared) await work(item);
  });
  await Promise.all(checks);
}
