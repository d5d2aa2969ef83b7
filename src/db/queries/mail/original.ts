import { and, desc, eq, getTableColumns, isNotNull, type SQL, sql } from 'drizzle-orm';
import type { Header } from '../../../contract/email.ts';
import { ID_PREFIXES } from '../../../contract/ids.ts';
import type { Queryable } from '../../driver/client.ts';
import { storedOrSent } from './sent-email.ts';
import { emailContents, emails, sends, trackingRecords } from '../../schema/index.ts';

/** The original of a reply or a forward, with what the headers of the new message need (RFC 5322 3.6.4). */
export interface Original {
  /** with its angle brackets; null when the email has none */
  messageId: string | null;
  /** the References chain that leads to it, oldest first */
  references: string[];
}

/** The original of a forward. */
export interface ForwardedOriginal extends Original {
  emailId: string;
  subject: string;
  /** of its raw message */
  storageKey: string;
  /** bytes of the raw message */
  size: number;
  /** how many files it has, and their decoded bytes */
  files: { count: number; bytes: number };
  /**
   * Its tracking, which the raw message may hold: a provider that files the copy in Sent files what was delivered. Undefined
   * when it has none.
   */
  tracked?: Tracked;
}

/** The tracking of a sent email: the targets of its rewritten links are in the order of their numbers. */
export interface Tracked {
  trackingId: string;
  links: string[];
}

const COLUMNS = { messageId: emails.messageId, headers: emailContents.headers };

/**
 * Finds the original that `reply_to_message_id` names: an `email_…` id of the account, undefined when it does not exist;
 * or any Message-ID, with or without angle brackets, with its References when it is stored.
 */
export async function findReplyTarget(
  db: Queryable,
  accountId: string,
  reference: string,
): Promise<Original | undefined> {
  const name = await storedNameOf(db, accountId, reference);
  const found = await storedOrSent(
    () => findStored(db, accountId, name),
    () => findSent(db, accountId, name),
  );
  return found ?? (isEmailId(reference) ? undefined : { messageId: asMessageId(reference), references: [] });
}

async function findStored(db: Queryable, accountId: string, reference: string): Promise<Original | undefined> {
  const [row] = await db
    .select(COLUMNS)
    .from(emails)
    .innerJoin(emailContents, eq(emailContents.emailId, emails.id))
    .where(named(accountId, reference))
    .orderBy(desc(emails.date))
    .limit(1);
  return row && originalOf(row);
}

/** A send that still has its provisional email. */
async function findSent(db: Queryable, accountId: string, reference: string): Promise<Original | undefined> {
  const [send] = await db
    .select({ messageId: sql<string | null>`coalesce(server_message_id, message_id)`, email: sends.email })
    .from(sends)
    .where(sentAs(accountId, reference));
  return send?.email ? { messageId: send.messageId, references: chainOf(send.email.headers) } : undefined;
}

/** Finds the email that `forward_message_id` names by its `email_…` id or Message-ID, also before the copy of a send is stored. */
export async function findForwarded(
  db: Queryable,
  accountId: string,
  reference: string,
): Promise<ForwardedOriginal | undefined> {
  const name = await storedNameOf(db, accountId, reference);
  return storedOrSent(
    () => findStoredForward(db, accountId, name),
    () => findProvisional(db, accountId, name),
  );
}

/** The id of the email whose Message-ID the SMTP server has replaced: its copy has another one. Else the reference itself. */
async function storedNameOf(db: Queryable, accountId: string, reference: string): Promise<string> {
  if (isEmailId(reference)) return reference;
  const [send] = await db
    .select({ id: sends.id })
    .from(sends)
    .where(and(sentAs(accountId, reference), isNotNull(sends.serverMessageId)));
  return send?.id ?? reference;
}

async function findStoredForward(
  db: Queryable,
  accountId: string,
  reference: string,
): Promise<ForwardedOriginal | undefined> {
  const [row] = await db
    .select({
      ...COLUMNS,
      emailId: emails.id,
      subject: emails.subject,
      storageKey: emails.storageKey,
      size: emails.size,
      files: filesOf(sql`emails.id`),
      tracked: { trackingId: trackingRecords.id, links: trackingRecords.links },
    })
    .from(emails)
    .innerJoin(emailContents, eq(emailContents.emailId, emails.id))
    .leftJoin(trackingRecords, eq(trackingRecords.id, emails.trackingId))
    .where(named(accountId, reference))
    .orderBy(desc(emails.date))
    .limit(1);
  if (!row) return undefined;
  const { emailId, subject, storageKey, size, files, tracked } = row;
  return { ...originalOf(row), emailId, subject, storageKey, size, files, ...(tracked ? { tracked } : {}) };
}

/** The provisional email of a send; `size` is about that of its message. */
async function findProvisional(
  db: Queryable,
  accountId: string,
  reference: string,
): Promise<ForwardedOriginal | undefined> {
  const [send] = await db
    .select({ ...getTableColumns(sends), files: filesOf(sql`sends.id`) })
    .from(sends)
    .where(sentAs(accountId, reference));
  if (!send?.email || !send.storageKey) return undefined;
  const { id, messageId, storageKey, files, email } = send;
  const size = Math.ceil((files.bytes * 4) / 3) + email.body.length + email.body_plain.length;
  return {
    emailId: id,
    messageId,
    references: chainOf(email.headers),
    subject: email.subject,
    storageKey,
    size,
    files,
  };
}

const filesOf = (emailId: SQL) => sql<ForwardedOriginal['files']>`(
  select json_build_object('count', count(*), 'bytes', coalesce(sum(size), 0)) from attachments where email_id = ${emailId})`;

/** Whether it is meant as the id of an email, also a malformed one; a Message-ID has an @. */
const isEmailId = (reference: string): boolean =>
  reference.startsWith(`${ID_PREFIXES.email}_`) && !reference.includes('@');

function named(accountId: string, reference: string) {
  const isNamed = isEmailId(reference) ? eq(emails.id, reference) : eq(emails.messageId, asMessageId(reference));
  return and(eq(emails.accountId, accountId), isNamed);
}

function sentAs(accountId: string, reference: string) {
  const isNamed = isEmailId(reference) ? eq(sends.id, reference) : eq(sends.messageId, asMessageId(reference));
  return and(eq(sends.accountId, accountId), isNamed, eq(sends.state, 'sent'));
}

const asMessageId = (reference: string): string => `<${reference.trim().replace(/^<|>$/g, '')}>`;

function originalOf(row: { messageId: string | null; headers: Header[] }): Original {
  return { messageId: row.messageId, references: chainOf(row.headers) };
}

/** References, else In-Reply-To. */
function chainOf(headers: Header[]): string[] {
  const idsIn = (name: string) =>
    headers
      .filter((header) => header.name.toLowerCase() === name)
      .flatMap(({ value }) => value.match(/<[^<>\s]+>/g) ?? []);
  const references = idsIn('references');
  return references.length > 0 ? references : idsIn('in-reply-to').slice(0, 1);
}
