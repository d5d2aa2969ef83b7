import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import type { FailureDetail } from '../activities/failures.ts';

/**
 * A start that Temporal got after `startBy` (ms since the epoch) was on its way while Temporal was frozen: the caller has
 * long had its response, that nothing is known of it. When the worker takes it does not matter, so replays decide the same.
 * @throws ApplicationFailure `unavailable`
 */
export function refuseLateStart(startBy: number | undefined): void {
  if (startBy === undefined || workflowInfo().startTime.getTime() <= startBy) return;
  const failure: FailureDetail = { code: 'unavailable', detail: 'Temporal could not be reached in time' };
  throw ApplicationFailure.create({
    message: 'started too late',
    type: failure.code,
    nonRetryable: true,
    details: [failure],
  });
}
