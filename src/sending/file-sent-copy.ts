import { inMailbox, type WriteDeps } from '../activities/write-context.ts';
import { ApiError } from '../contract/errors.ts';
import { appendMessage } from '../imap/append.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import { MailError } from '../mail-error.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { ensureRoleFolder } from '../mailbox/folders/by-role.ts';
import { takeWritten } from '../mailbox/ingest/written.ts';
import { saveStandIn } from '../mailbox/provisional-email.ts';
import { loadSyncSettings } from '../mailbox/store/settings.ts';
import { loadSource } from './compose.ts';
import { dropStandIn, isCopyTakenIn, loadSend, type SendRow } from './send-state.ts';

/** How a copy is filed. */
export interface Filing {
  /** the provider has had its time to file the copy itself */
  insist: boolean;
  /** an earlier try, or the provider, may have filed it: look first */
  search: boolean;
}

/** SMTP servers beside Gmail's that put what they send into Sent by themselves. */
const FILES_ITSELF = /(^|\.)(office365|outlook|zoho)\.(com|eu|in|jp|com\.au)$/i;

/**
 * Puts the copy of a sent mail into Sent, unless it lies there. Steps: 1 look for it; 2 APPEND; 3 take it in. `waiting`:
 * the provider files it itself, and has not yet.
 */
export async function fileCopyOf(deps: WriteDeps, send: SendRow, filing: Filing): Promise<'done' | 'waiting'> {
  const { id, accountId } = send;
  if (!filing.search || !(await isCopyTakenIn(deps.db, id))) {
    const settings = await loadSyncSettings(deps.db, accountId);
    const filesItself = FILES_ITSELF.test(settings?.smtp.host ?? '');
    const filed = await inMailbox(deps, accountId, (ctx) => fileCopy(deps, ctx, send, { ...filing, filesItself }));
    if (!filed) return 'waiting';
  }
  const unused = await dropStandIn(deps.db, accountId, id);
  // where the watch has to map the folder anew first, the copy is not here until it has
  if (!unused) return 'waiting';
  await deps.storage.delete(unused);
  return 'done';
}

/** False: the provider files the copy itself, and it has not turned up yet. */
async function fileCopy(
  deps: WriteDeps,
  ctx: SyncContext,
  send: SendRow,
  filing: Filing & { filesItself: boolean },
): Promise<boolean> {
  const { messageId, storageKey } = send;
  if (!messageId || !storageKey) throw new ApiError('not_found', 'there is no such send any more');
  const { session } = ctx;
  const filesItself = filing.filesItself || session.has('X-GM-EXT-1');
  if (filesItself && !filing.search) return false;
  const folder = await ensureRoleFolder(ctx, 'SENT');
  let uids: number[] = [];
  if (filing.search) {
    await openFolder(session, folder.path);
    uids = await findByMessageId(session, messageId);
  }
  if (uids.length === 0) {
    if (filesItself && !filing.insist) return false;
    const source = await loadSource(deps.storage, storageKey);
    const appended = await appendMessage(session, folder.path, source, { flags: ['\\Seen'] });
    if (appended) uids = [appended.uid];
  }
  const selected = await openFolder(session, folder.path);
  if (uids.length === 0) uids = await findByMessageId(session, messageId);
  await takeWritten(ctx, folder, selected, uids.slice(-1));
  return true;
}

/** Whether a copy of the mail lies in Sent; no when the mailbox cannot be looked at. */
export async function liesInSent(deps: WriteDeps, { accountId, messageId }: SendRow): Promise<boolean> {
  if (!messageId) return false;
  try {
    return await inMailbox(deps, accountId, async (ctx) => {
      const folder = await ensureRoleFolder(ctx, 'SENT');
      await openFolder(ctx.session, folder.path);
      return (await findByMessageId(ctx.session, messageId)).length > 0;
    });
  } catch (error) {
    if (error instanceof MailError) return false;
    throw error;
  }
}

/** Makes what is shown until the copy has synced, unless that or the copy is there. */
export async function standIn(deps: WriteDeps, accountId: string, sendId: string): Promise<void> {
  const send = await loadSend(deps.db, accountId, sendId);
  if (!send || send.hasStandIn || !send.storageKey || (await isCopyTakenIn(deps.db, sendId))) return;
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings) return;
  const source = await loadSource(deps.storage, send.storageKey);
  const account = { id: accountId, ...settings };
  await saveStandIn(deps, account, { ...send, messageId: send.messageId ?? '' }, source);
}
