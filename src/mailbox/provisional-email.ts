import { insertAttachments } from '../db/attachments.ts';
import type { Db } from '../db/client.ts';
import { toEmail } from '../db/email-object.ts';
import { inLease } from '../db/lease.ts';
import type { MailParser } from '../mime/parser.ts';
import { saveProvisional, type SendRow } from '../sending/send-state.ts';
import type { Storage } from '../storage/storage.ts';
import type { SyncAccount } from './context.ts';
import { storeAttachments } from './ingest/fetch.ts';
import { buildEmail } from './ingest/rows.ts';
import { assignThreads } from './ingest/threads.ts';
import { emailRowOf } from './store/emails.ts';

/**
 * Reads a mail that was sent as its Sent copy will be read, and keeps the Email that is shown until that copy has
 * synced: in the thread and with the attachments that the copy will have (CONTRACT "Emails", send).
 */
export async function saveProvisionalEmail(
  deps: { db: Db; storage: Storage; parser: MailParser },
  account: SyncAccount,
  send: Pick<SendRow, 'id' | 'accountId' | 'trackingId' | 'sentBy' | 'hasProvisional'> & { messageId: string },
  source: Buffer,
): Promise<void> {
  const parsed = await deps.parser.parse(source);
  const now = new Date();
  const meta = { uid: 0, seen: true, deleted: false, internalDate: now, size: source.length };
  const unknown = { identity: '', weakIdentity: '', messageId: send.messageId, serverId: null, serverThreadId: null };
  const attachments = await storeAttachments({ ...deps, account }, parsed);
  const mail = { emailId: send.id, meta: { ...meta, ...unknown }, parsed, storageKey: '', attachments };
  const files = attachments.map(({ storageKey }) => storageKey);
  const unused: string[] = [];
  try {
    await inLease(deps.db, { accountId: account.id, watchEpoch: null }, async (tx) => {
      const [thread] = await assignThreads(tx, account.id, account.ownAddresses, [
        { ...parsed, serverThreadId: null, date: parsed.date ?? now },
      ]);
      if (!thread) return;
      const rows = buildEmail(account, mail, thread, {
        isDraft: false,
        bounce: null,
        sent: { ...send, bcc: parsed.bcc, awaited: true },
        now,
      });
      const kept = await saveProvisional(tx, send.id, toEmail(emailRowOf(rows.email), rows.contents, []));
      if (kept) await insertAttachments(tx, rows.attachments);
      else unused.push(...files);
    });
    await deps.storage.delete(unused);
  } catch (error) {
    await deps.storage.delete(files);
    throw error;
  }
}
