import { type SQL, sql } from 'drizzle-orm';
import type { EventType } from '../../contract/events.ts';
import type { DeliveryStatus } from '../../contract/webhook.ts';
import type { Db } from '../../db/driver/client.ts';
import { statement } from '../../db/driver/statement.ts';
import { LINES } from '../../db/outbox.ts';
import { laterUnderWay, takesCalls } from '../log/pending.ts';
import { type EndpointHealth, openUntil, toDate } from './endpoint-health.ts';

/** A delivery with the data that an attempt needs. */
export interface DueDelivery {
  id: string;
  endpointId: string;
  accountId: string;
  eventType: EventType;
  attemptsCount: number;
  eventId: string;
  objectId: string;
  sequence: number;
  /** of the event, see envelopeText */
  epoch: number | null;
  eventCreatedAt: Date;
  test: boolean;
  status: DeliveryStatus;
  /** ms until the next attempt, by the clock of the database, when it was loaded; null: it has no time */
  dueInMs: number | null;
  workflowId: string | null;
  /** when that run got it, as text; null: no run has it */
  claimedAt: string | null;
  /** the execution that made the last attempt */
  runId: string | null;
  runs: number;
  /** attempts made before the retry schedule that is in force */
  scheduleFrom: number;
  /** a manual retry, whatever the breaker says */
  isForced: boolean;
  isReplay: boolean;
  /**
   * an earlier delivery of the same object is pending, and is not with the same run; or a later one may be under way in
   * another run, where this one is made again
   */
  isHeldBack: boolean;
  /** its replay was cancelled, or its endpoint disabled or deleted, before the replay's first attempt */
  isWithdrawn: boolean;
  /** the event's `data` as stored; null when it is longer than was asked for, see loadEventData */
  data: string | null;
}

/** An endpoint with the data that an attempt needs; secrets and headers are still sealed. */
export interface DeliveryTarget extends EndpointHealth {
  id: string;
  url: string;
  enabled: boolean;
  headers: Buffer;
  secret: Buffer;
  /** also signs; null: the endpoint has no previous secret, or it has expired */
  previousSecret: Buffer | null;
  /** runs that wait for the next attempt of a delivery to it */
  retryingRuns: number;
  /** in ms of `performance.now()`: the time of day may be set back */
  loadedAt: number;
}

/** Milliseconds until a time, by the clock of the database: the clock of a worker may differ. */
export const MS_UNTIL = (at: SQL) => sql`(extract(epoch from ${at} - now()) * 1000)::float8`;

/**
 * Whether the pending delivery `p` is no longer to be replayed: it was not attempted yet, and its replay was cancelled, or its endpoint
 * takes no calls, which cancels the replay. A delivery that an operator retries or resets is still wanted.
 */
const IS_WITHDRAWN = sql`(p.line = ${LINES.replay} and not p.attempted and exists (
    select from replays r where r.id = p.replay_id
      and (r.status = 'cancelled' or (r.status = 'running' and not ${takesCalls(sql`r`)}))
  ))`;

/** Whether a delivery is no longer to be replayed, since its replay was cancelled, or its endpoint takes no calls. */
export async function isWithdrawn(db: Db, deliveryId: string): Promise<boolean> {
  const { rows } = await db.execute(
    sql`select from pending_deliveries p where p.delivery_id = ${deliveryId} and ${IS_WITHDRAWN}`,
  );
  return rows.length > 0;
}

/**
 * The deliveries of these ids that still exist, in the order of their events, and the endpoints that they go to.
 * `data` comes along where it has at most `inlineBytes`.
 */
export async function loadDueDeliveries(
  db: Db,
  deliveryIds: string[],
  inlineBytes: number,
): Promise<{ deliveries: DueDelivery[]; targets: Map<string, DeliveryTarget> }> {
  const { rows } = await db.execute<DueRow>(
    statement(
      'load_due_deliveries',
      () => sql`
    select d.id, d.endpoint_id, d.account_id, d.event_type, d.attempts_count, d.event_id, d.object_id, d.status,
      case when p.waits_for = 'retry' then ${MS_UNTIL(sql`p.due_at`)} end as due_in_ms,
      -- in the queue, the last run that attempted it no longer has it
      case when p.delivery_id is null then d.workflow_id else p.workflow_id end as workflow_id,
      p.claimed_at::text, d.run_id, greatest(p.runs, d.runs) as runs, d.schedule_from,
      coalesce(p.line = ${LINES.manual}, false) as forced, p.replay_id is not null as is_replay, d.test, d.sequence,
      e.created_at as event_created_at, e.epoch,
      exists (
        select 1 from pending_deliveries f
        where f.endpoint_id = p.endpoint_id and f.object_id = p.object_id and f.sequence < p.sequence
          and f.workflow_id is distinct from p.workflow_id
      ) or case when p.runs > 1 or p.attempted or p.line <> ${LINES.live} then ${laterUnderWay(sql`p`)}
        else false end as is_held_back,
      coalesce(${IS_WITHDRAWN}, false) as is_withdrawn,
      case when octet_length(e.data) <= ${inlineBytes} then e.data end as data
    from deliveries d join events e on e.id = d.event_id left join pending_deliveries p on p.delivery_id = d.id
    where d.id = any(${sql.param(deliveryIds)}::text[]) order by d.account_id, d.sequence, d.id`,
    )(),
  );
  const targets = await loadTargets(db, [...new Set(rows.map((row) => row.endpoint_id))]);
  return { deliveries: rows.map(toDue), targets };
}

/** The endpoints of these ids that still exist. */
export async function loadTargets(db: Db, ids: string[]): Promise<Map<string, DeliveryTarget>> {
  const loadedAt = performance.now();
  const { rows } = await db.execute<TargetRow>(
    statement(
      'load_delivery_targets',
      () => sql`
    select id, url, enabled, headers, secret,
      case when previous_secret_until > now() then previous_secret end as previous_secret,
      failures_in_a_row, breaker_until, ${MS_UNTIL(sql`breaker_until`)} as breaker_ms, failing_since, last_success_at, (
        select count(*)::int from pending_deliveries p
        where p.endpoint_id = w.id and p.workflow_id is not null and p.waits_for = 'retry'
      ) as retrying_runs
    from webhook_endpoints w where id = any(${sql.param(ids)}::text[])`,
    )(),
  );
  return new Map(rows.map((row) => [row.id, { ...toTarget(row), loadedAt }]));
}

interface TargetRow extends Record<string, unknown> {
  id: string;
  url: string;
  enabled: boolean;
  headers: Buffer;
  secret: Buffer;
  previous_secret: Buffer | null;
  failures_in_a_row: number;
  breaker_until: string | null;
  breaker_ms: number | null;
  failing_since: string | null;
  last_success_at: string | null;
  retrying_runs: number;
}

const toTarget = (row: TargetRow): Omit<DeliveryTarget, 'loadedAt'> => ({
  id: row.id,
  url: row.url,
  enabled: row.enabled,
  headers: row.headers,
  secret: row.secret,
  previousSecret: row.previous_secret,
  failuresInARow: row.failures_in_a_row,
  breakerUntil: toDate(row.breaker_until),
  openUntil: openUntil(row.breaker_ms),
  failingSince: toDate(row.failing_since),
  lastSuccessAt: toDate(row.last_success_at),
  retryingRuns: row.retrying_runs,
});

interface DueRow extends Record<string, unknown> {
  id: string;
  endpoint_id: string;
  account_id: string;
  event_type: EventType;
  attempts_count: number;
  event_id: string;
  object_id: string;
  status: DeliveryStatus;
  due_in_ms: number | null;
  workflow_id: string | null;
  claimed_at: string | null;
  run_id: string | null;
  runs: number;
  schedule_from: number;
  forced: boolean;
  is_replay: boolean;
  is_held_back: boolean;
  is_withdrawn: boolean;
  test: boolean;
  sequence: string;
  epoch: string | null;
  event_created_at: string;
  data: string | null;
}

const toDue = (row: DueRow): DueDelivery => ({
  id: row.id,
  endpointId: row.endpoint_id,
  accountId: row.account_id,
  eventType: row.event_type,
  attemptsCount: row.attempts_count,
  eventId: row.event_id,
  objectId: row.object_id,
  sequence: Number(row.sequence),
  epoch: row.epoch === null ? null : Number(row.epoch),
  eventCreatedAt: new Date(row.event_created_at),
  status: row.status,
  dueInMs: row.due_in_ms,
  workflowId: row.workflow_id,
  claimedAt: row.claimed_at,
  runId: row.run_id,
  runs: row.runs,
  scheduleFrom: row.schedule_from,
  isForced: row.forced,
  isReplay: row.is_replay,
  isHeldBack: row.is_held_back,
  isWithdrawn: row.is_withdrawn,
  test: row.test,
  data: row.data,
});

/** The stored `data` of an event, of any length; undefined when the event has been deleted. */
export async function loadEventData(db: Db, eventId: string): Promise<string | undefined> {
  const { rows } = await db.execute<{ data: string }>(sql`select data from events where id = ${eventId}`);
  return rows[0]?.data;
}
