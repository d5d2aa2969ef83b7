import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq, inArray, sql } from 'drizzle-orm';
import type { EmailList } from '../../../src/contract/email.ts';
import type { ThreadList } from '../../../src/contract/thread.ts';
import { emails, mergingThreads, threadSummaries } from '../../../src/db/schema/index.ts';
import { deleteMailRows } from '../../../src/db/coordination/removal.ts';
import { deleteEmails } from '../../../src/mailbox/store/emails.ts';
import { continueMerging } from '../../../src/mailbox/store/merging-threads.ts';
import { correctThreadSummaries, findWrongThreadSummaries } from '../../../src/mailbox/store/thread-summaries.ts';
import { storeEmail, storeFolder, storeThread } from '../../helpers/assert/rows.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

/** The list of threads, and that it is kept whatever happens to emails. */

let api: ApiUnderTest;
let account: string;
let inbox: string;

beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());
beforeEach(async () => {
  account = await storeAccount(api.database);
  inbox = await storeFolder(api.database, account, { role: 'INBOX' });
});

const list = async (query = '') => api.get<ThreadList>(`/${account}/threads${query}`);
const day = (number: number) => new Date(Date.UTC(2026, 0, number));

async function thread(
  dates: number[],
  more: Parameters<typeof storeEmail>[2] = {},
): Promise<{ id: string; emailIds: string[] }> {
  const id = await storeThread(api.database, account);
  const emailIds: string[] = [];
  for (const date of dates) {
    const email = { threadId: id, date: day(date), folders: [inbox], subject: `s${date}`, bodyPlain: `text ${date}` };
    emailIds.push((await storeEmail(api.database, account, { ...email, ...more })).id);
  }
  return { id, emailIds };
}

describe('the list', () => {
  it('has each conversation once, the one with the latest email first', async () => {
    const a = await thread([1, 5], { from: 'ada@example.test', fromName: 'Ada' });
    await storeEmail(api.database, account, {
      ...{
        threadId: a.id,
        date: day(3),
        from: 'BOB@example.test',
        fromName: 'Bob',
        unread: true,
        flags: ['\\flagged'],
      },
      attachments: [{ name: 'x.txt', mime: 'text/plain', size: 3 }],
    });
    const b = await thread([4]);
    await storeEmail(api.database, account, { threadId: b.id, date: day(9), draft: true });
    const { data, has_more, cursor } = await list();
    expect([data.map(({ id }) => id), has_more, cursor]).toEqual([[a.id, b.id], false, null]);
    expect(data[0]).toEqual({
      ...{ object: 'ThreadSummary', id: a.id, account_id: account, subject: 's5', snippet: 'text 5' },
      ...{ last_date: day(5).toISOString(), last_email_id: a.emailIds[1], emails_count: 3, unread_count: 1 },
      ...{ is_starred: true, has_attachments: true, folders: [inbox] },
      participants: [
        { identifier: 'ada@example.test', display_name: 'Ada', identifier_type: 'EMAIL_ADDRESS' },
        { identifier: 'BOB@example.test', display_name: 'Bob', identifier_type: 'EMAIL_ADDRESS' },
      ],
    });
    expect(data[1]).toMatchObject({ emails_count: 1, unread_count: 0, is_starred: false, has_attachments: false });
  });

  it('has the folders that its emails show', async () => {
    const all = await storeFolder(api.database, account, { role: 'ALL' });
    const archive = await storeFolder(api.database, account, { role: 'ARCHIVE' });
    const { emailIds } = await thread([2], { folders: [inbox, all, archive], deletedIn: [archive] });
    expect((await list()).data[0]?.folders).toEqual([inbox]);
    await thread([3], { folders: [all] });
    expect((await list()).data.map(({ folders }) => folders)).toEqual([[all], [inbox]]);
    // a move without MOVE has copied it, and removes it from INBOX next
    await api.database.db.execute(sql`
      update locations set deleted = folder_id = ${all}, pending_removal_since = case when folder_id = ${inbox} then now() end
      where email_id = ${emailIds[0]}`);
    const inboxAndArchive = await Promise.all(
      [inbox, archive].map((id) => api.get<EmailList>(`/${account}/folders/${id}/emails`)),
    );
    expect(inboxAndArchive.map(({ data }) => data.map(({ id }) => id))).toEqual([[], emailIds]);
    expect((await list()).data[1]?.folders).toEqual([archive]);
  });

  it('is paged by cursor and filtered', async () => {
    const ids: string[] = [];
    for (const date of [1, 2, 3, 4, 5]) ids.unshift((await thread([date], { unread: date % 2 === 0 })).id);
    const first = await list('?limit=2');
    const second = await list(`?limit=2&cursor=${first.cursor}`);
    const third = await list(`?limit=2&cursor=${second.cursor}`);
    expect([first, second, third].flatMap(({ data }) => data.map(({ id }) => id))).toEqual(ids);
    expect([first.has_more, third.has_more, third.cursor]).toEqual([true, false, null]);
    const shown = async (query: string) => (await list(query)).data.map(({ id }) => id);
    expect(await shown('?is_unread=true')).toEqual([ids[1], ids[3]]);
    expect(await shown('?is_unread=false&is_starred=false&has_attachment=false')).toEqual([ids[0], ids[2], ids[4]]);
    expect(await shown(`?before=${day(3).toISOString()}`)).toEqual([ids[3], ids[4]]);
    expect(await shown(`?after=${day(3).toISOString()}`)).toEqual([ids[0], ids[1]]);
    expect(await shown('?is_starred=true')).toEqual([]);
  });

  it('makes snippets of emails that were stored without one', async () => {
    await thread([1], { head: false, bodyPlain: `"é\\ ${'x '.repeat(3000)}` });
    expect((await list()).data[0]?.snippet).toBe(`"é\\ ${'x '.repeat(98)}`.trimEnd());
  });
});

describe('is kept', () => {
  it('when emails are deleted, become drafts, or get another date', async () => {
    const { id, emailIds } = await thread([1, 2, 3], { unread: true });
    const { db } = api.database;
    await db
      .update(emails)
      .set({ isUnread: false, flags: ['\\flagged'] })
      .where(eq(emails.id, emailIds[0]!));
    expect((await list()).data[0]).toMatchObject({ unread_count: 2, is_starred: true });
    await db.transaction((tx) => deleteEmails(tx, [emailIds[2]!]));
    expect((await list()).data[0]).toMatchObject({ id, emails_count: 2, last_email_id: emailIds[1] });
    await db
      .update(emails)
      .set({ date: day(7) })
      .where(eq(emails.id, emailIds[0]!));
    expect((await list()).data[0]).toMatchObject({ last_date: day(7).toISOString(), last_email_id: emailIds[0] });
    await db.update(emails).set({ isDraft: true }).where(eq(emails.id, emailIds[0]!));
    expect((await list()).data[0]).toMatchObject({ emails_count: 1, last_email_id: emailIds[1], is_starred: false });
    await db.update(emails).set({ isDraft: true }).where(eq(emails.id, emailIds[1]!));
    expect((await list()).data).toEqual([]);
    await db.update(emails).set({ isDraft: false }).where(inArray(emails.id, emailIds));
    expect((await list()).data[0]).toMatchObject({ emails_count: 2, last_email_id: emailIds[0] });
    expect(await findWrongThreadSummaries(db, account)).toEqual([]);
  });

  it('when threads are merged, before and after their rows name the other', async () => {
    const [a, b] = [await thread([1, 6], { unread: true }), await thread([2, 9])];
    const { db } = api.database;
    await db.insert(mergingThreads).values({ threadId: b.id, accountId: account, mergedInto: a.id });
    const whole = { id: a.id, emails_count: 4, unread_count: 2, last_email_id: b.emailIds[1] };
    expect((await list()).data).toMatchObject([whole]);
    const late = await storeEmail(api.database, account, { threadId: b.id, date: day(10), folders: [inbox] });
    expect((await list()).data).toMatchObject([{ ...whole, emails_count: 5, last_email_id: late.id }]);
    while (await db.transaction((tx) => continueMerging(tx, account)));
    expect((await list()).data).toMatchObject([{ ...whole, emails_count: 5, last_email_id: late.id }]);
    expect(await findWrongThreadSummaries(db, account)).toEqual([]);
  });

  it('by a verification, where it is wrong', async () => {
    const { db } = api.database;
    const [a, b] = [await thread([1], { unread: true }), await thread([2])];
    await db.update(threadSummaries).set({ unread: 7 }).where(eq(threadSummaries.threadId, a.id));
    await db.delete(threadSummaries).where(eq(threadSummaries.threadId, b.id));
    const stray = { threadId: await storeThread(api.database, account), accountId: account, lastDate: day(1) };
    await db
      .insert(threadSummaries)
      .values({ ...stray, lastEmailId: 'x', emails: 1, unread: 0, starred: 0, withAttachments: 0 });
    const wrong = await findWrongThreadSummaries(db, account);
    expect(wrong.toSorted()).toEqual([a.id, b.id, stray.threadId].toSorted());
    await db.transaction((tx) => correctThreadSummaries(tx, account, wrong));
    expect(await findWrongThreadSummaries(db, account)).toEqual([]);
    expect((await list()).data).toMatchObject([{ id: b.id }, { id: a.id, unread_count: 1 }]);
  });

  it('until the account is removed', async () => {
    await thread([1, 2]);
    await deleteMailRows(api.database.db, account);
    const { rows } = await api.database.db.execute(sql`select 1 from thread_summaries where account_id = ${account}`);
    expect(rows).toEqual([]);
  });
});
