import { sql } from 'drizzle-orm';
import type { Db, Tx } from '../../db/driver/client.ts';
import { LINES } from '../../db/outbox.ts';
import { inChunks } from '../../db/driver/in-chunks.ts';
import { endPending, takesCalls } from './pending.ts';
import { IS_UNATTEMPTED, isLeftOver, replayCounts, type ReplayScope } from '../../db/queries/replays.ts';

/*
 * The states of a bulk replay, and its transitions of deliveries; the other transitions of deliveries are in
 * delivery-state.ts. `createReplay` (src/db/queries/replays.ts) inserts a replay as running.
 *
 * replay                            next
 * running    queueReplayed          completed   all are queued, and none is still pending
 *                                   cancelled   cancelReplay: by a caller, or its endpoint was disabled or deleted
 *
 * delivery                          next
 * delivered, failed, skipped        waiting     queueReplayed: `replay_id` is set; the relay takes it after live events
 * waiting, not attempted since      as before   cancelReplay
 * claimed, not attempted since      as before   putBackReplayed: its run sees that the replay was cancelled, or cancels it
 *                                               since the endpoint takes no calls
 * any of these, retried by hand     the same    the operator's retry continues
 *
 * `queueReplayed`, which chooses them, is in replay-queue.ts.
 */

/** delivered, failed, skipped → waiting; a delivery that a run still has from a cancelled replay joins this one. */
export async function queueDeliveries(tx: Tx, replay: ReplayScope, deliveryIds: readonly string[]): Promise<void> {
  const ids = sql.param(deliveryIds);
  await tx.execute(sql`
    with over as (
      update deliveries d set replay_id = ${replay.id} where d.id = any(${ids}::text[]) and ${isLeftOver(replay)} returning d.id
    )
    update pending_deliveries set replay_id = ${replay.id} where delivery_id in (select id from over)`);
  // a delivery that a manual retry claimed in the meantime is under way
  await tx.execute(sql`
    with ended as (
      update deliveries set replay_id = ${replay.id}, status_before_replay = status, status = 'pending',
        schedule_from = attempts_count
      where id = any(${ids}::text[]) and status <> 'pending'
      returning id, endpoint_id, object_id, sequence, runs
    )
    insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, line, due_at, runs, replay_id)
    select id, endpoint_id, object_id, sequence, ${LINES.replay}, now(), runs, ${replay.id} from ended
    on conflict (delivery_id) do nothing`);
}

/** Saves the progress of queueing a replay. */
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

/** running → cancelled: restores deliveries without an attempt under way; attempted ones keep their retries. */
export async function cancelReplay(db: Db, replayId: string): Promise<void> {
  await db.transaction(async (tx) => {
    const { rows } = await tx.execute(
      sql`select from replays where id = ${replayId} and status = 'running' for update`,
    );
    if (rows.length > 0) await endReplay(tx, replayId, 'cancelled');
  });
  // also for a replay that is cancelled already: the process that cancelled it may have been killed. Rows that are locked are
  // ending; the next call sees to those that are left
  const left = sql`
    select p.* from pending_deliveries p join replays r on r.id = p.replay_id and r.status = 'cancelled'
    where p.replay_id = ${replayId} and ${IS_LEFT} limit ${PUT_BACK_AT_ONCE} for update of p skip locked`;
  await inChunks(PUT_BACK_AT_ONCE, () => db.execute(endPending(left, PUT_BACK)));
}

/** Whether the pending delivery `p` was neither claimed nor attempted nor retried by hand since its replay queued it. */
const IS_LEFT = sql`${IS_UNATTEMPTED} and p.workflow_id is null`;

/** Cancelled replays with deliveries that were not put back yet. */
export async function halfCancelledReplays(db: Db): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select r.id from replays r where r.status = 'cancelled'
      and exists (select from pending_deliveries p where p.replay_id = r.id and ${IS_LEFT})`);
  return rows.map(({ id }) => id);
}

/** Deliveries of one statement: it holds their locks for some ms. */
const PUT_BACK_AT_ONCE = 1_000;

/** Restores a delivery in the log as it was before it was queued. */
const PUT_BACK = sql`status = d.status_before_replay, status_before_replay = null, replay_id = null`;

/**
 * claimed or started → as before: their replay was cancelled before this run could attempt them, or is cancelled here, since their
 * endpoint was disabled or deleted. Deliveries that another replay has taken over are left alone.
 */
export async function putBackReplayed(db: Db, deliveryIds: readonly string[], workflowId: string): Promise<void> {
  for (const id of await replaysWithoutEndpoint(db, deliveryIds)) await cancelReplay(db, id);
  const own = sql`
    select p.* from pending_deliveries p
    where p.delivery_id = any(${sql.param(deliveryIds)}::text[]) and p.workflow_id = ${workflowId}
      and p.line = ${LINES.replay} and p.replay_id in (select r.id from replays r where r.status = 'cancelled')
    for update of p`;
  await db.execute(endPending(own, PUT_BACK));
}

/** Running replays that have queued some of these deliveries, for an endpoint that takes no calls. */
async function replaysWithoutEndpoint(db: Db, deliveryIds: readonly string[]): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(sql`
    select r.id from replays r where r.status = 'running' and not ${takesCalls(sql`r`)} and r.id in (
      select p.replay_id from pending_deliveries p where p.delivery_id = any(${sql.param(deliveryIds)}::text[]))`);
  return rows.map(({ id }) => id);
}

/** Running replays, oldest first: workers make sure that each has its workflow. */
export async function runningReplays(db: Db): Promise<{ id: string; endpointId: string }[]> {
  const { rows } = await db.execute<{ id: string; endpoint_id: string }>(
    sql`select id, endpoint_id from replays where status = 'running' order by created_at`,
  );
  return rows.map((row) => ({ id: row.id, endpointId: row.endpoint_id }));
}

/** running → completed or cancelled. Stores the counts: a later replay may take the deliveries over. */
export async function endReplay(tx: Tx, id: string, status: 'completed' | 'cancelled'): Promise<void> {
  await tx.execute(sql`
    update replays r set status = ${status}, completed_at = now(), delivered = c.delivered, failed = c.failed,
      skipped = c.skipped
    from (${replayCounts(sql`${id}`)}) c where r.id = ${id}`);
}
