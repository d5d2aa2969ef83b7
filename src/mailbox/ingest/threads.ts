import { and, between, eq, sql } from 'drizzle-orm';
import type { Attendee } from '../../contract/email.ts';
import type { Tx } from '../../db/client.ts';
import { insertRows } from '../../db/insert-rows.ts';
import { anyOf } from '../../db/any-of.ts';
import { emails, threadKeys, threads } from '../../db/schema.ts';
import {
  decideThread,
  participantsOf,
  SUBJECT_WINDOW_MS,
  subjectNeighbours,
  type ThreadFacts,
  threadKeysOf,
} from '../../mime/threads.ts';
import { newId } from '../../new-id.ts';

/** What one mail came to. */
export interface AssignedThread {
  threadId: string;
  subjectKey: string | null;
}

type Attendees = Pick<SubjectMail, 'from' | 'to' | 'cc'>;

/** Finds or makes the thread of each mail, in order, and joins threads that turn out to be one (CONTRACT "Thread"). */
export async function assignThreads(
  tx: Tx,
  accountId: string,
  ownAddresses: string[],
  mails: (Omit<ThreadFacts, 'participants'> & Attendees)[],
): Promise<AssignedThread[]> {
  const facts = mails.map((mail) => ({ ...mail, participants: participantsOf(mail, ownAddresses) }));
  const keys = facts.map(threadKeysOf);
  const leads = await readThreadKeys(tx, accountId, [...new Set(keys.flatMap((each) => each.keys))]);
  const bySubject = await subjectMails(
    tx,
    accountId,
    facts,
    keys.flatMap((each) => each.subjectLookups),
  );
  const made: string[] = [];
  const points = new Map<string, string>();
  const merges = new Map<string, string>();
  const survivor = (id: string): string => (merges.has(id) ? survivor(merges.get(id) as string) : id);

  const assigned = facts.map((mail, index) => {
    const { keys: own, subjectKey, subjectLookups } = keys[index] as (typeof keys)[number];
    const candidates = bySubject
      .filter((other) => subjectLookups.includes(other.subjectKey))
      .map((other) => ({
        threadId: survivor(other.threadId),
        date: other.date,
        participants: participantsOf(other, ownAddresses),
      }));
    const existing = new Map(
      own.flatMap((key) => (leads.has(key) ? [[key, survivor(leads.get(key) as string)] as const] : [])),
    );
    const decision = decideThread(own, existing, subjectNeighbours(mail, candidates));
    const threadId = decision.threadId ?? newThreadId();
    if (decision.threadId === null) made.push(threadId);
    for (const merged of decision.merge) merges.set(merged, threadId);
    for (const key of decision.keysToPoint) {
      leads.set(key, threadId);
      points.set(key, threadId);
    }
    if (subjectKey)
      bySubject.push({ subjectKey, threadId, date: mail.date, from: mail.from, to: mail.to, cc: mail.cc });
    return { threadId, subjectKey };
  });

  await saveThreads(tx, accountId, made, new Map([...points].map(([key, id]) => [key, survivor(id)])));
  for (const kept of new Set([...merges.values()].map(survivor))) {
    await mergeThreads(
      tx,
      kept,
      [...merges.keys()].filter((id) => survivor(id) === kept),
    );
  }
  return assigned.map(({ threadId, subjectKey }) => ({ threadId: survivor(threadId), subjectKey }));
}

async function subjectMails(
  tx: Tx,
  accountId: string,
  facts: ThreadFacts[],
  lookups: string[],
): Promise<SubjectMail[]> {
  if (lookups.length === 0) return [];
  const times = facts.map((mail) => mail.date.getTime());
  const from = new Date(Math.min(...times) - SUBJECT_WINDOW_MS);
  const to = new Date(Math.max(...times) + SUBJECT_WINDOW_MS);
  return readSubjectMails(tx, accountId, [...new Set(lookups)], from, to);
}

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
    .where(and(eq(threadKeys.accountId, accountId), anyOf(threadKeys.key, keys)));
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
    .where(and(eq(emails.accountId, accountId), anyOf(emails.subjectKey, keys), between(emails.date, from, to)))
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
  await tx.update(emails).set({ threadId: kept }).where(anyOf(emails.threadId, merged));
  await tx.update(threadKeys).set({ threadId: kept }).where(anyOf(threadKeys.threadId, merged));
  await tx
    .update(threads)
    .set({ mergedInto: kept })
    .where(sql`${threads.id} in ${merged} or ${threads.mergedInto} in ${merged}`);
}

/** A new thread's id; saved by saveThreads. */
export const newThreadId = (): string => newId('thread');
