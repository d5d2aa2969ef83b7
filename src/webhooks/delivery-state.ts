import { sql } from 'drizzle-orm';
import type { EventType } from '../contract/events.ts';
import type { DeliveryStatus } from '../contract/webhook.ts';
import type { Db } from '../db/client.ts';

/*
 * The states of a delivery and every transition between them; nothing else writes these columns. `recordEvents`
 * (src/db/outbox.ts) inserts a delivery as waiting, or as skipped when its endpoint is disabled. A run is the execution
 * of `deliverWebhooks` that makes the attempts.
 *
 * state      stored as                              next
 * waiting    pending, no workflow_id                claimed    claimDeliveries: the relay gives it to a run
 * claimed    pending, workflow_id, no started_at    started    markStarted, recordAttemptResults
 *                                                   waiting    releaseDeliveries: the run does not exist
 * started    pending, workflow_id, started_at       delivered  recordAttemptResults: 2xx
 *                                                   started    recordAttemptResults: failed, next_attempt_at is set;
 *                                                              markDueNow: a manual retry, next_attempt_at is now
 *                                                   failed     recordAttemptResults: 410, or no retry is left;
 *                                                              failDeliveries: its run ended early
 *                                                   skipped    skipDeliveries: endpoint disabled or deleted
 *                                                   waiting    releaseDeliveries: its run does not know it
 * delivered, failed, skipped                        claimed    reclaimDelivery: a manual retry
 */

/** A delivery that has been given to a run. */
export interface ClaimedDelivery {
  id: string;
  endpointId: string;
  accountId: string;
  eventType: EventType;
  attemptsCount: number;
}

/** A run and the deliveries that it makes; its id is in their `workflow_id`. */
export interface ClaimedRun {
  workflowId: string;
  deliveries: ClaimedDelivery[];
}

/** What came of one attempt. */
export interface AttemptResult {
  deliveryId: string;
  /** 1 for the first attempt of the delivery, across all of its runs */
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
}

const toClaimed = (row: ClaimedRow): ClaimedDelivery => ({
  id: row.id,
  endpointId: row.endpoint_id,
  accountId: row.account_id,
  eventType: row.event_type,
  attemptsCount: row.attempts_count,
});

export interface ClaimOptions {
  /** deliveries of one endpoint at most */
  perEndpoint: number;
  /** endpoints that get no further run now */
  except: readonly string[];
  /** puts the deliveries into runs */
  plan: (deliveries: ClaimedDelivery[]) => ClaimedRun[];
}

/**
 * waiting → claimed. Takes the oldest deliveries of each endpoint and stores the id of the run that `plan` puts each one
 * in. Rows that another worker is claiming are passed over.
 */
export async function claimDeliveries(db: Db, { perEndpoint, except, plan }: ClaimOptions): Promise<ClaimedRun[]> {
  return db.transaction(async (tx) => {
    // Walks from endpoint to endpoint along the index: the cost is that of the endpoints that have deliveries waiting.
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
        order by d.id limit ${perEndpoint} for update skip locked
      ) due
      where w.endpoint_id <> all(${sql.param(except)}::text[])`);
    if (rows.length === 0) return [];
    const runs = plan(rows.map(toClaimed));
    const ids = runs.flatMap((run) => run.deliveries.map(({ id }) => id));
    const workflowIds = runs.flatMap((run) => run.deliveries.map(() => run.workflowId));
    await tx.execute(sql`
      update deliveries d set workflow_id = run.workflow_id, claimed_at = now()
      from unnest(${sql.param(ids)}::text[], ${sql.param(workflowIds)}::text[]) as run (id, workflow_id)
      where d.id = run.id`);
    return runs;
  });
}

/** claimed → started: the runs of these deliveries are known to Temporal. */
export async function markStarted(db: Db, deliveryIds: string[]): Promise<void> {
  await db.execute(sql`
    update deliveries set started_at = now()
    where id = any(${sql.param(deliveryIds)}::text[]) and status = 'pending' and started_at is null`);
}

/**
 * started → delivered, failed, or started again with a time for the next attempt. Stores the attempts and what they make
 * of their deliveries; a result that is stored already changes nothing.
 */
export async function recordAttemptResults(db: Db, results: readonly AttemptResult[]): Promise<void> {
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

/** claimed or started → skipped: the endpoint wants no calls; `error` says why. */
export async function skipDeliveries(db: Db, deliveryIds: string[], error: string): Promise<void> {
  await db.execute(sql`
    update deliveries set status = 'skipped', error = ${error}, next_attempt_at = null
    where id = any(${sql.param(deliveryIds)}::text[]) and status = 'pending'`);
}

/** started → started: the next attempt is now. */
export async function markDueNow(db: Db, deliveryId: string): Promise<void> {
  await db.execute(sql`
    update deliveries set next_attempt_at = now() where id = ${deliveryId} and status = 'pending'`);
}

/**
 * Any state but waiting → claimed, by a new run; not when the delivery is with another run than the caller saw.
 * Undefined then: somebody else has given it to a new run.
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
    returning id, endpoint_id, account_id, event_type, attempts_count`);
  return rows[0] && { workflowId, deliveries: [toClaimed(rows[0])] };
}

/** claimed or started → waiting: this run does not make them. The relay gives them to another one. */
export async function releaseDeliveries(db: Db, deliveryIds: string[], workflowId: string): Promise<void> {
  await db.execute(sql`
    update deliveries set workflow_id = null, claimed_at = null, started_at = null
    where id = any(${sql.param(deliveryIds)}::text[]) and workflow_id = ${workflowId} and status = 'pending'`);
}

/** started → failed: their run has ended before it delivered them; `error` is shown in the log. */
export async function failDeliveries(
  db: Db,
  deliveryIds: string[],
  { workflowId, error }: { workflowId: string; error: string },
): Promise<void> {
  await db.execute(sql`
    update deliveries set status = 'failed', error = ${error}, next_attempt_at = null
    where id = any(${sql.param(deliveryIds)}::text[]) and workflow_id = ${workflowId} and status = 'pending'`);
}

/** A run is started with all of its deliveries, or those that are missing would never be attempted: no limit on rows. */
const UNSTARTED_RUNS = 40;

/**
 * Runs that were claimed more than `olderThanMs` ago and are not marked as started, each with all of its deliveries that
 * are still claimed. Not all such runs: those that are left come once these are marked.
 */
export async function unstartedRuns(db: Db, olderThanMs: number): Promise<ClaimedRun[]> {
  const { rows } = await db.execute<ClaimedRow & { workflow_id: string }>(sql`
    with unstarted as (
      select id, endpoint_id, account_id, event_type, attempts_count, workflow_id from deliveries
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
    deliveries.push(toClaimed(row));
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
