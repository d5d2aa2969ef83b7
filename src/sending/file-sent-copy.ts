import { ApiError } from '../contract/errors.ts';
import { inLease, LeaseLost } from '../db/coordination/lease.ts';
import { detachAttachments } from '../db/queries/mail/attachments.ts';
import { appendMessage } from '../imap/append.ts';
import { expungeMessages } from '../imap/expunge.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import type { ImapSession } from '../imap/session.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { emailsAt } from '../mailbox/store/locations.ts';
import { placeOf } from '../mailbox/folders/by-role.ts';
import { type Appended, ingestAppended, ingestComposed, learnWhetherKept } from '../mailbox/ingest/ingest.ts';
import type { FolderState } from '../mailbox/store/folders.ts';
import { saveProvisionalEmail } from '../mailbox/provisional-email.ts';
import { type MailboxDeps, withMailbox } from '../mailbox/with-mailbox.ts';
import { type LoadedSend, loadSource } from './compose.ts';
import { removeDraftEmail } from './drafts.ts';
import { deleteUnneeded } from './unneeded-files.ts';
import { idsOfSend } from '../outgoing/sent-mail.ts';
import {
  clearProvisional,
  filesOfIngested,
  isCopyIngested,
  loadSend,
  markAppended,
  markCopiesIngested,
  type SendRow,
} from '../outgoing/send-state.ts';

/** Options for filing a copy. */
export interface Filing {
  /** append even where the provider usually files the copy: it has had enough time */
  appendAnyway: boolean;
  /** an earlier attempt, or the provider, may have filed it: search first */
  search: boolean;
  /** the copy, if this attempt composed it */
  source?: Buffer;
  /** when the attempt began, ms of `performance.now()`; left out: now */
  begunAt?: number;
  /** the workflow that has finished when the copy is filed */
  finishes?: string;
}

/** After this long without a heartbeat, another worker may have got the activity of an attempt. */
const MAY_BE_REPLACED_MS = 5_000;

/** How long the caller waits for the copy of a sent email. */
const PATIENCE_MS = 3_000;

/** How long a copy that the server has confirmed is searched for. The watch finds one that a rule has moved elsewhere. */
const SEARCHED_FOR_MS = 15 * 60_000;

/**
 * How far the copy of a sent email is. `waiting`: it is not there yet, or not ingested; `disconnected`: the provider refuses the
 * login of the account.
 */
export type FilingProgress = 'done' | 'waiting' | 'disconnected';

/**
 * Finishes a send that the SMTP server has accepted: files its copy and removes the sent draft. If that takes long or fails, it
 * stores a provisional email, with which the caller gets a response.
 * @param firstCopy passed by the attempt that sent the message: no copy has been filed before
 * @param begunAt when the attempt began, before it submitted the message, ms of `performance.now()`
 * @param workflowId the workflow for whose end the caller waits
 * @returns whether nothing is left to do
 */
export async function finishSend(
  deps: MailboxDeps,
  loaded: LoadedSend,
  { firstCopy, begunAt, workflowId }: { firstCopy: Buffer | null; begunAt: number; workflowId: string },
): Promise<boolean> {
  const { id: sendId, accountId } = loaded.send;
  const showProvisional = () =>
    createProvisionalEmail(deps, loaded).catch((err: unknown) =>
      deps.logger.warn(
        { accountId, sendId, err },
        'could not store the sent copy; the email appears after the next sync',
      ),
    );
  const timer = setTimeout(() => void showProvisional(), PATIENCE_MS);
  try {
    const filing = {
      ...(firstCopy ? { search: false, source: firstCopy } : { search: true }),
      // with a draft, its removal is left to do
      ...(loaded.send.draftId === null ? { finishes: workflowId } : {}),
    };
    if ((await fileSentCopy(deps, loaded, { appendAnyway: false, begunAt, ...filing })) === 'done') {
      await removeSentDraft(deps, loaded.send);
      return true;
    }
  } catch (err) {
    deps.logger.warn({ accountId, sendId, err }, 'could not append to Sent; finishSend will retry');
  } finally {
    clearTimeout(timer);
  }
  await showProvisional();
  return false;
}

/** Removes the sent draft from Drafts; its `drf_…` id is no longer found. */
export async function removeSentDraft(deps: MailboxDeps, { accountId, draftId }: SendRow): Promise<void> {
  if (draftId) await withMailbox(deps, accountId, (ctx) => removeDraftEmail(ctx, draftId));
}

/** Domains of Microsoft's clouds and Zoho's data centers. */
const FILES_ITSELF = /(^|\.)((office365|outlook)\.(com|us|cn)|zoho\.(com|eu|in|jp|sa|com\.au|com\.cn)|zohocloud\.ca)$/i;

/** Whether an SMTP server other than Gmail's files a copy of each message in Sent. */
export function filesItself(smtpHost: string): boolean {
  return FILES_ITSELF.test(smtpHost);
}

/**
 * Files the copy of a sent email in Sent, unless Sent has it. Steps: 1 search for it; 2 APPEND, once the server has confirmed
 * it never again; 3 ingest it. Safe to repeat after each. Does not log in to an account that is `disconnected`.
 */
export async function fileSentCopy(
  deps: MailboxDeps,
  { send, settings }: LoadedSend,
  filing: Filing,
): Promise<FilingProgress> {
  const { db } = deps;
  const { id, accountId } = send;
  let filed: Filed | null = null;
  if (!filing.search || !(await isCopyIngested(db, id))) {
    if (settings.status === 'disconnected') return 'disconnected';
    const own = { begunAt: filing.begunAt ?? performance.now(), filesItself: filesItself(settings.smtp.host) };
    filed = await withMailbox(deps, accountId, (ctx) => fileCopy(ctx, send, { ...filing, ...own }), settings);
    if (!filed) return 'waiting';
  }
  const unused = await filesOfIngested(db, accountId, id);
  if (!unused) {
    if (filed === 'appended') await markAppended(db, id, new Date());
    // Under a new UIDVALIDITY the copy is ingested once the watch has mapped the folder to it.
    return 'waiting';
  }
  await deleteUnneeded(deps, unused);
  await clearProvisional(db, id, filing.finishes);
  return 'done';
}

/** What a step has done for the copy: appended it, or found nothing left to append. */
type Filed = 'appended' | 'there';

/** Null: the copy is not there yet. The provider files it itself, or the server has confirmed an APPEND and does not show it. */
async function fileCopy(
  ctx: SyncContext,
  { id, messageId, serverMessageId, storageKey, result }: SendRow,
  filing: Filing & { begunAt: number; filesItself: boolean },
): Promise<Filed | null> {
  if (!messageId || !storageKey) throw new ApiError('not_found', 'this send no longer exists');
  const { session } = ctx;
  const filesItself = filing.filesItself || session.has('X-GM-EXT-1');
  if (filesItself && !filing.search) return null;
  const { path, folder } = await placeOf(ctx, 'SENT');
  const ids = { id, messageId, serverMessageId };
  if (!folder) return fileUnstored(ctx, path, { ...ids, storageKey, ...filing });
  const found = filing.search ? await findCopies(ctx, folder, ids) : [];
  if (found.length > 0) {
    await ingestFound(ctx, folder, found);
    return 'there';
  }
  // while this attempt waited, the watch may have ingested an earlier attempt's copy, and the user removed it
  if (filing.search && (await isCopyIngested(ctx.db, id))) return 'there';
  if (result?.appendedAt !== undefined) return endUnseen(ctx, id, result.appendedAt);
  if (filesItself && !filing.appendAnyway) return null;
  await fileOnce(ctx, folder, { ...ids, storageKey, ...filing });
  return 'appended';
}

/** Ends the search for a copy that the server has confirmed long ago: nothing of it is stored. Null: it is not that long. */
async function endUnseen(ctx: SyncContext, id: string, appendedAt: string): Promise<Filed | null> {
  if (Date.now() - Date.parse(appendedAt) < SEARCHED_FOR_MS) return null;
  await endUnstored(ctx, id);
  return 'there';
}

/** Files the copy in a Sent that the account does not include: nothing of it is stored. Null as for `fileCopy`. */
async function fileUnstored(
  ctx: SyncContext,
  path: string,
  copy: Copy & Filing & { filesItself: boolean },
): Promise<Filed | null> {
  const { session } = ctx;
  if (copy.search) await openFolder(session, path);
  const isThere = copy.search && (await uidsOfSend(session, copy)).length > 0;
  if (!isThere && copy.filesItself && !copy.appendAnyway) return null;
  if (!isThere) await append(ctx, path, copy);
  await endUnstored(ctx, copy.id);
  return 'there';
}

/** Ends the filing of a copy of which nothing is stored, unless the watch has ingested it: its id is not found from then on. */
async function endUnstored({ db, lease, storage }: SyncContext, id: string): Promise<void> {
  const files = await inLease(db, lease, async (tx) => {
    if (await isCopyIngested(tx, id)) return [];
    await markCopiesIngested(tx, [{ id, storageKey: '' }], new Date());
    return detachAttachments(tx, id);
  });
  await storage.delete(files.map(({ storageKey }) => storageKey));
}

/**
 * Ends the attempts to file a copy, and deletes the provisional email with its attachments. The id gets the copy, should one come.
 * @returns false: the copy is ingested, or the account is being removed
 */
export async function endFiling(deps: Pick<MailboxDeps, 'db' | 'storage'>, send: SendRow): Promise<boolean> {
  const { id, accountId, inputKey, storageKey } = send;
  const files = await inLease(deps.db, { accountId, watchEpoch: null }, async (tx) => {
    if (await isCopyIngested(tx, id)) return undefined;
    await clearProvisional(tx, id);
    return detachAttachments(tx, id);
  }).catch((error: unknown) => {
    if (error instanceof LeaseLost) return undefined;
    throw error;
  });
  if (files) await deleteUnneeded(deps, [inputKey, storageKey, ...files.map((file) => file.storageKey)]);
  return files !== undefined;
}

/** How far the INTERNALDATE of a copy is in the past, in seconds. */
const BEFORE_NOW_S = 2;

/** What a copy is found by. */
interface CopyIds {
  /** of the send */
  id: string;
  messageId: string;
  serverMessageId: string | null;
}

/** A copy without a location. */
interface Copy extends CopyIds {
  storageKey: string;
  /** if this attempt composed it */
  source?: Buffer;
}

async function fileOnce(
  ctx: SyncContext,
  folder: FolderState,
  copy: Copy & { search: boolean; begunAt: number },
): Promise<void> {
  const appended = await append(ctx, folder.path, copy);
  try {
    await ingestFiled(ctx, folder, copy, appended);
  } catch (error) {
    await markAppended(ctx.db, copy.id, new Date());
    throw error;
  }
}

/** Ingests the copy that was appended, as far as the server shows it. */
async function ingestFiled(
  ctx: SyncContext,
  folder: FolderState,
  copy: Copy & { search: boolean; begunAt: number },
  appended: Appended | null,
): Promise<void> {
  const { session } = ctx;
  if (!appended) return ingestFound(ctx, folder, await findCopies(ctx, folder, copy));
  if (copy.search || performance.now() - copy.begunAt > MAY_BE_REPLACED_MS) {
    const earlier = await leaveToEarlier(ctx, folder, { ...copy, ...appended });
    if (earlier.length > 0) return ingestFound(ctx, folder, earlier);
  }
  if (await ingestComposed(ctx, folder, appended)) return;
  const selected = await openFolder(session, folder.path);
  if (session.keepsAppended === undefined) await learnWhetherKept(ctx, appended);
  await ingestAppended(ctx, folder, selected, [appended.uid]);
}

/**
 * Removes the appended copy again if an earlier one exists: of two attempts at the same time (the first one stalled, and was
 * replaced) both may have found no copy.
 * @returns the UIDs of earlier copies
 */
async function leaveToEarlier(ctx: SyncContext, folder: FolderState, appended: Appended & CopyIds): Promise<number[]> {
  const { session } = ctx;
  const selected = await openFolder(session, folder.path);
  if (selected.uidValidity !== appended.uidValidity) return [];
  const earlier = (await findCopies(ctx, folder, appended)).filter((uid) => uid < appended.uid);
  if (earlier.length > 0) await expungeMessages(session, [appended.uid]);
  return earlier;
}

/** Ingests found copies: the first one that is not stored becomes the sent email. */
async function ingestFound(ctx: SyncContext, folder: FolderState, uids: number[]): Promise<void> {
  await ingestAppended(ctx, folder, await openFolder(ctx.session, folder.path), uids);
}

/** The UIDs of a send's copies. Another send of the same draft has the same Message-ID: its stored copy is excluded. */
async function findCopies({ db, session }: SyncContext, folder: FolderState, copy: CopyIds): Promise<number[]> {
  const { uidValidity } = await openFolder(session, folder.path);
  const uids = await uidsOfSend(session, copy);
  const stored = uidValidity === folder.uidValidity ? await emailsAt(db, folder.id, uids) : new Map<number, string>();
  return uids.filter((uid) => (stored.get(uid) ?? copy.id) === copy.id);
}

/** The UIDs in the selected folder of messages with one of the Message-IDs of a send, ascending. */
async function uidsOfSend(session: ImapSession, ids: Omit<CopyIds, 'id'>): Promise<number[]> {
  const uids = new Set<number>();
  for (const messageId of idsOfSend(ids)) for (const uid of await findByMessageId(session, messageId)) uids.add(uid);
  return [...uids].sort((a, b) => a - b);
}

/** Appends the copy; null when the server does not report its UID (no UIDPLUS). */
async function append({ session, storage }: SyncContext, path: string, copy: Copy): Promise<Appended | null> {
  const source = copy.source ?? (await loadSource(storage, copy.storageKey));
  // INTERNALDATE has whole seconds. A server that sets its own date is recognised: it would not arrive at this one.
  const date = new Date((Math.floor(Date.now() / 1_000) - BEFORE_NOW_S) * 1_000);
  const location = await appendMessage(session, path, source, { flags: ['\\Seen'], date });
  return location && { ...location, ...copy, source, date };
}

/** Creates the email that is shown until the copy has synced, unless it or the copy exists. */
async function createProvisionalEmail(deps: MailboxDeps, loaded: LoadedSend): Promise<void> {
  const { id, accountId } = loaded.send;
  // another attempt may have filed the copy, or stored a provisional email
  const send = await loadSend(deps.db, accountId, id);
  if (!send || send.hasProvisional || !send.storageKey || (await isCopyIngested(deps.db, id))) return;
  const source = await loadSource(deps.storage, send.storageKey);
  const account = { id: accountId, ...loaded.settings };
  await saveProvisionalEmail(deps, account, { ...send, messageId: send.messageId ?? '' }, source);
}
