import type { DraftResult, SendInput } from '../../contract/sending.ts';
import { newId } from '../../new-id.ts';
import {
  type DraftRow,
  findDraft,
  giveUpDraft,
  isReserved,
  loadDraft,
  recordDraft,
  renewDraft,
  reserveDraft,
} from '../../outgoing/draft-state.ts';
import { inputKeyOf } from '../../outgoing/outgoing-input.ts';
import { deleteDraftWorkflowId, draftWorkflowId, WORKFLOWS } from '../../workflows/names.ts';
import type { DraftCommands, NewDraftId } from '../deps.ts';
import {
  draftNotFound,
  isTracked,
  type OutgoingDeps,
  recordedBefore,
  resolveOutgoing,
  storeRecordedInput,
  trackingIdFor,
  whenFree,
} from './outgoing.ts';
import { CallOutage, type OutageTexts, workflowErrorToApiError } from './run-errors.ts';
import { execute, START_WITHIN_MS } from './run-workflow.ts';
import { createTurns, NotBegun, type Turns } from './turns.ts';

/** How long callers wait, ms. */
const DRAFT_MS = 60_000;
/** Drafts of one mailbox being saved or deleted: twice as many as it has sessions (src/imap/pool.ts). */
const SAVES_AT_ONCE = 6;

interface DraftDeps extends OutgoingDeps {
  turns: Turns;
}

const NOT_SAVED: OutageTexts = { notDone: 'the draft was not saved', mayBeDone: 'the draft may have been saved' };
const NOT_DELETED: OutageTexts = {
  notDone: 'the draft was not deleted',
  mayBeDone: 'the draft may still be deleted',
};

/** Commands that save or delete drafts, each as a workflow; failures are ApiErrors. */
export function createDraftCommands(deps: OutgoingDeps): DraftCommands {
  const own = { ...deps, turns: createTurns(SAVES_AT_ONCE) };
  return {
    createDraft: (accountId, made, input) => createDraft(own, accountId, made, input),
    updateDraft: (accountId, made, previous, input) =>
      updateDraft(own, accountId, { ...made, previousId: previous }, input),
    deleteDraft: (accountId, draft) => deleteDraft(own, accountId, draft),
  };
}

async function createDraft(
  deps: DraftDeps,
  accountId: string,
  made: NewDraftId,
  input: SendInput,
): Promise<DraftResult> {
  const draft = await recordInput(deps, accountId, made, input).catch((error: unknown) =>
    recordedBefore(deps, () => loadDraft(deps.db, accountId, made.id), error),
  );
  return saveDraft(deps, draft, null);
}

/** Records a draft, and stores its input. */
async function recordInput(
  deps: DraftDeps,
  accountId: string,
  { caller: { apiKeyId }, id }: NewDraftId,
  input: SendInput,
): Promise<DraftRow> {
  const { db } = deps;
  const outgoing = await resolveOutgoing(deps, { accountId, apiKeyId }, input);
  const { metadata = null, tracking_options: tracking = null } = input;
  const inputKey = inputKeyOf(accountId, id);
  const { draft, isNew } = await recordDraft(db, {
    id,
    accountId,
    inputKey,
    metadata,
    tracking,
    trackingId: trackingIdFor(tracking),
    forwardedId: outgoing.forwarded?.emailId ?? null,
  });
  if (draft.state === 'saving')
    await storeRecordedInput(deps, { inputKey, isNew }, outgoing, {
      renew: () => renewDraft(db, id),
      giveUp: () => giveUpDraft(db, id),
      notDone: NOT_SAVED.notDone,
    });
  return draft;
}

/** `id` is new with each call. */
async function updateDraft(
  deps: DraftDeps,
  accountId: string,
  { caller: { apiKeyId }, id, previousId }: NewDraftId & { previousId: string },
  input: SendInput,
): Promise<DraftResult> {
  const { db } = deps;
  const outgoing = await resolveOutgoing(deps, { accountId, apiKeyId }, input);
  const inputKey = inputKeyOf(accountId, id);
  const { draft, previous } = await whenFree(async () => {
    const previous = await findDraft(db, accountId, previousId);
    if (!previous) throw draftNotFound();
    const metadata = input.metadata ?? previous.metadata;
    const tracking = input.tracking_options ?? previous.tracking;
    const trackingId = isTracked(tracking) ? (previous.trackingId ?? newId('tracking')) : null;
    const recorded = await db.transaction(async (tx) => {
      const by = await reserveDraft(tx, previous.id, id);
      const { forwardedId } = previous;
      const given = { id, accountId, inputKey, metadata, tracking, trackingId, forwardedId };
      return by === id ? recordDraft(tx, given) : undefined;
    });
    return recorded && { draft: recorded.draft, previous };
  });
  await storeRecordedInput(deps, { inputKey, isNew: true }, outgoing, {
    renew: () => renewDraft(db, id),
    giveUp: () => giveUpDraft(db, id),
    notDone: NOT_SAVED.notDone,
  });
  return saveDraft(deps, draft, previous.id);
}

async function saveDraft(deps: DraftDeps, draft: DraftRow, previousId: string | null): Promise<DraftResult> {
  const { db } = deps;
  const { id, accountId } = draft;
  try {
    if (draft.state !== 'active' || previousId) {
      await execute(deps, {
        type: WORKFLOWS.saveDraft,
        workflowId: draftWorkflowId(id),
        accountId,
        resourceIds: [id, previousId, draft.emailId],
        args: [{ accountId, draftId: id, previousId }],
        summary: previousId ? `save ${id} in place of ${previousId}` : `save ${id}`,
        turn: { turns: deps.turns, key: accountId },
        renew: () => renewDraft(db, id),
        deadlineMs: DRAFT_MS,
      });
    }
  } catch (error) {
    // no worker saves what was given up; one that had begun when Temporal went away finds it saved nevertheless
    const isUndone = error instanceof NotBegun || (error instanceof CallOutage && error.begun !== 'yes');
    if (isUndone) await giveUpDraft(db, id).catch(() => undefined);
    throw workflowErrorToApiError(error, 'the draft was not saved in time; saving it continues', NOT_SAVED);
  }
  const saved = await loadDraft(db, accountId, id);
  if (!saved) throw draftNotFound();
  return {
    object: previousId ? 'DraftUpdated' : 'DraftCreated',
    id,
    account_id: accountId,
    draft_id: id,
    ...(previousId ? { previous_draft_id: previousId } : {}),
    message_id: saved.messageId ?? '',
    tracking_id: saved.trackingId,
  };
}

async function deleteDraft(deps: DraftDeps, accountId: string, draftId: string): Promise<void> {
  const { db } = deps;
  const draft = await whenFree(async () => {
    const active = await findDraft(db, accountId, draftId);
    if (!active) throw draftNotFound();
    return (await isReserved(db, active)) ? undefined : active;
  });
  try {
    await execute(deps, {
      type: WORKFLOWS.deleteDraft,
      workflowId: deleteDraftWorkflowId(draft.id),
      accountId,
      resourceIds: [draft.id, draft.emailId],
      args: [{ accountId, draftId: draft.id, startBy: Date.now() + START_WITHIN_MS }],
      summary: `remove ${draft.id}`,
      turn: { turns: deps.turns, key: accountId },
      deadlineMs: DRAFT_MS,
    });
  } catch (error) {
    throw workflowErrorToApiError(error, 'the draft was not removed in time; its removal continues', NOT_DELETED);
  }
}
