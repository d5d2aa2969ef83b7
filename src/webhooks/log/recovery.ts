import { type SQL, sql } from 'drizzle-orm';
import { longestDelays } from '../attempt/retry-schedule.ts';

/** The first success of an endpoint since its breaker opened. */
export interface Recovery {
  /** the last success before that; null: there was none */
  successBefore: Date | null;
  /** WEBHOOK_RETRY_SCHEDULE, ms */
  retryScheduleMs: readonly number[];
}

/**
 * Attempts of a schedule that may follow one another fast. An endpoint that fails for some events only can recover every minute,
 * and each time its failing deliveries would use up an attempt of the days for which they are repeated.
 */
const EARLY_ATTEMPTS = 4;
/** Between the end of a call and the time that its result is stored, and between the clocks of worker and database, ms. */
const TOLERANCE_MS = 5_000;

/**
 * Whether the pending delivery `p`, which waits for its next attempt, is made due at once: it was attempted for the first time since
 * the last success before the recovery, so nothing says that it fails where others do not, or few attempts were made. Those whose
 * time is that of `Retry-After` keep it. Without a recovery, because the settings of the endpoint were corrected: each.
 */
export function mayHurry(p: SQL, recovery: Recovery | undefined): SQL {
  if (!recovery) return sql`true`;
  const { successBefore, retryScheduleMs } = recovery;
  const longest = sql.param(longestDelays(retryScheduleMs).map((ms) => ms + TOLERANCE_MS));
  return sql`exists (
    select from deliveries d
    join delivery_attempts first on first.delivery_id = d.id and first.number = d.schedule_from + 1
    join delivery_attempts last on last.delivery_id = d.id and last.number = d.attempts_count
    where d.id = ${p}.delivery_id
      and (d.attempts_count - d.schedule_from < ${EARLY_ATTEMPTS}
        or first.at > coalesce(${successBefore?.toISOString() ?? null}::timestamptz, '-infinity'))
      and ${p}.due_at <= last.at + interval '1 millisecond'
        * (last.duration_ms + (${longest}::float8[])[d.attempts_count - d.schedule_from])
  )`;
}
