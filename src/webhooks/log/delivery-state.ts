import { type SQL, sql } from 'drizzle-orm';
import type { PostErrorKind } from '../../contract/webhook.ts';
import type { Db, Tx } from '../../db/driver/client.ts';
import { inChunks } from '../../db/driver/in-chunks.ts';
import { DELIVERIES_CHANNEL } from '../../db/outbox.ts';
import { prepared } from '../../db/driver/prepared.ts';
import { takeDue } from '../dispatch/claim-objects.ts';
import { type ClaimPosition, lockShares, startPosition } from '../dispatch/claim-queries.ts';
import { type ClaimedDelivery, type ClaimedRun, toClaimed } from '../dispatch/delivery-queries.ts';

/*
 * The states of a delivery and every transition between them; nothing else writes these columns. `recordEvents`
 * (src/db/outbox.ts) inserts a delivery as waiting, or as skipped when its endpoint is disabled. A run is the execution
 * of `deliverWebhooks` that makes the attempts.
 *
 * state      stored as                              next
 * waiting    pending, no workflow_id                claimed    claimDeliveries: the relay gives it to a run
 * claimed    pending, workflow_id, no started_at    started    markStarted, recordAttemptResults
 *                                                   waiting    releaseDeliveries: held back, or the run does not exist
 * started    pending, workflow_id, started_at       delivered  recordAttemptResults: 2xx
 *                                                   started    recordAttemptResults: failed, its run waits until
 *                                                              next_attempt_at; markDueNow: a manual retry
 *                                                   waiting    recordAttemptResults: failed, it waits here until
 *                                                              next_attempt_at; releaseDeliveries: held back, or its
 *                                                              run does not know it
 *                                                   failed     recordAttemptResults: 410, or no retry is left;
 *                                                              failDeliveries: its run ended early
 *                                                   skipped    skipDeliveries: endpoint disabled or deleted
 * any pending                                       skipped    skipOfRemoved: the account was removed
 * waiting                                           waiting    requeueDelivery: a manual retry, due now;
 *                                                              makeDue: its endpoint is back
 * delivered, failed, skipped                        waiting    requeueDelivery: a manual retry
 *                                                   started    reopenDeliveries: an operator reset its run
 *
 * Order: of the pending deliveries of one object to one endpoint, only the one with the lowest `sequence` is attempted.
 * Those that wait are passed over by `claimDeliveries`, which marks some as `held` (claim-objects.ts); those in a run are
 * held back by the run.
 */

/** What came of one attempt. */
export interface AttemptResult {
  deliveryId: string;
  endpointId: string;
  /** 1 for the first attempt of the delivery, across all of its runs */
  number: number;
  at: Date;
  url: string;
  httpStatus: number | null;
  responseBody: string | null;
  error: string | null;
  errorKind: PostErrorKind | null;
  durationMs: number;
  status: 'delivered' | 'failed' | 'pending';
  /** only when pending; counts from when it is stored */
  nextAttemptInMs: number | null;
  /** the run that made the attempt; what it failed counts only while that run has the delivery */
  attemptedBy: string;
  /** the run that has the delivery from now on; null: it waits in the store */
  workflowId: string | null;
  /** runs that it has been given to by now */
  runs: number;
  /** the execution that made the attempt */
  runId: string;
}

export interface ClaimOptions {
  /** deliveries of one endpoint at most */
  perEndpoint: number;
  /** endpoints at most */
  endpoints?: number;
  /** of these, endpoints that fail or have never succeeded, at most; does not bound `only` */
  costly?: number;
  /** these endpoints alone */
  only?: readonly string[];
  /** endpoints that get no further run now */
  except: readonly string[];
  /** endpoints that get no further run of a replay now */
  exceptReplays?: readonly string[];
  /** puts the deliveries into runs; those that are in none stay waiting */
  plan: (deliveries: ClaimedDelivery[]) => ClaimedRun[];
  /** ms after which a probe that left no result is taken for lost */
  probeMs?: number;
  /** where the claim before this one has come to */
  position?: ClaimPosition;
}

const PROBE_MS = 60_000;

/** Rows of one statement. */
const MANY = 1_000;

/**
 * waiting → claimed. Takes the oldest due deliveries of each endpoint, of as many objects as there are, live ones before
 * those of a replay, and stores the id of the run that `plan` puts each one in. Passed over are those that another delivery
 * of the same object holds back.
 * Of an endpoint with an open breaker only manual retries are taken, and one delivery as a probe when its time has come.
 */
export async function claimDeliveries(db: Db, options: ClaimOptions): Promise<ClaimedRun[]> {
  const { except, exceptReplays = [], plan, probeMs = PROBE_MS, position = startPosition() } = options;
  return db.transaction(async (tx) => {
    position.isMore = false;
    position.hasMarked = false;
    const shares = await lockShares(tx, { ...options, except, exceptReplays, probeMs, position });
    if (shares.length === 0) return [];
    const rows = await takeDue(tx, shares, { exceptReplays, position });
    const health = new Map(shares.map(({ endpointId, isFailing, isProven }) => [endpointId, { isFailing, isProven }]));
    const runs = plan(rows.map((row) => ({ ...toClaimed(row), ...health.get(row.endpoint_id) })));
    if (runs.length === 0) return [];
    await saveRuns(tx, runs);
    const claimed = new Set(rows.map((row) => row.endpoint_id));
    const probed = shares.filter(({ isProbe, endpointId }) => isProbe && claimed.has(endpointId));
    if (probed.length > 0) {
      await tx.execute(sql`update webhook_endpoints set breaker_probe_at = now()
        where id = any(${sql.param(probed.map(({ endpointId }) => endpointId))}::text[])`);
    }
    return runs;
  });
}

async function saveRuns(tx: Tx, runs: readonly ClaimedRun[]): Promise<void> {
  const ids = runs.flatMap((run) => run.deliveries.map(({ id }) => id));
  const workflowIds = runs.flatMap((run) => run.deliveries.map(() => run.workflowId));
  await tx.execute(
    prepared(sql`
    update deliveries d set workflow_id = run.workflow_id, last_workflow_id = run.workflow_id, runs = d.runs + 1,
      claimed_at = now(), next_attempt_at = null, held = false
    from unnest(${sql.param(ids)}::text[], ${sql.param(workflowIds)}::text[]) as run (id, workflow_id)
    where d.id = run.id`),
  );
}

/** claimed → started: this run of these deliveries is known to Temporal. */
export async function markStarted(db: Db, runs: readonly { workflowId: string; deliveryId: string }[]): Promise<void> {
  const ids = sql.param(runs.map(({ deliveryId }) => deliveryId));
  const workflowIds = sql.param(runs.map(({ workflowId }) => workflowId));
  await db.execute(sql`
    update deliveries d set started_at = now()
    where d.id in (
      -- those that are locked are getting a result, which marks them too
      select own.id from unnest(${ids}::text[], ${workflowIds}::text[]) as run (id, workflow_id)
      join deliveries own on own.id = run.id and own.workflow_id = run.workflow_id
      where own.status = 'pending' and own.started_at is null for update of own skip locked
    )`);
}

/**
 * started → delivered, failed, started again or waiting, the last two with a time for the next attempt. Stores the
 * attempts and what they make of their deliveries. A result that is stored already changes nothing; one that comes after
 * the delivery was given to another run counts only when it was delivered.
 */
export async function recordAttemptResults(db: Db, results: readonly AttemptResult[]): Promise<void> {
  const column = <T>(pick: (result: AttemptResult) => T) => sql.param(results.map(pick));
  await db.execute(
    prepared(sql`
    with result as (
      select * from unnest(
        ${column((r) => r.deliveryId)}::text[], ${column((r) => r.number)}::int[],
        ${column((r) => r.at.toISOString())}::timestamptz[], ${column((r) => r.url)}::text[],
        ${column((r) => r.httpStatus)}::int[], ${column((r) => r.responseBody)}::text[],
        ${column((r) => r.error)}::text[], ${column((r) => r.errorKind)}::text[], ${column((r) => r.durationMs)}::int[],
        ${column((r) => r.status)}::text[], ${column((r) => r.nextAttemptInMs)}::float8[],
        ${column((r) => r.workflowId)}::text[], ${column((r) => r.runs)}::int[], ${column((r) => r.runId)}::text[],
        ${column((r) => r.attemptedBy)}::text[]
      ) as t (delivery_id, number, at, url, http_status, response_body, error, error_kind, duration_ms, status,
        next_attempt_ms, workflow_id, runs, run_id, attempted_by)
    ), attempt as (
      insert into delivery_attempts (delivery_id, number, at, http_status, response_body, error, error_kind, duration_ms)
      select delivery_id, number, at, http_status, response_body, error, error_kind, duration_ms from result
      on conflict do nothing
    )
    update deliveries d set status = r.status, attempts_count = greatest(d.attempts_count, r.number), endpoint_url = r.url,
      http_status = r.http_status, response_body = r.response_body, error = r.error, error_kind = r.error_kind,
      last_attempt_at = r.at, next_attempt_at = now() + r.next_attempt_ms * interval '1 millisecond', forced = false,
      workflow_id = r.workflow_id, last_workflow_id = coalesce(r.workflow_id, d.last_workflow_id),
      runs = greatest(d.runs, r.runs),
      run_id = r.run_id,
      claimed_at = case when r.workflow_id is null then null else d.claimed_at end,
      started_at = case when r.workflow_id is null then null else coalesce(d.started_at, now()) end
    from result r where d.id = r.delivery_id and (
      (d.attempts_count < r.number and d.status = 'pending' and d.workflow_id = r.attempted_by)
      or (r.status = 'delivered' and d.status <> 'delivered')
    )`),
  );
}

/** claimed or started → skipped: the endpoint wants no calls; `error` says why. */
export async function skipDeliveries(db: Db, deliveryIds: string[], error: string): Promise<void> {
  await db.execute(sql`
    update deliveries set status = 'skipped', error = ${error}, next_attempt_at = null, forced = false, held = false
    where id = any(${sql.param(deliveryIds)}::text[]) and status = 'pending'`);
}

/** started → started: a manual retry, the next attempt is now. */
export async function markDueNow(db: Db, deliveryId: string, workflowId: string): Promise<void> {
  await db.execute(sql`
    update deliveries set next_attempt_at = now(), forced = true
    where id = ${deliveryId} and status = 'pending' and workflow_id = ${workflowId}`);
}

/**
 * Any state but claimed and started → waiting, due now: a manual retry. One that had ended has the whole schedule before
 * it. Earlier ones of its object that wait go first, now as well. `lostRun`: a run that is known to be no longer there; a
 * delivery that it has goes as well.
 */
export async function requeueDelivery(db: Db, deliveryId: string, lostRun: string | null = null): Promise<void> {
  await inChunks(MANY, () =>
    db.execute(sql`
      update deliveries set forced = true, next_attempt_at = null where id in (
        select p.id from deliveries d join deliveries p on p.endpoint_id = d.endpoint_id and p.object_id = d.object_id
        where d.id = ${deliveryId} and p.sequence < d.sequence and p.status = 'pending' and p.workflow_id is null
          and (not p.forced or p.next_attempt_at is not null)
        limit ${MANY} for update of p
      )`),
  );
  await db.execute(sql`
    with requeued as (
      update deliveries set status = 'pending', forced = true, next_attempt_at = null, held = false,
        schedule_from = case when status = 'pending' then schedule_from else attempts_count end,
        workflow_id = null, claimed_at = null, started_at = null
      where id = ${deliveryId} and (status <> 'pending' or workflow_id is null or workflow_id = ${lostRun})
      returning id
    )
    select pg_notify(${DELIVERIES_CHANNEL}, '') from requeued`);
}

/** delivered, failed or skipped → started: an operator reset the run of these deliveries, which attempts them again. */
export async function reopenDeliveries(db: Db, deliveryIds: string[], workflowId: string): Promise<void> {
  await db.execute(sql`
    update deliveries set status = 'pending', schedule_from = attempts_count, next_attempt_at = null,
      claimed_at = now(), started_at = now(), forced = true, held = false
    where id = any(${sql.param(deliveryIds)}::text[]) and workflow_id = ${workflowId} and status <> 'pending'`);
}

/** claimed or started → waiting: this run does not make them. The relay gives them to another one. */
export async function releaseDeliveries(db: Db, deliveryIds: string[], workflowId: string): Promise<void> {
  await db.execute(sql`
    with released as (
      update deliveries set workflow_id = null, claimed_at = null, started_at = null, held = false
      where id = any(${sql.param(deliveryIds)}::text[]) and workflow_id = ${workflowId} and status = 'pending'
      returning id
    )
    select pg_notify(${DELIVERIES_CHANNEL}, '') from released limit 1`);
}

/** waiting → waiting: what waits for its next attempt at this endpoint is due now, as the endpoint is back. */
export async function makeDue(db: Db, endpointId: string): Promise<void> {
  await inChunks(MANY, async () => {
    const changed = await db.execute(sql`
      update deliveries set next_attempt_at = null where id in (
        select id from deliveries
        where endpoint_id = ${endpointId} and status = 'pending' and workflow_id is null and not held
          and next_attempt_at > now()
        limit ${MANY} for update skip locked
      )`);
    await db.execute(sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`);
    return changed;
  });
}

/** started → started: the endpoint is back, the next attempt is now. The runs that wait for it. */
export async function makeRunsDue(db: Db, endpointId: string): Promise<string[]> {
  const { rows } = await db.execute<{ workflow_id: string }>(sql`
    update deliveries set next_attempt_at = now()
    where endpoint_id = ${endpointId} and status = 'pending' and workflow_id is not null and next_attempt_at > now()
    returning workflow_id`);
  return rows.map((row) => row.workflow_id);
}

/**
 * claimed or started → failed: their run has ended before it delivered them; `error` is shown in the log. With `runId`, the
 * execution that ends: also those that it has attempted and that runs of their own, which it has not started, were to go on
 * with.
 */
export async function failDeliveries(
  db: Db,
  deliveryIds: readonly string[],
  { workflowId, runId = null, error }: { workflowId: string; runId?: string | null; error: string },
): Promise<void> {
  await db.execute(sql`
    with failed as (
      update deliveries set status = 'failed', error = ${error}, next_attempt_at = null, forced = false
      where id = any(${sql.param(deliveryIds)}::text[]) and status = 'pending' and (
        workflow_id = ${workflowId} or (run_id = ${runId} and workflow_id is not null and next_attempt_at is not null)
      )
      returning id
    )
    select pg_notify(${DELIVERIES_CHANNEL}, '') from failed limit 1`);
}

/** any pending → skipped: the content of a removed account is not kept for an endpoint that is away. Not of its last event. */
export async function skipOfRemoved(db: Db, accountId: string): Promise<void> {
  await alongLog(db, accountId, async (ids) => {
    await db.execute(sql`
      update deliveries set status = 'skipped', error = 'the account was removed', next_attempt_at = null, forced = false,
        held = false
      where id = any(${ids}::text[]) and status = 'pending' and event_type <> 'account.remove'`);
  });
}

/** Erases what endpoints responded to the events of a removed account, which may quote them. How the attempts ended stays. */
export async function eraseResponses(db: Db, accountId: string): Promise<void> {
  await alongLog(db, accountId, async (ids) => {
    await db.execute(sql`
      update deliveries set response_body = null where id = any(${ids}::text[]) and response_body is not null`);
    await db.execute(sql`
      update delivery_attempts set response_body = null
      where delivery_id = any(${ids}::text[]) and response_body is not null`);
  });
}

/** Goes once along all deliveries of an account, MANY at a time. */
async function alongLog(db: Db, accountId: string, change: (ids: SQL) => Promise<void>): Promise<void> {
  for (let after: [string, string] = ['-infinity', '']; ; ) {
    const { rows } = await db.execute<{ id: string; created_at: string }>(sql`
      select id, created_at::text from deliveries
      where account_id = ${accountId} and (created_at, id) > (${after[0]}::timestamptz, ${after[1]})
      order by created_at, id limit ${MANY}`);
    const last = rows.at(-1);
    if (!last) return;
    await change(sql`${sql.param(rows.map(({ id }) => id))}`);
    after = [last.created_at, last.id];
  }
}
