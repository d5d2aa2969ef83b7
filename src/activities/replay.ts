import { Context } from '@temporalio/activity';
import { sleep } from '../async.ts';
import type { Replay } from '../contract/runs/replay.ts';
import type { Db } from '../db/driver/client.ts';
import { getReplay } from '../db/queries/replays.ts';
import { queueReplayed, type ReplayStep } from '../webhooks/log/replay-queue.ts';
import { cancelReplay as cancelStored } from '../webhooks/log/replay-state.ts';

export interface ReplayDeps {
  db: Db;
}

export type ReplayActivities = ReturnType<typeof createReplayActivities>;

/** How a replay stands; `moved`: deliveries were queued, or attempted, since the last call. */
export interface ReplayProgress
  extends Pick<Replay, 'status' | 'total' | 'pending' | 'delivered' | 'failed' | 'skipped'> {
  moved: boolean;
}

/** Queued deliveries of one replay that no attempt was made of: what a live event of the same object waits for at most. */
const AT_ONCE = 200;
/** One execution queues for so long; the workflow shows the counts in between, ms. */
const STEP_MS = 20_000;
/** When nothing has moved for so long, the workflow waits instead. */
const STALL_MS = 3_000;
const POLL_MS = 200;
/** A large replay is looked at less often: the share of the time that looking takes is at most 1 in so many. */
const REST = 5;

/** Activities of the `replay` workflow. */
export function createReplayActivities({ db }: ReplayDeps) {
  /** Queues deliveries of a replay while earlier ones are attempted. Continues where it was killed. */
  async function feedReplay({ replayId }: { replayId: string }): Promise<ReplayProgress> {
    const context = Context.current();
    const began = performance.now();
    let movedAt = began;
    let moved = false;
    let before: ReplayStep | undefined;
    for (;;) {
      const asked = performance.now();
      const step = await queueReplayed(db, replayId, AT_ONCE);
      const now = performance.now();
      context.heartbeat();
      if (step.queued > 0 || (before && step.waiting < before.waiting)) {
        moved = true;
        movedAt = now;
      }
      before = step;
      if (step.status !== 'running' || now - began > STEP_MS || now - movedAt > STALL_MS) break;
      await sleep(Math.max(POLL_MS, REST * (now - asked)), context.cancellationSignal);
      if (context.cancellationSignal.aborted) await context.cancelled;
    }
    return { ...(await progressOf(replayId)), moved };
  }

  /** Stops a replay; what was not attempted is as it was before. */
  async function cancelReplay({ replayId }: { replayId: string }): Promise<ReplayProgress> {
    await cancelStored(db, replayId);
    return { ...(await progressOf(replayId)), moved: false };
  }

  async function progressOf(replayId: string): Promise<Omit<ReplayProgress, 'moved'>> {
    const replay = await getReplay(db, replayId);
    if (!replay) return { status: 'cancelled', total: 0, pending: 0, delivered: 0, failed: 0, skipped: 0 };
    const { status, total, pending, delivered, failed, skipped } = replay;
    return { status, total, pending, delivered, failed, skipped };
  }

  return { feedReplay, cancelReplay };
}
