import { and, desc, eq } from 'drizzle-orm';
import type { Header } from '../../../contract/email.ts';
import { isId } from '../../../contract/ids.ts';
import type { Queryable } from '../../driver/client.ts';
import { emailContents, emails, sends } from '../../schema/index.ts';

/** The original of a reply, with what the headers of the reply need (RFC 5322 3.6.4). */
export interface ReplyTarget {
  /** with its angle brackets; null when the email has none */
  messageId: string | null;
  /** the References chain that leads to it, oldest first */
  references: string[];
}

/**
 * Finds the original that `reply_to_message_id` names: an `email_…` id of the account, undefined when it does not exist;
 * or any Message-ID, with or without angle brackets, with its References when it is stored.
 */
export async function findReplyTarget(
  db: Queryable,
  accountId: string,
  reference: string,
): Promise<ReplyTarget | undefined> {
  const byId = isId('email', reference);
  const messageId = `<${reference.trim().replace(/^<|>$/g, '')}>`;
  const [row] = await db
    .select({ messageId: emails.messageId, headers: emailContents.headers })
    .from(emails)
    .innerJoin(emailContents, eq(emailContents.emailId, emails.id))
    .where(and(eq(emails.accountId, accountId), byId ? eq(emails.id, reference) : eq(emails.messageId, messageId)))
    .orderBy(desc(emails.date))
    .limit(1);
  if (row) return { messageId: row.messageId, references: chainOf(row.headers) };
  if (!byId) return { messageId, references: [] };
  // sent a moment ago, its copy has not been ingested yet
  const [send] = await db
    .select({ messageId: sends.messageId, email: sends.email })
    .from(sends)
    .where(and(eq(sends.accountId, accountId), eq(sends.id, reference), eq(sends.state, 'sent')));
  return send && { messageId: send.messageId, references: chainOf(send.email?.headers ?? []) };
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
