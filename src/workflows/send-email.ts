import {
  ActivityFailure,
  CancellationScope,
  isCancellation,
  ParentClosePolicy,
  patched,
  proxyActivities,
  proxyLocalActivities,
  sleep,
  startChild,
} from '@temporalio/workflow';
import type { SendActivities } from '../activities/send-email.ts';
import { waitAfter } from './backoff.ts';
import { readFailure } from './failure.ts';
import { updateEmail } from './change-mailbox.ts';
import { changeWorkflowId, finishSendWorkflowId, QUEUES, searchableBy } from './names.ts';
import { classOf, type StateTracker, trackState } from './run-state.ts';

/*
 * sendEmail   submitting  the message is submitted to the SMTP server, its copy filed in    final, or finishSend for
 *                         Sent, and the sent draft removed from Drafts; updateEmail marks   the rest; or it fails
 *                         the forwarded email
 * finishSend  filing      the copy is filed in Sent, through outages of the provider        final
 *                         given up: no row represents the email                         final
 *             removing    at the same time the draft is removed                             final
 *
 * The state of the send itself is in its row: see src/outgoing/send-state.ts.
 */

export interface SendWorkflowInput {
  accountId: string;
  /** the `email_…` id reserved for the Sent copy */
  sendId: string;
  /** factor on every wait; tests use a small one */
  pace?: number;
  /** failures of a step before it is given up; tests use a small number */
  maxFailures?: number;
}

/**
 * Runs within the workflow task: as a normal activity with an eager start, a send takes 14 % more CPU and a sixth more time
 * (docs/performance.md). Retried only when the worker was killed (the task times out after 10 s) or our own
 * store failed: the caller gets any other failure at once. A second attempt checks the row first, and sends nothing that may
 * have been sent.
 */
const { submitEmail } = proxyLocalActivities<SendActivities>({
  startToCloseTimeout: '30m',
  retry: {
    initialInterval: '200ms',
    maximumInterval: '5s',
    maximumAttempts: 8,
    nonRetryableErrorTypes: ['provider_error', 'unexpected_error', 'storage_full'],
  },
  summary: 'send the message and file its copy',
});
const { giveUpSend } = proxyActivities<SendActivities>({
  taskQueue: QUEUES.sends,
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '30s' },
  summary: 'record that the send ended without success',
});
const { fileSentCopy, giveUpFiling, removeSentDraft } = proxyActivities<SendActivities>({
  taskQueue: QUEUES.sends,
  startToCloseTimeout: '30m',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '500ms', maximumInterval: '5s', maximumAttempts: 3 },
});

/** Between failed attempts to file the copy of a sent message, which last about three days. */
const FILING_BACKOFF = { firstMs: 2_000, factor: 5, longestMs: 3_600_000 };
const FILING_ATTEMPTS = 80;
/** Limits the checks for a copy that is in the mailbox and is never ingested. */
const MAX_CHECKS = 400;
/** How often a provider that files the copy itself is checked before we file it. */
const PROVIDER_CHECKS = 20;
const PROVIDER_WAIT_MS = 3_000;

/** Sends an email or a draft. Completes when the SMTP server has accepted it; fails with the caller's error. */
export async function sendEmail(input: SendWorkflowInput): Promise<void> {
  const shown = trackState('submitting');
  let submitted: Awaited<ReturnType<SendActivities['submitEmail']>> = { finished: false };
  try {
    submitted = await submitEmail(input);
  } catch (error) {
    const lastError = classOf(readFailure(error));
    shown.enter('submitting', { lastError });
    const state = await CancellationScope.nonCancellable(() => giveUpSend(input));
    if (state !== 'sent') {
      shown.enter(state === 'unknown' ? 'unknown' : 'failed');
      throw error;
    }
  }
  // results of earlier versions have none
  if (submitted.forwardedId) await markForwarded(input, submitted.forwardedId);
  if (submitted.finished) return shown.enter('sent');
  shown.enter('sent; another workflow files its copy');
  await startChild(finishSend, {
    workflowId: finishSendWorkflowId(input.sendId),
    args: [input],
    typedSearchAttributes: searchableBy(input.accountId, [input.sendId]),
    staticSummary: `file the copy of ${input.sendId}`,
    parentClosePolicy: ParentClosePolicy.ABANDON,
  });
}

/** Starts the change that sets $Forwarded. No caller waits for it: a mail server may not keep it, and the mail is sent. */
async function markForwarded({ accountId, sendId }: SendWorkflowInput, emailId: string): Promise<void> {
  await startChild(updateEmail, {
    workflowId: changeWorkflowId(emailId, sendId),
    taskQueue: QUEUES.commands,
    args: [{ accountId, kind: 'update', emailId, flags: { add: ['$Forwarded'], remove: [] } }],
    typedSearchAttributes: searchableBy(accountId, [emailId, sendId]),
    staticSummary: `mark ${emailId} as forwarded`,
    parentClosePolicy: ParentClosePolicy.ABANDON,
  });
}

/** Files the copy of a sent message, and removes the draft from which it was sent. */
export async function finishSend(input: SendWorkflowInput): Promise<void> {
  const shown = trackState('filing');
  const attempts = { shown, pace: input.pace ?? 1, maxFailures: input.maxFailures ?? FILING_ATTEMPTS };
  await Promise.all([fileCopy(input, attempts), untilDone(() => removeSentDraft(input), 'removing', attempts)]);
  shown.enter('filed');
}

async function fileCopy(input: SendWorkflowInput, attempts: Attempts): Promise<void> {
  const { accountId, sendId } = input;
  const file = (checks: number) => fileSentCopy({ accountId, sendId, appendAnyway: checks >= PROVIDER_CHECKS });
  try {
    if (await untilDone(file, 'filing', attempts)) return;
  } catch (error) {
    if (!isCancellation(error) && patched('give-up-filing')) await giveUpFiling(input);
    throw error;
  }
  if (patched('give-up-filing')) await giveUpFiling(input);
}

interface Attempts {
  shown: StateTracker;
  /** factor on every wait */
  pace: number;
  maxFailures: number;
}

/** Repeats a step until it is done, through outages of the provider, or the account was removed. False: it never was. */
async function untilDone(
  step: (checks: number) => Promise<'done' | 'waiting'>,
  state: string,
  { shown, pace, maxFailures }: Attempts,
): Promise<boolean> {
  let checks = 0;
  for (let failures = 0; ; ) {
    try {
      if ((await step(checks++)) === 'done') return true;
      if (checks > MAX_CHECKS) return false;
      await sleep(pace * PROVIDER_WAIT_MS, { summary: 'the provider files the copy itself' });
    } catch (error) {
      if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
      const failed = readFailure(error);
      if (failed.kind === 'failed' && failed.code === 'not_found') return true;
      if (++failures >= maxFailures) throw error;
      const waitMs = pace * waitAfter(failures, FILING_BACKOFF);
      shown.enter(state, { lastError: classOf(failed), nextAttemptMs: waitMs, counts: { failures } });
      await sleep(waitMs, {
        summary: 'before the next attempt',
      });
    }
  }
}
