import { sql } from 'drizzle-orm';
import type { ReplayFilter, ReplayStatus } from '../contract/replay.ts';
import type { Db, Tx } from '../db/client.ts';
import { DELIVERIES_CHANNEL } from '../db/outbox.ts';
import { inChunks } from '../db/in-chunks.ts';
import { isReplayed, replayCounts, type ReplayScope } from '../db/replays.ts';

/*
 * The states of a bulk replay, and what it does to deliveries; the other transitions of deliveries are in
 * delivery-state.ts. `createReplay` (src/db/replays.ts) inserts a replay as running.
 *
 * replay                            next
 * running    queueReplayed          completed   completeReplay: all are queued, and none is pending any more
 *                                   cancelled   cancelReplay
 *
 * delivery                          next
 * delivered, failed, skipped        waiting     queueReplayed: `replay_id` is set; the relay takes it after live events
 * waiting, not attempted since      as before   cancelReplay
 * claimed, not attempted since      as before   putBackReplayed: its run sees that the replay was cancelled
 * any of these, retried by hand     the same    what an operator asked for goes on
 *
 * Deliveries are queued in the order in which they were recorded, a few at a time: a live event of the same object waits for
 * the replayed ones that are queued, at most. Those that an earlier delivery of their object holds back for long (`held`) do
 * not count: others of the replay go on. The cursor moves in the same transaction, so none is queued twice.
 */

/** What a step of a replay has found and done. */
export interface ReplayStep {
  status: ReplayStatus;
  /** deliveries that it has queued */
  queued: number;
  /** queued ones that no attempt was made of yet and that may go on, those of this step included */
  waiting: number;
}

interface StoredReplay extends ReplayScope {
  status: ReplayStatus;
  cursor: string | null;
  queuedAll: boolean;
}

/**
 * Queues the next deliveries of a replay, so that at most `atOnce` of it wait for their first attempt, besides those that are
 * held back. Completes it when all are
 * queued and none is pending. A replay that is not stored counts as cancelled.
 */
export async function queueReplayed(db: Db, replayId: string, atOnce: number): Promise<ReplayStep> {
  return db.transaction(async (tx) => {
    const replay = await lockReplay(tx, replayId);
    if (replay?.status !== 'running') return { status: replay?.status ?? 'cancelled', queued: 0, waiting: 0 };
    const { pending, waiting } = await countPending(tx, replayId, atOnce);
    if (replay.queuedAll && pending === 0) {
      await endReplay(tx, replayId, 'completed');
      return { status: 'completed', queued: 0, waiting };
    }
    const room = atOnce - waiting;
    const queued = replay.queuedAll || room <= 0 ? 0 : await queueNext(tx, replay, room);
    return { status: 'running', queued, waiting: waiting + queued };
  });
}

/** running → cancelled: puts back what no attempt is being made of; what was attempted goes on with its retries. */
export async function cancelReplay(db: Db, replayId: string): Promise<void> {
  const isCancelled = await db.transaction(async (tx) => {
    const replay = await lockReplay(tx, replayId);
    if (replay?.status !== 'running') return false;
    await endReplay(tx, replayId, 'cancelled');
    return true;
  });
  if (!isCancelled) return;
  // What is left here by a crash is put back by the run that claims it. The last of an object first: the end of one looks for
  // the next that is held.
  const putBack = sql`
    update deliveries set ${PUT_BACK} where id in (
      select id from deliveries
      where replay_id = ${replayId} and status = 'pending' and workflow_id is null and attempts_count = schedule_from
        and not forced
      order by sequence desc limit ${PUT_BACK_AT_ONCE} for update
    ) and status = 'pending' and workflow_id is null`;
  await inChunks(PUT_BACK_AT_ONCE, () => db.execute(putBack));
}

/** Deliveries of one statement. */
const PUT_BACK_AT_ONCE = 1_000;

/** What a delivery was before it was queued. */
const PUT_BACK = sql`status = status_before_replay, status_before_replay = null, replay_id = null,
  workflow_id = last_workflow_id, next_attempt_at = null, forced = false, held = false`;

/** claimed or started → as before: this run does not attempt them, as their replay was cancelled before it could. */
export async function putBackReplayed(db: Db, deliveryIds: readonly string[], workflowId: string): Promise<void> {
  await db.execute(sql`
    with back as (
      update deliveries set ${PUT_BACK}
      where id = any(${sql.param(deliveryIds)}::text[]) and workflow_id = ${workflowId} and status = 'pending'
        and not forced
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

async function lockReplay(tx: Tx, id: string): Promise<StoredReplay | undefined> {
  const { rows } = await tx.execute<{
    endpoint_id: string;
    filter: ReplayFilter;
    status: ReplayStatus;
    cursor: string | null;
    queued_all: boolean;
    created_at: string;
  }>(sql`
    select endpoint_id, filter, status, cursor, queued_all_at is not null as queued_all, created_at
    from replays where id = ${id} for update`);
  const row = rows[0];
  if (!row) return undefined;
  const { endpoint_id: endpointId, filter, status, cursor, queued_all: queuedAll } = row;
  return { id, endpointId, filter, status, cursor, queuedAll, createdAt: new Date(row.created_at) };
}

/** Whether deliveries of a replay are pending, and how many of them wait for their first attempt and are not held, up to `atOnce`. */
async function countPending(tx: Tx, id: string, atOnce: number): Promise<{ pending: number; waiting: number }> {
  const { rows } = await tx.execute<{ pending: number; waiting: number }>(sql`
    select (select count(*)::int from (
        select from deliveries where replay_id = ${id} and status = 'pending' limit 1
      ) p) as pending,
      (select count(*)::int from (
        select from deliveries
        where replay_id = ${id} and status = 'pending' and not held and attempts_count = schedule_from limit ${atOnce}
      ) w) as waiting`);
  return rows[0] ?? { pending: 0, waiting: 0 };
}

interface NextRow extends Record<string, unknown> {
  id: string;
  created_at: string;
  account_id: string;
  sequence: string;
}

async function queueNext(tx: Tx, replay: StoredReplay, room: number): Promise<number> {
  const [at, accountId, sequence, afterId] = replay.cursor?.split('|') ?? [];
  const after =
    at === undefined
      ? sql`true`
      : sql`d.created_at >= ${at}::timestamptz and (d.created_at, d.account_id, d.sequence, d.id) >
          (${at}::timestamptz, ${accountId}, ${sequence}::bigint, ${afterId})`;
  const { rows } = await tx.execute<NextRow>(sql`
    select d.id, d.created_at, d.account_id, d.sequence from deliveries d
    where ${isReplayed(replay)} and ${after}
    order by d.created_at, d.account_id, d.sequence, d.id limit ${room}`);
  const last = rows.at(-1);
  if (!last) {
    await tx.execute(sql`update replays set queued_all_at = now() where id = ${replay.id}`);
    return 0;
  }
  const ids = rows.map(({ id }) => id);
  // one that a manual retry has taken meanwhile is on its way
  await tx.execute(sql`
    update deliveries set replay_id = ${replay.id}, status_before_replay = status, status = 'pending',
      schedule_from = attempts_count, last_workflow_id = coalesce(workflow_id, last_workflow_id), workflow_id = null,
      claimed_at = null, started_at = null, next_attempt_at = null, forced = false, held = false
    where id = any(${sql.param(ids)}::text[]) and status <> 'pending'`);
  const cursor = [new Date(last.created_at).toISOString(), last.account_id, last.sequence, last.id].join('|');
  await tx.execute(sql`update replays set cursor = ${cursor} where id = ${replay.id}`);
  await tx.execute(sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`);
  return ids.length;
}

/** Stores the counts too: deliveries may belong to a later replay then. */
async function endReplay(tx: Tx, id: string, status: 'completed' | 'cancelled'): Promise<void> {
  await tx.execute(sql`
    update replays r set status = ${status}, completed_at = now(), delivered = c.delivered, failed = c.failed,
      skipped = c.skipped
    from (${replayCounts(sql`${id}`)}) c where r.id = ${id}`);
}
