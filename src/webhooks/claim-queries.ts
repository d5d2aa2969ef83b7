import { type SQL, sql } from 'drizzle-orm';
import type { Tx } from '../db/client.ts';
import { CLAIMED, type ClaimedRow } from './delivery-queries.ts';

/*
 * What a claim looks at and locks; `claimDeliveries` (delivery-state.ts) gives it to runs. One claim is bounded whatever
 * waits: some endpoints, some deliveries of each (claim-objects.ts), and some that are passed over. The next one goes on
 * from there.
 */

/** Endpoints of one claim. */
export const MAX_ENDPOINTS = 50;
/** Deliveries of one claim, over all endpoints. */
const MAX_CLAIMED = 1_000;

/** Where the claims of one relay have come to. */
export interface ClaimPosition {
  /** endpoints up to this one have had their turn; '': all have */
  endpointId: string;
  /** by endpoint: objects up to this one have been looked at; absent: all have */
  looked: Map<string, string>;
  /** deliveries that an endpoint could get at most, in the last claim */
  perEndpoint: number;
}

export const startPosition = (): ClaimPosition => ({ endpointId: '', looked: new Map(), perEndpoint: 0 });

/** What a claim may take of an endpoint. */
export interface Share {
  endpointId: string;
  max: number;
  /** manual retries alone: its breaker is open */
  forcedOnly: boolean;
  isProbe: boolean;
  isFailing: boolean;
  /** it has responded with success */
  isProven: boolean;
}

/**
 * The next endpoints that have deliveries waiting, each locked until the end of the transaction against another claim. What
 * is claimed is read by a later statement, which sees what the claim before it has committed.
 */
export async function lockShares(
  tx: Tx,
  options: {
    perEndpoint: number;
    endpoints?: number;
    only?: readonly string[];
    except: readonly string[];
    probeMs: number;
    position: ClaimPosition;
  },
): Promise<Share[]> {
  const { perEndpoint, only, except, probeMs, position } = options;
  const endpoints = Math.min(options.endpoints ?? MAX_ENDPOINTS, MAX_ENDPOINTS);
  type Row = {
    endpoint_id: string;
    breaker: 'closed' | 'open' | 'probe';
    is_failing: boolean;
    is_proven: boolean;
    locked: boolean;
  };
  // Walks from endpoint to endpoint along the index: the cost is that of the endpoints that have deliveries waiting.
  const { rows } = await tx.execute<Row & Record<string, unknown>>(sql`
    with recursive waiting as (${only ? sql`select unnest(${sql.param(only)}::text[]) as endpoint_id` : nextEndpoints(position.endpointId)}), state as (
      -- in the order of the walk, which goes on as long as there is room: nothing is joined
      select w.endpoint_id, (
          select failures_in_a_row > 0 from webhook_endpoints e where e.id = w.endpoint_id
        ) as is_failing, (
          select last_success_at is not null from webhook_endpoints e where e.id = w.endpoint_id
        ) as is_proven, (
          -- what waits for a disabled endpoint is skipped without a call
          select case when breaker_until is null or not enabled then 'closed'
            when breaker_until > now() or breaker_probe_at > now() - ${probeMs} * interval '1 millisecond' then 'open'
            else 'probe' end
          from webhook_endpoints e where e.id = w.endpoint_id
        ) as breaker
      from waiting w where w.endpoint_id is not null and w.endpoint_id <> all(${sql.param(except)}::text[]) offset 0
    ), chosen as materialized (
      select endpoint_id, coalesce(is_failing, false) as is_failing, coalesce(is_proven, false) as is_proven,
        coalesce(breaker, 'closed') as breaker from state
      -- one that gets no call has no turn
      where coalesce(breaker, 'closed') <> 'open' or exists (
        select from deliveries f
        where f.endpoint_id = state.endpoint_id and f.forced and f.status = 'pending' and f.workflow_id is null
      ) limit ${endpoints}
    )
    select chosen.*, pg_try_advisory_xact_lock(hashtextextended('deliveries of ' || endpoint_id, 0)) as locked from chosen`);
  position.endpointId = !only && rows.length === endpoints ? lastOf(rows) : '';
  const most = Math.min(perEndpoint, Math.max(1, Math.floor(MAX_CLAIMED / Math.max(1, rows.length))));
  position.perEndpoint = most;
  return rows
    .filter(({ locked }) => locked)
    .map(({ endpoint_id: endpointId, breaker, is_failing: isFailing, is_proven: isProven }) => ({
      endpointId,
      max: breaker === 'probe' ? 1 : most,
      forcedOnly: breaker === 'open',
      isProbe: breaker === 'probe',
      isFailing: breaker !== 'closed' || isFailing,
      isProven,
    }));
}

const lastOf = (rows: readonly { endpoint_id: string }[]) =>
  rows.reduce((last, { endpoint_id: id }) => (id > last ? id : last), '');

/** The endpoints after this one that have deliveries waiting, and then null. */
const nextEndpoints = (after: string) => sql`
  (select endpoint_id from deliveries
    where status = 'pending' and workflow_id is null and endpoint_id > ${after}
    order by endpoint_id limit 1)
  union all
  select (
    select d.endpoint_id from deliveries d
    where d.status = 'pending' and d.workflow_id is null and d.endpoint_id > w.endpoint_id
    order by d.endpoint_id limit 1
  ) from waiting w where w.endpoint_id is not null`;

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
