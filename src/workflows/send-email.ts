import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
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
import { type Failed, readFailure } from './failure.ts';
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
  /** of `finishSend`: the forwarded email, if any, is marked by the run that sent it; left out: not by any */
  isMarked?: boolean;
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
const { giveUpSend, forwardedBy } = proxyActivities<SendActivities>({
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
/**
 * Between checks of an account that is disconnected, which may be connected again after minutes or days: first every five
 * minutes, then every hour. A login that is refused again and again would lock it. After a month a check a day, which bounds the
 * history.
 */
const RECONNECT_WAIT_MS = 3_600_000;
const SOON_WAIT_MS = 300_000;
const SOON_CHECKS = 12;
const HOURLY_CHECKS = 30 * 24;
const REFUSED_LOGIN = 'invalid_credentials';

/** Sends an email or a draft. Completes when the SMTP server has accepted it; fails with the caller's error. */
export async function sendEmail(input: SendWorkflowInput): Promise<void> {
  const shown = trackState('submitting');
  let submitted: Awaited<ReturnType<SendActivities['submitEmail']>> | undefined;
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
  if (submitted?.forwardedId) await markForwarded(input, submitted.forwardedId);
  if (submitted?.finished) return shown.enter('sent');
  shown.enter('sent; another workflow files its copy');
  await startChild(finishSend, {
    workflowId: finishSendWorkflowId(input.sendId),
    args: [{ ...input, isMarked: submitted !== undefined }],
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
  await Promise.all([
    fileCopy(input, attempts),
    untilDone(() => removeSentDraft({ ...input, waits: true }), 'removing', attempts),
    markUnmarked(input),
  ]);
  shown.enter('filed');
}

/** Marks the email that the sent one forwards, where the run that sent it has ended before. */
async function markUnmarked(input: SendWorkflowInput): Promise<void> {
  if (input.isMarked || !patched('finish-send-marks-forwarded')) return;
  const forwardedId = await forwardedBy(input);
  if (forwardedId === null) return;
  await markForwarded(input, forwardedId).catch((error: unknown) => {
    // by the run that sent it
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  });
}

async function fileCopy(input: SendWorkflowInput, attempts: Attempts): Promise<void> {
  const { accountId, sendId } = input;
  const file = (checks: number) =>
    fileSentCopy({ accountId, sendId, appendAnyway: checks >= PROVIDER_CHECKS, waits: true });
  try {
    if (await untilDone(file, 'filing', attempts)) return;
  } catch (error) {
    if (!isCancellation(error) && patched('give-up-filing')) await giveUpFiling(input);
    throw error;
  }
  if (patched('give-up-filing')) await giveUpFiling(input);
}

type FilingProgress = Awaited<ReturnType<SendActivities['fileSentCopy']>>;

interface Attempts {
  shown: StateTracker;
  /** factor on every wait */
  pace: number;
  maxFailures: number;
}

/** Repeats a step until it is done, through outages of the provider, or the account was removed. False: it never was. */
async function untilDone(
  step: (checks: number) => Promise<FilingProgress>,
  state: string,
  { shown, pace, maxFailures }: Attempts,
): Promise<boolean> {
  const untilReconnect = createReconnectWait(state, { shown, pace });
  let checks = 0;
  for (let failures = 0; ; ) {
    try {
      const progress = await step(checks);
      if (progress === 'done') return true;
      if (progress === 'disconnected') {
        await untilReconnect();
        continue;
      }
      if (++checks > MAX_CHECKS) return false;
      await sleep(pace * PROVIDER_WAIT_MS, { summary: 'the mail server does not show the copy yet' });
    } catch (error) {
      if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
      checks++;
      const failed = readFailure(error);
      if (failed.kind === 'failed' && failed.code === 'not_found') return true;
      if (isRefusedLogin(failed) && patched('filing-waits-for-reconnect')) {
        await untilReconnect();
        continue;
      }
      if (++failures >= maxFailures) throw error;
      const waitMs = pace * waitAfter(failures, FILING_BACKOFF);
      shown.enter(state, { lastError: classOf(failed), nextAttemptMs: waitMs, counts: { failures } });
      await sleep(waitMs, {
        summary: 'before the next attempt',
      });
    }
  }
}

function isRefusedLogin(failed: Failed): boolean {
  return failed.kind === 'failed' && failed.code === REFUSED_LOGIN;
}

/** Waits before the next check of an account that is disconnected. */
function createReconnectWait(state: string, { shown, pace }: Pick<Attempts, 'shown' | 'pace'>): () => Promise<void> {
  let waits = 0;
  return async () => {
    const hourly = RECONNECT_WAIT_MS * (++waits > HOURLY_CHECKS ? 24 : 1);
    const waitMs = pace * (waits <= SOON_CHECKS ? SOON_WAIT_MS : hourly);
    shown.enter(state, { lastError: REFUSED_LOGIN, nextAttemptMs: waitMs });
    await sleep(waitMs, { summary: 'the account is disconnected' });
  };
}
