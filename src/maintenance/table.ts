import type { Client } from '@temporalio/client';
import { type AlertDeps, sendAlerts } from '../alerts/send.ts';
import { eraseDelivered } from '../db/coordination/removal.ts';
import { announceWorker } from '../db/coordination/workers.ts';
import { searchIndexMerger } from '../db/coordination/search-index.ts';
import type { Db } from '../db/driver/client.ts';
import type { RunningWatches } from '../mailbox/running-watches.ts';
import type { Logger } from '../runtime/logger.ts';
import { removeLeftOvers } from '../runtime/temp-dir.ts';
import type { LostRuns } from '../webhooks/dispatch/lost-runs.ts';
import { checkFailingEndpoints } from '../webhooks/log/auto-disable.ts';
import { finishCancelledReplays } from '../webhooks/log/replay-runs.ts';
import { checkAccounts } from './account-health.ts';
import type { LiveWorkers } from './live-workers.ts';
import { createLostRunLooks } from './lost-runs.ts';
import { createLostWatches, LOOK_MS, retryWatch } from './lost-watches.ts';
import { refreshPlannerStatistics } from './planner-statistics.ts';
import { startDueReparses } from './reparse-runs.ts';
import { shareWatches } from './share-watches.ts';
import type { Task } from './tasks.ts';
import { continueThreadMerges } from './thread-merges.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const SHARE_MS = 15 * SECOND;

export interface MaintenanceDeps {
  db: Db;
  client: Client;
  logger: Logger;
  lostRuns: LostRuns;
  /** of this process */
  workerId: string;
  watches: RunningWatches;
  liveWorkers: LiveWorkers;
  tempDir: string;
  /** see Config.sync */
  sync: { pollMs: number; heartbeatTimeoutMs: number; loginsPerMinute: number };
  /** see Config.webhook */
  disablesFailingEndpoints: boolean;
  /** messages to operators; absent: none are set */
  alerts?: Omit<AlertDeps, 'db' | 'logger'>;
  /** registers what the workflows need in Temporal's store, where that is lost */
  ensureSearchAttributes(): Promise<void>;
}

/**
 * All repeated tasks of workers. They do not use Temporal: most detect what Temporal has lost, and the others would cost
 * two events and a poll for a statement of a millisecond.
 */
export function maintenanceTasks(deps: MaintenanceDeps): Task[] {
  const { db, client, logger, lostRuns, workerId, watches, sync, alerts } = deps;
  const lookForLost = createLostWatches({ db, logger, workerId, retryWatch: (...of) => retryWatch(client, ...of) });
  const share = { workerId, watches, loginsPerMinute: sync.loginsPerMinute, intervalMs: SHARE_MS };
  const health = { db, client, logger, ...sync, ensureSearchAttributes: deps.ensureSearchAttributes };
  const tasksOf =
    (scope: Task['scope']) =>
    (name: string, everyMs: number, run: Task['run']): Task => ({
      name,
      everyMs,
      scope,
      run,
    });
  const lost = createLostRunLooks({ db, client, logger, heartbeatTimeoutMs: sync.heartbeatTimeoutMs });
  const [worker, installation] = [tasksOf('worker'), tasksOf('installation')];
  return [
    worker('announce this worker', SECOND, () => announceWorker(db, workerId, watches.count())),
    worker('count the workers and elect the leader', 5 * SECOND, () => deps.liveWorkers.look()),
    worker('reassign the mailboxes of lost workers', LOOK_MS, lookForLost),
    worker('give up watches above the share of this worker', SHARE_MS, () => shareWatches(db, share)),
    worker('delete temporary files of killed workers', MINUTE, async () => removeLeftOvers(deps.tempDir)),

    installation('start what accounts lack, report which are not in sync', 15 * SECOND, () => checkAccounts(health)),
    installation('merge new mail into the search index', 2 * SECOND, searchIndexMerger(db)),
    installation('give the rows of merged threads their new thread', 2 * SECOND, () => continueThreadMerges(db)),
    installation("refresh the planner's statistics", 5 * SECOND, () => refreshPlannerStatistics(db)),
    installation('find terminated delivery runs', 3 * SECOND, () => lostRuns.findTerminated()),
    installation('find a Temporal store that was replaced', 5 * SECOND, () => lostRuns.findLostStore()),
    installation('find overdue delivery runs', 15 * SECOND, () => lostRuns.findOverdue()),
    installation('resume removals without a workflow', 15 * SECOND, lost.removals),
    installation('resume initial syncs without a workflow', 15 * SECOND, lost.imports),
    installation('resume imports without a workflow', 15 * SECOND, lost.olderImports),
    installation('resume submissions without a workflow', 15 * SECOND, lost.submissions),
    installation('resume the filing of copies without a workflow', 15 * SECOND, lost.filings),
    installation('give up queued sends without a workflow', 15 * SECOND, lost.queuedSends),
    installation('give up saves of drafts without a workflow', 15 * SECOND, lost.saves),
    installation('remove replaced drafts that are left', 15 * SECOND, lost.supersededDrafts),
    installation('resume changes of many emails without a workflow', 15 * SECOND, lost.batches),
    installation('resume replays without a workflow', 15 * SECOND, lost.replays),
    installation('put back what cancelled replays have left', MINUTE, () => finishCancelledReplays(db)),
    installation('erase delivered events of excluded folders', MINUTE, () => eraseDelivered(db)),
    installation('reparse mail whose parsing timed out', 5 * MINUTE, () => startDueReparses(client, db)),
    ...(alerts ? [installation('send alerts', 10 * SECOND, () => sendAlerts({ ...alerts, db, logger }))] : []),
    ...(deps.disablesFailingEndpoints
      ? [installation('disable endpoints that fail for days', 5 * MINUTE, () => checkFailingEndpoints(db, logger))]
      : []),
  ];
}
