import { sql } from 'drizzle-orm';
import type { EventType } from '../../contract/events.ts';
import type { DeliveryStatus } from '../../contract/webhook.ts';
import type { Db } from '../../db/driver/client.ts';

/* Reads of deliveries by those that run them; what changes them is in delivery-state.ts. */

/** A delivery that has been given to a run. */
export interface ClaimedDelivery {
  id: string;
  endpointId: string;
  accountId: string;
  eventId: string;
  eventType: EventType;
  objectId: string;
  sequence: number;
  /** runs that it was given to before */
  runs: number;
  /** made again by a bulk replay */
  isReplay: boolean;
  /** its endpoint failed last: the attempt is made where it holds up no other */
  isFailing: boolean;
  /** its endpoint has responded with success at some time */
  isProven: boolean;
}

/** A run and the deliveries that it makes; its id is in their `workflow_id`. */
export interface ClaimedRun {
  workflowId: string;
  deliveries: ClaimedDelivery[];
}

export interface ClaimedRow extends Record<string, unknown> {
  id: string;
  endpoint_id: string;
  account_id: string;
  event_id: string;
  event_type: EventType;
  object_id: string;
  sequence: string;
  runs: number;
  is_replay: boolean;
}

export const toClaimed = (row: ClaimedRow): ClaimedDelivery => ({
  id: row.id,
  endpointId: row.endpoint_id,
  accountId: row.account_id,
  eventId: row.event_id,
  eventType: row.event_type,
  objectId: row.object_id,
  sequence: Number(row.sequence),
  runs: row.runs,
  isReplay: row.is_replay,
  isFailing: false,
  isProven: false,
});

/** The columns of a ClaimedRow, of `deliveries d`. */
export const CLAIMED = sql`d.id, d.endpoint_id, d.account_id, d.event_id, d.event_type, d.object_id, d.sequence, d.runs,
  d.replay_id is not null as is_replay`;

/** A run is started with all of its deliveries, or those that are missing would never be attempted: no limit on rows. */
const UNSTARTED_RUNS = 40;

/**
 * Runs that were claimed more than `olderThanMs` ago and are not marked as started, each with all of its deliveries that
 * are still claimed. Not all such runs: those that are left come once these are marked.
 */
export async function unstartedRuns(db: Db, olderThanMs: number): Promise<ClaimedRun[]> {
  const { rows } = await db.execute<ClaimedRow & { workflow_id: string }>(sql`
    with unstarted as (
      select ${CLAIMED}, d.workflow_id from deliveries d
      where status = 'pending' and started_at is null and workflow_id is not null
        and claimed_at < now() - ${olderThanMs} * interval '1 millisecond'
    )
    select * from unstarted
    where workflow_id in (select distinct workflow_id from unstarted order by workflow_id limit ${UNSTARTED_RUNS})
    order by workflow_id, id`);
  const runs = new Map<string, ClaimedDelivery[]>();
  for (const row of rows) {
    const deliveries = runs.get(row.workflow_id) ?? [];
    runs.set(row.workflow_id, deliveries);
    // this run has been counted
    deliveries.push({ ...toClaimed(row), runs: row.runs - 1 });
  }
  return [...runs].map(([workflowId, deliveries]) => ({ workflowId, deliveries }));
}

/** A page of started deliveries whose next attempt is late by more than `lateMs`: ids in order, from after `afterId`. */
export async function overdueDeliveries(
  db: Db,
  { lateMs, afterId, limit }: { lateMs: number; afterId: string; limit: number },
): Promise<{ id: string; workflowId: string }[]> {
  const { rows } = await db.execute<{ id: string; workflow_id: string }>(sql`
    select id, workflow_id from deliveries
    where status = 'pending' and started_at is not null and workflow_id is not null and id > ${afterId}
      and coalesce(next_attempt_at, started_at) < now() - ${lateMs} * interval '1 millisecond'
    order by id limit ${limit}`);
  return rows.map((row) => ({ id: row.id, workflowId: row.workflow_id }));
}

/** The pending deliveries that a run has. */
export async function pendingOfRun(db: Db, workflowId: string): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(
    sql`select id from deliveries where workflow_id = ${workflowId} and status = 'pending'`,
  );
  return rows.map(({ id }) => id);
}

/** The state of a delivery, for a manual retry; undefined when there is none with that id. */
export async function getDeliveryState(
  db: Db,
  deliveryId: string,
): Promise<{ status: DeliveryStatus; workflowId: string | null; started: boolean } | undefined> {
  const { rows } = await db.execute<{ status: DeliveryStatus; workflow_id: string | null; started: boolean }>(
    sql`select status, workflow_id, started_at is not null as started from deliveries where id = ${deliveryId}`,
  );
  return rows[0] && { status: rows[0].status, workflowId: rows[0].workflow_id, started: rows[0].started };
}

/** A page of runs that have pending deliveries, in order from after `afterId`, each with these. */
export async function pendingRuns(
  db: Db,
  { afterId, limit }: { afterId: string; limit: number },
): Promise<{ workflowId: string; deliveryIds: string[] }[]> {
  const { rows } = await db.execute<{ workflow_id: string; ids: string[] }>(sql`
    select workflow_id, array_agg(id) as ids from deliveries
    where status = 'pending' and workflow_id > ${afterId}
    group by workflow_id order by workflow_id limit ${limit}`);
  return rows.map((row) => ({ workflowId: row.workflow_id, deliveryIds: row.ids }));
}
