import { detachAttachments } from '../../db/queries/mail/attachments.ts';
import type { Tx } from '../../db/driver/client.ts';
import { findTracking } from '../../db/queries/tracking.ts';
import type { MessageMeta } from '../../imap/fetch.ts';
import type { ImapSession } from '../../imap/session.ts';
import { withBcc } from '../../mime/parser.ts';
import { untrackHtml } from '../../mime/tracking.ts';
import { idsOfSend, type SentMail } from '../../outgoing/sent-mail.ts';
import type { FolderState } from '../store/folders.ts';
import type { FetchedMail, StoredAttachment } from './rows.ts';

/** Whether a Sent copy may arrive in a folder; `unmatched`: only if nothing else matches it. */
export type SentCopyRule = 'always' | 'unmatched' | 'never';

export function sentCopyRule(session: Pick<ImapSession, 'has'>, { role }: Pick<FolderState, 'role'>): SentCopyRule {
  if (role === 'SENT') return 'always';
  // In Gmail the copy in All Mail may be seen first. Drafts are in All Mail too, and on their removal in Trash: those
  // are matched by their X-GM-MSGID.
  const copyIsLabel = session.has('X-GM-EXT-1') && role !== 'TRASH' && role !== 'SPAM';
  return copyIsLabel ? 'unmatched' : 'never';
}

/**
 * Which arrivals are the Sent copies of which sends, by UID. An email that the owner sends to the mailbox itself has a
 * Sent copy and is received as well: only the one in Sent is the copy, except in Gmail, where both are one email.
 */
export function matchSentCopies(
  rule: SentCopyRule,
  sends: SentMail[],
  arrivals: { firstWith: ReadonlyMap<string, MessageMeta>; isUnmatched(meta: MessageMeta): boolean },
): Map<number, SentMail> {
  const sendOf = new Map<number, SentMail>();
  for (const send of sends) {
    const [meta] = idsOfSend(send).flatMap((id) => arrivals.firstWith.get(id) ?? []);
    if (!meta || !send.awaited || sendOf.has(meta.uid)) continue;
    if (rule === 'always' || (rule === 'unmatched' && arrivals.isUnmatched(meta))) sendOf.set(meta.uid, send);
  }
  return sendOf;
}

/**
 * Turns Sent copies into the emails that callers have seen already: with the ids of the attachments shown so far, all
 * recipients, and without tracking. Returns the mails in the same order, and the storage keys that are no longer needed.
 */
export async function applySentCopies(
  tx: Tx,
  mails: FetchedMail[],
  matches: ReadonlyMap<number, { kind: string; copyOf?: SentMail | null }>,
): Promise<{ mails: FetchedMail[]; unusedKeys: string[] }> {
  const applied: FetchedMail[] = [];
  const unusedKeys: string[] = [];
  for (const mail of mails) {
    const match = matches.get(mail.meta.uid);
    const copy = match?.copyOf ? await asCopyOf(tx, mail, match.copyOf) : undefined;
    applied.push(copy?.mail ?? mail);
    for (const key of copy?.unusedKeys ?? []) unusedKeys.push(key);
  }
  return { mails: applied, unusedKeys };
}

async function asCopyOf(
  tx: Tx,
  mail: FetchedMail,
  send: SentMail,
): Promise<{ mail: FetchedMail; unusedKeys: string[] }> {
  const { attachments, unusedKeys } = send.hasProvisional
    ? await reuseAttachments(tx, mail, send)
    : { attachments: mail.attachments, unusedKeys: [] };
  // a copy that the provider filed does not name the Bcc recipients
  const parsed = withBcc(mail.parsed, send.bcc);
  const body = send.trackingId ? await untracked(tx, parsed.body, send.trackingId) : parsed.body;
  return { mail: { ...mail, attachments, parsed: { ...parsed, body } }, unusedKeys };
}

/** Until its copy arrived, the email was shown with its own attachments: they keep their ids and files. */
async function reuseAttachments(
  tx: Tx,
  mail: FetchedMail,
  send: SentMail,
): Promise<{ attachments: StoredAttachment[]; unusedKeys: string[] }> {
  const shown = await detachAttachments(tx, send.id);
  const same =
    shown.length === mail.attachments.length && shown.every(({ size }, at) => size === mail.attachments[at]?.size);
  if (!same) return { attachments: mail.attachments, unusedKeys: shown.map(({ storageKey }) => storageKey) };
  return {
    attachments: mail.attachments.map((attachment, at) => ({ ...attachment, ...shown[at] })),
    unusedKeys: mail.attachments.map(({ storageKey }) => storageKey),
  };
}

/** A provider that files the copy itself files it with its tracking, which is never shown. */
async function untracked(tx: Tx, html: string, trackingId: string): Promise<string> {
  if (!html.includes(trackingId)) return html;
  const record = await findTracking(tx, trackingId);
  return record ? untrackHtml(html, trackingId, record.links) : html;
}
