import type { Db } from '../db/driver/client.ts';
import { liveWorkers, type LiveWorker } from '../db/coordination/workers.ts';
import type { RunningWatches } from '../mailbox/running-watches.ts';

/*
 * After a fail-over one worker watches all mailboxes, and a restarted worker none: Temporal assigns activities when they
 * start. So a worker that watches clearly more than its share ends some of its watches in each interval, just as every
 * watch ends after its time; their workflows start new ones, on the worker that polls first.
 */

/** A worker gets no share before this age, ms: it may exit again. */
const SETTLED_MS = 30_000;

/** Watches that are given up in one interval at most: their mailboxes are followed by none until the others have them. */
const AT_ONCE = 30;

/** Tolerated excess over the share, since shares are never quite even. */
const SLACK = 0.1;

export interface ShareOptions {
  workerId: string;
  watches: Pick<RunningWatches, 'count' | 'end'>;
  /** the login budget of a provider: half of it is reserved for others; see Config.sync */
  loginsPerMinute: number;
  /** milliseconds between two calls */
  intervalMs: number;
  settledMs?: number;
}

/** Ends watches when this worker has clearly more than its share of them; half of the excess at a time. */
export async function shareWatches(db: Db, options: ShareOptions): Promise<void> {
  const { workerId, watches, loginsPerMinute, intervalMs, settledMs = SETTLED_MS } = options;
  const workers = (await liveWorkers(db)).filter(({ id, ageMs }) => id === workerId || ageMs >= settledMs);
  const excess = excessOf(watches.count(), workerId, workers);
  if (excess === 0) return;
  const logins = Math.min(AT_ONCE, Math.max(1, Math.floor((loginsPerMinute * intervalMs) / 60_000 / 2)));
  watches.end(Math.min(Math.ceil(excess / 2), logins));
}

/** The number of watches that this worker has above its share; 0: not clearly above. */
function excessOf(own: number, workerId: string, workers: LiveWorker[]): number {
  const others = workers.filter(({ id }) => id !== workerId);
  if (others.length === 0) return 0;
  const total = others.reduce((sum, { watches }) => sum + watches, own);
  const share = Math.ceil(total / (others.length + 1));
  return own > share + Math.max(1, Math.floor(share * SLACK)) ? own - share : 0;
}
