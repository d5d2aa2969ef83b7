import { sleep, withRenewal } from '../async.ts';
import { ApiError } from '../contract/errors.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { giveUpDraft as giveUp, isReserved, loadDraft, markDraftDeleted, renewDraft } from '../outgoing/draft-state.ts';
import { MayBeAppended, removeDraftEmail, saveDraft, type Saving } from '../sending/drafts.ts';
import { deleteUnneeded } from '../sending/unneeded-files.ts';
import { toFailure } from './failures.ts';
import { withHeartbeat } from './heartbeat.ts';

export interface DraftDeps extends MailboxDeps {
  /** milliseconds between two renewals of a row; for tests */
  renewMs?: number;
}

export type DraftActivities = ReturnType<typeof createDraftActivities>;

/** Between two looks at a draft that is being saved or sent. */
const POLL_MS = 200;

interface DraftRef {
  accountId: string;
  draftId: string;
}

/** Activities of the `saveDraft` and `deleteDraft` workflows. */
export function createDraftActivities(deps: DraftDeps) {
  const { db } = deps;

  /** Saves a draft in Drafts; see saveDraft in src/sending/drafts.ts. @returns the id of its email, where it is known */
  async function appendDraft(saving: Saving): Promise<{ emailId: string | null } | undefined> {
    return withHeartbeat(async () => {
      try {
        await withRenewal(
          () => renewDraft(db, saving.draftId),
          () => saveDraft(deps, saving),
          deps.renewMs,
        );
        return { emailId: (await loadDraft(db, saving.accountId, saving.draftId))?.emailId ?? null };
      } catch (error) {
        throw error instanceof MayBeAppended ? toFailure(error.cause, { mayBeDone: true }) : error;
      }
    });
  }

  /** Records that the draft was not saved, and releases the draft that it was to replace. */
  async function giveUpDraft({ accountId, draftId }: DraftRef): Promise<void> {
    const draft = await loadDraft(db, accountId, draftId);
    await giveUp(db, draftId);
    if (draft?.state === 'saving') await deleteUnneeded(deps, [draft.inputKey]);
  }

  /** Removes the draft that another one has replaced. */
  async function removeSuperseded({ accountId, previousId }: Saving): Promise<void> {
    if (!previousId) return;
    await withHeartbeat(() => withMailbox(deps, accountId, (ctx) => removeDraftEmail(ctx, previousId)));
  }

  /**
   * Deletes a draft permanently. `isRequested`: a caller deletes it, and gets `not_found` when it was sent or replaced while the
   * call waited for its turn.
   */
  async function deleteDraftMail({
    accountId,
    draftId,
    isRequested = false,
  }: DraftRef & { isRequested?: boolean }): Promise<void> {
    await withHeartbeat(async () => {
      if (isRequested) await untilDeletable({ accountId, draftId });
      await withMailbox(deps, accountId, async (ctx) => {
        await removeDraftEmail(ctx, draftId);
        await markDraftDeleted(db, draftId);
      });
    });
  }

  /** Waits for a save or send of the draft to end. @throws ApiError not_found when that has replaced or sent it */
  async function untilDeletable({ accountId, draftId }: DraftRef): Promise<void> {
    for (;;) {
      const draft = await loadDraft(db, accountId, draftId);
      if (!draft || draft.state === 'superseded' || draft.state === 'sent')
        throw new ApiError('not_found', 'no draft has this id');
      if (!(await isReserved(db, draft))) return;
      await sleep(POLL_MS);
    }
  }

  return { appendDraft, giveUpDraft, removeSuperseded, deleteDraftMail };
}
