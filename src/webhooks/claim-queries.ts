import { type SQL, sql } from 'drizzle-orm';
import type { Tx } from '../db/client.ts';
import { CLAIMED, type ClaimedRow } from './delivery-queries.ts';

/*
 * What a claim looks at and locks; `claimDeliveries` (delivery-state.ts) gives it to runs. One claim is bounded whatever
 * waits: some endpoints, some deliveries of each, and some that are passed over. The next one goes on from there.
 */

/** Endpoints of one claim. */
export const MAX_ENDPOINTS = 50;
/** Deliveries of one claim, over all endpoints. */
const MAX_CLAIMED = 1_000;
/** Deliveries of one claim that are looked at though they may be held back, over all endpoints. */
const MAX_LOOKED_AT = 4_000;
/** The newest of an endpoint, which are looked at also while older ones that are held back have not all been. */
const NEWEST = 100;
/** Of what is taken of an endpoint, one in so many is a replay's, whatever live deliveries wait. */
const REPLAY_SHARE = 10;

/** Where the claims of one relay have come to. */
export interface ClaimPosition {
  /** endpoints up to this one have had their turn; '': all have */
  endpointId: string;
  /** by endpoint: deliveries up to this one have been looked at; absent: all have */
  looked: Map<string, string>;
}

export const startPosition = (): ClaimPosition => ({ endpointId: '', looked: new Map() });

/** What a claim may take of an endpoint. */
export interface Share {
  endpointId: string;
  max: number;
  /** manual retries alone: its breaker is open */
  forcedOnly: boolean;
  isProbe: boolean;
  isFailing: boolean;
}

/**
 * The next endpoints that have deliveries waiting, each locked until the end of the transaction against another claim. What
 * is claimed is read by a later statement, which sees what the claim before it has committed.
 */
export async function lockShares(
  tx: Tx,
  options: { perEndpoint: number; except: readonly string[]; probeMs: number; position: ClaimPosition },
): Promise<Share[]> {
  const { perEndpoint, except, probeMs, position } = options;
  type Row = { endpoint_id: string; breaker: 'closed' | 'open' | 'probe'; is_failing: boolean; locked: boolean };
  // Walks from endpoint to endpoint along the index: the cost is that of the endpoints that have deliveries waiting.
  const { rows } = await tx.execute<Row & Record<string, unknown>>(sql`
    with recursive waiting as (
      (select endpoint_id from deliveries
        where status = 'pending' and workflow_id is null and endpoint_id > ${position.endpointId}
        order by endpoint_id limit 1)
      union all
      select (
        select d.endpoint_id from deliveries d
        where d.status = 'pending' and d.workflow_id is null and d.endpoint_id > w.endpoint_id
        order by d.endpoint_id limit 1
      ) from waiting w where w.endpoint_id is not null
    ), turn as materialized (
      select endpoint_id from waiting
      where endpoint_id is not null and endpoint_id <> all(${sql.param(except)}::text[]) limit ${MAX_ENDPOINTS}
    ), chosen as materialized (
      select t.endpoint_id, coalesce(e.failures_in_a_row, 0) > 0 as is_failing,
        case when e.breaker_until is null then 'closed'
          when e.breaker_until > now() or e.breaker_probe_at > now() - ${probeMs} * interval '1 millisecond' then 'open'
          else 'probe' end as breaker
      from turn t left join webhook_endpoints e on e.id = t.endpoint_id
    )
    select chosen.*, pg_try_advisory_xact_lock(hashtextextended('deliveries of ' || endpoint_id, 0)) as locked from chosen`);
  const last = rows
    .map((row) => row.endpoint_id)
    .sort()
    .at(-1);
  position.endpointId = rows.length === MAX_ENDPOINTS && last !== undefined ? last : '';
  const most = Math.min(perEndpoint, Math.max(1, Math.floor(MAX_CLAIMED / Math.max(1, rows.length))));
  return rows
    .filter(({ locked }) => locked)
    .map((row) => ({
      endpointId: row.endpoint_id,
      max: row.breaker === 'probe' ? 1 : most,
      forcedOnly: row.breaker === 'open',
      isProbe: row.breaker === 'probe',
      isFailing: row.breaker !== 'closed' || row.is_failing,
    }));
}

/** Whether `d` may be under way in its run: it is not waiting there for its next attempt. */
const UNDER_WAY = (d: SQL) =>
  sql`${d}.workflow_id is not null and (${d}.next_attempt_at is null or ${d}.next_attempt_at <= now())`;

/**
 * Whether another delivery of the object of `d` holds it back: an earlier one `p` that is in a run, is not due, or is not
 * taken now; or a later one that is under way, where `d` is made again.
 */
const HELD_BACK = sql`((
  -- for each row by itself, with the limit: as a join it would be made for all that wait
  select true from deliveries p
  where p.endpoint_id = d.endpoint_id and p.object_id = d.object_id and p.status = 'pending' and p.sequence < d.sequence
    and (p.workflow_id is not null or p.next_attempt_at > now() or p.id > d.id or (d.forced and not p.forced)
      -- live and replayed ones go in different runs
      or (p.replay_id is null) <> (d.replay_id is null))
  limit 1) is not null
  or case when d.runs > 0 or d.forced or d.replay_id is not null then ${laterUnderWay()} else false end)`;

/** Whether a later delivery of the object of `d` may be under way in another run. */
export function laterUnderWay(): SQL {
  return sql`(
    select true from deliveries l
    where l.endpoint_id = d.endpoint_id and l.object_id = d.object_id and l.status = 'pending' and l.sequence > d.sequence
      and ${UNDER_WAY(sql`l`)} and l.workflow_id is distinct from d.workflow_id
    limit 1) is not null`;
}

/** Ids of what is due of an endpoint, live or of replays: first what waited for its next attempt, then in their order. */
function dueOf({ isReplay, max, window }: { isReplay: 0 | 1; max: SQL; window: SQL }): SQL {
  const waiting = (next: SQL, order: SQL, limit: SQL) => sql`
    (select d.id from (
      select d.* from deliveries d
      where d.status = 'pending' and d.workflow_id is null and d.endpoint_id = share.endpoint_id
        and (d.replay_id is not null)::int = ${sql.raw(String(isReplay))} and ${next}
      order by ${order} limit ${limit}
    ) d where not ${HELD_BACK} limit ${max})`;
  const after = isReplay === 1 ? sql`true` : sql`d.id > share.after`;
  const inOrder = sql`d.next_attempt_at nulls first, d.id`;
  return sql`select id from (
    ${waiting(sql`d.next_attempt_at <= now()`, inOrder, window)}
    union all ${waiting(sql`d.next_attempt_at is null and ${after}`, inOrder, window)}
    ${
      isReplay === 1
        ? sql``
        : sql`union all ${waiting(
            sql`d.next_attempt_at is null and share.after <> ''`,
            sql`d.next_attempt_at desc nulls last, d.id desc`,
            sql.raw(String(NEWEST)),
          )}`
    }
  ) due limit ${max}`;
}

interface DueRow extends Partial<ClaimedRow> {
  share_endpoint: string;
  /** where the look at deliveries that are held back has come to; null: to the end */
  looked: string | null;
}

/** Locks what is due of these endpoints. Notes in `position` how far it has looked. */
export async function takeDue(
  tx: Tx,
  all: readonly Share[],
  { exceptReplays, position }: { exceptReplays: readonly string[]; position: ClaimPosition },
): Promise<ClaimedRow[]> {
  const shares = all.filter(({ forcedOnly }) => !forcedOnly);
  if (shares.length === 0) return [];
  const column = <T>(pick: (share: Share) => T) => sql.param(shares.map(pick));
  const window = sql.raw(String(Math.floor(MAX_LOOKED_AT / shares.length)));
  const { rows } = await tx.execute<DueRow & Record<string, unknown>>(sql`
    with looked as materialized (
      select share.endpoint_id, live.ids || replayed.ids as ids,
        case when cardinality(live.ids) < share.max then (
          select d.id from deliveries d
          where d.status = 'pending' and d.workflow_id is null and d.endpoint_id = share.endpoint_id
            and (d.replay_id is not null)::int = 0 and d.next_attempt_at is null and d.id > share.after
          order by d.next_attempt_at nulls first, d.id offset ${window} - 1 limit 1
        ) else nullif(share.after, '') end as last
      from unnest(
        ${column(({ endpointId }) => endpointId)}::text[], ${column(({ max }) => max)}::int[],
        ${column(({ endpointId }) => position.looked.get(endpointId) ?? '')}::text[],
        ${column(({ endpointId }) => !exceptReplays.includes(endpointId))}::boolean[]
      ) as share (endpoint_id, max, after, replays)
      cross join lateral (select array(${dueOf({ isReplay: 0, max: sql`share.max`, window })}) as ids) live
      cross join lateral (select case when share.replays then
        greatest(share.max - cardinality(live.ids), share.max / ${sql.raw(String(REPLAY_SHARE))}) else 0 end as max) room
      cross join lateral (select array(${dueOf({ isReplay: 1, max: sql`room.max`, window })}) as ids) replayed
    ), chosen as materialized (
      select coalesce(array_agg(id), '{}') as ids from looked cross join unnest(looked.ids) id
    ), taken as (
      select ${CLAIMED} from deliveries d
      where d.id = any((select ids from chosen)::text[]) and d.status = 'pending' and d.workflow_id is null
        -- nor what waits for one that was left out for lack of room
        and not exists (
          select from deliveries p
          where p.endpoint_id = d.endpoint_id and p.object_id = d.object_id and p.status = 'pending'
            and p.sequence < d.sequence and p.id <> all((select ids from chosen)::text[])
        )
      for update of d skip locked
    )
    select looked.endpoint_id as share_endpoint, looked.last as looked, taken.*
    from looked left join taken on taken.endpoint_id = looked.endpoint_id
    order by taken.is_replay, taken.id`);
  for (const { share_endpoint: endpointId, looked } of rows) {
    if (looked === null) position.looked.delete(endpointId);
    else position.looked.set(endpointId, looked);
  }
  return rows.filter((row): row is DueRow & ClaimedRow => row.id !== null && row.id !== undefined);
}

/** Locks manual retries to endpoints whose breaker is open. */
export async function takeForced(tx: Tx, all: readonly Share[]): Promise<ClaimedRow[]> {
  const ids = all.filter(({ forcedOnly }) => forcedOnly).map(({ endpointId }) => endpointId);
  if (ids.length === 0) return [];
  const { rows } = await tx.execute<ClaimedRow>(sql`
    select ${CLAIMED} from deliveries d
    where d.forced and d.status = 'pending' and d.workflow_id is null and d.endpoint_id = any(${sql.param(ids)}::text[])
      and not ${HELD_BACK}
    order by d.id limit 100 for update skip locked`);
  return rows;
}
