import { detachAttachments } from '../../db/attachments.ts';
import type { Tx } from '../../db/client.ts';
import { findTracking } from '../../db/tracking.ts';
import { untrackHtml } from '../../mime/tracking.ts';
import type { SentMail } from '../../sending/send-state.ts';
import type { SentByApi } from './match.ts';
import type { ReadMail } from './rows.ts';

/**
 * Makes Sent copies the emails that callers know already. Answers the keys of the files that are not needed then.
 */
export async function matchSentCopies(tx: Tx, mails: ReadMail[], { copies }: SentByApi): Promise<string[]> {
  const unused: string[] = [];
  for (const mail of mails) {
    const send = copies.get(mail.meta.uid);
    if (!send) continue;
    if (send.hasProvisional) unused.push(...(await reuseAttachments(tx, mail, send)));
    // one that the provider filed does not name them
    if (mail.parsed.bcc.length === 0) mail.parsed.bcc = send.bcc;
    if (send.trackingId) mail.parsed.body = await untracked(tx, mail.parsed.body, send.trackingId);
  }
  return unused;
}

/** Until its copy was there, the mail was shown with attachments of its own: they keep their ids and files. */
async function reuseAttachments(tx: Tx, mail: ReadMail, send: SentMail): Promise<string[]> {
  const shown = await detachAttachments(tx, send.id);
  const same =
    shown.length === mail.attachments.length && shown.every(({ size }, at) => size === mail.attachments[at]?.size);
  if (!same) return shown.map(({ storageKey }) => storageKey);
  const unused = mail.attachments.map(({ storageKey }) => storageKey);
  mail.attachments = mail.attachments.map((attachment, at) => ({ ...attachment, ...shown[at] }));
  return unused;
}

/** A provider that files the copy itself files what it was handed: nothing of the tracking is shown (CONTRACT "Tracking"). */
async function untracked(tx: Tx, html: string, trackingId: string): Promise<string> {
  if (!html.includes(trackingId)) return html;
  const record = await findTracking(tx, trackingId);
  return record ? untrackHtml(html, trackingId, record.links) : html;
}
