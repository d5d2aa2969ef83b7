/** `Retry-After` is honoured up to a day: a larger value is more likely a mistake than a wish. */
export const MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1000;

/** The share by which a delay varies: see `nextDelay`. */
const SPREAD = 0.2;

/**
 * How long to wait after a failed attempt, in ms; undefined when it was the last one. The delay of the schedule varies by
 * ±20 %, so deliveries that failed together are not repeated together; a longer `Retry-After` is obeyed.
 * `attempts` made so far count from 1; `random` is in [0, 1).
 */
export function nextDelay(
  scheduleMs: readonly number[],
  attempts: number,
  retryAfterMs: number | null,
  random: number,
): number | undefined {
  const planned = scheduleMs[attempts - 1];
  if (planned === undefined) return undefined;
  const varied = Math.round(planned * (1 - SPREAD + 2 * SPREAD * random));
  return Math.max(varied, Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS));
}

/** The longest that `nextDelay` waits by this schedule after each attempt, ms: without `Retry-After`. */
export const longestDelays = (scheduleMs: readonly number[]): number[] => scheduleMs.map((ms) => ms * (1 + SPREAD));

/** `Retry-After` in ms from `now`: seconds or an HTTP date (RFC 9110 section 10.2.3). Null: absent, or not readable. */
export function parseRetryAfter(value: string | undefined, now: Date): number | null {
  const text = value?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  // Date.parse reads even bare numbers as dates
  if (!/^[A-Z][a-z]+,? /.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now.getTime());
}
