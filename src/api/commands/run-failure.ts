import { ApiError, type ErrorCode, ERRORS } from '../../contract/errors.ts';

/**
 * What a failed run means to the caller: the code and the detail that the activity gave (see
 * src/activities/failures.ts). `late` is told when the deadline passed, or a worker did not answer.
 */
export function toApiError(error: unknown, late: string): ApiError {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (LATE.has(at.name) || isDeadline(at)) return new ApiError('provider_error', late, { cause: error });
    if (at.name !== 'ApplicationFailure') continue;
    const { details } = at as Error & { details?: { code?: string; detail?: string }[] };
    const { code, detail } = details?.[0] ?? {};
    if (code === 'lease_lost') return new ApiError('not_found', 'there is no account with that id', { cause: error });
    if (code && Object.hasOwn(ERRORS, code) && detail) return new ApiError(code as ErrorCode, detail, { cause: error });
  }
  return new ApiError('unexpected_error', 'something unexpected happened', { cause: error });
}

/** Whether the run itself failed: anything else says nothing about it. */
export function isAnswer(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    if (at.name === 'ApplicationFailure' || at.name === 'TimeoutFailure' || at.name === 'WorkflowFailedError')
      return true;
  }
  return false;
}

const LATE = new Set(['TimeoutFailure', 'WorkflowUpdateRPCTimeoutOrCancelledError']);

/** gRPC DEADLINE_EXCEEDED, or CANCELLED, as which some connections tell their own deadline. */
function isDeadline(error: Error): boolean {
  const { code } = error as { code?: unknown };
  return code === 4 || code === 1;
}
