import { type SQL, sql } from 'drizzle-orm';
import type { Tx } from '../../db/driver/client.ts';
import { prepared } from '../../db/driver/prepared.ts';
import { isCostly } from './costly-endpoints.ts';

/*
 * What a claim looks at and locks; `claimDeliveries` (delivery-state.ts) gives it to runs. One claim is bounded whatever
 * waits: some endpoints, and some deliveries of each (claim-objects.ts). The next one goes on from there.
 */

/** Endpoints of one claim. */
export const MAX_ENDPOINTS = 50;
/** Deliveries of one claim, over all endpoints. */
const MAX_CLAIMED = 1_000;

/** Where the claims of one relay have come to. */
export interface ClaimPosition {
  /** endpoints up to this one have had their turn; '': all have */
  endpointId: string;
  /** the last claim has marked much as held back and there may be more to take behind that */
  isMore: boolean;
  /** the last claim has marked some as held back: the end of what it took lets them go on */
  hasMarked: boolean;
  /** deliveries that an endpoint could get at most, in the last claim */
  perEndpoint: number;
}

export const startPosition = (): ClaimPosition => ({ endpointId: '', isMore: false, hasMarked: false, perEndpoint: 0 });

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

interface ShareRow extends Record<string, unknown> {
  endpoint_id: string;
  breaker: 'closed' | 'open' | 'probe';
  is_failing: boolean;
  is_proven: boolean;
  locked: boolean;
}

/** Whether an endpoint of `state` has a delivery that is due, of replays or others: the first along the index is. */
const hasDue = (isReplay: 0 | 1) => sql`coalesce((
    select coalesce(d.next_attempt_at <= now(), true) from deliveries d
    where d.status = 'pending' and d.workflow_id is null and not d.held and d.endpoint_id = state.endpoint_id
      and (d.replay_id is not null)::int = ${sql.raw(String(isReplay))}
    order by d.next_attempt_at nulls first, d.id limit 1
  ), false)`;

/**
 * The next endpoints that have deliveries due, each locked until the end of the transaction against another claim. What
 * is claimed is read by a later statement, which sees what the claim before it has committed.
 */
export async function lockShares(
  tx: Tx,
  options: {
    perEndpoint: number;
    endpoints?: number;
    /** of these endpoints, those that fail or have never succeeded, at most; does not bound `only` */
    costly?: number;
    only?: readonly string[];
    except: readonly string[];
    exceptReplays: readonly string[];
    probeMs: number;
    position: ClaimPosition;
  },
): Promise<Share[]> {
  const { perEndpoint, only, except, exceptReplays, probeMs, position } = options;
  const endpoints = Math.min(options.endpoints ?? MAX_ENDPOINTS, MAX_ENDPOINTS);
  const waiting = only
    ? sql`select unnest(${sql.param(only)}::text[]) as endpoint_id`
    : nextEndpoints(position.endpointId);
  // Walks from endpoint to endpoint along the index: the cost is that of the endpoints that have deliveries waiting.
  const { rows } = await tx.execute<ShareRow>(
    prepared(sql`
    with recursive waiting as (${waiting}), state as (
      -- in the order of the walk, which goes on as long as there is room: each endpoint is looked up by itself
      select w.endpoint_id, coalesce(e.is_failing, false) as is_failing, coalesce(e.is_proven, false) as is_proven,
        coalesce(e.breaker, 'closed') as breaker
      from waiting w left join lateral (
        select failures_in_a_row > 0 as is_failing, last_success_at is not null as is_proven,
          -- what waits for a disabled endpoint is skipped without a call
          case when breaker_until is null or not enabled then 'closed'
            when breaker_until > now() or breaker_probe_at > now() - ${probeMs} * interval '1 millisecond' then 'open'
            else 'probe' end as breaker
        from webhook_endpoints where id = w.endpoint_id offset 0
      ) e on true
      where w.endpoint_id is not null and w.endpoint_id <> all(${sql.param(except)}::text[]) offset 0
    ), chosen as materialized (
      select * from state
      -- one that gets no call has no turn
      where case when breaker = 'open' then exists (
          select from deliveries f where f.endpoint_id = state.endpoint_id
            and f.forced and f.status = 'pending' and f.workflow_id is null and not f.held
        ) else ${hasDue(0)} or (endpoint_id <> all(${sql.param(exceptReplays)}::text[]) and ${hasDue(1)}) end
      limit ${endpoints}
    )
    select chosen.*, pg_try_advisory_xact_lock(hashtextextended('deliveries of ' || endpoint_id, 0)) as locked from chosen`),
  );
  position.endpointId = !only && rows.length === endpoints ? lastOf(rows) : '';
  const most = Math.min(perEndpoint, Math.max(1, Math.floor(MAX_CLAIMED / Math.max(1, rows.length))));
  position.perEndpoint = most;
  const shares = rows.filter(({ locked }) => locked).map((row) => toShare(row, most));
  if (only || options.costly === undefined) return shares;
  // those that are left out have their turn in the next round
  const leftOut = new Set(shares.filter(isCostly).slice(options.costly));
  return shares.filter((share) => !leftOut.has(share));
}

function toShare(row: ShareRow, most: number): Share {
  const { endpoint_id: endpointId, breaker, is_failing: isFailing, is_proven: isProven } = row;
  return {
    endpointId,
    max: breaker === 'probe' ? 1 : most,
    forcedOnly: breaker === 'open',
    isProbe: breaker === 'probe',
    isFailing: breaker !== 'closed' || isFailing,
    isProven,
  };
}

const lastOf = (rows: readonly { endpoint_id: string }[]) =>
  rows.reduce((last, { endpoint_id: id }) => (id > last ? id : last), '');

/** The endpoints after this one that have deliveries waiting, and then null. */
const nextEndpoints = (after: string) => sql`
  (select endpoint_id from deliveries
    where status = 'pending' and workflow_id is null and not held and endpoint_id > ${after}
    order by endpoint_id limit 1)
  union all
  select (
    select d.endpoint_id from deliveries d
    where d.status = 'pending' and d.workflow_id is null and not d.held and d.endpoint_id > w.endpoint_id
    order by d.endpoint_id limit 1
  ) from waiting w where w.endpoint_id is not null`;

/** Whether `d` may be under way in its run: it is not waiting there for its next attempt. */
const UNDER_WAY = (d: SQL) =>
  sql`${d}.workflow_id is not null and (${d}.next_attempt_at is null or ${d}.next_attempt_at <= now())`;

/** Whether a later delivery of the object of `d` may be under way in another run. */
export function laterUnderWay(): SQL {
  return sql`(
    select true from deliveries l
    where l.endpoint_id = d.endpoint_id and l.object_id = d.object_id and l.status = 'pending' and l.sequence > d.sequence
      and ${UNDER_WAY(sql`l`)} and l.workflow_id is distinct from d.workflow_id
    limit 1) is not null`;
}
