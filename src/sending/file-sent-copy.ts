import { ApiError } from '../contract/errors.ts';
import { appendMessage } from '../imap/append.ts';
import { expungeMessages } from '../imap/expunge.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import { MailError } from '../mail-wire/mail-error.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { emailsAt } from '../mailbox/store/locations.ts';
import { ensureRoleFolder } from '../mailbox/folders/by-role.ts';
import { type Appended, ingestAppended, ingestComposed, learnWhetherKept } from '../mailbox/ingest/ingest.ts';
import type { FolderState } from '../mailbox/store/folders.ts';
import { saveProvisionalEmail } from '../mailbox/provisional-email.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { type LoadedSend, loadSource } from './compose.ts';
import { removeDraftEmail } from './drafts.ts';
import { clearProvisional, filesOfIngested, isCopyIngested, loadSend, type SendRow } from '../outgoing/send-state.ts';

/** How a copy is filed. */
export interface Filing {
  /** the provider has had its time to file the copy itself */
  appendAnyway: boolean;
  /** an earlier attempt, or the provider, may have filed it: search first */
  search: boolean;
  /** the copy, where it was composed just now */
  source?: Buffer;
  /** when the attempt began, ms of `performance.now()`; without it now */
  begunAt?: number;
  /** the workflow of which nothing is left then */
  finishes?: string;
}

/** The activity of an attempt that sent no heartbeat for so long may have been given to another worker. */
const MAY_BE_REPLACED_MS = 5_000;

/** The caller waits so long for the copy of an email that has been sent. */
const PATIENCE_MS = 3_000;

/**
 * What is left once the SMTP server has accepted the message: files its copy and removes the draft that it was. What
 * takes longer, or fails, gets a provisional Email instead of the copy (CONTRACT "Emails", send), with which the caller
 * gets his response. `firstCopy` is given by the attempt that sent the message: nothing has filed a copy before.
 * `begunAt`: when the attempt began, before it submitted the message, ms of `performance.now()`. `workflowId`: whose caller
 * gets his response then.
 * @returns whether nothing is left
 */
export async function finishSend(
  deps: MailboxDeps,
  loaded: LoadedSend,
  { firstCopy, begunAt, workflowId }: { firstCopy: Buffer | null; begunAt: number; workflowId: string },
): Promise<boolean> {
  const { id: sendId, accountId } = loaded.send;
  const showProvisional = () =>
    createProvisionalEmail(deps, loaded).catch((err: unknown) =>
      deps.logger.warn({ accountId, sendId, err }, 'a sent email is not shown before its copy has synced'),
    );
  const timer = setTimeout(() => void showProvisional(), PATIENCE_MS);
  try {
    const filing = {
      ...(firstCopy ? { search: false, source: firstCopy } : { search: true }),
      // a draft is to be removed yet
      ...(loaded.send.draftId === null ? { finishes: workflowId } : {}),
    };
    if ((await fileSentCopy(deps, loaded, { appendAnyway: false, begunAt, ...filing })) === 'done') {
      await removeSentDraft(deps, loaded.send);
      return true;
    }
  } catch (err) {
    deps.logger.warn({ accountId, sendId, err }, 'the copy of a sent email is filed later');
  } finally {
    clearTimeout(timer);
  }
  await showProvisional();
  return false;
}

/** Removes the draft that was sent from Drafts; its `drf_…` id is not found any more. */
export async function removeSentDraft(deps: MailboxDeps, { accountId, draftId }: SendRow): Promise<void> {
  if (draftId) await withMailbox(deps, accountId, (ctx) => removeDraftEmail(ctx, draftId));
}

/** SMTP servers other than Gmail's that file in Sent what they send. */
const FILES_ITSELF = /(^|\.)(office365|outlook|zoho)\.(com|eu|in|jp|com\.au)$/i;

/**
 * Files the copy of a sent email in Sent, unless it is there. Steps: 1 search for it; 2 APPEND; 3 ingest it. Safe to be
 * repeated after each. `waiting`: the provider files it itself, and has not yet.
 */
export async function fileSentCopy(
  deps: MailboxDeps,
  { send, settings }: LoadedSend,
  filing: Filing,
): Promise<'done' | 'waiting'> {
  const { db, storage } = deps;
  const { id, accountId } = send;
  if (!filing.search || !(await isCopyIngested(db, id))) {
    const filesItself = FILES_ITSELF.test(settings.smtp.host);
    const begunAt = filing.begunAt ?? performance.now();
    const isFiled = await withMailbox(
      deps,
      accountId,
      (ctx) => fileCopy(ctx, send, { ...filing, begunAt, filesItself }),
      settings,
    );
    if (!isFiled) return 'waiting';
  }
  const unused = await filesOfIngested(db, accountId, id);
  // Under a new UIDVALIDITY the copy is ingested once the watch has mapped the folder to it.
  if (!unused) return 'waiting';
  await storage.delete(unused);
  await clearProvisional(db, id, filing.finishes);
  return 'done';
}

/** False: the provider files the copy itself, and has not yet. */
async function fileCopy(
  ctx: SyncContext,
  { id, messageId, storageKey }: SendRow,
  filing: Filing & { begunAt: number; filesItself: boolean },
): Promise<boolean> {
  if (!messageId || !storageKey) throw new ApiError('not_found', 'there is no such send any more');
  const { session } = ctx;
  const filesItself = filing.filesItself || session.has('X-GM-EXT-1');
  if (filesItself && !filing.search) return false;
  const folder = await ensureRoleFolder(ctx, 'SENT');
  const found = filing.search ? await findCopies(ctx, folder, { id, messageId }) : [];
  if (found.length > 0) {
    await ingestFound(ctx, folder, found);
    return true;
  }
  // the watch may have ingested what an earlier attempt filed, and the user removed it, while this one waited for its turn
  if (filing.search && (await isCopyIngested(ctx.db, id))) return true;
  if (filesItself && !filing.appendAnyway) return false;
  await fileOnce(ctx, folder, { id, messageId, storageKey, ...filing });
  return true;
}

/** How long ago a copy is said to have been filed, in seconds. */
const BEFORE_NOW_S = 2;

/** A copy that has no location yet. */
interface Copy {
  /** of the send */
  id: string;
  messageId: string;
  storageKey: string;
  /** where it was composed just now */
  source?: Buffer;
}

async function fileOnce(
  ctx: SyncContext,
  folder: FolderState,
  copy: Copy & { search: boolean; begunAt: number },
): Promise<void> {
  const { session } = ctx;
  const appended = await append(ctx, folder.path, copy);
  if (!appended) return ingestFound(ctx, folder, await findCopies(ctx, folder, copy));
  if (copy.search || performance.now() - copy.begunAt > MAY_BE_REPLACED_MS) {
    const earlier = await leaveToEarlier(ctx, folder, { ...appended, id: copy.id });
    if (earlier.length > 0) return ingestFound(ctx, folder, earlier);
  }
  if (await ingestComposed(ctx, folder, appended)) return;
  const selected = await openFolder(session, folder.path);
  if (session.keepsAppended === undefined) await learnWhetherKept(ctx, appended);
  await ingestAppended(ctx, folder, selected, [appended.uid]);
}

/**
 * Of two attempts at the same time (the first one stopped for long, and was replaced) both may have found no copy: the one that
 * appended later removes its own again.
 * @returns the UIDs that stay; none: there is no earlier one
 */
async function leaveToEarlier(
  ctx: SyncContext,
  folder: FolderState,
  appended: Appended & { id: string },
): Promise<number[]> {
  const { session } = ctx;
  const selected = await openFolder(session, folder.path);
  if (selected.uidValidity !== appended.uidValidity) return [];
  const earlier = (await findCopies(ctx, folder, appended)).filter((uid) => uid < appended.uid);
  if (earlier.length > 0) await expungeMessages(session, [appended.uid]);
  return earlier;
}

/** The first of them that is not stored becomes the email that was sent. */
async function ingestFound(ctx: SyncContext, folder: FolderState, uids: number[]): Promise<void> {
  await ingestAppended(ctx, folder, await openFolder(ctx.session, folder.path), uids);
}

/** The copies of a send. Another send of the same draft has the same Message-ID: what is stored as its email is not one. */
async function findCopies(
  { db, session }: SyncContext,
  folder: FolderState,
  { id, messageId }: { id: string; messageId: string },
): Promise<number[]> {
  const { uidValidity } = await openFolder(session, folder.path);
  const uids = await findByMessageId(session, messageId);
  const stored = uidValidity === folder.uidValidity ? await emailsAt(db, folder.id, uids) : new Map<number, string>();
  return uids.filter((uid) => (stored.get(uid) ?? id) === id);
}

/** Appends the copy; null where the server does not report where it put it. */
async function append({ session, storage }: SyncContext, path: string, copy: Copy): Promise<Appended | null> {
  const source = copy.source ?? (await loadSource(storage, copy.storageKey));
  // Servers have no finer dates. One that goes by its own clock shows that: it would not come to this date by itself.
  const date = new Date((Math.floor(Date.now() / 1_000) - BEFORE_NOW_S) * 1_000);
  const location = await appendMessage(session, path, source, { flags: ['\\Seen'], date });
  return location && { ...location, ...copy, source, date };
}

/** Whether a copy of the message is in Sent; no when the mailbox cannot be reached. */
export async function isInSent(deps: MailboxDeps, { accountId, messageId }: SendRow): Promise<boolean> {
  if (!messageId) return false;
  try {
    return await withMailbox(deps, accountId, async (ctx) => {
      const folder = await ensureRoleFolder(ctx, 'SENT');
      await openFolder(ctx.session, folder.path);
      return (await findByMessageId(ctx.session, messageId)).length > 0;
    });
  } catch (error) {
    if (error instanceof MailError) return false;
    throw error;
  }
}

/** Creates the Email that is shown until the copy has synced, unless that or the copy exists. */
async function createProvisionalEmail(deps: MailboxDeps, loaded: LoadedSend): Promise<void> {
  const { id, accountId } = loaded.send;
  // the copy may have been filed meanwhile, or shown by another attempt
  const send = await loadSend(deps.db, accountId, id);
  if (!send || send.hasProvisional || !send.storageKey || (await isCopyIngested(deps.db, id))) return;
  const source = await loadSource(deps.storage, send.storageKey);
  const account = { id: accountId, ...loaded.settings };
  await saveProvisionalEmail(deps, account, { ...send, messageId: send.messageId ?? '' }, source);
}
