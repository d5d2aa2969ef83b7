import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import type { Email, EmailList, Thread } from '../../../src/contract/email.ts';
import { inLease } from '../../../src/db/coordination/lease.ts';
import { deleteMailRows } from '../../../src/db/coordination/removal.ts';
import { markRemoved } from '../../../src/db/queries/accounts.ts';
import { emails, mergingThreads, threads } from '../../../src/db/schema/index.ts';
import { recordDeletions } from '../../../src/mailbox/change-emails.ts';
import { locateEmails } from '../../../src/mailbox/store/email-states.ts';
import { continueMerging } from '../../../src/mailbox/store/merging-threads.ts';
import { type MaintenanceDeps, maintenanceTasks } from '../../../src/maintenance/table.ts';
import { continueThreadMerges } from '../../../src/maintenance/thread-merges.ts';
import { threadKeysOf } from '../../../src/mime/threads.ts';
import { storeEmail, storeFolder, storeThread } from '../../helpers/assert/rows.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { arrive, emailIdOf, mailAfter, storeLongThread } from '../../helpers/assert/long-threads.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { storedEvents } from '../../helpers/product/stored-events.ts';

/** Rows of one batch, with the marks that it deletes and the rows of the mail itself. */
const ROWS = 1_010;
const COUNT = 6_000;

let api: ApiUnderTest;
let accountId: string;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());
beforeEach(async () => {
  accountId = await storeAccount(api.database);
});

const storeChain = (name: string, count = COUNT) => storeLongThread(api.database, accountId, { name, count });
const idOf = (name: string, n: number) => emailIdOf(accountId, name, n);
const join = (...ids: string[]) =>
  arrive(api.database, accountId, [mailAfter(ids.map((id) => `<${id}@example.test>`))]).then(([id]) => id as string);
const oneBatch = () =>
  inLease(api.database.db, { accountId, watchEpoch: null }, (tx) => continueMerging(tx, accountId));

async function finish(): Promise<void> {
  while ((await merging()).length > 0) await continueThreadMerges(api.database.db);
}

/** The threads of the account that are being merged. */
async function merging(): Promise<string[]> {
  const columns = { id: mergingThreads.threadId };
  const rows = await api.database.db
    .select(columns)
    .from(mergingThreads)
    .where(eq(mergingThreads.accountId, accountId));
  return rows.map(({ id }) => id);
}

/** How many emails are stored with each thread id. */
async function stored(): Promise<Record<string, number>> {
  const { rows } = await api.database.db.execute<{ id: string; count: number }>(sql`
    select thread_id as id, count(*)::int as count from emails where account_id = ${accountId} group by 1 order by 1`);
  return Object.fromEntries(rows.map(({ id, count }) => [id, count]));
}

type Page = EmailList | Thread;

/** All emails of a list or a thread, page by page. */
async function all(path: string): Promise<Email[]> {
  const found: Email[] = [];
  let cursor = '';
  do {
    const page = await api.get<Page>(`/${accountId}/${path}meta_only=true&limit=250${cursor}`);
    found.push(...page.data);
    cursor = page.cursor ? `&cursor=${page.cursor}` : '';
  } while (cursor !== '');
  return found;
}

/** Checks that these ids are answered with one thread of so many emails: as a thread and as a filter of a list. */
async function expectOneThread(threadId: string, ids: string[], count: number): Promise<void> {
  for (const id of ids) {
    expect((await api.get<Thread>(`/${accountId}/threads/${id}?meta_only=true&limit=1`)).id).toBe(threadId);
    const inThread = await all(`threads/${id}?`);
    const listed = await all(`emails?thread_id=${id}&`);
    for (const found of [inThread, listed]) {
      expect(new Set(found.map((email) => email.id)).size).toBe(count);
      expect(found).toHaveLength(count);
      expect(new Set(found.map((email) => email.thread_id))).toEqual(new Set([threadId]));
    }
    const dates = inThread.map(({ date }) => date);
    expect(dates).toEqual([...dates].sort());
    expect(listed.map(({ date }) => date)).toEqual([...dates].reverse());
  }
}

/** The most rows of mail that one transaction wrote last, of those that began after `before`. */
async function mostRowsWritten(before: string): Promise<number> {
  const tables = ['emails', 'thread_keys', 'threads', 'merging_threads'];
  const rows = sql.raw(tables.map((name) => `select xmin from ${name}`).join(' union all '));
  const counted = await api.database.db.execute<{ count: number }>(sql`
    select count(*)::int as count from (${rows}) r where xmin::text::bigint > ${before}::bigint group by xmin`);
  return Math.max(...counted.rows.map(({ count }) => count));
}

async function transactionId(): Promise<string> {
  const { rows } = await api.database.db.execute<{ id: string }>(sql`select pg_current_xact_id()::text as id`);
  return rows[0]?.id as string;
}

describe('a mail that joins two threads of 6,000 emails', () => {
  it('writes few rows, and so does every transaction after it', async () => {
    const [a, b] = [await storeChain('a'), await storeChain('b')];
    const before = await transactionId();
    expect(await join('a1', `b${COUNT}`)).toBe(a);
    expect(await mostRowsWritten(before)).toBeLessThan(ROWS);
    expect(await stored()).toEqual({ [a]: COUNT + 1_001, [b]: COUNT - 1_000 });
    await finish();
    expect(await mostRowsWritten(before)).toBeLessThan(ROWS);
    expect(await stored()).toEqual({ [a]: 2 * COUNT + 1 });
    const { rows } = await api.database.db.execute(
      sql`select distinct thread_id from thread_keys where account_id = ${accountId}`,
    );
    expect(rows).toEqual([{ thread_id: a }]);
    const [merged] = await api.database.db.select().from(threads).where(eq(threads.id, b));
    expect(merged).toMatchObject({ mergedInto: a });
    await expectOneThread(a, [a, b], 2 * COUNT + 1);
  }, 120_000);

  it('makes them one for readers at once', async () => {
    const [a, b] = [await storeChain('a'), await storeChain('b')];
    await join('a1', `b${COUNT}`);
    expect(await merging()).toEqual([b]);
    await expectOneThread(a, [a, b], 2 * COUNT + 1);
    for (const id of [idOf('a', 1), idOf('b', 1), idOf('b', COUNT)]) {
      expect(await api.get<Email>(`/${accountId}/emails/${id}`)).toMatchObject({ thread_id: a });
      expect(await api.get<Thread>(`/${accountId}/emails/${id}/thread?limit=1`)).toMatchObject({ id: a });
    }
    await oneBatch();
    await expectOneThread(a, [a, b], 2 * COUNT + 1);
  }, 120_000);
});

describe('while a thread is being merged', () => {
  let [a, b] = ['', ''];
  beforeEach(async () => {
    a = await storeChain('a', 10);
    b = await storeChain('b', 2_500);
    await join('a1', 'b1');
    expect(await stored()).toEqual({ [a]: 1_011, [b]: 1_500 });
  });

  it('a mail that refers to any of its emails joins the thread, also by its subject', async () => {
    expect(await join('b2500')).toBe(a);
    const date = new Date(Date.UTC(2025, 1, 1));
    const reply = mailAfter([], { baseSubject: 'status', isReplySubject: true, date });
    const { subjectKey } = threadKeysOf({ ...reply, participants: [] });
    const question = await storeEmail(api.database, accountId, { threadId: b, from: 'ann@example.test', date });
    await api.database.db.update(emails).set({ subjectKey }).where(eq(emails.id, question.id));
    expect(await arrive(api.database, accountId, [reply])).toEqual([a]);
  });

  it('events name the thread that it is part of', async () => {
    const ids = [idOf('b', 2_400), idOf('b', 2_500)];
    await inLease(api.database.db, { accountId, watchEpoch: null }, async (tx) =>
      recordDeletions(tx, accountId, [...(await locateEmails(tx, ids)).values()], new Date()),
    );
    const recorded = await storedEvents(api.database, accountId);
    expect(recorded.map(({ data }) => (data['email'] as Email).thread_id)).toEqual([a, a]);
  });

  it('its emails are found by thread in a folder and in a search', async () => {
    const inbox = await storeFolder(api.database, accountId, { role: 'INBOX' });
    const found: string[] = [];
    for (const threadId of [a, b]) {
      const { id } = await storeEmail(api.database, accountId, { threadId, folders: [inbox], bodyPlain: 'needle' });
      found.unshift(id);
    }
    await storeEmail(api.database, accountId, { folders: [inbox], bodyPlain: 'needle' });
    for (const id of [a, b]) {
      const paths = [`folders/${inbox}/emails?thread_id=${id}`, `emails?q=needle&thread_id=${id}`];
      paths.push(`folders/${inbox}/emails?from=ann@example.test&thread_id=${id}`);
      for (const path of paths) {
        const { data } = await api.get<EmailList>(`/${accountId}/${path}`);
        expect(data.map((email) => [email.id, email.thread_id])).toEqual(found.map((each) => [each, a]));
      }
    }
  });

  it('its drafts and its rarer emails name the thread', async () => {
    const draft = await storeEmail(api.database, accountId, { threadId: b, draft: true });
    expect(await api.get<Email>(`/${accountId}/drafts/${draft.draftId}`)).toMatchObject({ thread_id: a });
    const old = await storeEmail(api.database, accountId, { threadId: b, head: false });
    expect(await api.get<Email>(`/${accountId}/emails/${old.id}`)).toMatchObject({ thread_id: a });
  });

  it('the thread exists as long as it has an email, under either id', async () => {
    await api.database.db.delete(emails).where(eq(emails.threadId, a));
    expect((await all(`threads/${a}?`)).length).toBe(1_500);
    await api.database.db.delete(emails).where(eq(emails.threadId, b));
    for (const id of [a, b]) expect((await api.call('GET', `/${accountId}/threads/${id}`)).statusCode).toBe(404);
    await finish();
  });

  it('a batch that is cut short loses nothing, and the next one repeats it', async () => {
    const cut = inLease(api.database.db, { accountId, watchEpoch: null }, async (tx) => {
      await continueMerging(tx, accountId);
      await tx.execute(sql`select pg_terminate_backend(pg_backend_pid())`);
    });
    await expect(cut).rejects.toThrow();
    expect(await stored()).toEqual({ [a]: 1_011, [b]: 1_500 });
    await expectOneThread(a, [a, b], 2_511);
    await oneBatch();
    expect(await stored()).toEqual({ [a]: 2_011, [b]: 500 });
    await finish();
    expect(await stored()).toEqual({ [a]: 2_511 });
  });

  it('the task of the workers gives its rows their new thread', async () => {
    const tasks = maintenanceTasks({ db: api.database.db, sync: {} } as MaintenanceDeps);
    const task = tasks.find(({ name }) => name === 'give the rows of merged threads their new thread');
    expect(task?.scope).toBe('installation');
    await task?.run();
    expect(await merging()).toEqual([]);
    expect(await stored()).toEqual({ [a]: 2_511 });
  });

  it('its account is removed with all of it', async () => {
    const { db } = api.database;
    await db.transaction((tx) => markRemoved(tx, accountId, new Date()));
    await continueThreadMerges(db);
    expect(await merging()).toEqual([b]);
    await expect(oneBatch()).rejects.toThrow('another holder');
    await deleteMailRows(db, accountId);
    expect(await merging()).toEqual([]);
  });
});

describe('chains of merges', () => {
  it('end in the oldest thread, in whatever order they come, and every id is answered with it', async () => {
    const [a, b, c] = [await storeChain('a', 100), await storeChain('b', 1_500), await storeChain('c', 1_500)];
    const former = await storeThread(api.database, accountId, c);
    expect(await join('b1', 'c1')).toBe(b);
    expect(await join('a1', 'c1500')).toBe(a);
    expect((await merging()).sort()).toEqual([b, c]);
    const ids = [a, b, c, former];
    await expectOneThread(a, ids, 3_102);
    while (await oneBatch()) await expectOneThread(a, [former], 3_102);
    expect(await stored()).toEqual({ [a]: 3_102 });
    await expectOneThread(a, ids, 3_102);
    const rows = await api.database.db.select().from(threads).where(eq(threads.accountId, accountId));
    expect(rows.map(({ id, mergedInto }) => [id, mergedInto]).sort()).toEqual(
      [[a, null] as const, ...[b, c, former].map((id) => [id, a] as const)].sort(),
    );
  }, 120_000);

  it('of a newer thread into one that is being merged end in the older one', async () => {
    const [a, b, c] = [await storeChain('a', 10), await storeChain('b', 1_500), await storeChain('c', 1_500)];
    await join('a1', 'b1');
    expect(await join('b1500', 'c1')).toBe(a);
    await expectOneThread(a, [a, b, c], 3_012);
    await finish();
    expect(await stored()).toEqual({ [a]: 3_012 });
  });

  it('end as if each merge had been complete before the next one', async () => {
    // numbers of a fixed generator, as a test must be repeatable
    let state = 7;
    const random = (below: number) => (state = (state * 48_271) % 2_147_483_647) % below;
    const names = Array.from({ length: 8 }, (_, n) => `t${n}x`);
    const ids: string[] = [];
    for (const name of names) ids.push(await storeChain(name, 400));
    const groups = ids.map((_, n) => n);
    let joined = 0;
    for (let step = 0; step < 16; step++) {
      const [left, right] = [random(8), random(8)];
      joined += 1;
      await join(`${names[left]}${1 + random(400)}`, `${names[right]}${1 + random(400)}`);
      const [kept, gone] = [groups[left] as number, groups[right] as number].sort((x, y) => x - y) as [number, number];
      groups.forEach((group, n) => {
        if (group === gone) groups[n] = kept;
      });
      if (random(2) === 0) await oneBatch();
      for (const [n, id] of ids.entries()) {
        const { data, ...thread } = await api.get<Thread>(`/${accountId}/threads/${id}?meta_only=true&limit=1`);
        expect([thread.id, data[0]?.thread_id]).toEqual([ids[groups[n] as number], ids[groups[n] as number]]);
      }
    }
    await finish();
    expect(Object.keys(await stored())).toEqual([...new Set(groups)].sort((x, y) => x - y).map((n) => ids[n]));
    expect(Object.values(await stored()).reduce((sum, count) => sum + count)).toBe(8 * 400 + joined);
  }, 120_000);
});

it('a reply that joins hundreds of mails by their subject makes them one thread at once', async () => {
  const people = { baseSubject: 'status', date: new Date(Date.UTC(2024, 4, 6)) };
  const mails = Array.from({ length: 600 }, () => mailAfter([], people));
  for (let start = 0; start < mails.length; start += 50) {
    await arrive(api.database, accountId, mails.slice(start, start + 50));
  }
  const [oldest, ...others] = Object.keys(await stored()) as [string, ...string[]];
  expect(others).toHaveLength(599);
  expect(await arrive(api.database, accountId, [mailAfter([], { ...people, isReplySubject: true })])).toEqual([oldest]);
  expect((await merging()).length).toBeGreaterThan(0);
  for (const id of [oldest, others[0] as string, others.at(-1) as string]) {
    expect(await all(`threads/${id}?`)).toHaveLength(601);
    expect(await all(`emails?thread_id=${id}&`)).toHaveLength(601);
  }
  await finish();
  expect(await stored()).toEqual({ [oldest]: 601 });
});
