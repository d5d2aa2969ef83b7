import { sql } from 'drizzle-orm';
import { DISABLED_AFTER_MS } from '../../contract/webhook.ts';
import type { Queryable } from '../../db/driver/client.ts';
import type { Logger } from '../../runtime/logger.ts';

/*
 * An endpoint that fails for days is disabled. The columns that decide are written with the result of each attempt:
 * `failing_since` is the first failed attempt since the last success, `failed_attempts` how many there
 * were. Its pending deliveries are skipped then and can be replayed.
 *
 * after 3 days  a warning, once: in the log, and on the endpoint (`disables_at`)
 * after 5 days  disabled: `disabled_reason` is `failing`
 */

const DAY_MS = 24 * 60 * 60 * 1000;
/** The owner has two days to react. */
const WARNED_AFTER_MS = 3 * DAY_MS;
/** Failed attempts, at least: two deliveries that use up their schedules. */
const MIN_ATTEMPTS = 20;
/** Time from the first failed attempt to the last one, at least: a single bad hour before days without events does not count. */
const MIN_SPAN_MS = DAY_MS;

/** An endpoint that fails. */
export interface FailingEndpoint {
  id: string;
  failingSince: Date;
  failedAttempts: number;
}

/** Disables the endpoints that have failed for too long, and warns of those that soon will have. */
export async function disableFailingEndpoints(
  db: Queryable,
  now: Date,
): Promise<{ disabled: FailingEndpoint[]; warned: FailingEndpoint[] }> {
  const at = now.toISOString();
  const { rows: disabled } = await db.execute<Row>(sql`
    update webhook_endpoints e set enabled = false, disabled_reason = 'failing', updated_at = ${at}
    where ${hasFailedFor(now, DISABLED_AFTER_MS)} and exists (
      select from deliveries d
      where d.endpoint_id = e.id and d.last_attempt_at >= e.failing_since + ${MIN_SPAN_MS} * interval '1 millisecond'
    )
    returning id, failing_since, failed_attempts`);
  const { rows: warned } = await db.execute<Row>(sql`
    update webhook_endpoints e set warned_at = ${at}
    where ${hasFailedFor(now, WARNED_AFTER_MS)} and (warned_at is null or warned_at < failing_since)
    returning id, failing_since, failed_attempts`);
  return { disabled: disabled.map(toFailing), warned: warned.map(toFailing) };
}

function hasFailedFor(now: Date, ms: number) {
  const since = new Date(now.getTime() - ms).toISOString();
  return sql`e.enabled and e.failing_since <= ${since}::timestamptz and e.failed_attempts >= ${MIN_ATTEMPTS}
    and (e.last_success_at is null or e.last_success_at <= ${since}::timestamptz)`;
}

interface Row extends Record<string, unknown> {
  id: string;
  failing_since: string;
  failed_attempts: number;
}

const toFailing = (row: Row): FailingEndpoint => ({
  id: row.id,
  failingSince: new Date(row.failing_since),
  failedAttempts: row.failed_attempts,
});

/** Disables and warns as `disableFailingEndpoints` does, and logs a line for each endpoint. */
export async function checkFailingEndpoints(db: Queryable, logger: Logger): Promise<void> {
  const { disabled, warned } = await disableFailingEndpoints(db, new Date());
  for (const { id, ...failing } of disabled) {
    logger.error({ endpointId: id, ...failing }, 'disabled webhook endpoint: failing for 5 days');
  }
  for (const { id, ...failing } of warned) {
    const disablesAt = new Date(failing.failingSince.getTime() + DISABLED_AFTER_MS);
    logger.warn({ endpointId: id, ...failing, disablesAt }, 'webhook endpoint failing; it will be disabled');
  }
}
