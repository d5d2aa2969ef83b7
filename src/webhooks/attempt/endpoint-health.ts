import { sql } from 'drizzle-orm';
import type { Db } from '../../db/driver/client.ts';

/*
 * The circuit breaker of an endpoint, stored in its row, with the counts for automatic disabling.
 *
 * state      stored as                              next
 * closed     breaker_until is null                  open       10 failures in a row that say that it is away
 * open       breaker_until is in the future         half open  its time has passed: 30 s, doubled up to 10 min
 * half open  breaker_until is past                  closed     any response but 5xx and 429
 *                                                   open       the probe failed
 *
 * While it is open the relay leaves the deliveries where they are, in the store; they use up no attempts. An endpoint that refuses a
 * call does not say that it would take others: it has recovered with its first success since the breaker opened, which makes those that
 * wait for their next attempt due (log/recovery.ts says which), and the breaker opens for longer each time until then.
 */

/** Failures in a row that open the breaker: a restart of an endpoint with little traffic causes fewer. */
export const OPEN_AFTER = 10;
/** How long the breaker is open at first, seconds: about as long as a restart takes. */
const FIRST_OPEN_S = 30;
/** The longest that it is open, seconds: an endpoint that is back gets its deliveries within ten minutes. */
const LONGEST_OPEN_S = 600;

/** What a call says about its endpoint: it took the call, it refused this call, or it is away. */
export type CallOutcome = 'success' | 'refused' | 'away';

/** The outcome of a call with this status; null: no response. No response, 5xx and 429 say that the endpoint is away. */
export function outcomeOf(httpStatus: number | null): CallOutcome {
  if (httpStatus === null || httpStatus >= 500 || httpStatus === 429) return 'away';
  return httpStatus >= 200 && httpStatus < 300 ? 'success' : 'refused';
}

export interface EndpointHealth {
  failuresInARow: number;
  /** null: the breaker is closed. By the clock of the database: to be shown, not to be compared with that of a worker */
  breakerUntil: Date | null;
  /** until when the breaker is open, in ms of `performance.now()`; 0: it is closed */
  openUntil: number;
  failingSince: Date | null;
  lastSuccessAt: Date | null;
}

/** Age of `last_success_at` from which a success writes it again, ms: a busy endpoint does not write its row for every batch. */
const SUCCESS_EVERY_MS = 60_000;

/** Whether these outcomes change the stored health of the endpoint. */
export function changesHealth(known: EndpointHealth, outcomes: readonly CallOutcome[], now: Date): boolean {
  if (outcomes.some((outcome) => outcome !== 'success')) return true;
  const { failuresInARow, breakerUntil, failingSince, lastSuccessAt } = known;
  if (failuresInARow > 0 || breakerUntil !== null || failingSince !== null) return true;
  return lastSuccessAt === null || now.getTime() - lastSuccessAt.getTime() > SUCCESS_EVERY_MS;
}

/** Outcomes of calls of one endpoint at one URL, in the order of the calls. */
export interface EndpointOutcomes {
  endpointId: string;
  url: string;
  outcomes: readonly CallOutcome[];
}

/** The health that is stored now. */
export interface StoredHealth extends EndpointHealth {
  url: string;
  /** the outcomes have opened or closed the breaker */
  change: 'opened' | 'closed' | undefined;
  /** the outcomes have the first success since the breaker opened, and have not opened it again */
  hasRecovered: boolean;
  /** the last success before these outcomes; null: there was none */
  successBefore: Date | null;
}

interface HealthRow extends Record<string, unknown> {
  id: string;
  url: string;
  failures_in_a_row: number;
  breaker_until: string | null;
  breaker_ms: number | null;
  failing_since: string | null;
  last_success_at: string | null;
  was_open: boolean;
  recovers: boolean;
  success_before: string | null;
  opens: boolean;
}

/** Summarizes a series of outcomes. */
function summaryOf({ endpointId, url, outcomes }: EndpointOutcomes) {
  const lastResponse = outcomes.findLastIndex((outcome) => outcome !== 'away');
  const lastSuccess = outcomes.lastIndexOf('success');
  return {
    endpointId,
    url,
    answered: lastResponse >= 0,
    succeeded: lastSuccess >= 0,
    /** failures since the last response, and since the last success */
    sinceResponse: outcomes.length - 1 - lastResponse,
    sinceSuccess: outcomes.length - 1 - lastSuccess,
  };
}

/**
 * Stores the outcomes of many endpoints in one statement; resolves with the health of those that still exist, by id. Calls of a URL
 * that the endpoint had before say nothing of the one that it has now.
 */
export async function recordOutcomes(db: Db, all: readonly EndpointOutcomes[]): Promise<Map<string, StoredHealth>> {
  const summaries = all.map(summaryOf);
  const column = <T>(pick: (summary: (typeof summaries)[number]) => T) => sql.param(summaries.map(pick));
  const { rows } = await db.execute<HealthRow>(sql`
    with made as (
      select * from unnest(
        ${column((s) => s.endpointId)}::text[], ${column((s) => s.url)}::text[], ${column((s) => s.answered)}::boolean[],
        ${column((s) => s.succeeded)}::boolean[], ${column((s) => s.sinceResponse)}::int[], ${column((s) => s.sinceSuccess)}::int[]
      ) as made (endpoint_id, url, answered, succeeded, since_response, since_success)
    ), locked as materialized (
      -- in one order, so that concurrent writers do not deadlock
      select * from webhook_endpoints
      where id = any(${column((s) => s.endpointId)}::text[]) order by id for update
    ), before as (
      select e.id, made.*, e.breaker_until is not null as was_open, e.last_success_at as success_before,
        (case when answered then 0 else failures_in_a_row end) + since_response as failures,
        succeeded and breaker_openings > 0 as recovers,
        (case when succeeded then 0 else breaker_openings end) as openings,
        since_response > 0 and (case when answered then 0 else failures_in_a_row end) + since_response >= ${OPEN_AFTER}
          and (answered or breaker_until is null or breaker_until <= now()) as opens
      from locked e join made on made.endpoint_id = e.id and made.url = e.url
    )
    update webhook_endpoints e set
      failures_in_a_row = b.failures,
      breaker_openings = b.openings + (case when b.opens then 1 else 0 end),
      breaker_until = case
        when b.opens then now() + least(${FIRST_OPEN_S} * 2 ^ least(b.openings, 10), ${LONGEST_OPEN_S}) * interval '1 second'
        when b.answered then null else e.breaker_until end,
      breaker_probe_at = case when b.answered or b.opens then null else e.breaker_probe_at end,
      failing_since = case when b.since_success = 0 then null
        when b.succeeded then now() else coalesce(e.failing_since, now()) end,
      failed_attempts = (case when b.succeeded then 0 else e.failed_attempts end) + b.since_success,
      last_success_at = case when b.succeeded then now() else e.last_success_at end,
      warned_at = case when b.succeeded then null else e.warned_at end
    from before b where e.id = b.id
    returning e.id, e.url, e.failures_in_a_row, e.breaker_until, e.failing_since, e.last_success_at, b.was_open, b.opens, b.recovers, b.success_before,
      (extract(epoch from e.breaker_until - now()) * 1000)::float8 as breaker_ms`);
  return new Map(rows.map((row) => [row.id, toStored(row)]));
}

function toStored(row: HealthRow): StoredHealth {
  const isOpen = row.breaker_until !== null;
  return {
    url: row.url,
    failuresInARow: row.failures_in_a_row,
    breakerUntil: toDate(row.breaker_until),
    openUntil: openUntil(row.breaker_ms),
    failingSince: toDate(row.failing_since),
    lastSuccessAt: toDate(row.last_success_at),
    hasRecovered: row.recovers && !row.opens,
    successBefore: toDate(row.success_before),
    change: row.opens ? 'opened' : row.was_open && !isOpen ? 'closed' : undefined,
  };
}

/** The probe that a claim at that time has given was no call: another delivery may probe the endpoint now. */
export async function returnProbe(db: Db, endpointId: string, claimedAt: string): Promise<void> {
  await db.execute(sql`
    update webhook_endpoints set breaker_probe_at = null
    where id = ${endpointId} and breaker_probe_at = ${claimedAt}::timestamptz`);
}

/** `EndpointHealth.openUntil` of a breaker that stays open for `ms`. */
export const openUntil = (ms: number | null): number => (ms === null || ms <= 0 ? 0 : performance.now() + ms);

/** The date in a column of a raw query. */
export const toDate = (value: string | null): Date | null => (value === null ? null : new Date(value));
