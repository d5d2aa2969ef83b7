import type { Attachment, Attendee, Authentication, MailingList } from '../../../src/contract/email.ts';
import type { FolderRole } from '../../../src/contract/folder.ts';
import { normalise } from '../../../src/contract/search-text.ts';
import type { Database } from '../../../src/db/driver/client.ts';
import { snippetOf } from '../../../src/contract/snippet.ts';
import { headText } from '../../../src/db/queries/mail/email-object.ts';
import {
  attachments,
  contacts,
  drafts,
  emailContents,
  emailSearch,
  emails,
  folders,
  locations,
  threads,
} from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';

/** Saves a folder; returns its id. */
export async function storeFolder(
  { db }: Database,
  accountId: string,
  options: { id?: string; name?: string; role?: FolderRole; parentId?: string; total?: number; unread?: number } = {},
): Promise<string> {
  const id = options.id ?? newId('folder');
  const name = options.name ?? options.role ?? id;
  await db.insert(folders).values({
    id,
    accountId,
    path: `${name} ${id}`,
    name,
    role: options.role ?? 'UNKNOWN',
    parentId: options.parentId ?? null,
    totalCount: options.total ?? 0,
    unreadCount: options.unread ?? 0,
    createdAt: new Date(),
  });
  return id;
}

export interface EmailOptions {
  subject?: string;
  body?: string;
  bodyPlain?: string;
  date?: Date;
  from?: string;
  fromName?: string;
  to?: string[];
  cc?: string[];
  bcc?: string[];
  folders?: string[];
  /** the folders in which it has \Deleted */
  deletedIn?: string[];
  unread?: boolean;
  flags?: string[];
  threadId?: string;
  messageId?: string;
  draft?: boolean;
  list?: MailingList;
  authentication?: Authentication;
  attachments?: (Pick<Attachment, 'name' | 'mime' | 'size'> & { inline?: boolean; cid?: string })[];
  missingSince?: Date;
  /** bytes of the raw message; 1,000 */
  size?: number;
  /** false: as mail was stored before heads existed */
  head?: boolean;
}

export interface StoredEmailIds {
  id: string;
  threadId: string;
  draftId: string | null;
  attachmentIds: string[];
  storageKey: string;
}

/** Above the UIDs with which tests fill folders. */
let uid = 1_000_000;
const attendee = (identifier: string, display_name = ''): Attendee => ({
  identifier,
  display_name,
  identifier_type: 'EMAIL_ADDRESS',
});

/** Saves an email with all its rows, as the sync does. Each email is a minute newer than the previous one. */
export async function storeEmail(
  database: Database,
  accountId: string,
  options: EmailOptions = {},
): Promise<StoredEmailIds> {
  const { db } = database;
  const id = newId('email');
  uid += 1;
  const date = options.date ?? new Date(Date.UTC(2024, 1, 6) + uid * 60_000);
  const threadId = options.threadId ?? (await storeThread(database, accountId));
  const draftId = options.draft ? newId('draft') : null;
  const messageId = options.messageId ?? `<${id}@example.test>`;
  const from = attendee(options.from ?? 'ann@example.test', options.fromName ?? 'Ann');
  const [to = [], cc = [], bcc = []] = [options.to ?? ['owner@example.test'], options.cc, options.bcc].map((list) =>
    list?.map((address) => attendee(address)),
  );
  const subject = options.subject ?? 'Hello';
  const bodyPlain = options.bodyPlain ?? 'Some text';
  const storageKey = `${accountId}/raw/${id}.eml`;
  const files: Attachment[] = (options.attachments ?? []).map((file) => ({
    id: newId('attachment'),
    name: file.name,
    extension: file.name.includes('.') ? (file.name.split('.').at(-1) as string) : '',
    size: file.size,
    mime: file.mime,
    cid: file.cid ?? null,
    inline: file.inline ?? false,
  }));
  const row = {
    id,
    accountId,
    threadId,
    date,
    messageId,
    subject,
    fromAttendee: from,
    toAttendees: to,
    ccAttendees: cc,
    bccAttendees: bcc,
    replyToAttendees: [],
    hasAttachments: files.length > 0,
    isUnread: options.unread ?? false,
    flags: options.flags ?? [],
    isDraft: options.draft ?? false,
    draftId,
    size: options.size ?? 1000,
    internalDate: date,
    storageKey,
    list: options.list ?? null,
    authentication: options.authentication ?? null,
    missingSince: options.missingSince ?? null,
    createdAt: date,
  };
  await db.insert(emails).values(row);
  await db.insert(emailContents).values({
    emailId: id,
    accountId,
    head: options.head === false ? null : headText(row),
    body: options.body ?? `<p>${bodyPlain}</p>`,
    bodyPlain,
    snippet: options.head === false ? null : snippetOf(null, bodyPlain),
    headers: [
      { name: 'Message-ID', value: messageId },
      { name: 'Subject', value: subject },
    ],
    attachments: files,
  });
  const people = [from, ...to, ...cc, ...bcc].flatMap((person) => [person.identifier, person.display_name]);
  await db.insert(emailSearch).values({
    emailId: id,
    accountId,
    date,
    text: normalise([subject, ...people, bodyPlain].join('\n')),
    subject: normalise(subject),
    fromAddress: from.identifier.toLowerCase(),
    toAddresses: [...to, ...cc, ...bcc].map((person) => person.identifier.toLowerCase()),
  });
  if (files.length > 0) {
    await db.insert(attachments).values(
      files.map((file) => ({
        id: file.id,
        emailId: id,
        accountId,
        name: file.name,
        mime: file.mime,
        size: file.size,
        storageKey: `${accountId}/att/${file.id}`,
      })),
    );
  }
  for (const folderId of options.folders ?? []) {
    uid += 1;
    await db.insert(locations).values({
      folderId,
      uid,
      accountId,
      emailId: id,
      date,
      seen: !options.unread,
      flags: options.flags ?? [],
      deleted: options.deletedIn?.includes(folderId) ?? false,
      identity: id,
      weakIdentity: id,
    });
  }
  if (draftId) await db.insert(drafts).values({ id: draftId, accountId, emailId: id, messageId, createdAt: date });
  return { id, threadId, draftId, attachmentIds: files.map((file) => file.id), storageKey };
}

/** Saves a thread, possibly merged into another; returns its id. */
export async function storeThread({ db }: Database, accountId: string, mergedInto?: string): Promise<string> {
  const id = newId('thread');
  await db.insert(threads).values({ id, accountId, mergedInto: mergedInto ?? null });
  return id;
}

/** Saves a contact. */
export async function storeContact(
  { db }: Database,
  accountId: string,
  contact: { address: string; displayName?: string; lastContactedAt: Date },
): Promise<void> {
  const { address, displayName = null, lastContactedAt } = contact;
  await db.insert(contacts).values({ accountId, address, displayName, lastContactedAt });
}
