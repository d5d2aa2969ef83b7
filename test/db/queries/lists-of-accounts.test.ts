import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type pg from 'pg';
import type { EmailFilter, EmailPosition } from '../../../src/db/queries/mail/email-page.ts';
import { listEmailsOfAccounts } from '../../../src/db/queries/mail/emails.ts';
import { listThreads, listThreadsOfAccounts } from '../../../src/db/queries/mail/thread-list.ts';
import { parsePieces } from '../../../src/db/driver/json-text.ts';
import { fillAccount } from '../../helpers/assert/many-emails.ts';
import { storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

/*
 * Lists over several accounts, and of threads by their emails: they return what a check of every email would. Each thread
 * that `fillAccount` stores is one email.
 */
const EMAILS = 2_600;

interface Looked {
  id: string;
  account_id: string;
  thread_id: string;
  is_unread: boolean;
  message_id: string;
  text: string;
  subject: string;
  from_address: string;
  to_addresses: string[];
}

let test: TestDatabase;
let pool: pg.Pool;
/** three with mail; the list of two of all is one of few */
let accounts: string[];
let inbox: string;
/** every email, newest first */
let all: Looked[];

beforeAll(async () => {
  test = await testDatabase();
  pool = test.database.pool;
  accounts = [];
  for (let n = 0; n < 3; n++) {
    const owner = await storeAccount(test.database);
    const folder = await storeFolder(test.database, owner, { role: 'INBOX', total: EMAILS });
    inbox ??= folder;
    await fillAccount(test.database, { owner, folder, emails: EMAILS, shift: n * 3_617 });
    const rare = { folders: [folder], bodyPlain: 'xylophone', date: new Date('2024-06-01T00:00:00Z') };
    await storeEmail(test.database, owner, rare);
    accounts.push(owner);
  }
  for (let n = 0; n < 6; n++) await storeAccount(test.database);
  await pool.query('vacuum analyze');
  const { rows } = await pool.query<Looked>(
    `select e.id, e.account_id, e.thread_id, e.is_unread, e.message_id, s.text, s.subject, s.from_address, s.to_addresses
     from emails e join email_search s on s.email_id = e.id order by e.date desc, e.id desc`,
  );
  all = rows;
}, 120_000);
afterAll(() => test.drop());

const FILTERS: Record<string, EmailFilter> = {
  none: {},
  unread: { isUnread: true },
  sender: { from: 'p7@example.test' },
  'common recipient': { to: 'owner@example.test' },
  'unknown recipient': { to: 'nobody@example.test' },
  message: { messageId: '5@x' },
  'a common word': { q: 'common' },
  'a less common word': { q: 'tenth' },
  'an uncommon word': { q: 'hundredth' },
  'a rare word': { q: 'xylophone' },
  'a word that was common once': { q: 'early' },
  'an unknown word': { q: 'zeppelin' },
  'a common subject': { subject: 'subject' },
  'a word of a sender': { q: 'tenth', from: 'p10@example.test' },
  'a word in unread mail': { q: 'hundredth', isUnread: true },
};
const NAMES = Object.keys(FILTERS);
const filterOf = (name: string) => FILTERS[name] as EmailFilter;

describe('a list of several accounts', () => {
  it.each(NAMES)('has the emails of all in one order: %s', async (name) => {
    const page = { metaOnly: true, fields: null, limit: 50 };
    const list = (position: EmailPosition | null) =>
      listEmailsOfAccounts(pool, null, filterOf(name), { ...page, position });
    expect(await paged(list, (email) => parsePieces(email).id)).toEqual(looked(filterOf(name)).map(({ id }) => id));
  });

  it.each(NAMES)('has no email of other accounts: %s', async (name) => {
    const asked = accounts.slice(0, 2);
    const page = { metaOnly: true, fields: null, limit: 50 };
    const list = (position: EmailPosition | null) =>
      listEmailsOfAccounts(pool, asked, filterOf(name), { ...page, position });
    const expected = looked(filterOf(name), asked).map(({ id }) => id);
    expect(await paged(list, (email) => parsePieces(email).id)).toEqual(expected);
  });
});

describe('a list of threads', () => {
  it.each(NAMES)('has those with an email that passes: %s', async (name) => {
    const [account = ''] = accounts;
    const page = { filter: { emails: filterOf(name) }, limit: 50 };
    const list = (position: EmailPosition | null) => listThreads(pool, account, { ...page, position });
    const expected = looked(filterOf(name), [account]).map((each) => each.thread_id);
    expect(await paged(list, ({ id }) => id)).toEqual(expected);
  });

  it('has those with an email in a folder', async () => {
    const page = { filter: { emails: { folderId: inbox, q: 'hundredth' } }, limit: 50 };
    const list = (position: EmailPosition | null) => listThreads(pool, accounts[0] as string, { ...page, position });
    const expected = looked({ q: 'hundredth' }, accounts.slice(0, 1)).map((each) => each.thread_id);
    expect(await paged(list, ({ id }) => id)).toEqual(expected);
    const none = { filter: { emails: { folderId: 'fld_none' } }, limit: 50, position: null };
    expect((await listThreads(pool, accounts[0] as string, none)).data).toEqual([]);
  });

  it.each(NAMES)('of several accounts has those of all in one order: %s', async (name) => {
    for (const asked of [null, accounts.slice(0, 2)]) {
      const page = { filter: { emails: filterOf(name) }, limit: 50 };
      const list = (position: EmailPosition | null) => listThreadsOfAccounts(pool, asked, { ...page, position });
      const expected = looked(filterOf(name), asked ?? accounts).map((each) => each.thread_id);
      expect(await paged(list, ({ id }) => id)).toEqual(expected);
    }
  });
});

/** The first six pages of a list. */
async function paged<T>(
  list: (position: EmailPosition | null) => Promise<{ data: T[]; next: EmailPosition | null }>,
  idOf: (item: T) => string,
): Promise<string[]> {
  const found: string[] = [];
  let position: EmailPosition | null = null;
  for (let page = 0; page < 6; page++) {
    const listing = await list(position);
    found.push(...listing.data.map(idOf));
    position = listing.next;
    if (!position) break;
  }
  return found;
}

/** The first 300 that pass. */
function looked(filter: EmailFilter, of = accounts): Looked[] {
  return all
    .filter(
      (row) =>
        of.includes(row.account_id) &&
        (filter.isUnread === undefined || row.is_unread === filter.isUnread) &&
        (filter.from === undefined || row.from_address === filter.from) &&
        (filter.to === undefined || row.to_addresses.includes(filter.to)) &&
        (filter.messageId === undefined || row.message_id === `<${filter.messageId}>`) &&
        (filter.q === undefined || row.text.includes(filter.q)) &&
        (filter.subject === undefined || row.subject.includes(filter.subject)),
    )
    .slice(0, 300);
}
