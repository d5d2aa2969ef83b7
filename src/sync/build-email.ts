import type { Attachment, Bounce } from '../contract/email.ts';
import type { NewEmailRows } from '../db/sync-emails.ts';
import type { MessageMeta } from '../mail/fetch.ts';
import { hasAttachments, type ParsedMail } from '../mail/parse.ts';
import { newId } from '../new-id.ts';
import type { AssignedThread } from './assign-threads.ts';
import type { SyncAccount } from './context.ts';

/** A message that was read and stored, before it has rows. */
export interface ReadMail {
  emailId: string;
  meta: MessageMeta;
  parsed: ParsedMail;
  storageKey: string;
  attachments: (Attachment & { storageKey: string })[];
}

/** Storage key of a raw message. */
export const rawKey = (accountId: string, emailId: string): string => `${accountId}/raw/${emailId}.eml`;

/** Storage key of an attachment. */
export const attachmentKey = (accountId: string, attachmentId: string): string => `${accountId}/att/${attachmentId}`;

/** Lower-cased address, without white space. */
const normal = (address: string): string => address.trim().toLowerCase();

const BOUNCE_SENDER = /^(mailer-daemon|postmaster)(@|$)/;

/** The rows of one email. */
export function buildEmail(
  account: SyncAccount,
  mail: ReadMail,
  thread: AssignedThread,
  place: { isDraft: boolean; bounce: Bounce | null; now: Date },
): NewEmailRows {
  const { parsed, meta, emailId } = mail;
  const date = parsed.date ?? meta.internalDate;
  const from = normal(parsed.from.identifier);
  const recipients = [...parsed.to, ...parsed.cc, ...parsed.bcc];
  return {
    email: {
      id: emailId,
      accountId: account.id,
      threadId: thread.threadId,
      subjectKey: thread.subjectKey,
      date,
      messageId: parsed.messageId,
      subject: parsed.subject,
      fromAttendee: parsed.from,
      toAttendees: parsed.to,
      ccAttendees: parsed.cc,
      bccAttendees: parsed.bcc,
      replyToAttendees: parsed.replyTo,
      hasAttachments: hasAttachments(parsed.attachments),
      isUnread: !meta.seen,
      isDraft: place.isDraft,
      draftId: place.isDraft ? newId('draft') : null,
      origin: 'external',
      isEcho: account.ownAddresses.includes(from),
      sentBy: null,
      trackingId: null,
      bounce: place.bounce,
      size: meta.size,
      internalDate: meta.internalDate,
      storageKey: mail.storageKey,
      createdAt: place.now,
    },
    contents: {
      emailId,
      accountId: account.id,
      body: parsed.body,
      bodyPlain: parsed.bodyPlain,
      headers: parsed.headers,
      attachments: mail.attachments.map(({ storageKey: _, ...attachment }) => attachment),
    },
    search: {
      emailId,
      accountId: account.id,
      date,
      text: parsed.searchText,
      subject: parsed.searchSubject,
      fromAddress: from,
      toAddresses: [...new Set(recipients.map((attendee) => normal(attendee.identifier)))].filter(Boolean),
    },
    attachments: mail.attachments.map(({ id, name, mime, size, storageKey }) => ({
      id,
      emailId,
      accountId: account.id,
      name,
      mime,
      size,
      storageKey,
    })),
    contacts: place.isDraft || parsed.bounce ? [] : contactsOf(account, parsed),
  };
}

/** Who wrote or received the mail, less the owner and bounce senders (CONTRACT "Contacts"). */
function contactsOf(account: SyncAccount, parsed: ParsedMail) {
  const people = [parsed.from, ...parsed.to, ...parsed.cc, ...parsed.bcc];
  const byAddress = new Map<string, string | null>();
  for (const person of people) {
    const address = normal(person.identifier);
    if (!address.includes('@') || address.length > 320) continue;
    if (account.ownAddresses.includes(address) || BOUNCE_SENDER.test(address)) continue;
    byAddress.set(address, byAddress.get(address) ?? (person.display_name.trim() || null));
  }
  return [...byAddress].map(([address, displayName]) => ({ address, displayName }));
}
