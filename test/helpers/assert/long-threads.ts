import { createHash } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { inLease } from '../../../src/db/coordination/lease.ts';
import type { Database } from '../../../src/db/driver/client.ts';
import { emails } from '../../../src/db/schema/index.ts';
import { type AssignedThread, assignThreads, type ThreadedMail } from '../../../src/mailbox/ingest/threads.ts';
import { newId } from '../../../src/new-id.ts';
import { storeThread } from './rows.ts';

/*
 * Threads with thousands of emails, stored by few statements: an email a minute from ann@example.test, each with a key in
 * `thread_keys`. The rows that reads of metadata do not need are left out.
 */

const OWN = ['me@example.test'];
const person = (identifier: string) => ({ identifier, display_name: '', identifier_type: 'EMAIL_ADDRESS' as const });
const FIRST = Date.UTC(2024, 4, 6);

/** Stores a thread of so many emails, whose Message-IDs are `<NAME1@example.test>` and so on; returns its id. */
export async function storeLongThread(
  database: Database,
  accountId: string,
  { name, count }: { name: string; count: number },
): Promise<string> {
  const threadId = await storeThread(database, accountId);
  const [from, to] = ['ann@example.test', ...OWN].map(person);
  const { db } = database;
  const id = sql`'email_' || left(md5(${accountId + name} || n), 26)`;
  const messageId = sql`${name}::text || n || '@example.test'`;
  const date = sql`${new Date(FIRST).toISOString()}::timestamptz + n * interval '1 minute'`;
  const numbers = sql`generate_series(1, ${count}::int) n`;
  await db.execute(sql`
    insert into emails (id, account_id, thread_id, date, message_id, subject, from_attendee, to_attendees, cc_attendees,
      bcc_attendees, reply_to_attendees, has_attachments, is_unread, size, internal_date, storage_key, created_at)
    select ${id}, ${accountId}, ${threadId}, ${date}, '<' || ${messageId} || '>', 'a subject', ${JSON.stringify(from)}::jsonb,
      ${JSON.stringify([to])}::jsonb, '[]', '[]', '[]', false, false, 1, ${date}, '', ${date} from ${numbers}`);
  await db.execute(sql`
    insert into thread_keys (account_id, key, thread_id) select ${accountId}, 'mid:' || ${messageId}, ${threadId} from ${numbers}`);
  await db.execute(sql`analyze emails, thread_keys, threads`);
  return threadId;
}

/** The id of an email of `storeLongThread`. */
export function emailIdOf(accountId: string, name: string, n: number): string {
  const hash = createHash('md5').update(`${accountId}${name}${n}`).digest('hex');
  return `email_${hash.slice(0, 26)}`;
}

/** A mail of the same people that refers to others. */
export function mailAfter(references: string[], mail: Partial<ThreadedMail> = {}): ThreadedMail {
  const [from, to] = ['ann@example.test', ...OWN].map(person) as [ThreadedMail['from'], ThreadedMail['from']];
  const facts = { serverThreadId: null, messageId: `<${newId('email')}@example.test>`, inReplyTo: [], references };
  return { ...facts, baseSubject: '', isReplySubject: false, date: new Date(FIRST), from, to: [to], cc: [], ...mail };
}

/** Ingests mails as one batch, as far as threads are concerned; returns their threads. */
export function arrive(database: Database, accountId: string, mails: ThreadedMail[]): Promise<string[]> {
  return inLease(database.db, { accountId, watchEpoch: null }, async (tx) => {
    const assigned = await assignThreads(tx, { id: accountId, ownAddresses: OWN }, mails);
    const rows = mails.map(({ messageId, date, from, to, cc }, index) => ({
      ...{
        id: newId('email'),
        accountId,
        ...(assigned[index] as AssignedThread),
        date,
        messageId,
        subject: 'a subject',
      },
      ...{ fromAttendee: from, toAttendees: to, ccAttendees: cc, bccAttendees: [], replyToAttendees: [] },
      ...{ hasAttachments: false, isUnread: false, size: 1, internalDate: date, storageKey: '', createdAt: date },
    }));
    await tx.insert(emails).values(rows);
    return rows.map(({ threadId }) => threadId);
  });
}
