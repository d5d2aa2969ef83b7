import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import type { Attendee } from '../../src/contract/email.ts';
import { emails } from '../../src/db/schema/index.ts';
import {
  type AssignedThread,
  assignThreads,
  type ThreadedMail,
  threadOfSent,
} from '../../src/mailbox/ingest/threads.ts';
import { newId } from '../../src/new-id.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database.drop());

const OWN = ['me@example.test'];
const BASE = Date.UTC(2024, 4, 6);
const person = (identifier: string): Attendee => ({
  identifier,
  display_name: '',
  identifier_type: 'EMAIL_ADDRESS',
});

interface Mail {
  minute: number;
  from: string;
  /** `Re: status` without reference headers, else `status` */
  reply: boolean;
}

/** Assigns the threads of a batch and stores its mails; the ids of the mails, in order. */
async function store(accountId: string, batch: ThreadedMail[]): Promise<string[]> {
  return database.database.db.transaction(async (tx) => {
    const assigned = await assignThreads(tx, { id: accountId, ownAddresses: OWN }, batch);
    const rows = batch.map((mail, index) => ({
      ...{ id: newId('email'), accountId, ...(assigned[index] as AssignedThread), date: mail.date },
      ...{ subject: 'status', messageId: mail.messageId },
      ...{
        fromAttendee: mail.from,
        toAttendees: mail.to,
        ccAttendees: mail.cc,
        bccAttendees: [],
        replyToAttendees: [],
      },
      ...{
        hasAttachments: false,
        isUnread: false,
        size: 1,
        internalDate: mail.date,
        storageKey: '',
        createdAt: mail.date,
      },
    }));
    await tx.insert(emails).values(rows);
    return rows.map(({ id }) => id);
  });
}

async function threadsOf(accountId: string): Promise<Map<string, string>> {
  const columns = { id: emails.id, threadId: emails.threadId };
  const rows = await database.database.db.select(columns).from(emails).where(eq(emails.accountId, accountId));
  return new Map(rows.map((row) => [row.id, row.threadId]));
}

/** Stores mails in the order given, so many to a batch; the thread of each. */
async function arrive(mails: Mail[], batch: number): Promise<Map<Mail, string>> {
  const accountId = await storeAccount(database.database);
  const ids: string[] = [];
  for (let start = 0; start < mails.length; start += batch) {
    ids.push(...(await store(accountId, mails.slice(start, start + batch).map(factsOf))));
  }
  const threads = await threadsOf(accountId);
  return new Map(mails.map((mail, index) => [mail, threads.get(ids[index] as string) as string]));
}

function factsOf({ minute, from, reply }: Mail) {
  return {
    serverThreadId: null,
    messageId: `<${newId('email')}@example.test>`,
    inReplyTo: [],
    references: [],
    baseSubject: 'status',
    isReplySubject: reply,
    date: new Date(BASE + minute * 60_000),
    from: person(from),
    to: OWN.map(person),
    cc: [],
  };
}

/** The threads as groups, each as the sorted numbers of its mails in `all`. */
function groups(all: Mail[], threads: Map<Mail, string>): string[] {
  const byThread = new Map<string, number[]>();
  for (const [index, mail] of all.entries()) {
    const thread = threads.get(mail) as string;
    byThread.set(thread, [...(byThread.get(thread) ?? []), index]);
  }
  return [...byThread.values()].map((members) => members.join(',')).sort();
}

describe('mails that are joined by their subject alone', () => {
  const others = Array.from(
    { length: 130 },
    (_, n): Mail => ({ minute: n + 1, from: `p${n}@example.test`, reply: false }),
  );
  const question: Mail = { minute: 300, from: 'ann@example.test', reply: false };
  const answer: Mail = { minute: 500, from: 'ann@example.test', reply: true };
  const all = [question, ...others, answer];

  it('come to the same threads in whatever order they arrive, however many have that subject', async () => {
    const expected = groups(all, await arrive([question, answer, ...others], 2));
    expect(expected).toHaveLength(131);
    expect(groups(all, await arrive([...others, question, answer], 131))).toEqual(expected);
    expect(groups(all, await arrive([...all].reverse(), 50))).toEqual(expected);
  });

  it('come to the right threads where 1,000 mails have that subject', async () => {
    // fifty people, who ask and answer ten times each
    const mails = Array.from(
      { length: 1_000 },
      (_, n): Mail => ({ minute: n, from: `p${n % 50}@example.test`, reply: n >= 50 }),
    );
    const expected = groups(mails, await arrive(mails, 100));
    expect(expected).toHaveLength(50);
    expect(groups(mails, await arrive([...mails].reverse(), 37))).toEqual(expected);
  }, 120_000);

  it('are not kept from their thread by another subject in the same batch', async () => {
    const accountId = await storeAccount(database.database);
    const facts = (baseSubject: string, mail: Mail) => ({ ...factsOf(mail), baseSubject });
    const popular = others.map((mail) => facts('popular', mail));
    await store(accountId, popular);
    const [rare] = await store(accountId, [facts('rare', { minute: 200, from: 'bob@example.test', reply: false })]);
    const [, reply] = await store(accountId, [
      facts('popular', { minute: 400, from: 'p1@example.test', reply: true }),
      facts('rare', { minute: 401, from: 'bob@example.test', reply: true }),
    ]);
    const threads = await threadsOf(accountId);
    expect(threads.get(reply as string)).toBe(threads.get(rare as string));
  });

  it('of the owner alone are joined to each other, and to no others', async () => {
    const own: Mail = { minute: 1, from: 'me@example.test', reply: false };
    const ownReply: Mail = { minute: 2, from: 'ME@example.test', reply: true };
    const other: Mail = { minute: 3, from: 'ann@example.test', reply: false };
    expect(groups([own, ownReply, other], await arrive([own, other, ownReply], 1))).toEqual(['0,1', '2']);
    expect(groups([own, ownReply, other], await arrive([ownReply, other, own], 3))).toEqual(['0,1', '2']);
  });
});

describe('a message that was sent, until its copy comes', () => {
  const mailOf = (messageId: string, references: string[], serverThreadId: string | null): ThreadedMail => ({
    ...factsOf({ minute: 1, from: 'ann@example.test', reply: false }),
    ...{ messageId, references, serverThreadId },
  });
  const ofSent = (accountId: string, mail: ThreadedMail) =>
    database.database.db.transaction(
      async (tx) => (await threadOfSent(tx, { id: accountId, ownAddresses: OWN }, mail)).threadId,
    );
  const storeOne = async (accountId: string, mail: ThreadedMail) => {
    const [id] = await store(accountId, [mail]);
    return (await threadsOf(accountId)).get(id as string) as string;
  };

  it('is in the thread of the mail that it answers, though the server decides about threads', async () => {
    const accountId = await storeAccount(database.database);
    const asked = await storeOne(accountId, mailOf('<asked@x>', [], 'gm:1'));
    const other = await storeOne(accountId, mailOf('<other@x>', [], 'gm:2'));
    const answer = mailOf('<answer@x>', ['<other@x>', '<asked@x>'], null);
    expect([asked, other]).toContain(await ofSent(accountId, answer));
    expect(new Set((await threadsOf(accountId)).values())).toEqual(new Set([asked, other]));
  });

  it.each(['gm:7', null])('is in the thread that its copy will have (the server says %p)', async (serverThreadId) => {
    const accountId = await storeAccount(database.database);
    const before = await ofSent(accountId, mailOf('<new@x>', ['<unknown@x>'], null));
    const copy = { ...mailOf('<new@x>', ['<unknown@x>'], serverThreadId), otherIds: ['<new@x>'] };
    expect(await storeOne(accountId, copy)).toBe(before);
    expect(await storeOne(accountId, mailOf('<reply@x>', ['<new@x>'], serverThreadId))).toBe(before);
  });

  it('leaves a copy that the server puts into another thread there', async () => {
    const accountId = await storeAccount(database.database);
    const asked = await storeOne(accountId, mailOf('<asked@x>', [], 'gm:1'));
    expect(await ofSent(accountId, mailOf('<forward@x>', ['<asked@x>'], null))).toBe(asked);
    const copy = { ...mailOf('<forward@x>', ['<asked@x>'], 'gm:2'), otherIds: ['<forward@x>'] };
    expect(await storeOne(accountId, copy)).not.toBe(asked);
  });

  it('leaves threads apart that its keys lead to', async () => {
    const accountId = await storeAccount(database.database);
    const [a, b] = [
      await storeOne(accountId, mailOf('<a@x>', [], null)),
      await storeOne(accountId, mailOf('<b@x>', [], null)),
    ];
    expect([a, b]).toContain(await ofSent(accountId, mailOf('<both@x>', ['<a@x>', '<b@x>'], null)));
    expect(new Set((await threadsOf(accountId)).values())).toEqual(new Set([a, b]));
  });
});
