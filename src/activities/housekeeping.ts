import { Context } from '@temporalio/activity';
import { sql } from 'drizzle-orm';
import type { Db } from '../db/driver/client.ts';
import { deleteOldMail } from '../maintenance/mail-retention.ts';
import { type Retention, retentions } from '../maintenance/retention.ts';
import {
  type DueSweep,
  nextSweep,
  postponeSweep,
  saveSweep,
  unreferencedKeys,
} from '../db/coordination/stored-objects.ts';
import { forgetDeadWorkers } from '../db/coordination/workers.ts';
import type { Logger } from '../runtime/logger.ts';
import { isReadOnly } from '../outage.ts';
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

/** How long one execution of `deleteExpired` works, about; what a failed step took is not counted. */
const STEP_MS = 60_000;
/** An execution in which steps take so long to fail ends here, before its timeout of 5 minutes: its next attempt does them last. */
const LONGEST_MS = 4 * 60_000;
/** Interval between two sweeps of one account's storage; younger objects may be about to get a row. */
const SWEEP_MS = 24 * 60 * 60 * 1000;
/** How long one execution of `deleteExpired` sweeps; the execution of the next hour continues. */
const SWEEP_STEP_MS = 2 * 60_000;
/** Accounts whose sweep fails in one execution, before that is treated as an outage of the storage. */
const FAILED_SWEEPS = 3;
const HEARTBEAT_MS = 5_000;

interface Step {
  name: string;
  /** does some; returns whether nothing is left to do. `isOver`: whether time is up; called before each part of it */
  run(isOver: () => boolean): Promise<boolean>;
}

/** Activities of the `housekeeping` workflow. */
export function createHousekeepingActivities(deps: HousekeepingDeps) {
  const { db, lostRuns, logger } = deps;
  const allSteps = stepsOf(deps);

  /**
   * Deletes expired rows in bounded steps; `done: false` when more are left. Gives up sends and drafts that lost their run,
   * and deletes objects in storage that no row names. A step that fails stops no other.
   * @throws at its end, the error of the first step that failed
   */
  async function deleteExpired(): Promise<{ done: boolean }> {
    const failed: string[] = [];
    const before = Context.current().info.heartbeatDetails as string[] | undefined;
    return withHeartbeat(() => runSteps(lastFailedLast(allSteps, before ?? []), failed), HEARTBEAT_MS, failed);
  }

  async function runSteps(steps: readonly Step[], failed: string[]): Promise<{ done: boolean }> {
    const began = performance.now();
    let until = began + STEP_MS;
    let first: unknown;
    for (const { name, run } of steps) {
      const stepBegan = performance.now();
      if (failed.length > 0 && stepBegan - began >= LONGEST_MS) throw first;
      try {
        if (!(await run(() => performance.now() >= until))) return { done: false };
      } catch (err) {
        // the database is away, or only reads: no other step would do more
        if (isReadOnly(err) || (await isAway(db))) throw err;
        logger.error({ err, step: name }, 'housekeeping step failed; the others follow');
        first ??= err;
        failed.push(name);
        until += performance.now() - stepBegan;
      }
    }
    await sweep(began + LONGEST_MS);
    if (failed.length > 0) throw first;
    return { done: true };
  }

  async function sweep(latest: number): Promise<void> {
    for (const one of [sweepAccounts, sweepLeftUploads]) {
      await one(deps, Math.min(performance.now() + SWEEP_STEP_MS, latest)).catch((err: unknown) => {
        logger.warn({ err }, 'storage sweep interrupted; it continues in an hour');
      });
    }
  }

  /** Restarts deliveries that lost their run, as each worker does periodically. */
  async function repairDeliveries(): Promise<void> {
    await lostRuns.findOverdue(() => Context.current().heartbeat());
  }

  return { deleteExpired, repairDeliveries };
}

const isAway = (db: Db): Promise<boolean> =>
  db.execute(sql`select`).then(
    () => false,
    () => true,
  );

/** Those that failed in the attempt before come last: they may use up the time of this one. */
function lastFailedLast(steps: readonly Step[], failed: readonly string[]): Step[] {
  const isFailing = ({ name }: Step) => failed.includes(name);
  return [...steps.filter((step) => !isFailing(step)), ...steps.filter(isFailing)];
}

function stepsOf({ db, storage, ...deps }: HousekeepingDeps): Step[] {
  const always = (work: () => Promise<unknown>) => () => work().then(() => true);
  const deleteFiles = (keys: string[]) => storage.delete(keys);
  return [
    ...retentions(deps).map((retention) => ({
      name: retention.rows,
      run: (isOver: () => boolean) => deleteRows(db, retention, isOver),
    })),
    { name: 'excluded folders', run: (isOver) => removeAllExcluded({ db, storage }, isOver) },
    { name: 'old mail', run: (isOver) => deleteOldMail({ db, storage }, isOver) },
    { name: 'expired uploads', run: (isOver) => deleteExpiredUploads({ db, storage }, isOver) },
    { name: 'dead workers', run: always(() => forgetDeadWorkers(db)) },
    { name: 'stale sends', run: always(() => giveUpStaleSends(db, new Date(), deleteFiles)) },
    { name: 'stale drafts', run: always(() => giveUpStaleDrafts(db, new Date(), deleteFiles)) },
  ];
}

async function deleteRows(db: Db, { ageMs, deleteBefore }: Retention, isOver: () => boolean): Promise<boolean> {
  for (let deleted = -1; deleted !== 0; ) {
    if (isOver()) return false;
    deleted = await deleteBefore(db, new Date(Date.now() - ageMs));
  }
  return true;
}

/**
 * Deletes objects that no row names: a process that is killed between writing a file and saving its row leaves them. An account
 * that fails is swept on a day later, so that it does not keep the others.
 * @throws the error of the last one, when as many failed as in an outage
 */
async function sweepAccounts(deps: HousekeepingDeps, until: number): Promise<void> {
  const { db, logger } = deps;
  const before = new Date(Date.now() - SWEEP_MS);
  let failed = 0;
  for (let due = await nextSweep(db, before); due && performance.now() < until; due = await nextSweep(db, before)) {
    const { accountId } = due;
    try {
      await sweepAccount(deps, due, before);
    } catch (err) {
      await postponeSweep(db, accountId, new Date());
      if (++failed >= FAILED_SWEEPS) throw err;
      logger.warn({ err, accountId }, 'could not sweep the storage of an account; it is swept in a day');
    }
  }
}

/** Compares some more objects of an account with its rows. */
async function sweepAccount({ db, storage, logger }: HousekeepingDeps, due: DueSweep, before: Date): Promise<void> {
  const { accountId, after } = due;
  if (after === null) await storage.deleteUnfinished(`${accountId}/`, before);
  const objects = await storage.list(`${accountId}/`, after ?? undefined);
  const old = objects.filter(({ modifiedAt }) => modifiedAt < before).map(({ key }) => key);
  const unused = await unreferencedKeys(db, accountId, old);
  await storage.delete(unused);
  if (unused.length > 0) logger.warn({ accountId, objects: unused.length }, 'deleted orphaned storage objects');
  await saveSweep(db, accountId, objects.at(-1)?.key ?? null, new Date());
}

/** Deletes objects of uploads that no longer exist. */
async function sweepLeftUploads({ storage, logger }: HousekeepingDeps, until: number): Promise<void> {
  const left = await sweepUploads(storage, () => performance.now() >= until);
  if (left > 0) logger.warn({ objects: left }, 'deleted orphaned storage objects');
}
