import { ApplicationFailure } from '@temporalio/common';
import { ApiError, type ErrorCode } from '../contract/errors.ts';
import { CredentialsUnreadable } from '../mailbox/settings.ts';
import { LeaseLost } from '../db/coordination/lease.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { AppFailing } from '../oauth/tokens.ts';
import { isUnavailable, unavailablePart } from '../outage.ts';

/**
 * The code of a failure, for workflows and callers: the codes of the contract, `lease_lost` (another activity has taken the
 * account over), `unavailable` (our own database or storage did not respond, or the operator's OAuth app is failing) and `storage_full` (waiting seldom helps).
 */
export type FailureCode = ErrorCode | 'lease_lost' | 'unavailable' | 'storage_full';

/** `details[0]` of every failure of an activity. */
export interface FailureDetail {
  code: FailureCode;
  /** may be shown to callers; holds no password, address or mail text */
  detail: string;
  side?: 'imap' | 'smtp';
  /** the mailbox was connected before the failure */
  connected?: boolean;
  /** the mail server sent more than is read of any */
  flooded?: boolean;
  /** fencing number under which the failed activity held the account */
  watchEpoch?: number;
  /** the provider may have done it: a second attempt, which checks that first, follows any failure */
  mayBeDone?: boolean;
}

/** Details of a failure that only the activity knows. */
export type FailureContext = Pick<FailureDetail, 'connected' | 'watchEpoch' | 'mayBeDone'>;

/**
 * Converts an error into the failure that Temporal gets; no other code decides this. Its type is our code, its message the
 * code and the class of the error (never a text that may quote mail, addresses or SQL); it says whether Temporal retries.
 * Temporal's own errors and failures converted earlier are passed through.
 */
export function toFailure(error: unknown, context: FailureContext = {}): Error {
  if (error instanceof Error && PASSED_THROUGH.has(error.name)) return error;
  const { code, detail, retryable, side, flooded } = classify(error);
  const failure: FailureDetail = {
    code,
    detail,
    ...(side ? { side } : {}),
    ...(flooded ? { flooded } : {}),
    ...context,
  };
  const name = error instanceof Error ? error.name : typeof error;
  return ApplicationFailure.create({
    message: [code, side, name].filter(Boolean).join(' '),
    type: context.mayBeDone ? 'may_be_done' : code,
    nonRetryable: !retryable && !context.mayBeDone,
    details: [failure],
  });
}

/** The detail of an error, safe to show to callers and operators. */
export function detailOf(error: unknown): string {
  return classify(error).detail;
}

/** Wraps activities: every error that they throw passes `toFailure`. */
export function withFailures<T extends object>(activities: T): T {
  const wrapped = Object.entries(activities).map(([name, run]: [string, (...args: unknown[]) => Promise<unknown>]) => [
    name,
    async (...args: unknown[]) => {
      try {
        return await run(...args);
      } catch (error) {
        throw toFailure(error);
      }
    },
  ]);
  return Object.fromEntries(wrapped) as T;
}

const PASSED_THROUGH = new Set(['ApplicationFailure', 'CancelledFailure', 'CompleteAsyncError', 'AbortError']);

interface Classification {
  code: FailureCode;
  detail: string;
  retryable: boolean;
  side?: 'imap' | 'smtp';
  flooded?: boolean;
}

function classify(error: unknown): Classification {
  if (error instanceof MailError) {
    const { code, detail, temporary: retryable, side, flooded } = error;
    return { code, detail, retryable, side, flooded };
  }
  if (error instanceof ApiError) return { code: error.code, detail: error.detail, retryable: false };
  if (error instanceof LeaseLost) {
    return { code: 'lease_lost', detail: 'another worker has taken over the mailbox', retryable: false };
  }
  if (error instanceof CredentialsUnreadable) {
    // another attempt would fail in the same way
    return { code: 'provider_error', detail: error.message, retryable: false };
  }
  if (error instanceof AppFailing) return { code: 'unavailable', detail: error.detail, retryable: true };
  if (isUnavailable(error)) {
    const { detail = 'the database cannot be reached now', full = false } = unavailablePart(error) ?? {};
    return { code: full ? 'storage_full' : 'unavailable', detail, retryable: true };
  }
  return { code: 'unexpected_error', detail: 'something unexpected happened', retryable: true };
}
