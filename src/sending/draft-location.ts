import { withMailbox, type MailboxDeps } from '../mailbox/with-mailbox.ts';
import { ApiError } from '../contract/errors.ts';
import { fetchMetaOf } from '../imap/fetch.ts';
import { openFolder } from '../imap/select.ts';
import { FolderMissing } from '../mail-error.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { loadLocations } from '../mailbox/store/moves.ts';
import { loadDraft } from './draft-state.ts';

/** Another mail program may have deleted the draft, or saved it anew under another UID. */
export async function assertEmailExists(ctx: SyncContext, emailId: string): Promise<void> {
  for (const place of (await loadLocations(ctx.db, ctx.account.id, emailId)) ?? []) {
    try {
      const selected = await openFolder(ctx.session, place.path);
      if (selected.uidValidity !== place.uidValidity) continue;
      if ((await fetchMetaOf(ctx.session, [place.uid])).length > 0) return;
    } catch (error) {
      if (!(error instanceof FolderMissing)) throw error;
    }
  }
  throw draftGone();
}

/** The same for a `drf_…` id. */
export async function assertDraftExists(deps: MailboxDeps, accountId: string, draftId: string): Promise<void> {
  const draft = await loadDraft(deps.db, accountId, draftId);
  const emailId = draft?.emailId;
  if (!emailId) throw draftGone();
  await withMailbox(deps, accountId, (ctx) => assertEmailExists(ctx, emailId));
}

export function draftGone(): ApiError {
  return new ApiError('not_found', 'there is no draft with that id any more');
}
