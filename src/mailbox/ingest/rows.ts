import type { Attachment, Attendee, Bounce, Complaint } from '../../contract/email.ts';
import { snippetOf } from '../../contract/snippet.ts';
import { headText } from '../../db/queries/mail/email-object.ts';
import type { MessageMeta } from '../../imap/fetch.ts';
import { judgeAuthentication } from '../../mime/authentication/judge.ts';
import { hasAttachments, type ParsedMail } from '../../mime/parser.ts';
import { newId } from '../../new-id.ts';
import type { SentMail } from '../../outgoing/sent-mail.ts';
import { normalAddress } from '../../mail-wire/addresses.ts';
import { contactsOf } from '../contacts.ts';
import type { SyncAccount } from '../context.ts';
import type { NewEmailRows } from '../store/emails.ts';
import type { AssignedThread, ThreadedMail } from './threads.ts';

/** An attachment whose bytes are in storage. */
export type StoredAttachment = Attachment & { storageKey: string };

/** A message that was fetched and parsed, with its files in storage and no rows yet. */
export interface FetchedMail {
  emailId: string;
  meta: MessageMeta;
  parsed: ParsedMail;
  storageKey: string;
  /** the file belongs to a send until the email is committed */
  isOfSend?: boolean;
  attachments: StoredAttachment[];
}

/** Storage key of a raw message. */
export const rawKey = (accountId: string, emailId: string): string => `${accountId}/raw/${emailId}.eml`;

/** Storage key of an attachment. */
export const attachmentKey = (accountId: string, attachmentId: string): string => `${accountId}/att/${attachmentId}`;

/** Whether a mail says that the owner of the mailbox wrote it. */
export function isFromOwner({ ownAddresses }: Pick<SyncAccount, 'ownAddresses'>, from: Attendee): boolean {
  return ownAddresses.includes(normalAddress(from.identifier));
}

/** The fields of a message that threading needs. */
export function threadFactsOf({ parsed, meta }: FetchedMail): ThreadedMail {
  const { messageId, inReplyTo, references, baseSubject, isReplySubject, from, to, cc } = parsed;
  const date = parsed.date ?? meta.internalDate;
  const { serverThreadId } = meta;
  return { serverThreadId, messageId, inReplyTo, references, baseSubject, isReplySubject, date, from, to, cc };
}

/** The row of a message's location; `emailId` null: baseline. */
export function locationRow(accountId: string, folderId: string, meta: MessageMeta, emailId: string | null) {
  const { uid, seen, deleted, flags, identity, weakIdentity, serverId } = meta;
  return { folderId, uid, accountId, emailId, seen, deleted, flags, identity, weakIdentity, serverId };
}

/** The columns of an email that do not come from the message. */
export interface EmailFacts {
  isDraft: boolean;
  bounce: Bounce | null;
  complaint: Complaint | null;
  /** the send whose Sent copy it is */
  copyOf: SentMail | null;
  /** the draft that an id was reserved for */
  draft: { id: string; trackingId: string | null } | null;
  /** the name of the mailbox's provider in Authentication-Results; null: unknown */
  authservId: string | null;
  /** it was sent by this API, and is a copy or was received */
  sentByApi: boolean;
  now: Date;
}

/** The rows of one email. */
export function buildEmail(
  account: SyncAccount,
  mail: FetchedMail,
  thread: AssignedThread,
  facts: EmailFacts,
): NewEmailRows {
  const { parsed } = mail;
  const emailId = facts.copyOf?.id ?? mail.emailId;
  const email = emailRow(account, mail, thread, facts);
  return {
    email,
    contents: {
      emailId,
      accountId: account.id,
      head: headText(email),
      body: parsed.body,
      bodyPlain: parsed.bodyPlain,
      bodyNew: parsed.bodyNew,
      snippet: snippetOf(parsed.bodyNew, parsed.bodyPlain),
      headers: parsed.headers,
      attachments: mail.attachments.map(({ storageKey: _, ...attachment }) => attachment),
    },
    search: searchRow(account.id, emailId, mail),
    attachments: mail.attachments.map(({ id, name, mime, size, storageKey }) => ({
      id,
      emailId,
      accountId: account.id,
      name,
      mime,
      size,
      storageKey,
    })),
    contacts: facts.isDraft || facts.bounce ? [] : contactsOf(account.ownAddresses, parsed),
  };
}

function emailRow(
  account: SyncAccount,
  mail: FetchedMail,
  { threadId, subjectKey }: AssignedThread,
  { copyOf, draft, isDraft, bounce, complaint, authservId, sentByApi, now }: EmailFacts,
): NewEmailRows['email'] {
  const { parsed, meta, storageKey } = mail;
  return {
    id: copyOf?.id ?? mail.emailId,
    accountId: account.id,
    threadId,
    subjectKey,
    date: parsed.date ?? meta.internalDate,
    messageId: parsed.messageId,
    subject: parsed.subject,
    fromAttendee: parsed.from,
    toAttendees: parsed.to,
    ccAttendees: parsed.cc,
    bccAttendees: parsed.bcc,
    replyToAttendees: parsed.replyTo,
    hasAttachments: hasAttachments(parsed.attachments),
    isUnread: !meta.seen,
    flags: meta.flags,
    isDraft,
    draftId: isDraft ? (draft?.id ?? newId('draft')) : null,
    origin: copyOf ? 'api' : 'external',
    isEcho: isFromOwner(account, parsed.from) || sentByApi,
    sentBy: copyOf?.sentBy ?? null,
    trackingId: copyOf?.trackingId ?? draft?.trackingId ?? null,
    bounce,
    complaint,
    autoReply: parsed.autoReply,
    calendar: parsed.calendar,
    list: parsed.list,
    authentication: judgeAuthentication(
      parsed.authenticationFields,
      { address: parsed.from.identifier, isSingle: parsed.hasSingleFrom },
      authservId,
    ),
    isComplete: !parsed.isPartial,
    size: meta.size,
    internalDate: meta.internalDate,
    storageKey,
    createdAt: now,
  };
}

function searchRow(accountId: string, emailId: string, { parsed, meta }: FetchedMail): NewEmailRows['search'] {
  const recipients = [...parsed.to, ...parsed.cc, ...parsed.bcc];
  return {
    emailId,
    accountId,
    date: parsed.date ?? meta.internalDate,
    text: parsed.searchText,
    subject: parsed.searchSubject,
    fromAddress: normalAddress(parsed.from.identifier),
    toAddresses: [...new Set(recipients.map((attendee) => normalAddress(attendee.identifier)))].filter(Boolean),
  };
}
