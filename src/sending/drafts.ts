import { ApiError } from '../contract/errors.ts';
import { inLease } from '../db/coordination/lease.ts';
import { appendMessage } from '../imap/append.ts';
import { expungeMessages } from '../imap/expunge.ts';
import { moveMessages } from '../imap/move.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import { FolderMissing, MailError } from '../mail-wire/mail-error.ts';
import { changeEmails, recordDeletions } from '../mailbox/change-emails.ts';
import { messageAt } from '../mailbox/changes/locate.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { ensureRoleFolder, placeOf } from '../mailbox/folders/by-role.ts';
import { ingestAppended } from '../mailbox/ingest/ingest.ts';
import { loadSyncSettings, type SyncSettings } from '../mailbox/settings.ts';
import { locateEmails } from '../mailbox/store/email-states.ts';
import { deleteEmails } from '../mailbox/store/emails.ts';
import { countTakenOut } from '../mailbox/store/folders.ts';
import { type EmailLocation, loadLocations, moveLocations } from '../mailbox/store/moves.ts';
import { syncOnce } from '../mailbox/sync-pass.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { newMessageId } from '../mime/message-ids.ts';
import { compose } from '../mime/write/compose.ts';
import { withGivenHeaders } from '../mime/write/draft-headers.ts';
import { loadDraftSource, messageOf, updatedMessage } from './compose.ts';
import {
  assignMessageId,
  clearDraftInput,
  type DraftRow,
  findDraft,
  loadDraft,
  markDraftSuperseded,
  storedSource,
} from '../outgoing/draft-state.ts';
import { loadInput } from '../outgoing/outgoing-input.ts';
import { deleteUnneeded } from './unneeded-files.ts';

/** Identifies one save of a draft. */
export interface Saving {
  accountId: string;
  /** the new `drf_…` id */
  draftId: string;
  /** the draft that it replaces */
  previousId: string | null;
}

/** The save failed after APPEND was sent: the message may be in Drafts. Another attempt looks for it first. */
export class MayBeAppended extends Error {
  override readonly name = 'MayBeAppended';
}

/**
 * Saves a draft in Drafts, and supersedes the `drf_…` id that it replaces. Steps: 1 search for the message, since an earlier
 * attempt may have appended it; 2 APPEND; 3 ingest it. Safe to repeat after each.
 * @throws ApiError not_found when the draft that it replaces no longer exists; MayBeAppended
 */
export async function saveDraft(deps: MailboxDeps, { accountId, draftId, previousId }: Saving): Promise<void> {
  const { db } = deps;
  const draft = await loadDraft(db, accountId, draftId);
  const settings = await loadSyncSettings(db, accountId);
  if (!draft || !settings) throw new ApiError('not_found', 'no account has this id');
  if (draft.state === 'failed') throw new ApiError('provider_error', 'saving this draft failed');
  if (draft.state === 'saving') {
    try {
      await appendDraft(deps, settings, draft, previousId);
    } catch (error) {
      // An attempt that was treated as dead may have saved it, and superseded the previous draft.
      if ((await loadDraft(db, accountId, draftId))?.state !== 'active') throw error;
    }
  }
  if (previousId) await markDraftSuperseded(db, previousId, draftId);
  if (draft.inputKey) {
    await clearDraftInput(db, draftId);
    await deleteUnneeded(deps, [draft.inputKey]);
  }
}

async function appendDraft(
  deps: MailboxDeps,
  settings: SyncSettings,
  draft: DraftRow,
  previousId: string | null,
): Promise<void> {
  const { id, accountId } = draft;
  const messageId = await assignMessageId(deps.db, id, draft.messageId ?? newMessageId(settings.owner.email));
  const isRepeated = draft.messageId !== null;
  if (isRepeated && (await withMailbox(deps, accountId, (ctx) => ingestSaved(ctx, messageId)))) return;
  const previous = previousId ? await loadPrevious(deps, accountId, previousId) : undefined;
  const message = await composeMessage(deps, settings, { ...draft, messageId }, previous).catch(async (error) => {
    // The previous draft's files are deleted with its email, which another program may have deleted by now.
    if (previousId) await loadPrevious(deps, accountId, previousId);
    throw error;
  });
  await withMailbox(deps, accountId, (ctx) => appendOnce(ctx, messageId, message, previous));
}

/** The draft that is replaced. */
interface Previous {
  emailId: string;
  storageKey: string;
}

async function loadPrevious({ db }: MailboxDeps, accountId: string, previousId: string): Promise<Previous> {
  const draft = await findDraft(db, accountId, previousId);
  const stored = draft?.emailId ? await storedSource(db, accountId, draft.emailId) : undefined;
  if (!draft?.emailId || !stored) throw draftMissing();
  return { emailId: draft.emailId, storageKey: stored.key };
}

async function composeMessage(
  deps: MailboxDeps,
  { owner }: SyncSettings,
  { inputKey, trackingId, messageId }: DraftRow & { messageId: string },
  previous: Previous | undefined,
): Promise<Buffer> {
  const outgoing = inputKey ? await loadInput(deps.storage, inputKey) : { input: {} };
  const stamp = { owner, messageId, date: new Date() };
  const message = previous
    ? await updatedMessage(deps, await loadDraftSource(deps.storage, previous.storageKey), outgoing, stamp)
    : await messageOf(deps, outgoing, stamp);
  if (trackingId && message.html === null) {
    throw new ApiError('invalid_parameters', 'tracking_options requires html, which the draft does not have');
  }
  return compose(withGivenHeaders(message, outgoing.input.custom_headers), { keepBcc: true });
}

/** Ingests the message that an earlier attempt has appended. False: Drafts does not have it. */
async function ingestSaved(ctx: SyncContext, messageId: string): Promise<boolean> {
  const folder = await ensureRoleFolder(ctx, 'DRAFTS');
  const selected = await openFolder(ctx.session, folder.path);
  const uids = await findByMessageId(ctx.session, messageId);
  if (uids.length > 0) await orMayBeAppended(() => ingestAppended(ctx, folder, selected, uids.slice(-1)));
  return uids.length > 0;
}

async function appendOnce(
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
    await orMayBeAppended(async () => {
      const appended = await appendMessage(ctx.session, folder.path, message, { flags: ['\\Draft', '\\Seen'] });
      selected = await openFolder(ctx.session, folder.path);
      uids = appended ? [appended.uid] : await findByMessageId(ctx.session, messageId);
    });
  }
  await orMayBeAppended(() => ingestAppended(ctx, folder, selected, uids.slice(-1)));
}

/** @throws MayBeAppended after any failure but a refusal of the provider: the message may be in Drafts */
async function orMayBeAppended(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof MailError && (error.refused || error.code !== 'provider_error')) throw error;
    throw new MayBeAppended('the draft may have been saved', { cause: error });
  }
}

/**
 * Checks that a draft's email is in the mailbox: another mail program may have deleted it, or saved it under another UID.
 * @throws ApiError not_found
 */
export async function assertDraftExists(deps: MailboxDeps, accountId: string, emailId: string): Promise<void> {
  await withMailbox(deps, accountId, (ctx) => assertEmailExists(ctx, emailId));
}

async function assertEmailExists(ctx: SyncContext, emailId: string): Promise<void> {
  for (const location of (await loadLocations(ctx.db, ctx.account.id, emailId)) ?? []) {
    try {
      const selected = await openFolder(ctx.session, location.path);
      if (selected.uidValidity !== location.uidValidity) continue;
      if ((await messageAt(ctx.session, location)) === 'same') return;
    } catch (error) {
      if (!(error instanceof FolderMissing)) throw error;
    }
  }
  throw draftMissing();
}

function draftMissing(): ApiError {
  return new ApiError('not_found', 'this draft no longer exists');
}

/** How often a removal follows a draft that other mail programs move. */
const MAX_MOVES = 5;

/**
 * Deletes a draft's email permanently from Drafts, and from the store with its event, unless that was already done. Steps: 1
 * select its folder; 2 expunge; 3 commit. Safe to repeat after each. Keeps an email that another mail program has moved
 * elsewhere, or that is no longer a draft.
 * @throws MailError
 */
export async function removeDraftEmail(ctx: SyncContext, draftId: string): Promise<void> {
  for (let moves = 0; moves <= MAX_MOVES; moves++) {
    const draft = await loadDraft(ctx.db, ctx.account.id, draftId);
    if (!draft?.emailId || !(await isDraftStill(ctx, draft.emailId))) return;
    const all = (await loadLocations(ctx.db, ctx.account.id, draft.emailId)) ?? [];
    // In Gmail a draft is also in All Mail, and leaves both folders together.
    const locations = isGmail(ctx) ? all : all.filter(({ role }) => role === 'DRAFTS');
    let isExpunged = false;
    for (const location of locations) isExpunged = (await expungeAt(ctx, location, draft.messageId)) || isExpunged;
    // It may have moved, which a sync pass detects; or an earlier attempt has expunged it.
    if (!isExpunged && moves === 0) await syncOnce(ctx, { changed: new Set(all.map(({ path }) => path)) });
    else if (await deleteFromStore(ctx, draft.emailId, locations)) return;
  }
  throw new MailError('provider_error', 'imap', 'other mail programs keep moving this draft; retry later');
}

const isGmail = ({ session }: SyncContext) => session.has('X-GM-EXT-1');

async function isDraftStill({ db }: SyncContext, emailId: string): Promise<boolean> {
  return (await locateEmails(db, [emailId])).get(emailId)?.isDraft === true;
}

/** False: the message is not at this location. */
async function expungeAt(ctx: SyncContext, location: EmailLocation, messageId: string | null): Promise<boolean> {
  const { session } = ctx;
  try {
    const selected = await openFolder(session, location.path);
    const uid = await currentUid(ctx, selected.uidValidity, location, messageId);
    if (uid === undefined) return false;
    if (!isGmail(ctx)) {
      await expungeMessages(session, [uid]);
      return true;
    }
    // In Gmail a message expunged from Drafts stays in All Mail; only EXPUNGE in Trash deletes it permanently.
    if (location.role === 'ALL') return false;
    const trash = await placeOf(ctx, 'TRASH');
    const moved = (await moveMessages(session, [uid], trash.path)).uids.get(uid);
    if (moved === undefined) return false;
    await openFolder(session, trash.path);
    await expungeMessages(session, [moved]);
    return true;
  } catch (error) {
    if (error instanceof FolderMissing) return false;
    throw error;
  }
}

/** The UID of a draft's message now: the stored one if UIDVALIDITY and message match, else found by its Message-ID. */
async function currentUid(
  { session }: SyncContext,
  uidValidity: number,
  location: EmailLocation,
  messageId: string | null,
): Promise<number | undefined> {
  if (uidValidity === location.uidValidity) {
    const held = await messageAt(session, location);
    if (held === 'none') return undefined;
    if (held === 'same') return location.uid;
  }
  if (messageId) return (await findByMessageId(session, messageId)).at(-1);
  throw new MailError('provider_error', 'imap', 'the UIDVALIDITY of the folder has changed; retry later');
}

/**
 * Deletes an expunged draft from the store, or only its location in Drafts when another folder has it too. False: it was
 * found in Drafts again, or elsewhere in Gmail.
 */
async function deleteFromStore(ctx: SyncContext, emailId: string, locations: EmailLocation[]): Promise<boolean> {
  const expunged = new Set(locations.map(({ folderId, uid }) => `${folderId} ${uid}`));
  const keys = await inLease(ctx.db, ctx.lease, async (tx) => {
    const stored = [...(await locateEmails(tx, [emailId])).values()].filter(({ isDraft }) => isDraft);
    const current = stored.length > 0 ? ((await loadLocations(tx, ctx.account.id, emailId)) ?? []) : [];
    const others = current.filter(({ folderId, uid }) => !expunged.has(`${folderId} ${uid}`));
    if (others.some(({ role }) => role === 'DRAFTS' || isGmail(ctx))) return undefined;
    const now = new Date();
    if (others.length > 0) {
      await changeEmails(tx, { lease: ctx.lease, emailIds: [emailId], now }, () =>
        moveLocations(tx, { removed: locations }),
      );
      return [];
    }
    await recordDeletions(tx, ctx.account.id, stored, now);
    for (const location of stored.length > 0 ? locations : []) await countTakenOut(tx, location);
    return deleteEmails(
      tx,
      stored.map(({ id }) => id),
    );
  });
  if (keys) await ctx.storage.delete(keys);
  return keys !== undefined;
}
