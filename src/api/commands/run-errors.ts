import {
  ApplicationFailure,
  CancelledFailure,
  TerminatedFailure,
  TimeoutFailure,
  WorkflowFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ApiError, type ErrorCode, ERRORS } from '../../contract/errors.ts';
import { causesOf, type InstallationPart, PartUnavailable, unavailablePart } from '../../outage.ts';
import { NotBegun } from './turns.ts';

/**
 * A part of the installation is unavailable, so the outcome of the workflow is unknown. `begun`: whether a worker has begun
 * it; `unknown`: Temporal did not confirm the start.
 */
export class CallOutage extends PartUnavailable {
  readonly begun: 'no' | 'yes' | 'unknown';
  /** `detail`: by default that the part cannot be reached */
  constructor(part: InstallationPart, begun: CallOutage['begun'], cause?: unknown, detail?: string) {
    super(part, { cause, ...(detail === undefined ? {} : { detail }) });
    this.begun = begun;
  }
}

/** The workflow did not end while the caller waited, although every part of the installation responds. */
export class StillRunning extends Error {
  override readonly name = 'StillRunning';
}

/** The outage that an error shows; undefined for any other error. */
export function outageOf(error: unknown, begun: CallOutage['begun']): CallOutage | undefined {
  if (error instanceof CallOutage) return error;
  const away = unavailablePart(error);
  return away && new CallOutage(away.part, begun, error);
}

/** Whether a workflow was terminated while its caller waited. */
export function isTerminated(error: unknown): boolean {
  return error instanceof WorkflowFailedError && error.cause instanceof TerminatedFailure;
}

/** Whether the workflow itself failed; after any other error its outcome is unknown. */
export function isWorkflowFailure(error: unknown): boolean {
  return error instanceof WorkflowFailedError && !isTerminated(error);
}

/** The detail for a caller when a part of the installation is unavailable. */
export interface OutageTexts {
  /** nothing was done, and nothing will be */
  notDone: string;
  mayBeDone: string;
}

const OUTAGE: OutageTexts = { notDone: 'nothing was done', mayBeDone: 'it may still be done' };

/**
 * The error for the caller after a failed wait, with the code and the detail of the activity (src/activities/failures.ts).
 * `late` is the detail when the deadline passed although every part of the installation responds.
 */
export function workflowErrorToApiError(error: unknown, late: string, outage: OutageTexts = OUTAGE): ApiError {
  for (const at of causesOf(error)) {
    const meaning = meaningOf(at, late, outage);
    if (meaning) return new ApiError(...meaning, { cause: error });
  }
  const away = outageOf(error, 'unknown');
  if (away) return workflowErrorToApiError(away, late, outage);
  return new ApiError('unexpected_error', 'something unexpected happened', { cause: error });
}

/** Errors that mean that a deadline has passed. */
const LATE = [StillRunning, TimeoutFailure, WorkflowUpdateRPCTimeoutOrCancelledError];

/** The code and the detail for one error of the chain of causes; undefined when the next one decides. */
function meaningOf(error: Error, late: string, { notDone, mayBeDone }: OutageTexts): [ErrorCode, string] | undefined {
  if (error instanceof NotBegun) return unbegun(error, notDone);
  if (error instanceof CallOutage) return unavailable(error.detail, error.begun === 'no' ? notDone : mayBeDone);
  if (LATE.some((type) => error instanceof type)) return ['provider_error', late];
  if (error instanceof CancelledFailure) return unavailable('the run was cancelled', mayBeDone);
  if (!(error instanceof ApplicationFailure)) return undefined;
  const { code = '', detail } = (error.details?.[0] ?? {}) as { code?: string; detail?: string };
  if (code === 'lease_lost') return ['not_found', 'no account has this id'];
  if (!detail) return undefined;
  if (code === 'unavailable' || code === 'storage_full') return unavailable(detail, mayBeDone);
  return Object.hasOwn(ERRORS, code) ? [code as ErrorCode, detail] : undefined;
}

function unbegun({ outage }: NotBegun, notDone: string): [ErrorCode, string] {
  if (outage) return unavailable(outage.detail, notDone);
  return ['too_many_requests', `too many other calls for this mailbox or its server are under way: ${notDone}`];
}

function unavailable(detail: string, what: string): [ErrorCode, string] {
  return ['service_unavailable', `${detail}: ${what}`];
}
