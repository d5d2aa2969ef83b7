import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import type pg from 'pg';
import { type EmailFilter, emailPage, pageValues } from '../../../src/db/queries/mail/email-page.ts';
import { hasTrigram, likePattern } from '../../../src/contract/search-text.ts';
import { compile } from '../../../src/db/driver/statement.ts';
import { getEmail, listEmails } from '../../../src/db/queries/mail/emails.ts';
import { parsePieces } from '../../../src/db/driver/json-text.ts';
import { refreshPlannerStatistics } from '../../../src/maintenance/planner-statistics.ts';
import { sentWith, unlinkedBounces } from '../../../src/mailbox/bounces.ts';
import { currentContacts } from '../../../src/mailbox/contacts.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';
import { fillAccount } from '../../helpers/assert/many-emails.ts';
import { storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/*
 * Lists and searches in large mailboxes: they return what a check of every email would, and never read every email.
 */
const EMAILS = 20_000;

interface Looked {
  id: string;
  date: Date;
  is_unread: boolean;
  has_attachments: boolean;
  message_id: string;
  text: string;
  subject: string;
  from_address: string;
  to_addresses: string[];
}

let test: TestDatabase;
let pool: pg.Pool;
let account: string;
let inbox: string;
let rare: string;
/** every email of the account, newest first */
let all: Looked[];
beforeAll(async () => {
  test = await testDatabase();
  pool = test.database.pool;
  account = await storeAccount(test.database);
  const other = await storeAccount(test.database);
  inbox = await storeFolder(test.database, account, { role: 'INBOX', total: EMAILS });
  const theirs = await storeFolder(test.database, other, { role: 'INBOX', total: EMAILS });
  for (const [owner, folder] of [
    [account, inbox],
    [other, theirs],
  ] as const)
    await fillAccount(test.database, { owner, folder, emails: EMAILS });
  rare = (
    await storeEmail(test.database, account, {
      folders: [inbox],
      subject: 'needle in the heading',
      bodyPlain: 'xylophone',
      date: new Date('2024-06-01T00:00:00Z'),
    })
  ).id;
  await storeEmail(test.database, account, {
    folders: [inbox],
    bodyPlain: 'c++',
    date: new Date('2024-06-01T00:00:00Z'),
  });
  await pool.query('vacuum analyze');
  const { rows } = await pool.query<Looked>(
    `select e.id, e.date, e.is_unread, e.has_attachments, e.message_id, s.text, s.subject, s.from_address, s.to_addresses
     from emails e join email_search s on s.email_id = e.id where e.account_id = $1 order by e.date desc, e.id desc`,
    [account],
  );
  all = rows;
}, 120_000);
afterAll(() => test.drop());

/** 20,000 accounts of one email. */
async function fillSmallAccounts(): Promise<void> {
  await pool.query(`
    insert into email_search (email_id, account_id, date, text, subject, from_address, to_addresses)
    select 'email_small' || lpad(n::text, 18, '0'), 'acc_small' || n, now(), ' a few words ', ' a few ', 'p@example.test', '{}'
    from generate_series(1, 20000) n on conflict do nothing`);
  await pool.query('analyze email_search');
}

const filters = (): Record<string, EmailFilter> => ({
  none: {},
  folder: { folderId: inbox },
  unread: { isUnread: true },
  'unread in a folder': { isUnread: true, folderId: inbox },
  attachments: { hasAttachment: true },
  sender: { from: 'p7@example.test' },
  'sender in a folder': { from: 'p7@example.test', folderId: inbox },
  'unknown sender': { from: 'nobody@example.test' },
  'common recipient': { to: 'owner@example.test' },
  'unknown recipient': { to: 'nobody@example.test' },
  'anybody of two': { anyEmail: ['p7@example.test', 'nobody@example.test'] },
  thread: { threadId: 'thr_5' },
  message: { messageId: '5@x' },
  dates: { after: new Date('2025-01-02T00:00:00Z'), before: new Date('2025-01-03T00:00:00Z') },
  'a common word': { q: 'common' },
  'a less common word': { q: 'tenth' },
  'an uncommon word': { q: 'hundredth' },
  'a rare word': { q: 'xylophone' },
  'a word that was common once': { q: 'early' },
  'an unknown word': { q: 'zeppelin' },
  'a rare word in a folder': { q: 'xylophone', folderId: inbox },
  'a common word in a folder': { q: 'common', folderId: inbox },
  'one character': { q: 'x' },
  'a text without a trigram': { q: 'c++' },
  'an unknown text without a trigram': { q: '->' },
  'a rare subject': { subject: 'needle' },
  'a common subject': { subject: 'subject' },
  'a word of a sender': { q: 'tenth', from: 'p10@example.test' },
});

const LARGE = ['emails', 'email_search', 'email_contents', 'locations'];

describe('a list of emails', () => {
  it.each(Object.keys(filters()))('never reads a whole table: %s', async (name) => {
    const filter = filters()[name] as EmailFilter;
    const page = compile(emailPage(filter, false, sql.raw('51')));
    expect(await scansOf(page(pageValues(account, filter, null)))).toEqual([]);
  });

  it.each(Object.keys(filters()))('pages through all results: %s', async (name) => {
    const filter = filters()[name] as EmailFilter;
    const expected = byLookingAtEach(filter);
    const found: string[] = [];
    let position = null;
    // the end of a long list has the plan of its middle
    for (let page = 0; page < 6; page++) {
      const listing = await listEmails(pool, account, filter, { metaOnly: true, fields: null, limit: 50, position });
      found.push(...listing.data.map((email) => parsePieces(email).id));
      position = listing.next;
      if (!position) break;
    }
    expect(found).toEqual(expected.slice(0, 300));
  });

  it('has the same plan when prepared for any values', async () => {
    const page = { metaOnly: false, fields: null, limit: 50, position: null };
    for (let n = 0; n < 10; n++) await listEmails(pool, account, {}, page);
    const { rows } = await pool.query<{ calls: string }>(
      'select sum(generic_plans + custom_plans) as calls from pg_prepared_statements where not from_sql',
    );
    expect(Number(rows[0]?.calls)).toBeGreaterThan(0);
    await pool.query(`set plan_cache_mode = force_generic_plan`);
    const { text, values = [] } = compile(emailPage({}, false, sql.raw('251')))(pageValues(account, {}, null));
    await pool.query(`prepare generic as select * from (${text}) newest limit $${values.length + 1}`);
    const plan = await pool.query<{ 'QUERY PLAN': string }>(`explain execute generic('${account}', 51)`);
    await pool.query('deallocate generic; reset plan_cache_mode');
    expect(plan.rows.map((row) => row['QUERY PLAN']).join('\n')).toMatch(
      /Index (Only )?Scan Backward using emails_list/,
    );
  });

  it('of a thread is read from an index in its order, when it is planned for any thread', async () => {
    const filter = { threadId: 'thr_5' };
    const { text, values = [] } = compile(emailPage(filter, false, sql.raw('51')))(pageValues(account, filter, null));
    const client = await pool.connect();
    try {
      await client.query('set plan_cache_mode = force_generic_plan');
      await client.query(`prepare thread as ${text}`);
      const given = values.map((value) => `'${value as string}'`).join(', ');
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain execute thread(${given})`);
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      expect(plan).toMatch(/Index Scan Backward using emails_thread/);
    } finally {
      client.release(true);
    }
  });

  it.each<EmailFilter>([{ q: 'hundredth' }, { subject: 'subject 77' }, { from: 'p7@example.test' }])(
    'finds %p by an index when it is planned for any account, though most are small',
    async (filter) => {
      await fillSmallAccounts();
      const { text, values = [] } = compile(emailPage(filter, false, sql.raw('51')))(pageValues(account, filter, null));
      const client = await pool.connect();
      try {
        await client.query('set plan_cache_mode = force_generic_plan');
        await client.query({ name: 'generic', text, values });
        const given = values.map((value) => (value === null ? 'null' : `'${value as string}'`)).join(', ');
        const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain (analyze) execute generic(${given})`);
        const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
        expect(plan).not.toMatch(/Seq Scan on (email|locations)/);
        // no more than the sample and the hits
        const read = [...plan.matchAll(/Scan.* on (?:emails?_\w+|emails).*rows=([\d.]+) loops=(\d+)\)/g)];
        expect(Math.max(...read.map(([, count, loops]) => Number(count) * Number(loops)))).toBeLessThan(2_000);
        expect(read.length).toBeGreaterThan(0);
      } finally {
        client.release(true);
      }
    },
  );

  it.each(['c++', '->', '🎉', '100 %'])('looks for %p in the trigram index only where it has a trigram', async (q) => {
    const { text, values = [] } = compile(emailPage({ q }, false, sql.raw('51')))(pageValues(account, { q }, null));
    const client = await pool.connect();
    try {
      await client.query('set plan_cache_mode = force_generic_plan');
      await client.query({ name: 'generic', text, values });
      const given = values.map((value) => `'${String(value)}'`).join(', ');
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain (analyze) execute generic(${given})`);
      const scan = rows
        .map((row) => row['QUERY PLAN'])
        .find((line) => line.includes('Index Scan on email_search_text'));
      expect([q, scan?.includes('never executed')]).toEqual([q, q !== '100 %']);
    } finally {
      client.release(true);
    }
  });

  it('knows which patterns have a trigram, as Postgres does', async () => {
    const queries = [
      'c++',
      'g++',
      '->',
      '🎉',
      '5 €',
      '???',
      '$',
      'x',
      '東京',
      'ab',
      'abc',
      'a.b',
      'c+ +',
      '\\o/',
      '100%',
      'if(',
      'no?',
    ];
    const client = await pool.connect();
    try {
      await client.query(
        `create temporary table texts as select ' text ' || n || ' ' as text from generate_series(1, 2000) n`,
      );
      await client.query('create index on texts using gin (text gin_trgm_ops)');
      await client.query('analyze texts; set enable_seqscan = off');
      for (const q of queries) {
        const { rows } = await client.query<{ 'QUERY PLAN': string }>(
          'explain (analyze) select from texts where text like $1',
          [likePattern(q)],
        );
        const scan = rows.map((row) => row['QUERY PLAN']).find((line) => line.includes('Bitmap Index Scan'));
        expect([q, !/rows=2000/.test(scan ?? '')]).toEqual([q, hasTrigram(likePattern(q))]);
      }
    } finally {
      client.release(true);
    }
  });

  it('is planned by the current contents of the tables', async () => {
    const { rowCount } = await pool.query(`update emails set size = size + 1 where account_id = $1`, [account]);
    expect(rowCount).toBeGreaterThan(EMAILS);
    const analyzed = async () =>
      (
        await pool.query<{ count: string }>(
          `select analyze_count as count from pg_stat_user_tables where relname = 'emails'`,
        )
      ).rows[0]?.count;
    const before = await analyzed();
    // a connection reports its changes to the counters up to a second later
    await waitFor(async () => {
      await refreshPlannerStatistics(test.database.db);
      return (await analyzed()) !== before;
    });
  });

  it('finds large texts stored in a form that is cheap to read', async () => {
    const { rows } = await pool.query<{ cheap: boolean }>(
      `select attcompression = 'l' or attstorage = 'e' as cheap from pg_attribute
       where attrelid in ('email_contents'::regclass, 'email_search'::regclass, 'events'::regclass)
         and attname in ('body', 'body_plain', 'headers', 'text', 'data')`,
    );
    expect(rows.map((row) => row.cheap)).toEqual([true, true, true, true, true]);
  });

  it('reads one email by its id', async () => {
    const email = await getEmail(pool, account, rare, { metaOnly: false });
    expect(email && parsePieces(email)).toMatchObject({ id: rare, body_plain: 'xylophone' });
  });
});

describe('ingesting and deleting mail', () => {
  const people = ['p7@example.test', 'owner@example.test', 'nobody@example.test'];
  const messages = Array.from({ length: 50 }, (_, n) => `<${n}@x>`);

  it.each([
    ['who is still a contact', () => currentContacts(account, people)],
    ['which mail bounced', () => sentWith(account, messages)],
    ['which bounces are about it', () => unlinkedBounces(account, messages)],
  ])('finds %s without reading a whole table', async (_, query) => {
    await test.database.db.execute(sql`
      insert into contacts (account_id, address, display_name, last_contacted_at)
      select ${account}, address, 'A name', now() from unnest(${sql.param(people)}::text[]) address
      on conflict do nothing`);
    expect(await scansOf(compile(query())())).toEqual([]);
  });
});

/** The large tables that a statement would read from end to end. */
async function scansOf({ text, values }: pg.QueryConfig): Promise<string[]> {
  const { rows } = await pool.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
  return plan.match(/Seq Scan on \w+/g)?.filter((scan) => LARGE.includes(scan.split(' ').at(-1) as string)) ?? [];
}

function byLookingAtEach(filter: EmailFilter): string[] {
  return all
    .filter(
      (row) =>
        (filter.isUnread === undefined || row.is_unread === filter.isUnread) &&
        (filter.hasAttachment === undefined || row.has_attachments === filter.hasAttachment) &&
        (filter.from === undefined || row.from_address === filter.from) &&
        (filter.to === undefined || row.to_addresses.includes(filter.to)) &&
        (filter.anyEmail === undefined ||
          filter.anyEmail.some((one) => row.from_address === one || row.to_addresses.includes(one))) &&
        // these threads have no rows
        filter.threadId === undefined &&
        (filter.messageId === undefined || row.message_id === `<${filter.messageId}>`) &&
        (filter.before === undefined || row.date < filter.before) &&
        (filter.after === undefined || row.date > filter.after) &&
        (filter.q === undefined || row.text.includes(filter.q.length > 1 ? filter.q : ` ${filter.q}`)) &&
        (filter.subject === undefined || row.subject.includes(filter.subject)),
    )
    .map((row) => row.id);
}
