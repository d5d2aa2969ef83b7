import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import type { EmailFilter } from '../../../src/db/queries/mail/email-page.ts';
import { listEmails } from '../../../src/db/queries/mail/emails.ts';
import { listThreads } from '../../../src/db/queries/mail/thread-list.ts';
import { fillAccount } from '../../helpers/assert/many-emails.ts';
import { storeFolder } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

/*
 * One large mailbox among many small ones: a plan that Postgres keeps for any account reads no more of the large one than is
 * shown, as when most accounts were large.
 */
const [LARGE, SMALL, SMALL_ACCOUNTS] = [20_000, 200, 50];
/** More than a page, the sample of a search and its hits; far less than the mailbox. */
const MOST_READ = 1_500;

let test: TestDatabase;
/** one connection, whose plans are for any values */
let pool: pg.Pool;
let account: string;
let inbox: string;
beforeAll(async () => {
  test = await testDatabase();
  const fill = async (emails: number) => {
    const owner = await storeAccount(test.database);
    const folder = await storeFolder(test.database, owner, { role: 'INBOX', total: emails });
    await fillAccount(test.database, { owner, folder, emails });
    return [owner, folder] as const;
  };
  [account, inbox] = await fill(LARGE);
  for (let n = 0; n < SMALL_ACCOUNTS; n++) await fill(SMALL);
  await test.database.pool.query('vacuum analyze');
  pool = new pg.Pool({ connectionString: test.url, max: 1, options: '-c plan_cache_mode=force_generic_plan' });
}, 120_000);
afterAll(async () => {
  await pool?.end();
  await test?.drop();
});

/** How many rows a list reads of the tables of mail, and how many it has. */
async function readBy(list: () => Promise<{ data: unknown[] }>): Promise<{ read: number; listed: number }> {
  await pool.query('begin');
  try {
    const before = await rowsRead();
    const { data } = await list();
    return { read: (await rowsRead()) - before, listed: data.length };
  } finally {
    await pool.query('rollback');
  }
}

async function rowsRead(): Promise<number> {
  const { rows } = await pool.query<{ read: string }>(`
    select coalesce(sum(seq_tup_read + idx_tup_fetch), 0) as read from pg_stat_xact_user_tables
    where relname in ('emails', 'email_search', 'email_contents', 'locations', 'thread_summaries')`);
  return Number(rows[0]?.read);
}

const page = { metaOnly: true, fields: null, limit: 50, position: null };

describe('a kept plan reads little of a large mailbox', () => {
  it.each<[string, EmailFilter]>([
    ['all emails', {}],
    ['unread ones', { isUnread: true }],
    ['those of a sender', { from: 'p7@example.test' }],
    ['those of nobody', { from: 'nobody@example.test' }],
    ['a common word', { q: 'common' }],
    ['an uncommon word', { q: 'hundredth' }],
    ['an unknown word', { q: 'zeppelin' }],
    ['a rare subject', { subject: 'subject 77' }],
    ['an unknown subject', { subject: 'zeppelin' }],
  ])('that lists %s', async (_, filter) => {
    const { read, listed } = await readBy(() => listEmails(pool, account, filter, page));
    expect(read).toBeLessThan(MOST_READ);
    expect(read).toBeGreaterThanOrEqual(listed);
  });

  it('that lists a folder', async () => {
    const { read } = await readBy(() => listEmails(pool, account, { folderId: inbox }, page));
    expect(read).toBeLessThan(MOST_READ);
  });

  it.each([{}, { isUnread: true }])('that lists threads: %p', async (filter) => {
    const { read, listed } = await readBy(() => listThreads(pool, account, { filter, limit: 50, position: null }));
    expect(read).toBeLessThan(MOST_READ);
    expect(listed).toBe(50);
  });
});
