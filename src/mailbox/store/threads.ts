import { and, between, eq, inArray, sql } from 'drizzle-orm';
import type { Attendee } from '../../contract/email.ts';
import type { Tx } from '../../db/client.ts';
import { insertRows } from '../../db/insert-rows.ts';
import { emails, threadKeys, threads } from '../../db/schema.ts';
import { newId } from '../../new-id.ts';

/** A mail found by its subject key. */
export interface SubjectMail {
  subjectKey: string;
  threadId: string;
  date: Date;
  from: Attendee;
  to: Attendee[];
  cc: Attendee[];
}

/** Where these keys lead. */
export async function readThreadKeys(tx: Tx, accountId: string, keys: string[]): Promise<Map<string, string>> {
  if (keys.length === 0) return new Map();
  const rows = await tx
    .select({ key: threadKeys.key, threadId: threadKeys.threadId })
    .from(threadKeys)
    .where(and(eq(threadKeys.accountId, accountId), inArray(threadKeys.key, keys)));
  return new Map(rows.map((row) => [row.key, row.threadId]));
}

/** Mails with one of these subject keys in a span of dates, at most 100 of them. */
export async function readSubjectMails(
  tx: Tx,
  accountId: string,
  keys: string[],
  from: Date,
  to: Date,
): Promise<SubjectMail[]> {
  if (keys.length === 0) return [];
  const rows = await tx
    .select({
      subjectKey: emails.subjectKey,
      threadId: emails.threadId,
      date: emails.date,
      from: emails.fromAttendee,
      to: emails.toAttendees,
      cc: emails.ccAttendees,
    })
    .from(emails)
    .where(and(eq(emails.accountId, accountId), inArray(emails.subjectKey, keys), between(emails.date, from, to)))
    .limit(100);
  return rows.map((row) => ({ ...row, subjectKey: row.subjectKey as string }));
}

/** Makes threads and points keys at threads; both may be empty. */
export async function saveThreads(
  tx: Tx,
  accountId: string,
  made: string[],
  points: Map<string, string>,
): Promise<void> {
  await insertRows(
    tx,
    threads,
    made.map((id) => ({ id, accountId })),
  );
  const rows = [...points]
    .map(([key, threadId]) => ({ accountId, key, threadId }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  await insertRows(
    tx,
    threadKeys,
    rows,
    sql`on conflict (account_id, key) do update set thread_id = excluded.thread_id`,
  );
}

/** Joins threads to an older one, whose id stays; their own ids go on resolving to it. */
export async function mergeThreads(tx: Tx, kept: string, merged: string[]): Promise<void> {
  if (merged.length === 0) return;
  await tx.update(emails).set({ threadId: kept }).where(inArray(emails.threadId, merged));
  await tx.update(threadKeys).set({ threadId: kept }).where(inArray(threadKeys.threadId, merged));
  await tx
    .update(threads)
    .set({ mergedInto: kept })
    .where(sql`${threads.id} in ${merged} or ${threads.mergedInto} in ${merged}`);
}

/** A new thread's id; saved by saveThreads. */
export const newThreadId = (): string => newId('thread');
