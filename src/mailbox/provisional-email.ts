import { insertAttachments } from '../db/queries/mail/attachments.ts';
import type { Db } from '../db/driver/client.ts';
import { toEmail } from '../db/queries/mail/email-object.ts';
import { inLease } from '../db/coordination/lease.ts';
import type { Logger } from '../runtime/logger.ts';
import type { MailParser } from '../mime/parser.ts';
import { saveProvisional, type SendRow } from '../outgoing/send-state.ts';
import { idsOfSend } from '../outgoing/sent-mail.ts';
import type { Storage } from '../storage/storage.ts';
import type { SyncAccount } from './context.ts';
import { storeAttachments } from './ingest/store-attachments.ts';
import { buildEmail, threadFactsOf } from './ingest/rows.ts';
import { threadOfSent } from './ingest/threads.ts';
import { emailRowOf } from './store/emails.ts';
import { deleteUnreferenced } from './unsaved-files.ts';

/**
 * Saves the email that is shown for a sent message until its Sent copy is ingested: parsed as the copy will be, in the
 * thread and with the attachments that the copy will have.
 */
export async function saveProvisionalEmail(
  deps: { db: Db; storage: Storage; parser: MailParser; logger: Logger },
  account: SyncAccount,
  send: Pick<SendRow, 'id' | 'accountId' | 'serverMessageId' | 'trackingId' | 'sentBy' | 'hasProvisional'> & {
    messageId: string;
  },
  source: Buffer,
): Promise<void> {
  const parsed = await deps.parser.parse(source);
  const now = new Date();
  const meta = { uid: 0, seen: true, deleted: false, flags: [], internalDate: now, size: source.length };
  const unknown = { identity: '', weakIdentity: '', messageId: send.messageId, serverId: null, serverThreadId: null };
  const attachments = await storeAttachments({ ...deps, account }, parsed);
  const mail = { emailId: send.id, meta: { ...meta, ...unknown }, parsed, storageKey: '', attachments };
  const files = attachments.map(({ storageKey }) => storageKey);
  try {
    const saved = await inLease(deps.db, { accountId: account.id, watchEpoch: null }, async (tx) => {
      const thread = await threadOfSent(tx, account, { ...threadFactsOf(mail), otherIds: idsOfSend(send) });
      const rows = buildEmail(account, mail, thread, {
        ...{ isDraft: false, bounce: null, complaint: null, draft: null, sentByApi: false, now },
        authservId: null,
        copyOf: { ...send, bcc: parsed.bcc, awaited: true },
      });
      const isSaved = await saveProvisional(tx, send.id, toEmail(emailRowOf(rows.email), rows.contents, []));
      if (isSaved) await insertAttachments(tx, rows.attachments);
      return isSaved;
    });
    if (!saved) await deps.storage.delete(files);
  } catch (error) {
    await deleteUnreferenced({ ...deps, account }, files);
    throw error;
  }
}
