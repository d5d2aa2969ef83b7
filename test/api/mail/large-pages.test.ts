import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { EmailList } from '../../../src/contract/email.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeEmail, storeFolder, storeThread } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

/** Pages of emails and events that are large together are shorter, and lose none. */

const MEGABYTES = 5;
/** 16 MiB, and what goes beyond it */
const IN_A_PAGE = 4;
const ALL = 6;

let api: ApiUnderTest;
let account: string;
let folder: string;
let thread: string;
let ids: string[];

beforeAll(async () => {
  api = await apiUnderTest();
  account = await storeAccount(api.database);
  folder = await storeFolder(api.database, account, { role: 'INBOX' });
  thread = await storeThread(api.database, account);
  const size = MEGABYTES * 1024 * 1024;
  const large = { bodyPlain: 'x'.repeat(size - 20), body: '', size, folders: [folder] };
  ids = [];
  for (let n = 0; n < ALL; n++) {
    ids.push((await storeEmail(api.database, account, { ...large, threadId: thread })).id);
    await storeEmail(api.database, account, { ...large, folders: [], draft: true });
  }
  await api.database.db.transaction((tx) =>
    recordEvents(
      tx,
      account,
      ids.map((objectId) => ({
        type: 'email.new',
        objectId,
        data: { email: { body: 'x'.repeat(size) } },
        createdAt: new Date(),
      })),
    ),
  );
}, 60_000);
afterAll(() => api.close());

/** The sizes of the pages of a list, and the ids of what it lists. */
async function pagesOf(path: string): Promise<{ sizes: number[]; ids: string[] }> {
  const sizes: number[] = [];
  const listed: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: string = `?limit=50${cursor && `&cursor=${cursor}`}`;
    const page = await api.get<{ data: { id: string }[]; cursor?: string | null }>(`${path}${query}`);
    sizes.push(page.data.length);
    for (const item of page.data) listed.push(item.id);
    cursor = page.cursor ?? null;
  }
  return { sizes, ids: listed };
}

it.each([
  ['an account', () => `/${account}/emails`],
  ['several accounts', () => '/emails'],
  ['a folder', () => `/${account}/folders/${folder}/emails`],
])('the emails of %s', async (_, path) => {
  const { sizes, ids: listed } = await pagesOf(path());
  expect(sizes).toEqual([IN_A_PAGE, ALL - IN_A_PAGE]);
  expect(listed).toEqual([...ids].reverse());
  const metadata = await api.get<EmailList>(`${path()}?limit=50&meta_only=true`);
  expect(metadata.data).toHaveLength(ALL);
});

it('a conversation', async () => {
  expect(await pagesOf(`/${account}/threads/${thread}`)).toEqual({ sizes: [IN_A_PAGE, ALL - IN_A_PAGE], ids });
});

it('drafts', async () => {
  expect((await pagesOf(`/${account}/drafts`)).sizes).toEqual([IN_A_PAGE, ALL - IN_A_PAGE]);
});

it('events', async () => {
  const { sizes, ids: listed } = await pagesOf('/webhooks/events');
  expect(sizes.slice(0, 2)).toEqual([IN_A_PAGE, ALL - IN_A_PAGE]);
  expect(new Set(listed).size).toBe(ALL);
});
