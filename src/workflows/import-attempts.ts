import type { Failed } from './failure.ts';
import { type Backoff, waitAfter } from './backoff.ts';

/** Failures in a row, and attempts in a row that an outage of this installation ended. */
export interface Failures {
  failures: number;
  outages: number;
}

export const MAX_FAILURES = 5;
const BACKOFF: Backoff = { firstMs: 2_000, factor: 3, longestMs: 60_000 };
/** Most outages are short, such as the replacement of a worker. */
const OUTAGE_BACKOFF: Backoff = { firstMs: 500, longestMs: 60_000 };
/** At most: only a missing heartbeat shows that the worker of an import is lost. */
export const HEARTBEAT_TIMEOUT_MS = 30_000;

/** Counts a failed attempt: an outage keeps the count of failures, a failure resets the count of outages. */
export function countFailure(before: Failures, failed: Failed): Failures {
  return countsAsAttempt(failed)
    ? { failures: before.failures + 1, outages: 0 }
    : { failures: before.failures, outages: before.outages + 1 };
}

/** Milliseconds until the next attempt. */
export function waitAfterFailure({ failures, outages }: Failures): number {
  return outages === 0 ? waitAfter(failures, BACKOFF) : waitAfter(outages, OUTAGE_BACKOFF);
}

/** Whether a failure counts as a failed attempt: an outage of this installation does not, a full storage does. */
function countsAsAttempt(failed: Failed): boolean {
  if (failed.kind === 'timeout') return true;
  return failed.kind === 'failed' && failed.code !== 'unavailable' && failed.code !== 'not_found';
}
