import { ApplicationFailure } from '@temporalio/common';
import { ApiError, type ErrorCode } from '../contract/errors.ts';
import { CredentialsUnreadable } from '../mailbox/settings.ts';
import { LeaseLost } from '../db/coordination/lease.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import { isUnavailable, unavailablePart } from '../outage.ts';

/**
 * What failed, as workflows and callers know it: the codes of the contract, `lease_lost` (another activity holds the
 * account by now), `unavailable` (our own database or storage did not respond) and `storage_full` (it has no room, which
 * waiting seldom changes).
 */
export type FailureCode = ErrorCode | 'lease_lost' | 'unavailable' | 'storage_full';

/** `details[0]` of every failure of an activity. */
export interface FailureDetail {
  code: FailureCode;
  /** may be shown to callers; holds no password, address or mail text */
  detail: string;
  side?: 'imap' | 'smtp';
  /** the mailbox had been connected before it failed */
  connected?: boolean;
  /** fencing number under which the failed activity held the account */
  watchEpoch?: number;
  /** the provider may have done it: a second attempt checks that first, and is due whatever failed */
  mayBeDone?: boolean;
}

/** What only the activity knows about its own failure. */
export type FailureContext = Pick<FailureDetail, 'connected' | 'watchEpoch' | 'mayBeDone'>;

/**
 * The one place that says what an error means to Temporal: its type is our code, its message the code and the class of
 * the error (never a text that may quote mail, addresses or SQL), and whether Temporal retries by itself. Temporal's own
 * errors and failures made here before are passed through.
 */
export function toFailure(error: unknown, context: FailureContext = {}): Error {
  if (error instanceof Error && PASSED_THROUGH.has(error.name)) return error;
  const { code, detail, retryable, side } = classify(error);
  const failure: FailureDetail = { code, detail, ...(side ? { side } : {}), ...context };
  const name = error instanceof Error ? error.name : typeof error;
  return ApplicationFailure.create({
    message: [code, side, name].filter(Boolean).join(' '),
    type: context.mayBeDone ? 'may_be_done' : code,
    nonRetryable: !retryable && !context.mayBeDone,
    details: [failure],
  });
}

/** What failed, in words that callers and operators may see. */
export function detailOf(error: unknown): string {
  return classify(error).detail;
}

/** Wraps activities so that whatever they throw goes through `toFailure`. */
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
}

function classify(error: unknown): Classification {
  if (error instanceof MailError) {
    return { code: error.code, detail: error.detail, retryable: error.temporary, side: error.side };
  }
  if (error instanceof ApiError) return { code: error.code, detail: error.detail, retryable: false };
  if (error instanceof LeaseLost) {
    return { code: 'lease_lost', detail: 'another worker has taken the mailbox over', retryable: false };
  }
  if (error instanceof CredentialsUnreadable) {
    // once more would find the same
    return { code: 'provider_error', detail: error.message, retryable: false };
  }
  if (isUnavailable(error)) {
    const { detail = 'the database cannot be reached now', full = false } = unavailablePart(error) ?? {};
    return { code: full ? 'storage_full' : 'unavailable', detail, retryable: true };
  }
  return { code: 'unexpected_error', detail: 'something unexpected happened', retryable: true };
}
