import type { Tx } from '../../db/client.ts';
import {
  decideThread,
  participantsOf,
  SUBJECT_WINDOW_MS,
  subjectNeighbours,
  type ThreadFacts,
  threadKeysOf,
} from '../../mime/threads.ts';
import {
  mergeThreads,
  newThreadId,
  readSubjectMails,
  readThreadKeys,
  saveThreads,
  type SubjectMail,
} from '../store/threads.ts';

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
