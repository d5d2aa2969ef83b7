import { statement } from '../../db/driver/statement.ts';
import { type SQL, sql } from 'drizzle-orm';
import type { Attendee } from '../../contract/email.ts';
import { anyOf } from '../../db/driver/any-of.ts';
import type { Tx } from '../../db/driver/client.ts';
import { insertRows } from '../../db/driver/insert-rows.ts';
import { threadNow } from '../../db/queries/mail/merging-threads.ts';
import { threadKeys, threads } from '../../db/schema/index.ts';
import type { Writer } from '../../db/driver/writes.ts';
import { storableJson } from '../../runtime/storable.ts';
import {
  decideThread,
  participantsOf,
  SUBJECT_WINDOW_MS,
  subjectNeighbours,
  type ThreadFacts,
  type ThreadKeys,
  threadKeysOf,
} from '../../mime/threads.ts';
import { newId } from '../../new-id.ts';
import type { SyncAccount } from '../context.ts';
import { mergeThreads } from '../store/merging-threads.ts';

/** The fields of one mail that threading needs. */
export interface ThreadedMail extends Omit<ThreadFacts, 'participants'> {
  from: Attendee;
  to: Attendee[];
  cc: Attendee[];
  /** Message-IDs under which a message that this API sent is known: replies name one of them */
  otherIds?: readonly string[];
}

/** The thread of one mail. */
export interface AssignedThread {
  threadId: string;
  /** see src/mime/threads.ts */
  subjectKey: string | null;
}

/**
 * Finds or creates the thread of each mail, in order, and merges threads that turn out to be one. New rows may be deferred
 * to `writes`.
 */
export async function assignThreads(
  tx: Tx,
  { id: accountId, ownAddresses }: Pick<SyncAccount, 'id' | 'ownAddresses'>,
  mails: ThreadedMail[],
  writes: Writer = tx,
): Promise<AssignedThread[]> {
  const facts = mails.map((mail) => threadedOf(mail, ownAddresses));
  const stored = await readThreads(tx, accountId, ownAddresses, facts);
  const plan = planThreads(facts, stored, () => newId('thread'));
  // threads that are merged are changed once their keys are there
  await saveThreads(tx, accountId, plan, plan.merges.size > 0 ? tx : writes);
  return plan.assigned;
}

/**
 * The thread of a message that was sent, until its copy is ingested: that of the newest stored email that it names, else one
 * that its keys lead to, else a new one. It merges no threads, since only the copy has the server's thread id.
 */
export async function threadOfSent(
  tx: Tx,
  { id: accountId, ownAddresses }: Pick<SyncAccount, 'id' | 'ownAddresses'>,
  mail: ThreadedMail,
): Promise<AssignedThread> {
  const facts = threadedOf(mail, ownAddresses);
  const named = mail.references.length > 0 ? mail.references : mail.inReplyTo;
  const { rows } = await tx.execute<{ id: string }>(sql`
    select ${sql.raw(threadNow('e.thread_id'))} as id from emails e
    where e.account_id = ${accountId} and e.message_id = any(${sql.param(named)}::text[]) and not e.is_draft
    order by e.date desc limit 1`);
  const [first] = rows;
  // it gets no key: the server may put the copy into another thread
  if (first) return { threadId: first.id, subjectKey: facts.subjectKey };
  const plan = planThreads([facts], await readThreads(tx, accountId, ownAddresses, [facts]), () => newId('thread'));
  if (plan.created.length > 0) await saveThreads(tx, accountId, plan, tx);
  return plan.assigned[0] as AssignedThread;
}

interface Threaded extends ThreadFacts, ThreadKeys {
  /** keys that lead to the thread in which a copy was shown before it came, looked up where the server's own leads to none */
  sentKeys: string[];
}

function threadedOf(mail: ThreadedMail, ownAddresses: string[]): ThreadedMail & Threaded {
  const participants = participantsOf(mail, ownAddresses);
  const { keys, ...ofSubject } = threadKeysOf({ ...mail, participants });
  const alone = { ...mail, participants, references: [], inReplyTo: [], serverThreadId: null };
  const ofIds = (mail.otherIds ?? []).flatMap((messageId) => threadKeysOf({ ...alone, messageId }).keys);
  const all = mail.serverThreadId
    ? { keys, sentKeys: ofIds }
    : { keys: [...new Set([...keys, ...ofIds])], sentKeys: [] };
  return { ...mail, participants, ...ofSubject, ...all };
}

/** The stored threads that mails may belong to. */
interface StoredThreads {
  threadByKey: ReadonlyMap<string, string>;
  /** threads that each mail belongs to by its subject, by the mail's index */
  bySubject: ReadonlyMap<number, string[]>;
}

interface ThreadPlan {
  assigned: AssignedThread[];
  created: string[];
  /** keys that lead to another thread from now on */
  threadByKey: Map<string, string>;
  /** merged thread → the thread that stays */
  merges: Map<string, string>;
}

/** Decides the threads of mails one after the other: a mail may also belong to the thread of an earlier one. */
export function planThreads(mails: Threaded[], stored: StoredThreads, newThreadId: () => string): ThreadPlan {
  const threadByKey = new Map(stored.threadByKey);
  const changedKeys = new Map<string, string>();
  const created: string[] = [];
  const mergedInto = new Map<string, string>();
  const staying = (id: string): string => {
    const into = mergedInto.get(id);
    return into === undefined ? id : staying(into);
  };
  const before: (Threaded & { threadId: string })[] = [];
  for (const [index, mail] of mails.entries()) {
    const leadingIn = (keys: string[]) =>
      keys.flatMap((key) => {
        const threadId = threadByKey.get(key);
        return threadId === undefined ? [] : [[key, staying(threadId)] as const];
      });
    const known = leadingIn(mail.keys);
    const sent = known.length === 0 ? leadingIn(mail.sentKeys).slice(0, 1) : [];
    const alike = before.filter(({ subjectKey }) => subjectKey !== null && mail.subjectLookups.includes(subjectKey));
    const bySubject = [...(stored.bySubject.get(index) ?? []), ...subjectNeighbours(mail, alike)].map(staying);
    const neighbours = [...bySubject, ...sent.map(([, threadId]) => threadId)];
    const decision = decideThread(mail.keys, new Map(known), neighbours);
    const threadId = decision.threadId ?? newThreadId();
    if (decision.threadId === null) created.push(threadId);
    for (const merged of decision.merge) mergedInto.set(merged, threadId);
    for (const key of decision.keysToPoint) {
      threadByKey.set(key, threadId);
      changedKeys.set(key, threadId);
    }
    before.push({ ...mail, threadId });
  }
  return {
    assigned: before.map(({ threadId, subjectKey }) => ({ threadId: staying(threadId), subjectKey })),
    created,
    threadByKey: new Map([...changedKeys].map(([key, id]) => [key, staying(id)])),
    merges: new Map([...mergedInto.keys()].map((id) => [id, staying(id)])),
  };
}

const storedThreads = statement(
  'read_threads',
  (accountId: string, keys: string[], bySubject: SQL | undefined) => sql`
    select (
        select json_object_agg(key, ${sql.raw(threadNow('thread_keys.thread_id'))}) from thread_keys
        where account_id = ${accountId} and ${anyOf(threadKeys.key, keys)}
      ) as by_key,
      ${bySubject ? sql`(select json_agg(s) from (${bySubject}) s)` : sql`null`} as by_subject`,
);

/** Reads the stored threads that these mails may belong to, in one statement. */
async function readThreads(
  tx: Tx,
  accountId: string,
  ownAddresses: string[],
  mails: Threaded[],
): Promise<StoredThreads> {
  const keys = [...new Set(mails.flatMap((mail) => [...mail.keys, ...mail.sentKeys]))];
  const bySubject = subjectThreads(accountId, ownAddresses, mails);
  if (keys.length === 0 && !bySubject) return { threadByKey: new Map(), bySubject: new Map() };
  const { rows } = await tx.execute<{ by_key: Record<string, string> | null; by_subject: SubjectThread[] | null }>(
    storedThreads(accountId, keys, bySubject),
  );
  const threadsOf = new Map<number, string[]>();
  for (const { mail, thread_id } of rows[0]?.by_subject ?? []) {
    const found = threadsOf.get(mail);
    if (found) found.push(thread_id);
    else threadsOf.set(mail, [thread_id]);
  }
  return { threadByKey: new Map(Object.entries(rows[0]?.by_key ?? {})), bySubject: threadsOf };
}

interface SubjectThread {
  /** index of the mail */
  mail: number;
  thread_id: string;
}

/**
 * The threads that each mail belongs to by its subject: those of every stored mail with one of its keys, a date within
 * SUBJECT_WINDOW_MS and a common participant (`participantsOf`). Without a limit on the number of mails, since one that
 * is left out would make the threads depend on the order of arrival; only the threads leave the database. Selects
 * `mail, thread_id`; undefined where no mail can belong to a thread by its subject.
 */
function subjectThreads(accountId: string, ownAddresses: string[], mails: Threaded[]): SQL | undefined {
  const wanted = mails.flatMap(({ subjectLookups, participants, date }, mail) =>
    subjectLookups.flatMap((key) =>
      participants.map((address) => ({ mail, key, address, date, own: ownAddresses.includes(address) })),
    ),
  );
  if (wanted.length === 0) return undefined;
  const span = sql.raw(`interval '${SUBJECT_WINDOW_MS} milliseconds'`);
  const addresses = sql`
    select lower(p.person ->> 'identifier') as address
    from jsonb_array_elements(jsonb_build_array(e.from_attendee) || e.to_attendees || e.cc_attendees) as p(person)`;
  // A mail whose participants are all the owner's has no common participant with one that has others.
  const hasOthers = sql`exists (
    select 1 from (${addresses}) o where o.address <> '' and o.address <> all (${sql.param(ownAddresses)}::text[]))`;
  return sql`
    with wanted as (
      select * from json_to_recordset(${storableJson(wanted)}::json)
        as w(mail int, key text, address text, date timestamptz, own boolean)),
    spans as (select key, min(date) - ${span} as first, max(date) + ${span} as last from wanted group by key)
    select distinct w.mail, ${sql.raw(threadNow('e.thread_id'))} as thread_id from spans s
    join emails e on e.account_id = ${accountId} and e.subject_key = s.key and e.date between s.first and s.last
    cross join lateral (${addresses}) a
    join wanted w on w.key = s.key and w.address = a.address and e.date between w.date - ${span} and w.date + ${span}
    where e.subject_key is not null and not (w.own and ${hasOthers})`;
}

/** Saves new threads, where keys lead, and which threads are merged. */
async function saveThreads(
  tx: Tx,
  accountId: string,
  { created, threadByKey, merges }: ThreadPlan,
  writes: Writer,
): Promise<void> {
  await insertRows(
    writes,
    threads,
    created.map((id) => ({ id, accountId })),
  );
  const rows = [...threadByKey]
    .map(([key, threadId]) => ({ accountId, key, threadId }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  await insertRows(
    writes,
    threadKeys,
    rows,
    sql`on conflict (account_id, key) do update set thread_id = excluded.thread_id`,
  );
  if (merges.size > 0) await mergeThreads(tx, accountId, merges);
}
