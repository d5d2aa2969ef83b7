import { inLease } from '../db/lease.ts';
import { recordEvents } from '../db/outbox.ts';
import { expungeMessages } from '../imap/expunge.ts';
import { moveMessages } from '../imap/move.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import { FolderMissing, MailError } from '../mail-error.ts';
import { deletionEvents } from '../mailbox/change-emails.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { ensureRoleFolder } from '../mailbox/folders/by-role.ts';
import { deleteEmails, loadStoredEmails } from '../mailbox/store/emails.ts';
import { addToTotal } from '../mailbox/store/folders.ts';
import { type EmailLocation, loadLocations } from '../mailbox/store/moves.ts';
import { loadDraft } from '../sending/draft-state.ts';

/**
 * Removes a draft's mail from the mailbox for good, and from the store with its event, unless somebody did so already.
 * Steps: 1 select its folder; 2 expunge; 3 commit. Doing it again does what is left.
 */
export async function removeDraftMail(ctx: SyncContext, draftId: string): Promise<void> {
  const draft = await loadDraft(ctx.db, ctx.account.id, draftId);
  if (!draft?.emailId) return;
  const places = (await loadLocations(ctx.db, ctx.account.id, draft.emailId)) ?? [];
  for (const place of places) await removeAt(ctx, place, draft.messageId);
  await forgetDraft(ctx, draft.emailId, places);
}

async function removeAt(ctx: SyncContext, place: EmailLocation, messageId: string | null): Promise<void> {
  const { session } = ctx;
  try {
    const selected = await openFolder(session, place.path);
    const uid = await uidNow(ctx, selected.uidValidity, place, messageId);
    if (uid === undefined) return;
    if (!session.has('X-GM-EXT-1')) return await expungeMessages(session, [uid]);
    // In Gmail what is expunged from Drafts stays in All Mail; only from Trash it goes for good.
    if (place.role === 'ALL') return;
    const trash = await ensureRoleFolder(ctx, 'TRASH');
    const moved = (await moveMessages(session, [uid], trash.path)).uids.get(uid);
    if (moved === undefined) return;
    await openFolder(session, trash.path);
    await expungeMessages(session, [moved]);
  } catch (error) {
    if (!(error instanceof FolderMissing)) throw error;
  }
}

/** A UID is never used under another UIDVALIDITY than the one it was given under (QUALITY "Sync" 2). */
async function uidNow(
  { session }: SyncContext,
  uidValidity: number,
  place: EmailLocation,
  messageId: string | null,
): Promise<number | undefined> {
  if (uidValidity === place.uidValidity) return place.uid;
  if (messageId) return (await findByMessageId(session, messageId)).at(-1);
  throw new MailError('provider_error', 'imap', 'the IMAP server numbered the folder anew: try again');
}

async function forgetDraft(ctx: SyncContext, emailId: string, places: EmailLocation[]): Promise<void> {
  const keys = await inLease(ctx.db, ctx.lease, async (tx) => {
    const stored = [...(await loadStoredEmails(tx, [emailId])).values()];
    const now = new Date();
    await recordEvents(tx, ctx.account.id, await deletionEvents(tx, stored, now));
    for (const { folderId } of stored.length > 0 ? places : []) await addToTotal(tx, folderId, -1);
    return deleteEmails(
      tx,
      stored.map(({ row }) => row.id),
    );
  });
  await ctx.storage.delete(keys);
}
