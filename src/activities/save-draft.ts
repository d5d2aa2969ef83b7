import { ApiError } from '../contract/errors.ts';
import { appendMessage } from '../imap/append.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import { MailError } from '../mail-error.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { ensureRoleFolder } from '../mailbox/folders/by-role.ts';
import { ingestAppended } from '../mailbox/ingest/ingest.ts';
import { loadSyncSettings, type SyncSettings } from '../mailbox/settings.ts';
import { newMessageId } from '../mime/message-ids.ts';
import { compose } from '../mime/write/compose.ts';
import { messageFromInput } from '../mime/write/outgoing-message.ts';
import { type ComposeDeps, composeUpdate, loadInput, loadSource, repliedTo, senderOf } from '../sending/compose.ts';
import { assertEmailExists, draftGone } from '../sending/draft-location.ts';
import {
  type DraftRow,
  dropInput,
  findDraft,
  assignMessageId,
  loadDraft,
  moveDraft,
  releaseReservation,
  storedSource,
} from '../sending/draft-state.ts';
import { toFailure } from './failures.ts';
import { withHeartbeat } from './heartbeat.ts';
import { removeDraftMail } from './remove-draft.ts';
import { withMailbox, type MailboxDeps } from '../mailbox/with-mailbox.ts';

export type DraftDeps = MailboxDeps & Pick<ComposeDeps, 'publicUrl'>;

export type DraftActivities = ReturnType<typeof createDraftActivities>;

interface Saving {
  accountId: string;
  draftId: string;
  previousId: string | null;
}

/** Activities of the `saveDraft` and `deleteDraft` workflows. */
export function createDraftActivities(deps: DraftDeps) {
  const { db } = deps;

  /**
   * Puts a draft into Drafts. Steps: 1 look for it, since an earlier try may have got as far; 2 APPEND; 3 take it in.
   * @throws ApiError not_found when the draft whose place it takes is not there any more
   */
  async function appendDraft({ accountId, draftId, previousId }: Saving): Promise<void> {
    await withHeartbeat(async () => {
      const draft = await loadDraft(db, accountId, draftId);
      const settings = await loadSyncSettings(db, accountId);
      if (!draft || !settings) throw new ApiError('not_found', 'there is no account with that id');
      if (draft.state === 'failed') throw new ApiError('provider_error', 'the draft was given up');
      if (draft.state === 'saving') {
        const from = settings.owner.email;
        const messageId = await assignMessageId(db, draftId, draft.messageId ?? newMessageId(from));
        const previous = previousId ? await previousOf(deps, accountId, previousId) : undefined;
        const message = await composeSaved(deps, settings, draft, messageId, previous);
        await withMailbox(deps, accountId, (ctx) => append(ctx, messageId, message, previous));
      }
      if (previousId) await moveDraft(db, previousId, ['active'], 'superseded', { supersededBy: draftId });
      if (draft.inputKey) {
        await dropInput(db, draftId);
        await deps.storage.delete([draft.inputKey]);
      }
    });
  }

  /** The draft was not saved: it is over, and the one whose place it was to take is free again. */
  async function giveUpDraft({ accountId, draftId }: { accountId: string; draftId: string }): Promise<void> {
    const draft = await loadDraft(db, accountId, draftId);
    await moveDraft(db, draftId, ['saving'], 'failed');
    await releaseReservation(db, draftId);
    if (draft?.state === 'saving' && draft.inputKey) await deps.storage.delete([draft.inputKey]);
  }

  /** Removes the draft whose place another has taken. */
  async function removeSuperseded({ accountId, previousId }: Saving): Promise<void> {
    if (!previousId) return;
    await withHeartbeat(() => withMailbox(deps, accountId, (ctx) => removeDraftMail(ctx, previousId)));
  }

  /** Removes a draft for good. */
  async function deleteDraftMail({ accountId, draftId }: { accountId: string; draftId: string }): Promise<void> {
    await withHeartbeat(() =>
      withMailbox(deps, accountId, async (ctx) => {
        await removeDraftMail(ctx, draftId);
        await moveDraft(db, draftId, ['active', 'deleted'], 'deleted');
      }),
    );
  }

  return { appendDraft, giveUpDraft, removeSuperseded, deleteDraftMail };
}

/** The draft that another takes the place of. */
interface Previous {
  emailId: string;
  storageKey: string;
}

async function previousOf({ db }: DraftDeps, accountId: string, previousId: string): Promise<Previous> {
  const draft = await findDraft(db, accountId, previousId);
  const stored = draft?.emailId ? await storedSource(db, accountId, draft.emailId) : undefined;
  if (!draft?.emailId || !stored) throw draftGone();
  return { emailId: draft.emailId, storageKey: stored.key };
}

/** The message to be put into Drafts. */
async function composeSaved(
  deps: DraftDeps,
  settings: SyncSettings,
  draft: DraftRow,
  messageId: string,
  previous: Previous | undefined,
): Promise<Buffer> {
  const input = draft.inputKey ? await loadInput(deps.storage, draft.inputKey) : {};
  const given = { messageId, date: new Date() };
  if (previous) {
    const source = await loadSource(deps.storage, previous.storageKey);
    const { letter, message } = await composeUpdate(deps, draft.accountId, settings, source, input, given);
    assertTrackable(draft, letter.html);
    return message;
  }
  const reply = await repliedTo(deps.db, draft.accountId, input);
  const letter = messageFromInput(input, { ...given, from: senderOf(settings, input), reply });
  assertTrackable(draft, letter.html);
  return compose(letter, { keepBcc: true });
}

function assertTrackable({ trackingId }: DraftRow, html: string | null): void {
  if (trackingId && html === null) {
    throw new ApiError('invalid_parameters', 'tracking_options needs html, which the draft does not have');
  }
}

/** Puts the message into Drafts and takes it in. */
async function append(
  ctx: SyncContext,
  messageId: string,
  message: Buffer,
  previous: Previous | undefined,
): Promise<void> {
  const folder = await ensureRoleFolder(ctx, 'DRAFTS');
  let selected = await openFolder(ctx.session, folder.path);
  let uids = await findByMessageId(ctx.session, messageId);
  if (uids.length === 0) {
    if (previous) await assertEmailExists(ctx, previous.emailId);
    await orLookAgain(async () => {
      const appended = await appendMessage(ctx.session, folder.path, message, { flags: ['\\Draft', '\\Seen'] });
      selected = await openFolder(ctx.session, folder.path);
      uids = appended ? [appended.uid] : await findByMessageId(ctx.session, messageId);
    });
  }
  await orLookAgain(() => ingestAppended(ctx, folder, selected, uids.slice(-1)));
}

/**
 * From APPEND on the message may lie in Drafts: but for a refusal, the activity is tried again and looks for it.
 */
async function orLookAgain(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof MailError && (error.refused || error.code !== 'provider_error')) throw error;
    throw toFailure(error, { mayBeDone: true });
  }
}
