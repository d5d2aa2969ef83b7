import { sql } from 'drizzle-orm';
import type { EventType } from '../../contract/events.ts';
import type { DeliveryStatus } from '../../contract/webhook.ts';
import { IS_ERASED } from '../../db/coordination/removal.ts';
import type { Db } from '../../db/driver/client.ts';

/* Reads of deliveries for their runs; delivery-state.ts changes them. */

/** A delivery that has been given to a run. */
export interface ClaimedDelivery {
  id: string;
  endpointId: string;
  accountId: string;
  eventId: string;
  eventType: EventType;
  objectId: string;
  sequence: number;
  /** runs that it was given to before this one */
  runs: number;
  /** the line in which it waited, one of LINES */
  line: number;
  /** its endpoint failed last: the attempt is made by a regular activity, where it delays no other */
  isFailing: boolean;
}

/** A run and its deliveries, whose `workflow_id` is its id. */
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
  line: number;
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
  line: row.line,
  isFailing: false,
});

/**
 * Runs of one look. The limit counts runs and not rows: a run has to be started with all of its deliveries, or the missing ones would
 * never be attempted.
 */
const UNSTARTED_RUNS = 40;

/**
 * Runs that were claimed more than `olderThanMs` ago and are not marked as started, each with all of its deliveries that
 * are still claimed. Returns some of them: the others follow once these are marked.
 */
export async function unstartedRuns(db: Db, olderThanMs: number): Promise<ClaimedRun[]> {
  const { rows } = await db.execute<ClaimedRow & { workflow_id: string }>(sql`
    with unstarted as materialized (
      select * from pending_deliveries
      where workflow_id is not null and started_at is null and claimed_at < now() - ${olderThanMs} * interval '1 millisecond'
    )
    select d.id, d.endpoint_id, d.account_id, d.event_id, d.event_type, d.object_id, d.sequence, p.runs, p.line, p.workflow_id
    from unstarted p join deliveries d on d.id = p.delivery_id
    where p.workflow_id in (select distinct workflow_id from unstarted order by workflow_id limit ${UNSTARTED_RUNS})
    order by p.workflow_id, d.id`);
  const runs = new Map<string, ClaimedDelivery[]>();
  for (const row of rows) {
    const deliveries = runs.get(row.workflow_id) ?? [];
    runs.set(row.workflow_id, deliveries);
    // `runs` includes this run already
    deliveries.push({ ...toClaimed(row), runs: row.runs - 1 });
  }
  return [...runs].map(([workflowId, deliveries]) => ({ workflowId, deliveries }));
}

/**
 * A page of deliveries that runs have: ids in order, from after `afterId`. With `lateMs` those whose start, or whose time for the
 * next attempt, was longer ago than that.
 */
export async function startedDeliveries(
  db: Db,
  { lateMs, afterId, limit }: { lateMs: number | undefined; afterId: string; limit: number },
): Promise<{ id: string; workflowId: string }[]> {
  const isLate =
    lateMs === undefined
      ? sql`true`
      : sql`case when waits_for = 'retry' then due_at else started_at end < now() - ${lateMs} * interval '1 millisecond'`;
  const { rows } = await db.execute<{ id: string; workflow_id: string }>(sql`
    with started as materialized (
      select delivery_id as id, workflow_id from pending_deliveries
      where workflow_id is not null and started_at is not null and delivery_id > ${afterId} and ${isLate}
    )
    select * from started order by id limit ${limit}`);
  return rows.map((row) => ({ id: row.id, workflowId: row.workflow_id }));
}

/** The pending deliveries that a run has. */
export async function pendingOfRun(db: Db, workflowId: string): Promise<string[]> {
  const { rows } = await db.execute<{ id: string }>(
    sql`select delivery_id as id from pending_deliveries where workflow_id = ${workflowId}`,
  );
  return rows.map(({ id }) => id);
}

/** The state of a delivery, for a manual retry; undefined: no delivery has this id. */
export async function getDeliveryState(db: Db, deliveryId: string): Promise<DeliveryState | undefined> {
  const { rows } = await db.execute<DeliveryState & Record<string, unknown>>(
    sql`select d.status, p.workflow_id as "workflowId", p.started_at is not null as started,
        (select w.enabled from webhook_endpoints w where w.id = d.endpoint_id) as "isEnabled",
        exists (select from events e where e.id = d.event_id and ${IS_ERASED}) as "isErased"
      from deliveries d left join pending_deliveries p on p.delivery_id = d.id where d.id = ${deliveryId}`,
  );
  return rows[0];
}

interface DeliveryState {
  status: DeliveryStatus;
  workflowId: string | null;
  started: boolean;
  /** whether its endpoint is enabled; null: it was deleted */
  isEnabled: boolean | null;
  /** the content of its event was erased */
  isErased: boolean;
}
