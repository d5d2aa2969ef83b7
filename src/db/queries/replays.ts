import { type SQL, sql } from 'drizzle-orm';
import { type Replay, type ReplayFilter, REPLAYED_STATUSES, type ReplayStatus } from '../../contract/runs/replay.ts';
import type { AttemptOutcome } from '../../contract/webhook.ts';
import { IS_ERASED } from '../coordination/removal.ts';
import type { Queryable } from '../driver/client.ts';
import { LINES } from '../outbox.ts';

/** A replay as the store knows it: the name of its workflow belongs to `workflows/names`. */
export type StoredReplay = Omit<Replay, 'workflow_id'>;

/** Deliveries of an endpoint, recorded by `createdAt`, that a replay makes again. */
export interface ReplayScope {
  id: string;
  endpointId: string;
  filter: ReplayFilter;
  createdAt: Date;
}

/**
 * Whether the delivery `d` belongs to a replay: not a pending one, a test, one of an erased event, or one in another running
 * replay. Deliveries that a cancelled replay has queued and not made count by their previous status.
 */
export function isReplayed(scope: ReplayScope): SQL {
  const { id, endpointId, filter, createdAt } = scope;
  const statuses = filter.status === undefined ? [...REPLAYED_STATUSES] : [filter.status];
  const { since, until, trigger_events: types, account_ids: accounts, email_id: email, event_id: event } = filter;
  const { last_outcome: outcome } = filter;
  return sql.join(
    [
      sql`d.endpoint_id = ${endpointId} and not d.test and d.created_at <= ${createdAt.toISOString()}::timestamptz`,
      sql`(d.status = any(${sql.param(statuses)}::text[])
        or d.status_before_replay = any(${sql.param(statuses)}::text[]) and ${isLeftOver(scope)})`,
      sql`(d.replay_id is null or d.replay_id not in (
        select r.id from replays r where r.endpoint_id = ${endpointId} and r.status = 'running' and r.id <> ${id}))`,
      sql`not exists (select from events e where e.id = d.event_id and ${IS_ERASED})`,
      ...(since === undefined ? [] : [sql`d.created_at >= ${since}::timestamptz`]),
      ...(until === undefined ? [] : [sql`d.created_at < ${until}::timestamptz`]),
      ...(types === undefined ? [] : [sql`d.event_type = any(${sql.param(types)}::text[])`]),
      ...(accounts === undefined ? [] : [sql`d.account_id = any(${sql.param(accounts)}::text[])`]),
      ...(email === undefined ? [] : [sql`d.object_id = ${email}`]),
      ...(event === undefined ? [] : [sql`d.event_id = ${event}`]),
      ...(outcome === undefined ? [] : [lastOutcome(outcome)]),
    ],
    sql` and `,
  );
}

/** Whether the last attempt of the delivery `d` ended like this; `deliveries_failed_last` is the index of those that failed. */
export const lastOutcome = (outcome: AttemptOutcome, d: SQL = sql`d`): SQL =>
  outcome === 'failed' ? sql`${d}.error_kind is not null` : sql`(${d}.error_kind is null and ${d}.attempts_count > 0)`;

/** Whether the pending delivery `p` was neither attempted nor retried by hand since its replay queued it. */
export const IS_UNATTEMPTED = sql`(p.line = ${LINES.replay} and not p.attempted)`;

/** Whether the delivery `d` was queued by a cancelled replay and not attempted since. */
export function isLeftOver({ endpointId }: ReplayScope): SQL {
  return sql`(d.replay_id in (select r.id from replays r where r.endpoint_id = ${endpointId} and r.status = 'cancelled')
    and exists (select from pending_deliveries p where p.delivery_id = d.id and ${IS_UNATTEMPTED}))`;
}

/** Saves a new replay and counts its deliveries; does nothing when that id exists. */
export async function createReplay(db: Queryable, replay: Omit<ReplayScope, 'createdAt'>): Promise<void> {
  const { id, endpointId, filter } = replay;
  const createdAt = await recordingTime(db);
  await db.execute(sql`
    insert into replays (id, endpoint_id, filter, total, created_at)
    select ${id}, ${endpointId}, ${JSON.stringify(filter)}::jsonb, ${matching({ ...replay, createdAt })},
      ${createdAt.toISOString()}::timestamptz
    on conflict (id) do nothing`);
}

/** The number of deliveries that a replay would repeat if it were created now. */
export async function countReplayed(db: Queryable, replay: Omit<ReplayScope, 'id' | 'createdAt'>): Promise<number> {
  const scope = { ...replay, id: '', createdAt: await recordingTime(db) };
  const { rows } = await db.execute<{ total: number }>(sql`select ${matching(scope)} as total`);
  return rows[0]?.total ?? 0;
}

const matching = (scope: ReplayScope) => sql`(select count(*)::int from deliveries d where ${isReplayed(scope)})`;

/** Now, by the clock that deliveries are recorded by. */
async function recordingTime(db: Queryable): Promise<Date> {
  const { rows } = await db.execute<{ now: string }>(sql`select clock_timestamp() as now`);
  return new Date(rows[0]?.now ?? Date.now());
}

/** Reads a replay; undefined when it does not exist. */
export async function getReplay(db: Queryable, id: string): Promise<StoredReplay | undefined> {
  const { rows } = await db.execute<ReplayRow>(selected(sql`select * from replays where id = ${id}`));
  return rows[0] && toReplay(rows[0]);
}

/** A page of replays, newest first. */
export async function listReplays(
  db: Queryable,
  filter: { endpointId?: string | undefined; status?: ReplayStatus | undefined },
  page: { offset: number; limit: number },
): Promise<{ data: StoredReplay[]; hasMore: boolean }> {
  const { rows } = await db.execute<ReplayRow>(
    selected(sql`
      select * from replays
      where ${filter.endpointId === undefined ? sql`true` : sql`endpoint_id = ${filter.endpointId}`}
        and ${filter.status === undefined ? sql`true` : sql`status = ${filter.status}`}
      order by created_at desc, id desc offset ${page.offset} limit ${page.limit + 1}`),
  );
  return { data: rows.slice(0, page.limit).map(toReplay), hasMore: rows.length > page.limit };
}

/**
 * Replays with their counts: of the rows while running, else as stored at the end, since a later replay may have taken
 * rows.
 */
function selected(replays: SQL): SQL {
  return sql`
    select r.id, r.endpoint_id, r.filter, r.status, r.total, r.created_at, r.completed_at, live.pending,
      greatest(r.delivered, live.delivered) as delivered, greatest(r.failed, live.failed) as failed,
      greatest(r.skipped, live.skipped) as skipped
    from (${replays}) r cross join lateral (${replayCounts(sql`r.id`, sql`r.status <> 'completed'`)}) live
    order by r.created_at desc, r.id desc`;
}

/** The deliveries of a replay by outcome. */
export function replayCounts(id: SQL, condition: SQL = sql`true`): SQL {
  const count = (status: string) => sql`(count(*) filter (where d.status = ${status}))::int as ${sql.raw(status)}`;
  return sql`
    select ${sql.join(['pending', 'delivered', 'failed', 'skipped'].map(count), sql`, `)}
    from deliveries d where d.replay_id = ${id} and ${condition}`;
}

interface ReplayRow extends Record<string, unknown> {
  id: string;
  endpoint_id: string;
  filter: ReplayFilter;
  status: ReplayStatus;
  total: number;
  pending: number;
  delivered: number;
  failed: number;
  skipped: number;
  created_at: string;
  completed_at: string | null;
}

const toReplay = (row: ReplayRow): StoredReplay => ({
  object: 'Replay',
  id: row.id,
  endpoint_id: row.endpoint_id,
  filter: row.filter,
  status: row.status,
  total: row.total,
  pending: row.pending,
  delivered: row.delivered,
  failed: row.failed,
  skipped: row.skipped,
  created_at: new Date(row.created_at).toISOString(),
  completed_at: row.completed_at === null ? null : new Date(row.completed_at).toISOString(),
});
