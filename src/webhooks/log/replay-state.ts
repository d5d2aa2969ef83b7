import { sql } from 'drizzle-orm';
import type { Db, Tx } from '../../db/driver/client.ts';
import { DELIVERIES_CHANNEL } from '../../db/outbox.ts';
import { inChunks } from '../../db/driver/in-chunks.ts';
import { IS_UNATTEMPTED, isLeftOver, replayCounts, type ReplayScope } from '../../db/queries/replays.ts';

/*
 * The states of a bulk replay, and what it does to deliveries; the other transitions of deliveries are in
 * delivery-state.ts. `createReplay` (src/db/queries/replays.ts) inserts a replay as running.
 *
 * replay                            next
 * running    queueReplayed          completed   all are queued, and none is pending any more
 *                                   cancelled   cancelReplay
 *
 * delivery                          next
 * delivered, failed, skipped        waiting     queueReplayed: `replay_id` is set; the relay takes it after live events
 * waiting, not attempted since      as before   cancelReplay
 * claimed, not attempted since      as before   putBackReplayed: its run sees that the replay was cancelled
 * any of these, retried by hand     the same    what an operator asked for goes on
 *
 * `queueReplayed`, which chooses them, is in replay-queue.ts.
 */

/** delivered, failed, skipped → waiting; what a run still has of a replay that was cancelled goes on as one of this. */
export async function queueDeliveries(tx: Tx, replay: ReplayScope, deliveryIds: readonly string[]): Promise<void> {
  const ids = sql.param(deliveryIds);
  await tx.execute(sql`
    update deliveries d set replay_id = ${replay.id} where d.id = any(${ids}::text[]) and ${isLeftOver(replay)}`);
  // one that a manual retry has taken meanwhile is on its way
  await tx.execute(sql`
    update deliveries set replay_id = ${replay.id}, status_before_replay = status, status = 'pending',
      schedule_from = attempts_count, last_workflow_id = coalesce(workflow_id, last_workflow_id), workflow_id = null,
      claimed_at = null, started_at = null, next_attempt_at = null, forced = false, held = false
    where id = any(${ids}::text[]) and status <> 'pending'`);
}

/** Saves how far the deliveries of a replay are queued. */
export async function saveQueued(
  tx: Tx,
  replayId: string,
  { cursor, behind, isQueuedAll }: { cursor: string | null; behind: Record<string, string>; isQueuedAll: boolean },
): Promise<void> {
  await tx.execute(sql`
    update replays set cursor = ${cursor}, behind = ${JSON.stringify(behind)}::jsonb,
      queued_all_at = ${isQueuedAll ? sql`now()` : sql`null`}
    where id = ${replayId}`);
}

/** running → cancelled: puts back what no attempt is being made of; what was attempted goes on with its retries. */
export async function cancelReplay(db: Db, replayId: string): Promise<void> {
  await db.transaction(async (tx) => {
    const { rows } = await tx.execute(
      sql`select from replays where id = ${replayId} and status = 'running' for update`,
    );
    if (rows.length > 0) await endReplay(tx, replayId, 'cancelled');
  });
  // Of a replay that is cancelled already, too: whoever cancelled it may have been killed before the end. The last of an
  // object first: the end of one looks for the next that is held. What ends right now is left to the next time.
  const putBack = sql`
    update deliveries set ${PUT_BACK} where id in (
      select d.id from deliveries d join replays r on r.id = d.replay_id and r.status = 'cancelled'
      where d.replay_id = ${replayId} and ${IS_LEFT}
      order by d.sequence desc limit ${PUT_BACK_AT_ONCE} for update of d skip locked
    )`;
  await inChunks(PUT_BACK_AT_ONCE, () => db.execute(putBack));
}

/** Queued, and neither claimed nor attempted nor retried by hand since: `d`. */
const IS_LEFT = sql`${IS_UNATTEMPTED} and d.workflow_id is null`;

/** Replays that were cancelled, of which deliveries are left that were not put back. */
export async function halfCancelledReplays(db: Db): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select r.id from replays r where r.status = 'cancelled'
      and exists (select from deliveries d where d.replay_id = r.id and ${IS_LEFT})`);
  return rows.map(({ id }) => id);
}

/** Deliveries of one statement. */
const PUT_BACK_AT_ONCE = 1_000;

/** What a delivery was before it was queued. */
const PUT_BACK = sql`status = status_before_replay, status_before_replay = null, replay_id = null,
  workflow_id = last_workflow_id, next_attempt_at = null, forced = false, held = false`;

/**
 * claimed or started → as before: this run does not attempt them, as their replay was cancelled before it could; but for what
 * another replay has taken over meanwhile.
 */
export async function putBackReplayed(db: Db, deliveryIds: readonly string[], workflowId: string): Promise<void> {
  await db.execute(sql`
    with back as (
      update deliveries set ${PUT_BACK}
      where id = any(${sql.param(deliveryIds)}::text[]) and workflow_id = ${workflowId} and status = 'pending'
        and not forced and replay_id in (select r.id from replays r where r.status = 'cancelled')
      returning id
    )
    select pg_notify(${DELIVERIES_CHANNEL}, '') from back limit 1`);
}

/** Replays that are running, for the workers to see to it that each has its workflow. */
export async function runningReplays(db: Db): Promise<{ id: string; endpointId: string }[]> {
  const { rows } = await db.execute<{ id: string; endpoint_id: string }>(
    sql`select id, endpoint_id from replays where status = 'running' order by created_at`,
  );
  return rows.map((row) => ({ id: row.id, endpointId: row.endpoint_id }));
}

/** Stores the counts too: deliveries may belong to a later replay then. */
export async function endReplay(tx: Tx, id: string, status: 'completed' | 'cancelled'): Promise<void> {
  await tx.execute(sql`
    update replays r set status = ${status}, completed_at = now(), delivered = c.delivered, failed = c.failed,
      skipped = c.skipped
    from (${replayCounts(sql`${id}`)}) c where r.id = ${id}`);
}
