import { Context } from '@temporalio/activity';
import type { Db } from '../db/driver/client.ts';
import { deleteOldMail } from '../maintenance/mail-retention.ts';
import { retentions } from '../maintenance/retention.ts';
import { nextSweep, saveSweep, unreferencedKeys } from '../db/coordination/stored-objects.ts';
import { forgetDeadWorkers } from '../db/coordination/workers.ts';
import type { Logger } from '../runtime/logger.ts';
import { giveUpStaleDrafts } from '../outgoing/draft-state.ts';
import { giveUpStaleSends } from '../outgoing/send-state.ts';
import { deleteExpiredUploads, sweepUploads } from '../outgoing/uploads.ts';
import type { Storage } from '../storage/storage.ts';
import type { LostRuns } from '../webhooks/dispatch/lost-runs.ts';
import { removeAllExcluded } from '../mailbox/folders/exclude.ts';
import { withHeartbeat } from './heartbeat.ts';

export interface HousekeepingDeps {
  db: Db;
  storage: Storage;
  lostRuns: Pick<LostRuns, 'findOverdue'>;
  /** how long the audit log is stored, ms; left out: 90 days */
  auditRetentionMs?: number;
  logger: Logger;
}

export type HousekeepingActivities = ReturnType<typeof createHousekeepingActivities>;

/** How long one execution of `deleteExpired` works, about. */
const STEP_MS = 60_000;
/** Interval between two sweeps of one account's storage; younger objects may be about to get a row. */
const SWEEP_MS = 24 * 60 * 60 * 1000;
/** How long one execution of `deleteExpired` sweeps; the execution of the next hour continues. */
const SWEEP_STEP_MS = 2 * 60_000;

/** Activities of the `housekeeping` workflow. */
export function createHousekeepingActivities(deps: HousekeepingDeps) {
  const { db, storage, lostRuns, logger } = deps;
  /**
   * Deletes expired rows in bounded steps; `done: false` when more are left. Gives up sends and drafts that lost their run,
   * and deletes objects in storage that no row names.
   */
  async function deleteExpired(): Promise<{ done: boolean }> {
    const until = performance.now() + STEP_MS;
    for (const { ageMs, deleteBefore } of retentions(deps)) {
      for (let deleted = -1; deleted !== 0; ) {
        if (performance.now() >= until) return { done: false };
        Context.current().heartbeat();
        deleted = await deleteBefore(db, new Date(Date.now() - ageMs));
      }
    }
    const isOver = () => {
      Context.current().heartbeat();
      return performance.now() >= until;
    };
    if (!(await withHeartbeat(() => removeAllExcluded({ db, storage }, isOver)))) return { done: false };
    if (!(await deleteOldMail({ db, storage }, isOver))) return { done: false };
    if (!(await deleteExpiredUploads({ db, storage }, isOver))) return { done: false };
    await forgetDeadWorkers(db);
    const deleteFiles = (keys: string[]) => storage.delete(keys);
    await giveUpStaleSends(db, new Date(), deleteFiles);
    await giveUpStaleDrafts(db, new Date(), deleteFiles);
    for (const sweep of [sweepAccounts, sweepLeftUploads]) {
      await sweep(deps, performance.now() + SWEEP_STEP_MS).catch((err: unknown) => {
        logger.warn({ err }, 'storage sweep interrupted; it continues in an hour');
      });
    }
    return { done: true };
  }

  /** Restarts deliveries that lost their run, as each worker does periodically. */
  async function repairDeliveries(): Promise<void> {
    await lostRuns.findOverdue(() => Context.current().heartbeat());
  }

  return { deleteExpired, repairDeliveries };
}

/** Deletes objects that no row names: a process that is killed between writing a file and saving its row leaves them. */
async function sweepAccounts({ db, storage, logger }: HousekeepingDeps, until: number): Promise<void> {
  const before = new Date(Date.now() - SWEEP_MS);
  for (let due = await nextSweep(db, before); due && performance.now() < until; due = await nextSweep(db, before)) {
    Context.current().heartbeat();
    const { accountId, after } = due;
    if (after === null) await storage.deleteUnfinished(`${accountId}/`, before);
    const objects = await storage.list(`${accountId}/`, after ?? undefined);
    const old = objects.filter(({ modifiedAt }) => modifiedAt < before).map(({ key }) => key);
    const unused = await unreferencedKeys(db, accountId, old);
    await storage.delete(unused);
    if (unused.length > 0) logger.warn({ accountId, objects: unused.length }, 'deleted orphaned storage objects');
    await saveSweep(db, accountId, objects.at(-1)?.key ?? null, new Date());
  }
}

/** Deletes objects of uploads that no longer exist. */
async function sweepLeftUploads({ storage, logger }: HousekeepingDeps, until: number): Promise<void> {
  const left = await sweepUploads(storage, () => {
    Context.current().heartbeat();
    return performance.now() >= until;
  });
  if (left > 0) logger.warn({ objects: left }, 'deleted orphaned storage objects');
}
