import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import type { FailureDetail } from '../activities/failures.ts';

/**
 * Refuses a start that reached Temporal after `startBy` (ms since the epoch), because it was frozen: the caller already
 * has a response that the outcome is unknown. The time at which a worker begins does not matter, so replays decide alike.
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
