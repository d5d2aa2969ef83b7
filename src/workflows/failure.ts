import { ActivityFailure, ApplicationFailure, isCancellation, TimeoutFailure } from '@temporalio/workflow';
import type { FailureDetail } from '../activities/failures.ts';

/** Why an activity failed, as workflows distinguish it. */
export type Failed =
  /** the work itself failed; see `code` */
  | ({ kind: 'failed' } & FailureDetail)
  | { kind: 'cancelled' }
  /** no heartbeat or no result in time: the worker was lost, or the work crashed it */
  | { kind: 'timeout' }
  /** the worker was shut down; the work itself did not fail */
  | { kind: 'interrupted' };

/** Reads the detail that `toFailure` put into an activity's error. */
export function readFailure(error: unknown): Failed {
  if (isCancellation(error)) return { kind: 'cancelled' };
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof TimeoutFailure) return { kind: 'timeout' };
  // A failure without our detail comes from a worker that shut down.
  const detail = cause instanceof ApplicationFailure ? (cause.details?.[0] as FailureDetail | undefined) : undefined;
  return detail?.code ? { kind: 'failed', ...detail } : { kind: 'interrupted' };
}
