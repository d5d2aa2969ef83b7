import {
  CancellationScope,
  isCancellation,
  ParentClosePolicy,
  proxyActivities,
  startChild,
} from '@temporalio/workflow';
import type { DraftActivities } from '../activities/save-draft.ts';
import { refuseLateStart } from './late-start.ts';
import { readFailure } from './failure.ts';
import { QUEUES, removeDraftWorkflowId, searchableBy } from './names.ts';
import { classOf, trackState } from './run-state.ts';
import { setSearchAttributes } from './search-attributes.ts';

/*
 * saveDraft    appending  the draft is appended to Drafts and ingested                 removing, or final
 *              removing   the draft that it replaces is removed                        final
 *
 * A draft is appended before the old one is removed: nothing is lost wherever this stops. A failure while appending fails
 * the workflow and the call; the old draft stays as it was.
 */

const QUICK = {
  taskQueue: QUEUES.commands,
  // for a large draft on a slow connection; heartbeats show that the worker is alive
  startToCloseTimeout: '30m',
  heartbeatTimeout: '10s',
} as const;

/** Retried after a failure of the worker or of our own store; the caller gets the provider's failures immediately. */
const { appendDraft, deleteDraftMail } = proxyActivities<DraftActivities>({
  ...QUICK,
  retry: {
    initialInterval: '200ms',
    maximumInterval: '5s',
    maximumAttempts: 8,
    nonRetryableErrorTypes: ['provider_error', 'unexpected_error', 'storage_full'],
  },
  summary: 'save the draft in the mailbox',
});
/** The caller waits for these few attempts. */
const { removeSuperseded } = proxyActivities<DraftActivities>({
  ...QUICK,
  retry: { initialInterval: '500ms', maximumAttempts: 3 },
  summary: 'remove the draft that it replaces',
});
const { deleteDraftMail: removeEventually } = proxyActivities<DraftActivities>({
  ...QUICK,
  retry: { initialInterval: '5s', maximumInterval: '1h', maximumAttempts: 80 },
  summary: 'remove the replaced draft',
});
const { giveUpDraft } = proxyActivities<DraftActivities>({
  taskQueue: QUEUES.commands,
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', maximumInterval: '30s' },
  summary: 'record that the draft was not saved',
});

export interface SaveDraftInput {
  accountId: string;
  /** the new `drf_…` id */
  draftId: string;
  /** the draft that it replaces */
  previousId: string | null;
}

/** Saves a draft in the mailbox; replaces `previousId`, if given. */
export async function saveDraft({ accountId, draftId, previousId }: SaveDraftInput): Promise<void> {
  const shown = trackState('appending');
  try {
    const saved = await appendDraft({ accountId, draftId, previousId });
    // undefined in runs that an earlier version began
    if (saved?.emailId) {
      const ids = [draftId, saved.emailId, ...(previousId === null ? [] : [previousId])];
      setSearchAttributes(accountId, undefined, ids);
    }
  } catch (error) {
    shown.enter('failed', { lastError: classOf(readFailure(error)) });
    await CancellationScope.nonCancellable(() => giveUpDraft({ accountId, draftId }));
    throw error;
  }
  if (previousId) {
    shown.enter('removing');
    try {
      await removeSuperseded({ accountId, draftId, previousId });
    } catch (error) {
      if (isCancellation(error)) throw error;
      // The new draft is saved all the same, and the old id is no longer found.
      await startChild(removeDraft, {
        workflowId: removeDraftWorkflowId(previousId),
        args: [{ accountId, draftId: previousId }],
        typedSearchAttributes: searchableBy(accountId, [previousId, draftId]),
        staticSummary: `remove ${previousId}, replaced by ${draftId}`,
        parentClosePolicy: ParentClosePolicy.ABANDON,
      });
    }
  }
  shown.enter('saved');
}

/** Removes the email of a superseded draft, through outages of the provider. */
export async function removeDraft({ accountId, draftId }: { accountId: string; draftId: string }): Promise<void> {
  const shown = trackState('removing');
  await removeEventually({ accountId, draftId });
  shown.enter('removed');
}

export interface DeleteDraftInput {
  accountId: string;
  draftId: string;
  /** refused when the start reaches Temporal later, ms since the epoch */
  startBy?: number;
}

/** Removes a draft from the mailbox for good. */
export async function deleteDraft({ accountId, draftId, startBy }: DeleteDraftInput): Promise<void> {
  const shown = trackState('removing');
  refuseLateStart(startBy);
  await deleteDraftMail({ accountId, draftId, isRequested: true });
  shown.enter('removed');
}
