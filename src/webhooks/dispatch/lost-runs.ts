import type { Client } from '@temporalio/client';
import { createLimiter } from '../../async.ts';
import type { Db } from '../../db/driver/client.ts';
import { getInstallationValue, setInstallationValue } from '../../db/coordination/installation.ts';
import type { Logger } from '../../runtime/logger.ts';
import { unavailablePart } from '../../outage.ts';
import { WORKFLOWS } from '../../workflows/names.ts';
import { getRunState } from './delivery-runs.ts';
import { overdueDeliveries, pendingOfRun, pendingRuns } from './delivery-queries.ts';
import { failDeliveries, releaseDeliveries } from '../log/delivery-state.ts';

export interface LostRunsDeps {
  db: Db;
  client: Client;
  logger: Logger;
}

/** Terminations of the last ms are looked at again: visibility may be late. */
const LOOK_BACK_MS = 120_000;
/** A delivery whose attempt is late by this is checked: its run may have been lost. */
const OVERDUE_MS = 2 * 60_000;
const OVERDUE_PAGE = 500;
const TERMINATED_PAGE = 100;
/** Calls to Temporal at a time. */
const PARALLEL_CHECKS = 10;
const NAMESPACE = 'temporal_namespace';
const ENDED = 'its run was ended before the delivery was made';

/** Finds deliveries whose run will not make them. */
export interface LostRuns {
  /** Deliveries whose run an operator has terminated have failed; others of the run go to a new one. */
  findTerminated(): Promise<void>;
  /** Releases deliveries whose runs are gone when Temporal has lost its store: its namespace is another one than before. */
  findLostStore(): Promise<void>;
  /** Deliveries that are late: their run is unknown to Temporal, has ended, or was never given them. */
  findOverdue(onProgress?: () => void): Promise<void>;
}

/** See LostRuns. */
export function createLostRuns({ db, client, logger }: LostRunsDeps): LostRuns {
  /** terminated runs that were checked, and when the last check of all of them began */
  const seen = new Set<string>();
  let lookedAt = Date.now();

  /** @param deliveryIds ones that the store says this run has */
  async function repairRun(workflowId: string, deliveryIds: readonly string[]): Promise<void> {
    if (deliveryIds.length === 0) return;
    const run = await getRunState(client.workflow, workflowId);
    if (run.is === 'running') return;
    const given = new Set(run.is === 'ended' ? run.deliveryIds : []);
    const failed = deliveryIds.filter((id) => given.has(id));
    const released = deliveryIds.filter((id) => !given.has(id));
    logger.warn({ workflowId, run: run.is, failed, released }, 'deliveries had lost their run');
    if (failed.length > 0) await failDeliveries(db, failed, { workflowId, error: ENDED });
    if (released.length > 0) await releaseDeliveries(db, released, workflowId);
  }

  async function findTerminated(): Promise<void> {
    const began = Date.now();
    const since = new Date(Math.min(lookedAt, began) - LOOK_BACK_MS).toISOString();
    const query = `WorkflowType = "${WORKFLOWS.deliverWebhooks}" AND ExecutionStatus IN ("Terminated", "TimedOut") AND CloseTime > "${since}"`;
    const found = new Set<string>();
    const check = async ({ workflowId, runId }: { workflowId: string; runId: string }) => {
      // a reset terminates the run before it: the state of the last one counts
      const repair = async () => repairRun(workflowId, await pendingOfRun(db, workflowId));
      if (await orGoOn(logger, workflowId, repair)) seen.add(runId);
    };
    for await (const page of pagesOf(client.workflow.list({ query, pageSize: TERMINATED_PAGE }), TERMINATED_PAGE)) {
      for (const { runId } of page) found.add(runId);
      await inParallel(
        page.filter(({ runId }) => !seen.has(runId)),
        check,
      );
    }
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
      logger.warn('Temporal has another store than before: pending deliveries whose runs are gone get new ones');
      await releaseUnknown({ db, client, logger });
    }
    await setInstallationValue(db, NAMESPACE, id);
  }

  async function findOverdue(onProgress: () => void = () => {}): Promise<void> {
    await forEachPage(OVERDUE_PAGE, async (afterId) => {
      const page = await overdueDeliveries(db, { lateMs: OVERDUE_MS, afterId, limit: OVERDUE_PAGE });
      const byRun = new Map<string, string[]>();
      for (const { id, workflowId } of page) byRun.set(workflowId, [...(byRun.get(workflowId) ?? []), id]);
      await inParallel([...byRun], async ([workflowId, ids]) => {
        onProgress();
        await orGoOn(logger, workflowId, () => repairRun(workflowId, ids));
      });
      return page.map(({ id }) => id);
    });
  }

  return { findTerminated, findLostStore, findOverdue };
}

/**
 * Repairs one run. One whose state cannot be read, for example as its input was sealed with a key that is gone, is logged and
 * left: the others are repaired. Whether it was done. Rejects where Temporal or the database is away.
 */
async function orGoOn(logger: Logger, workflowId: string, repair: () => Promise<void>): Promise<boolean> {
  try {
    await repair();
    return true;
  } catch (err) {
    if (unavailablePart(err)) throw err;
    logger.warn({ err, workflowId }, 'could not find out what became of a delivery run');
    return false;
  }
}

/** Releases deliveries of runs that Temporal does not know; runs that were started since are left alone. */
async function releaseUnknown({ db, client, logger }: LostRunsDeps): Promise<void> {
  await forEachPage(OVERDUE_PAGE, async (afterId) => {
    const page = await pendingRuns(db, { afterId, limit: OVERDUE_PAGE });
    await inParallel(page, async ({ workflowId, deliveryIds }) => {
      await orGoOn(logger, workflowId, async () => {
        const { is } = await getRunState(client.workflow, workflowId);
        if (is === 'unknown') await releaseDeliveries(db, deliveryIds, workflowId);
      });
    });
    return page.map(({ workflowId }) => workflowId);
  });
}

/** Goes through pages; `page` does one from after an id, and returns its ids in order. */
async function forEachPage(size: number, page: (afterId: string) => Promise<string[]>): Promise<void> {
  for (let afterId = ''; ; ) {
    const ids = await page(afterId);
    if (ids.length < size) return;
    afterId = ids.at(-1) ?? afterId;
  }
}

async function* pagesOf<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let page: T[] = [];
  for await (const item of items) {
    if (page.push(item) < size) continue;
    yield page;
    page = [];
  }
  yield page;
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const limit = createLimiter(PARALLEL_CHECKS);
  await Promise.all(items.map((item) => limit(() => work(item))));
}
