import type { Attachment, Bounce } from '../../contract/email.ts';
import type { MessageMeta } from '../../imap/fetch.ts';
import { hasAttachments, type ParsedMail } from '../../mime/parser.ts';
import { newId } from '../../new-id.ts';
import type { SentMail } from '../../sending/send-state.ts';
import { normalAddress } from '../../contract/search-text.ts';
import { contactsOf } from '../contacts.ts';
import type { SyncAccount } from '../context.ts';
import type { NewEmailRows } from '../store/emails.ts';
import type { AssignedThread } from './threads.ts';

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

/** The rows of one email. */
export function buildEmail(
  account: SyncAccount,
  mail: ReadMail,
  thread: AssignedThread,
  place: {
    isDraft: boolean;
    bounce: Bounce | null;
    /** it is the Sent copy of this send */
    sent?: SentMail | undefined;
    /** it is the draft that this id was reserved for */
    draft?: { id: string; trackingId: string | null } | undefined;
    /** it was sent by this API, and is a copy or was received */
    isOurs?: boolean;
    now: Date;
  },
): NewEmailRows {
  const { parsed, meta } = mail;
  const { sent } = place;
  const emailId = sent?.id ?? mail.emailId;
  const date = parsed.date ?? meta.internalDate;
  const from = normalAddress(parsed.from.identifier);
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
      draftId: place.isDraft ? (place.draft?.id ?? newId('draft')) : null,
      origin: sent ? 'api' : 'external',
      isEcho: account.ownAddresses.includes(from) || (place.isOurs ?? false),
      sentBy: sent?.sentBy ?? null,
      trackingId: sent?.trackingId ?? place.draft?.trackingId ?? null,
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
      toAddresses: [...new Set(recipients.map((attendee) => normalAddress(attendee.identifier)))].filter(Boolean),
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
    contacts: place.isDraft || parsed.bounce ? [] : contactsOf(account.ownAddresses, parsed),
  };
}
