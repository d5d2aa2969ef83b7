import { sql } from 'drizzle-orm';
import type { EventType } from '../contract/events.ts';
import type { DeliveryStatus } from '../contract/webhook.ts';
import type { Db } from '../db/client.ts';

/** A delivery that has to be given to a run. */
export interface ClaimedDelivery {
  id: string;
  endpointId: string;
  accountId: string;
  eventType: EventType;
  attemptsCount: number;
}

/** A run and the deliveries that it is to make; its id is in their `workflow_id`. */
export interface ClaimedRun {
  workflowId: string;
  deliveries: ClaimedDelivery[];
}

/** A delivery as a try needs it. */
export interface DueDelivery extends ClaimedDelivery {
  eventId: string;
  objectId: string;
  sequence: number;
  eventCreatedAt: Date;
  status: DeliveryStatus;
  nextAttemptAt: Date | null;
  workflowId: string | null;
  /** the event's `data` as stored; null when it is longer than was asked for, see loadEventData */
  data: string | null;
}

/** An endpoint as a try needs it; secrets and headers are still sealed. */
export interface DeliveryTarget {
  id: string;
  url: string;
  enabled: boolean;
  headers: Buffer;
  secret: Buffer;
  /** signs too; null when there is none or its time is over */
  previousSecret: Buffer | null;
}

/** What came of one try. */
export interface AttemptResult {
  deliveryId: string;
  number: number;
  at: Date;
  url: string;
  httpStatus: number | null;
  responseBody: string | null;
  error: string | null;
  durationMs: number;
  status: 'delivered' | 'failed' | 'pending';
  /** only when pending */
  nextAttemptAt: Date | null;
  /** the run that has the delivery from now on */
  workflowId: string;
}

interface ClaimedRow extends Record<string, unknown> {
  id: string;
  endpoint_id: string;
  account_id: string;
  event_type: EventType;
  attempts_count: number;
  workflow_id: string | null;
}

const toClaimed = (row: ClaimedRow): ClaimedDelivery => ({
  id: row.id,
  endpointId: row.endpoint_id,
  accountId: row.account_id,
  eventType: row.event_type,
  attemptsCount: row.attempts_count,
});

/**
 * Gives waiting deliveries to runs: takes up to `perEndpoint` of each endpoint, oldest first, except those of
 * `endpointsHeld`, and stores the id of the run that `plan` puts each one in. Rows that another worker is claiming are
 * passed over.
 */
export async function claimDeliveries(
  db: Db,
  options: {
    perEndpoint: number;
    endpointsHeld: readonly string[];
    plan: (deliveries: ClaimedDelivery[]) => ClaimedRun[];
  },
): Promise<ClaimedRun[]> {
  return db.transaction(async (tx) => {
    // Walks from endpoint to endpoint along the index, so that the cost is that of the endpoints that wait.
    const { rows } = await tx.execute<ClaimedRow>(sql`
      with recursive waiting as (
        (select endpoint_id from deliveries where status = 'pending' and workflow_id is null order by endpoint_id limit 1)
        union all
        select (
          select d.endpoint_id from deliveries d
          where d.status = 'pending' and d.workflow_id is null and d.endpoint_id > w.endpoint_id
          order by d.endpoint_id limit 1
        ) from waiting w where w.endpoint_id is not null
      )
      select due.* from waiting w cross join lateral (
        select d.id, d.endpoint_id, d.account_id, d.event_type, d.attempts_count from deliveries d
        where d.status = 'pending' and d.workflow_id is null and d.endpoint_id = w.endpoint_id
        order by d.id limit ${options.perEndpoint} for update skip locked
      ) due
      where w.endpoint_id <> all(${sql.param(options.endpointsHeld)}::text[])`);
    if (rows.length === 0) return [];
    const runs = options.plan(rows.map(toClaimed));
    const ids = runs.flatMap((run) => run.deliveries.map(({ id }) => id));
    const workflowIds = runs.flatMap((run) => run.deliveries.map(() => run.workflowId));
    await tx.execute(sql`
      update deliveries d set workflow_id = run.workflow_id, claimed_at = now()
      from unnest(${sql.param(ids)}::text[], ${sql.param(workflowIds)}::text[]) as run (id, workflow_id)
      where d.id = run.id`);
    return runs;
  });
}

/** Runs that were given deliveries more than `olderThanMs` ago and that nobody knows to have been started. */
export async function unstartedRuns(db: Db, olderThanMs: number): Promise<ClaimedRun[]> {
  const { rows } = await db.execute<ClaimedRow & { workflow_id: string }>(sql`
    select id, endpoint_id, account_id, event_type, attempts_count, workflow_id from deliveries
    where status = 'pending' and started_at is null and workflow_id is not null
      and claimed_at < now() - ${olderThanMs} * interval '1 millisecond'
    order by workflow_id, id limit 2000`);
  const runs = new Map<string, ClaimedDelivery[]>();
  for (const row of rows) {
    const known = runs.get(row.workflow_id);
    if (known) known.push(toClaimed(row));
    else runs.set(row.workflow_id, [toClaimed(row)]);
  }
  return [...runs].map(([workflowId, deliveries]) => ({ workflowId, deliveries }));
}

/** Remembers that the runs of these deliveries are known to Temporal. */
export async function markStarted(db: Db, deliveryIds: string[]): Promise<void> {
  await db.execute(sql`
    update deliveries set started_at = now()
    where id = any(${sql.param(deliveryIds)}::text[]) and status = 'pending' and started_at is null`);
}

/**
 * The deliveries of these ids that still exist, in the order of their events, and the endpoints that they go to.
 * `data` comes along where it has at most `inlineBytes`.
 */
export async function loadDue(
  db: Db,
  deliveryIds: string[],
  inlineBytes: number,
): Promise<{ deliveries: DueDelivery[]; targets: Map<string, DeliveryTarget> }> {
  const { rows } = await db.execute<DueRow>(sql`
    select d.id, d.endpoint_id, d.account_id, d.event_type, d.attempts_count, d.event_id, d.object_id, d.status,
      d.next_attempt_at, d.workflow_id, e.sequence, e.created_at,
      case when octet_length(e.data) <= ${inlineBytes} then e.data end as data
    from deliveries d join events e on e.id = d.event_id
    where d.id = any(${sql.param(deliveryIds)}::text[]) order by e.account_id, e.sequence`);
  const endpointIds = [...new Set(rows.map((row) => row.endpoint_id))];
  const { rows: targets } = await db.execute<TargetRow>(sql`
    select id, url, enabled, headers, secret,
      case when previous_secret_until > now() then previous_secret end as previous_secret
    from webhook_endpoints where id = any(${sql.param(endpointIds)}::text[])`);
  return {
    deliveries: rows.map(toDue),
    targets: new Map(
      targets.map(({ previous_secret, ...row }) => [row.id, { ...row, previousSecret: previous_secret }]),
    ),
  };
}

interface TargetRow extends Record<string, unknown>, Omit<DeliveryTarget, 'previousSecret'> {
  previous_secret: Buffer | null;
}

interface DueRow extends ClaimedRow {
  event_id: string;
  object_id: string;
  status: DeliveryStatus;
  next_attempt_at: string | null;
  sequence: string;
  created_at: string;
  data: string | null;
}

const toDue = (row: DueRow): DueDelivery => ({
  ...toClaimed(row),
  eventId: row.event_id,
  objectId: row.object_id,
  status: row.status,
  nextAttemptAt: row.next_attempt_at === null ? null : new Date(row.next_attempt_at),
  workflowId: row.workflow_id,
  sequence: Number(row.sequence),
  eventCreatedAt: new Date(row.created_at),
  data: row.data,
});

/** The stored `data` of an event, of any length; undefined when the event is gone. */
export async function loadEventData(db: Db, eventId: string): Promise<string | undefined> {
  const { rows } = await db.execute<{ data: string }>(sql`select data from events where id = ${eventId}`);
  return rows[0]?.data;
}

/** Whether the endpoint still wants calls. */
export async function isEndpointEnabled(db: Db, endpointId: string): Promise<boolean> {
  const { rows } = await db.execute<{ enabled: boolean }>(
    sql`select enabled from webhook_endpoints where id = ${endpointId}`,
  );
  return rows[0]?.enabled ?? false;
}

/** Stores the results of tries: the attempts, and what they make of their deliveries. A result stored before is kept. */
export async function recordAttempts(db: Db, results: readonly AttemptResult[]): Promise<void> {
  const column = <T>(pick: (result: AttemptResult) => T) => sql.param(results.map(pick));
  await db.execute(sql`
    with result as (
      select * from unnest(
        ${column((r) => r.deliveryId)}::text[], ${column((r) => r.number)}::int[],
        ${column((r) => r.at.toISOString())}::timestamptz[], ${column((r) => r.url)}::text[],
        ${column((r) => r.httpStatus)}::int[], ${column((r) => r.responseBody)}::text[],
        ${column((r) => r.error)}::text[], ${column((r) => r.durationMs)}::int[],
        ${column((r) => r.status)}::text[], ${column((r) => r.nextAttemptAt?.toISOString() ?? null)}::timestamptz[],
        ${column((r) => r.workflowId)}::text[]
      ) as t (delivery_id, number, at, url, http_status, response_body, error, duration_ms, status, next_attempt_at,
        workflow_id)
    ), attempt as (
      insert into delivery_attempts (delivery_id, number, at, http_status, response_body, error, duration_ms)
      select delivery_id, number, at, http_status, response_body, error, duration_ms from result
      on conflict do nothing
    )
    update deliveries d set status = r.status, attempts_count = r.number, endpoint_url = r.url,
      http_status = r.http_status, response_body = r.response_body, error = r.error, last_attempt_at = r.at,
      next_attempt_at = r.next_attempt_at, workflow_id = r.workflow_id, started_at = coalesce(d.started_at, now())
    from result r where d.id = r.delivery_id and d.attempts_count < r.number`);
}

/** Ends deliveries whose endpoint wants no calls; `error` says why. */
export async function skipDeliveries(db: Db, deliveryIds: string[], error: string): Promise<void> {
  await db.execute(sql`
    update deliveries set status = 'skipped', error = ${error}, next_attempt_at = null
    where id = any(${sql.param(deliveryIds)}::text[]) and status = 'pending'`);
}

/** Disables an endpoint that said that it is gone (HTTP 410); whether it was enabled till now. */
export async function disableGoneEndpoint(db: Db, endpointId: string): Promise<boolean> {
  const { rowCount } = await db.execute(sql`
    update webhook_endpoints set enabled = false, disabled_reason = 'gone', updated_at = now()
    where id = ${endpointId} and enabled`);
  return rowCount === 1;
}

/** How a delivery stands, for a retry by hand; undefined when there is none. */
export async function getDeliveryRun(
  db: Db,
  deliveryId: string,
): Promise<{ status: DeliveryStatus; workflowId: string | null; started: boolean } | undefined> {
  const { rows } = await db.execute<{ status: DeliveryStatus; workflow_id: string | null; started: boolean }>(
    sql`select status, workflow_id, started_at is not null as started from deliveries where id = ${deliveryId}`,
  );
  return rows[0] && { status: rows[0].status, workflowId: rows[0].workflow_id, started: rows[0].started };
}

/**
 * Gives a delivery to a new run, whatever its status, unless it is no longer with the run that the caller saw.
 * Undefined then: somebody else has given it to a new run, or another try.
 */
export async function reclaimDelivery(
  db: Db,
  deliveryId: string,
  seen: { workflowId: string | null },
  workflowId: string,
): Promise<ClaimedRun | undefined> {
  const { rows } = await db.execute<ClaimedRow>(sql`
    update deliveries set status = 'pending', workflow_id = ${workflowId}, claimed_at = now(), started_at = null,
      next_attempt_at = now()
    where id = ${deliveryId} and workflow_id is not distinct from ${seen.workflowId}
    returning id, endpoint_id, account_id, event_type, attempts_count, workflow_id`);
  return rows[0] && { workflowId, deliveries: [toClaimed(rows[0])] };
}

/** A retry by hand of a delivery that is waiting: its next try is now. */
export async function markDueNow(db: Db, deliveryId: string): Promise<void> {
  await db.execute(sql`
    update deliveries set next_attempt_at = now() where id = ${deliveryId} and status = 'pending'`);
}

/** Deliveries that have a run and whose next try is late by more than `lateMs`. */
export async function overdueDeliveries(
  db: Db,
  lateMs: number,
  limit: number,
): Promise<{ id: string; workflowId: string }[]> {
  const { rows } = await db.execute<{ id: string; workflow_id: string }>(sql`
    select id, workflow_id from deliveries
    where status = 'pending' and started_at is not null and workflow_id is not null
      and coalesce(next_attempt_at, started_at) < now() - ${lateMs} * interval '1 millisecond'
    order by id limit ${limit}`);
  return rows.map((row) => ({ id: row.id, workflowId: row.workflow_id }));
}

/** Takes a delivery back from a run that does not exist: the relay gives it to one again. */
export async function releaseDelivery(db: Db, deliveryId: string, workflowId: string): Promise<void> {
  await db.execute(sql`
    update deliveries set workflow_id = null, claimed_at = null, started_at = null
    where id = ${deliveryId} and workflow_id = ${workflowId} and status = 'pending'`);
}

/** Gives a delivery up whose run has ended. */
export async function failDelivery(db: Db, deliveryId: string, workflowId: string, error: string): Promise<void> {
  await db.execute(sql`
    update deliveries set status = 'failed', error = ${error}, next_attempt_at = null
    where id = ${deliveryId} and workflow_id = ${workflowId} and status = 'pending'`);
}
