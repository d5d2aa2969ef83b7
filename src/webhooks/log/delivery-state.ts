import { type SQL, sql } from 'drizzle-orm';
import type { PostErrorKind } from '../../contract/webhook.ts';
import type { Db } from '../../db/driver/client.ts';
import { inChunks } from '../../db/driver/in-chunks.ts';
import { statement } from '../../db/driver/statement.ts';
import { DELIVERIES_CHANNEL, LINES } from '../../db/outbox.ts';
import { DUE_NOW, endPending, lineOf, nextInOrder } from './pending.ts';
import { mayHurry, type Recovery } from './recovery.ts';

/*
 * The states of a delivery and every transition between them; a replay's are in replay-state.ts. `recordEvents`
 * (src/db/outbox.ts) inserts a delivery as waiting, or as skipped when its endpoint is disabled. A run is the execution of
 * `deliverWebhooks` that makes the attempts. The log (`deliveries`) says pending as long as the queue (`pending_deliveries`)
 * has a row of the delivery; the states in between are those of that row.
 *
 * state      stored as                              next
 * waiting    no workflow_id                         claimed    claimDeliveries (dispatch/claim.ts): it is given to a run
 *                                                   waiting    requeueDelivery: a manual retry, due now;
 *                                                              makeDue: its endpoint is back
 * claimed    workflow_id, no started_at             started    markStarted, recordAttemptResults
 *                                                   waiting    releaseDeliveries: held back, or the run does not exist
 * started    workflow_id, started_at                delivered  recordAttemptResults: 2xx
 *                                                   started    recordAttemptResults: failed, its run waits until due_at;
 *                                                              markDueNow: a manual retry;
 *                                                              markEarlierDueNow: one of a later delivery of its object
 *                                                   waiting    recordAttemptResults: failed, it waits in the queue until
 *                                                              due_at; releaseDeliveries: held back, or its run does not
 *                                                              know it
 *                                                   failed     recordAttemptResults: 410, or no retry is left;
 *                                                              failDeliveries: its run ended early
 *                                                   skipped    skipDeliveries: endpoint disabled or deleted
 * any of these                                      skipped    skipOfRemoved: the account was removed
 * delivered, failed, skipped                        waiting    requeueDelivery: a manual retry
 *                                                   started    reopenDeliveries: an operator reset its run
 *
 * Order: of the pending deliveries of one object to one endpoint, only the one with the lowest `sequence` is attempted. A
 * claim takes none before it; those in a run are held back by the run.
 */

/** The outcome of one attempt. */
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
  /** the run that made the attempt; a failure counts only while that run has the delivery */
  attemptedBy: string;
  /** the run that has the delivery from now on; null: it waits in the queue */
  workflowId: string | null;
  /** runs that it has been given to so far */
  runs: number;
  /** the execution that made the attempt */
  runId: string;
}

/** Rows of one statement: it holds their locks for some ms. */
const MANY = 1_000;

/** claimed → started: Temporal knows the runs of these deliveries. */
export async function markStarted(db: Db, runs: readonly { workflowId: string; deliveryId: string }[]): Promise<void> {
  const ids = sql.param(runs.map(({ deliveryId }) => deliveryId));
  const workflowIds = sql.param(runs.map(({ workflowId }) => workflowId));
  await db.execute(sql`
    update pending_deliveries p set started_at = now()
    where p.delivery_id in (
      -- those that are locked are getting a result, which marks them too
      select own.delivery_id from unnest(${ids}::text[], ${workflowIds}::text[]) as run (id, workflow_id)
      join pending_deliveries own on own.delivery_id = run.id and own.workflow_id = run.workflow_id
      where own.started_at is null for update of own skip locked
    )`);
}

/**
 * started → delivered, failed, started again or waiting, the last two with a time for the next attempt. Stores the
 * attempts and what they make of their deliveries. A result that is stored already changes nothing; one that comes after
 * the delivery was given to another run counts only when it was delivered.
 */
export async function recordAttemptResults(db: Db, results: readonly AttemptResult[]): Promise<void> {
  await db.execute(
    statement(
      'record_attempt_results',
      () => sql`
    with result as (${resultRows(results)}), attempt as (
      insert into delivery_attempts (delivery_id, number, at, http_status, response_body, error, error_kind, duration_ms)
      select delivery_id, number, at, http_status, response_body, error, error_kind, duration_ms from result
      on conflict do nothing
      returning delivery_id, date_trunc('minute', at) as minute, error_kind
    ), counted as (
      -- in one order, and after all other rows: statements of other workers wait for these, never in a circle
      insert into attempt_counts (minute, endpoint_id, succeeded, failed)
      select minute, endpoint_id, count(*) filter (where error_kind is null), count(error_kind)
      from attempt join (select distinct delivery_id, endpoint_id from result) r using (delivery_id)
      group by minute, endpoint_id order by minute, endpoint_id
      on conflict (minute, endpoint_id) do update
        set succeeded = attempt_counts.succeeded + excluded.succeeded, failed = attempt_counts.failed + excluded.failed
    ), success as (
      -- one that is stored already may have been queued again since, by hand
      select delivery_id from result r where r.status = 'delivered' and not exists (
        select from delivery_attempts a where a.delivery_id = r.delivery_id and a.number = r.number and a.error_kind is null)
    ), own as materialized (
      select p.delivery_id from result r
      join pending_deliveries p on p.delivery_id = r.delivery_id join deliveries d on d.id = r.delivery_id
      where r.delivery_id in (select delivery_id from success) or (p.workflow_id = r.attempted_by and d.attempts_count < r.number)
      for update of p
    ), gone as (
      delete from pending_deliveries p using own, result r
      where p.delivery_id = own.delivery_id and r.delivery_id = own.delivery_id and r.status <> 'pending'
      returning p.endpoint_id, p.object_id, p.sequence
    ), to_retry as (
      update pending_deliveries p set due_at = now() + r.next_attempt_ms * interval '1 millisecond', waits_for = 'retry',
        attempted = true, line = ${lineOf(sql`p`)}, workflow_id = r.workflow_id, runs = greatest(p.runs, r.runs),
        claimed_at = case when r.workflow_id is null then null else p.claimed_at end,
        started_at = case when r.workflow_id is null then null else coalesce(p.started_at, now()) end
      from own, result r
      where p.delivery_id = own.delivery_id and r.delivery_id = own.delivery_id and r.status = 'pending'
    ), ${nextInOrder}
    update deliveries d set status = r.status, attempts_count = greatest(d.attempts_count, r.number), endpoint_url = r.url,
      http_status = r.http_status, response_body = r.response_body, error = r.error, error_kind = r.error_kind,
      last_attempt_at = r.at, workflow_id = coalesce(r.workflow_id, r.attempted_by), runs = greatest(d.runs, r.runs),
      run_id = r.run_id
    from result r where d.id = r.delivery_id and (
      d.id in (select delivery_id from own) or (d.id in (select delivery_id from success) and d.status <> 'delivered')
    )`,
    )(),
  );
}

/** The results, one row each. */
function resultRows(results: readonly AttemptResult[]) {
  const column = <T>(pick: (result: AttemptResult) => T) => sql.param(results.map(pick));
  return sql`
    select * from unnest(
      ${column((r) => r.deliveryId)}::text[], ${column((r) => r.number)}::int[],
      ${column((r) => r.at.toISOString())}::timestamptz[], ${column((r) => r.url)}::text[],
      ${column((r) => r.httpStatus)}::int[], ${column((r) => r.responseBody)}::text[],
      ${column((r) => r.error)}::text[], ${column((r) => r.errorKind)}::text[], ${column((r) => r.durationMs)}::int[],
      ${column((r) => r.status)}::text[], ${column((r) => r.nextAttemptInMs)}::float8[],
      ${column((r) => r.workflowId)}::text[], ${column((r) => r.runs)}::int[], ${column((r) => r.runId)}::text[],
      ${column((r) => r.attemptedBy)}::text[], ${column((r) => r.endpointId)}::text[]
    ) as t (delivery_id, number, at, url, http_status, response_body, error, error_kind, duration_ms, status,
      next_attempt_ms, workflow_id, runs, run_id, attempted_by, endpoint_id)`;
}

/** claimed or started → skipped: the endpoint wants no calls; `error` says why. */
export async function skipDeliveries(db: Db, deliveryIds: string[], error: string): Promise<void> {
  const own = sql`select * from pending_deliveries where delivery_id = any(${sql.param(deliveryIds)}::text[]) for update`;
  await db.execute(endPending(own, sql`status = 'skipped', error = ${error}`));
}

/** started → started: a manual retry makes the next attempt due now. Resolves with an empty list when the run no longer has it. */
export function markDueNow(db: Db, deliveryId: string, workflowId: string): Promise<Hurried[]> {
  return hurried(
    db,
    sql`set due_at = now(), line = ${LINES.manual}`,
    sql`p.delivery_id = ${deliveryId} and p.workflow_id = ${workflowId}`,
  );
}

/**
 * Any state except claimed and started → waiting, due now: a manual retry. A delivery that had ended begins a new schedule.
 * Earlier deliveries of its object that wait become due now as well, and go first. `lostRun`: a run that no longer exists; a
 * delivery that it has is requeued too.
 */
export async function requeueDelivery(db: Db, deliveryId: string, lostRun: string | null = null): Promise<void> {
  const { manual } = LINES;
  await inChunks(MANY, () =>
    db.execute(sql`
      update pending_deliveries set line = ${manual}, ${DUE_NOW} where delivery_id in (
        select p.delivery_id from deliveries d
        join pending_deliveries p on p.endpoint_id = d.endpoint_id and p.object_id = d.object_id
        where d.id = ${deliveryId} and p.sequence < d.sequence and p.workflow_id is null
          and (p.line <> ${manual} or p.waits_for is not null)
        limit ${MANY} for update of p
      )`),
  );
  await db.execute(sql`
    with waiting as (
      update pending_deliveries set line = ${manual}, ${DUE_NOW}, workflow_id = null, claimed_at = null, started_at = null
      where delivery_id = ${deliveryId} and (workflow_id is null or workflow_id = ${lostRun})
    ), ended as (
      update deliveries set status = 'pending', schedule_from = attempts_count
      where id = ${deliveryId} and status <> 'pending'
      returning id, endpoint_id, object_id, sequence, runs, replay_id
    ), queued as (
      insert into pending_deliveries (delivery_id, endpoint_id, object_id, sequence, line, due_at, runs, replay_id)
      select id, endpoint_id, object_id, sequence, ${manual}, now(), runs, replay_id from ended
      on conflict (delivery_id) do nothing
    )
    select pg_notify(${DELIVERIES_CHANNEL}, '')`);
}

/** delivered, failed or skipped → started: an operator reset the run of these deliveries, which attempts them again. */
export async function reopenDeliveries(db: Db, deliveryIds: string[], workflowId: string): Promise<void> {
  await db.execute(sql`
    with ended as (
      update deliveries set status = 'pending', schedule_from = attempts_count
      where id = any(${sql.param(deliveryIds)}::text[]) and workflow_id = ${workflowId} and status <> 'pending'
      returning id, endpoint_id, object_id, sequence, runs, replay_id
    )
    insert into pending_deliveries
      (delivery_id, endpoint_id, object_id, sequence, line, due_at, runs, replay_id, workflow_id, claimed_at, started_at)
    select id, endpoint_id, object_id, sequence, ${LINES.manual}, now(), runs, replay_id, ${workflowId}, now(), now()
    from ended on conflict (delivery_id) do nothing`);
}

/** claimed or started → waiting: this run does not make these deliveries. The relay gives them to another one. */
export async function releaseDeliveries(db: Db, deliveryIds: string[], workflowId: string): Promise<void> {
  await db.execute(sql`
    with released as (
      update pending_deliveries set workflow_id = null, claimed_at = null, started_at = null
      where delivery_id = any(${sql.param(deliveryIds)}::text[]) and workflow_id = ${workflowId}
      returning delivery_id
    )
    select pg_notify(${DELIVERIES_CHANNEL}, '') from released limit 1`);
}

/** waiting → waiting: the endpoint is back, so deliveries that wait for their next attempt are due now; see `mayHurry`. */
export async function makeDue(db: Db, endpointId: string, recovery?: Recovery): Promise<void> {
  for (let after: WaitingRow | undefined = { line: -1, due_at: '-infinity', delivery_id: '' }; after; ) {
    const waiting: { rows: WaitingRow[] } = await db.execute<WaitingRow>(sql`
      with waiting as materialized (
        select delivery_id, line, due_at from pending_deliveries
        where endpoint_id = ${endpointId} and workflow_id is null and waits_for = 'retry' and due_at > now()
          and (line, due_at, delivery_id) > (${after.line}, ${after.due_at}::timestamptz, ${after.delivery_id})
        order by line, due_at, delivery_id limit ${MANY} for update skip locked
      ), due as (
        update pending_deliveries p set ${DUE_NOW} from waiting
        where p.delivery_id = waiting.delivery_id and ${mayHurry(sql`waiting`, recovery)}
      )
      select line, due_at::text, delivery_id from waiting order by line desc, waiting.due_at desc, delivery_id desc limit 1`);
    await db.execute(sql`select pg_notify(${DELIVERIES_CHANNEL}, '')`);
    [after] = waiting.rows;
  }
}

interface WaitingRow extends Record<string, unknown> {
  line: number;
  due_at: string;
  delivery_id: string;
}

/** A delivery whose next attempt was made due while its run waits for it. */
export interface Hurried {
  deliveryId: string;
  workflowId: string;
  /** its line and time before, and its time now */
  line: number;
  wasDueAt: string;
  dueAt: string;
}

/** started → started: the endpoint is back, so next attempts are due now; see `mayHurry`. Their runs wait for them until they are signalled. */
export async function makeRunsDue(db: Db, endpointId: string, recovery?: Recovery): Promise<Hurried[]> {
  return hurried(
    db,
    sql`set due_at = now()`,
    sql`p.endpoint_id = ${endpointId} and p.workflow_id is not null and p.waits_for = 'retry' and p.due_at > now()
      and ${mayHurry(sql`p`, recovery)}`,
  );
}

/**
 * started → started: earlier deliveries of its object that wait in runs are due now, since a manual retry of this one waits for them.
 * Their runs wait on until they are signalled.
 */
export function markEarlierDueNow(db: Db, deliveryId: string): Promise<Hurried[]> {
  return hurried(
    db,
    sql`set due_at = now(), line = ${LINES.manual}`,
    sql`p.delivery_id in (
      select e.delivery_id from deliveries d
      join pending_deliveries e on e.endpoint_id = d.endpoint_id and e.object_id = d.object_id and e.sequence < d.sequence
      where d.id = ${deliveryId} and e.workflow_id is not null and e.waits_for = 'retry' and e.due_at > now()
      order by e.sequence limit ${MANY}
    )`,
  );
}

async function hurried(db: Db, set: SQL, where: SQL): Promise<Hurried[]> {
  const { rows } = await db.execute<Hurried & Record<string, unknown>>(sql`
    with before as materialized (select p.* from pending_deliveries p where ${where} for update)
    update pending_deliveries p ${set} from before where p.delivery_id = before.delivery_id
    returning p.delivery_id as "deliveryId", p.workflow_id as "workflowId", before.line,
      before.due_at::text as "wasDueAt", p.due_at::text as "dueAt"`);
  return rows;
}

/** started → started: runs that could not be signalled attempt these when they were going to. */
export async function takeBackHurry(db: Db, deliveries: readonly Hurried[]): Promise<void> {
  const column = <T>(pick: (delivery: Hurried) => T) => sql.param(deliveries.map(pick));
  await db.execute(sql`
    update pending_deliveries p set due_at = h.was_due_at, line = h.line
    from unnest(${column((h) => h.deliveryId)}::text[], ${column((h) => h.workflowId)}::text[],
      ${column((h) => h.line)}::smallint[], ${column((h) => h.wasDueAt)}::timestamptz[], ${column((h) => h.dueAt)}::timestamptz[]
    ) as h (delivery_id, workflow_id, line, was_due_at, due_at)
    where p.delivery_id = h.delivery_id and p.workflow_id = h.workflow_id and p.due_at = h.due_at`);
}

/**
 * claimed or started → failed: the run has ended before it delivered them; `error` is shown in the log. With `runId`, the
 * execution that ends, this includes deliveries that it has attempted and whose own runs it has not started.
 */
export async function failDeliveries(
  db: Db,
  deliveryIds: readonly string[],
  { workflowId, runId = null, error }: { workflowId: string; runId?: string | null; error: string },
): Promise<void> {
  const own = sql`
    select p.* from pending_deliveries p join deliveries d on d.id = p.delivery_id
    where p.delivery_id = any(${sql.param(deliveryIds)}::text[]) and (
      p.workflow_id = ${workflowId} or (d.run_id = ${runId} and p.workflow_id is not null and p.waits_for = 'retry')
    ) for update of p`;
  await db.execute(endPending(own, sql`status = 'failed', error = ${error}`));
}

/**
 * any pending → skipped: the content of a removed account is not kept for an endpoint that is away. Excepted are its last event, and
 * those of an OAuth app, which are in its sequence only.
 */
export async function skipOfRemoved(db: Db, accountId: string): Promise<void> {
  await alongLog(db, accountId, async (ids) => {
    const own = sql`
      select p.* from pending_deliveries p join deliveries d on d.id = p.delivery_id
      where p.delivery_id = any(${ids}::text[]) and d.event_type <> 'account.remove' and d.event_type not like 'oauth_app.%'
      for update of p`;
    await db.execute(endPending(own, sql`status = 'skipped', error = 'the account was removed'`));
  });
}

/** Erases the responses of endpoints to events of a removed account, which may quote them. The outcomes of the attempts stay. */
export async function eraseResponses(db: Db, accountId: string): Promise<void> {
  await alongLog(db, accountId, async (ids) => {
    await db.execute(sql`
      update deliveries set response_body = null where id = any(${ids}::text[]) and response_body is not null`);
    await db.execute(sql`
      update delivery_attempts set response_body = null
      where delivery_id = any(${ids}::text[]) and response_body is not null`);
  });
}

/** Visits all deliveries of an account once, MANY at a time. */
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
