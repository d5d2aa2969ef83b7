import { ActivityFailure, ApplicationFailure, isCancellation, TimeoutFailure } from '@temporalio/workflow';
import type { FailureDetail } from '../activities/failures.ts';

/** Why an activity failed, as far as a workflow decides on it. */
export type Failed =
  /** the work itself failed; see `code` */
  | ({ kind: 'failed' } & FailureDetail)
  | { kind: 'cancelled' }
  /** no heartbeat, or no end: the worker was lost, or the work took it down */
  | { kind: 'timeout' }
  /** the worker was shut down: says nothing about the work */
  | { kind: 'interrupted' };

/** Reads what `toFailure` put into an activity's error. */
export function readFailure(error: unknown): Failed {
  if (isCancellation(error)) return { kind: 'cancelled' };
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof TimeoutFailure) return { kind: 'timeout' };
  // A failure without our details was made by the worker as it shut down.
  const detail = cause instanceof ApplicationFailure ? (cause.details?.[0] as FailureDetail | undefined) : undefined;
  return detail?.code ? { kind: 'failed', ...detail } : { kind: 'interrupted' };
}
