import { and, desc, eq, sql } from 'drizzle-orm';
import type { Header } from '../../../contract/email.ts';
import { isId } from '../../../contract/ids.ts';
import type { Queryable } from '../../driver/client.ts';
import { emailContents, emails, sends } from '../../schema/index.ts';

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
  const [row] = await db
    .select(COLUMNS)
    .from(emails)
    .innerJoin(emailContents, eq(emailContents.emailId, emails.id))
    .where(named(accountId, reference))
    .orderBy(desc(emails.date))
    .limit(1);
  if (row) return originalOf(row);
  if (!isId('email', reference)) return { messageId: asMessageId(reference), references: [] };
  // sent a moment ago, its copy has not been ingested yet
  const [send] = await db
    .select({ messageId: sends.messageId, email: sends.email })
    .from(sends)
    .where(and(eq(sends.accountId, accountId), eq(sends.id, reference), eq(sends.state, 'sent')));
  return send && { messageId: send.messageId, references: chainOf(send.email?.headers ?? []) };
}

/** Finds the stored email that `forward_message_id` names: its `email_…` id or Message-ID. */
export async function findForwarded(
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
      files: sql<ForwardedOriginal['files']>`(
        select json_build_object('count', count(*), 'bytes', coalesce(sum(size), 0))
        from attachments where email_id = ${emails.id})`,
    })
    .from(emails)
    .innerJoin(emailContents, eq(emailContents.emailId, emails.id))
    .where(named(accountId, reference))
    .orderBy(desc(emails.date))
    .limit(1);
  if (!row) return undefined;
  const { emailId, subject, storageKey, size, files } = row;
  return { ...originalOf(row), emailId, subject, storageKey, size, files };
}

function named(accountId: string, reference: string) {
  const isNamed = isId('email', reference) ? eq(emails.id, reference) : eq(emails.messageId, asMessageId(reference));
  return and(eq(emails.accountId, accountId), isNamed);
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
