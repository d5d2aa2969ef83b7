import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import type { EmailList } from '../../../src/contract/email.ts';
import type { ThreadList } from '../../../src/contract/thread.ts';
import type { LookupList } from '../../../src/contract/lookup.ts';
import { emails, sends } from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';
import { fillAccount } from '../../helpers/assert/many-emails.ts';
import { storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

let api: ApiUnderTest;
/** each with 30 emails, which alternate in time */
let accounts: string[];
beforeAll(async () => {
  api = await apiUnderTest();
  accounts = [];
  for (let n = 0; n < 3; n++) {
    const owner = await storeAccount(api.database);
    const folder = await storeFolder(api.database, owner, { role: 'INBOX', total: 30 });
    await fillAccount(api.database, { owner, folder, emails: 30, shift: n * 10 });
    accounts.push(owner);
  }
});
afterAll(() => api.close());

type Page = { data: { id: string }[]; has_more: boolean; cursor?: string | null };

/** Follows the cursors from a path that ends in its query. */
async function all(path: string): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: string | null | undefined = ''; cursor !== null && cursor !== undefined; ) {
    const page: Page = await api.get<Page>(`${path}${cursor && `&cursor=${cursor}`}`);
    found.push(...page.data.map(({ id }) => id));
    cursor = page.has_more ? page.cursor : null;
  }
  return found;
}

/** The lists of single accounts, merged. */
async function merged(of: string[], resource: 'emails' | 'threads', query: string): Promise<string[]> {
  const found: { id: string; at: string }[] = [];
  for (const account of of) {
    const list = await api.get<EmailList | ThreadList>(`/${account}/${resource}?limit=250&${query}`);
    for (const each of list.data) found.push({ id: each.id, at: 'last_date' in each ? each.last_date : each.date });
  }
  return found.sort((a, b) => b.at.localeCompare(a.at) || b.id.localeCompare(a.id)).map(({ id }) => id);
}

describe.each(['emails', 'threads'] as const)('the list of %s of several accounts', (resource) => {
  it.each(['', 'q=tenth', 'from=p7@example.test', 'is_unread=true'])('pages through all of them: %s', async (query) => {
    const chosen = accounts.slice(1);
    expect(await all(`/${resource}?limit=7&account_ids=${chosen.join(',')}&${query}`)).toEqual(
      await merged(chosen, resource, query),
    );
    expect(await all(`/${resource}?limit=50&${query}`)).toEqual(await merged(accounts, resource, query));
  });

  it('refuses accounts that do not exist, and the cursor of another list', async () => {
    expect((await api.call('GET', `/${resource}?account_ids=${newId('account')}`)).statusCode).toBe(400);
    const { cursor } = await api.get<Page>(`/${resource}?limit=2`);
    expect((await api.call('GET', `/${resource}?cursor=${cursor}&account_ids=${accounts[0]}`)).statusCode).toBe(400);
  });
});

it('lists threads with an email that passes all filters of emails', async () => {
  const owner = await storeAccount(api.database);
  const [inbox, archive] = [
    await storeFolder(api.database, owner, { role: 'INBOX' }),
    await storeFolder(api.database, owner, {}),
  ];
  const first = await storeEmail(api.database, owner, { folders: [inbox], subject: 'Offer', bodyPlain: 'walnut' });
  const { threadId } = first;
  await storeEmail(api.database, owner, { threadId, folders: [archive], subject: 'Re: Offer', bodyPlain: 'hazel' });
  const other = await storeEmail(api.database, owner, { folders: [archive], subject: 'Invoice', bodyPlain: 'walnut' });
  const ids = async (query: string) =>
    (await api.get<ThreadList>(`/${owner}/threads?${query}`)).data.map(({ id }) => id).sort();
  expect(await ids('')).toEqual([threadId, other.threadId].sort());
  expect(await ids('q=walnut')).toEqual([threadId, other.threadId].sort());
  expect(await ids(`q=walnut&folder_id=${inbox}`)).toEqual([threadId]);
  expect(await ids('q=hazel&subject=Invoice')).toEqual([]);
  // about one email: none of the thread is in that folder and has the word
  expect(await ids(`q=hazel&folder_id=${inbox}`)).toEqual([]);
  expect(await ids(`exclude_folder=${archive}`)).toEqual([threadId]);
  expect(await ids('subject=offer')).toEqual([threadId]);
});

it('find an email by both of its Message-IDs where the SMTP server has replaced the first', async () => {
  const { db } = api.database;
  const owner = await storeAccount(api.database);
  const folder = await storeFolder(api.database, owner, { role: 'SENT' });
  const [filed, appended] = [
    await storeEmail(api.database, owner, { folders: [folder] }),
    await storeEmail(api.database, owner, { folders: [folder] }),
  ];
  const [ours, theirs] = ['ours@x.test', 'theirs@prod.outlook.com'];
  const sent = { accountId: owner, state: 'sent', apiKeyId: 'pk_1', apiKeyName: 'key' };
  const times = { createdAt: new Date(), updatedAt: new Date() };
  const store = async (email: { id: string }, stored: string, prefix: string) => {
    const ids = { messageId: `<${prefix}${ours}>`, serverMessageId: `<${prefix}${theirs}>` };
    await db.insert(sends).values({ ...sent, ...times, ...ids, id: email.id });
    await db
      .update(emails)
      .set({ messageId: `<${prefix}${stored}>` })
      .where(eq(emails.id, email.id));
  };
  await store(filed, theirs, 'a-');
  // the copy that the API appends has the Message-ID of the API
  await store(appended, ours, 'b-');
  const ids = async (path: string) => (await api.get<Page>(path)).data.map(({ id }) => id);
  for (const [{ id, threadId }, prefix] of [
    [filed, 'a-'],
    [appended, 'b-'],
  ] as const) {
    for (const messageId of [ours, theirs].map((name) => prefix + name)) {
      for (const scope of [`/${owner}`, `/${owner}/folders/${folder}`, '']) {
        expect(await ids(`${scope}/emails?message_id=${messageId}`)).toEqual([id]);
      }
      for (const scope of [`/${owner}`, '']) {
        expect(await ids(`${scope}/threads?message_id=${messageId}`)).toEqual([threadId]);
      }
      const { data } = await api.get<LookupList>(`/lookup?q=${encodeURIComponent(`<${messageId}>`)}`);
      expect(data.map((hit) => hit.id)).toEqual([id]);
    }
  }
  expect(await ids(`/${accounts[0]}/emails?message_id=a-${ours}`)).toEqual([]);
});
