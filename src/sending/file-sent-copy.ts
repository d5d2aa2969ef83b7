import { withMailbox, type MailboxDeps } from '../mailbox/with-mailbox.ts';
import { ApiError } from '../contract/errors.ts';
import { appendMessage } from '../imap/append.ts';
import { findByMessageId } from '../imap/search.ts';
import { openFolder } from '../imap/select.ts';
import { MailError } from '../mail-error.ts';
import type { SyncContext } from '../mailbox/context.ts';
import { ensureRoleFolder } from '../mailbox/folders/by-role.ts';
import { ingestAppended } from '../mailbox/ingest/ingest.ts';
import { saveProvisionalEmail } from '../mailbox/provisional-email.ts';
import { loadSyncSettings } from '../mailbox/settings.ts';
import { loadSource } from './compose.ts';
import { removeProvisional, isCopyIngested, loadSend, type SendRow } from './send-state.ts';

/** How a copy is filed. */
export interface Filing {
  /** the provider has had its time to file the copy itself */
  appendAnyway: boolean;
  /** an earlier try, or the provider, may have filed it: look first */
  search: boolean;
}

/** SMTP servers beside Gmail's that put what they send into Sent by themselves. */
const FILES_ITSELF = /(^|\.)(office365|outlook|zoho)\.(com|eu|in|jp|com\.au)$/i;

/**
 * Puts the copy of a sent mail into Sent, unless it lies there. Steps: 1 look for it; 2 APPEND; 3 take it in. `waiting`:
 * the provider files it itself, and has not yet.
 */
export async function fileCopyOf(deps: MailboxDeps, send: SendRow, filing: Filing): Promise<'done' | 'waiting'> {
  const { id, accountId } = send;
  if (!filing.search || !(await isCopyIngested(deps.db, id))) {
    const settings = await loadSyncSettings(deps.db, accountId);
    const filesItself = FILES_ITSELF.test(settings?.smtp.host ?? '');
    const filed = await withMailbox(deps, accountId, (ctx) => fileCopy(deps, ctx, send, { ...filing, filesItself }));
    if (!filed) return 'waiting';
  }
  const unused = await removeProvisional(deps.db, accountId, id);
  // where the watch has to map the folder anew first, the copy is not here until it has
  if (!unused) return 'waiting';
  await deps.storage.delete(unused);
  return 'done';
}

/** False: the provider files the copy itself, and it has not turned up yet. */
async function fileCopy(
  deps: MailboxDeps,
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
    if (filesItself && !filing.appendAnyway) return false;
    const source = await loadSource(deps.storage, storageKey);
    const appended = await appendMessage(session, folder.path, source, { flags: ['\\Seen'] });
    if (appended) uids = [appended.uid];
  }
  const selected = await openFolder(session, folder.path);
  if (uids.length === 0) uids = await findByMessageId(session, messageId);
  await ingestAppended(ctx, folder, selected, uids.slice(-1));
  return true;
}

/** Whether a copy of the mail lies in Sent; no when the mailbox cannot be looked at. */
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

/** Makes what is shown until the copy has synced, unless that or the copy is there. */
export async function createProvisionalEmail(deps: MailboxDeps, accountId: string, sendId: string): Promise<void> {
  const send = await loadSend(deps.db, accountId, sendId);
  if (!send || send.hasProvisional || !send.storageKey || (await isCopyIngested(deps.db, sendId))) return;
  const settings = await loadSyncSettings(deps.db, accountId);
  if (!settings) return;
  const source = await loadSource(deps.storage, send.storageKey);
  const account = { id: accountId, ...settings };
  await saveProvisionalEmail(deps, account, { ...send, messageId: send.messageId ?? '' }, source);
}
