import {
  ActivityFailure,
  CancellationScope,
  isCancellation,
  ParentClosePolicy,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
  startChild,
} from '@temporalio/workflow';
import type { SendActivities } from '../activities/send-email.ts';
import { readFailure } from './failure.ts';
import { finishSendWorkflowId, QUEUES } from './names.ts';

/*
 * sendEmail   submitting  the mail is handed to the SMTP server, its copy put into Sent,   the end, or finishSend for
 *                         a draft that was sent removed from Drafts                        what is left; or it fails
 * finishSend  filing      the copy is put into Sent, through outages of the provider       removing
 *             removing    the draft is removed                                             the end
 *
 * What happens to the send itself is kept in its row: see src/sending/send-state.ts.
 */

export interface SendWorkflowInput {
  accountId: string;
  /** the `email_…` id reserved for the Sent copy */
  sendId: string;
}

/**
 * Runs within the workflow task, which spares three trips through Temporal and about a third of its work. Tried again
 * only when the worker was killed (the task times out after 10 s) or our own store failed: the caller hears of anything
 * else at once. A second try looks at the row first, and sends nothing that may have been sent.
 */
const { submitEmail } = proxyLocalActivities<SendActivities>({
  startToCloseTimeout: '30m',
  retry: {
    initialInterval: '200ms',
    maximumInterval: '5s',
    maximumAttempts: 8,
    nonRetryableErrorTypes: ['provider_error', 'unexpected_error'],
  },
  summary: 'send the mail and keep its copy',
});
const { giveUpSend } = proxyActivities<SendActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '30s' },
  summary: 'note that the send has ended without success',
});
const { fileSentCopy, removeSentDraft } = proxyActivities<SendActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '30m',
  heartbeatTimeout: '10s',
  retry: { initialInterval: '500ms', maximumInterval: '5s', maximumAttempts: 3 },
});

/** Waits between tries to file the copy of a mail that has been sent; the last one repeats, for about three days. */
const FILING_WAITS_MS = [2_000, 10_000, 60_000, 300_000, 900_000, 3_600_000];
const FILING_TRIES = 80;
/** For a copy that lies in the mailbox and does not get into the store. */
const MOST_LOOKS = 400;
/** A provider that files the copy itself is given so many looks before we do it. */
const PROVIDER_LOOKS = 20;
const PROVIDER_WAIT_MS = 3_000;

/** Sends a mail, or a draft. Ends when the SMTP server has taken it; fails with what the caller is to be told. */
export async function sendEmail(input: SendWorkflowInput): Promise<void> {
  let finished = false;
  try {
    ({ finished } = await submitEmail(input));
  } catch (error) {
    const state = await CancellationScope.nonCancellable(() => giveUpSend(input));
    if (state !== 'sent') {
      setCurrentDetails('not sent, or not known to be: see the failure');
      throw error;
    }
  }
  if (finished) return;
  setCurrentDetails('sent; its copy is filed by a run of its own');
  await startChild(finishSend, {
    workflowId: finishSendWorkflowId(input.sendId),
    args: [input],
    parentClosePolicy: ParentClosePolicy.ABANDON,
  });
}

/** Files the copy of a mail that has been sent, and removes the draft that it was. */
export async function finishSend(input: SendWorkflowInput): Promise<void> {
  await Promise.all([
    untilDone((look) => fileSentCopy({ ...input, insist: look >= PROVIDER_LOOKS }), 'the copy is to be filed'),
    untilDone(() => removeSentDraft(input), 'the draft is to be removed'),
  ]);
  setCurrentDetails('its copy is filed');
}

/** Runs a step until it is done, through outages of the provider; ends when the account is gone. */
async function untilDone(step: (look: number) => Promise<'done' | 'waiting'>, what: string): Promise<void> {
  let looks = 0;
  for (let tries = 0; ; ) {
    try {
      if ((await step(looks++)) === 'done' || looks > MOST_LOOKS) return;
      await sleep(PROVIDER_WAIT_MS, { summary: 'the provider files the copy itself' });
    } catch (error) {
      if (isCancellation(error) || !(error instanceof ActivityFailure)) throw error;
      const failed = readFailure(error);
      if (failed.kind === 'failed' && failed.code === 'not_found') return;
      if (++tries >= FILING_TRIES) throw error;
      setCurrentDetails(`${what}, which failed ${tries} times`);
      await sleep(FILING_WAITS_MS[Math.min(tries, FILING_WAITS_MS.length) - 1] ?? 0, {
        summary: 'before the next try',
      });
    }
  }
}
