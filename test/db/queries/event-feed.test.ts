import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { EVENT_TYPES, type EventType } from '../../../src/contract/events.ts';
import { type FeedPlace, readFeed } from '../../../src/db/queries/event-feed.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

const ACCOUNTS = 1_000;
const EVENTS = 6_000;
const accounts = Array.from({ length: ACCOUNTS }, (_, n) => `acc_${String(n).padStart(4, '0')}`);

let test: TestDatabase;
/** every event, in the order of the feed */
let all: { id: string; account_id: string; type: EventType }[];

beforeAll(async () => {
  test = await testDatabase();
  // three events of different accounts at each position; one account has one event in six
  await test.database.pool.query(
    `insert into events (id, account_id, type, sequence, object_id, data, position, created_at)
     select 'evt_' || lpad(i::text, 6, '0'), account_id, case when i % 9 = 0 then 'email.delete' else 'email.new' end,
       row_number() over (partition by account_id order by i), 'email_1', '{"email":{}}', i / 3 - 1000000, now()
     from (
       select i, 'acc_' || lpad((case when i % 6 = 0 then 7 else i * 7 % $1 end)::text, 4, '0') as account_id
       from generate_series(1, $2::int) i
     ) events`,
    [ACCOUNTS, EVENTS],
  );
  await test.database.pool.query('vacuum analyze events');
  const { rows } = await test.database.pool.query<(typeof all)[number]>(
    'select id, account_id, type from events order by position, account_id, sequence',
  );
  all = rows;
});
afterAll(() => test?.drop());

const idOf = (json: string) => (JSON.parse(json) as { id: string }).id;

describe('the feed of a key', () => {
  it.each([1, 9, 12, 60, 999])('of %i accounts has their events in order, whichever way it is read', async (count) => {
    // most of them have few events
    const accountIds = accounts.slice(0, count);
    const types: EventType[] = ['email.new', 'email.delete', 'email.update', 'account.remove', 'import.failed'];
    const wanted = all.filter((event) => accountIds.includes(event.account_id)).map(({ id }) => id);
    const { db } = test.database;
    const read: string[] = [];
    let after: FeedPlace | undefined;
    for (let isMore = true; isMore; ) {
      const page = await readFeed(db, { types, accountIds }, { after, limit: 500 });
      for (const event of page.data) read.push(idOf(event));
      after = page.end;
      isMore = page.hasMore;
    }
    expect(read).toEqual(wanted);
    const newest = await readFeed(db, { types, accountIds }, { limit: 20, newestFirst: true });
    expect(newest.data.map(idOf)).toEqual(wanted.slice(-20).reverse());
  });

  it('never goes back behind the event after which it begins, though it is not listed yet', async () => {
    const { db, pool } = test.database;
    const writing = await pool.connect();
    try {
      await writing.query('begin; select pg_current_xact_id()');
      const { rows } = await pool.query<{ position: string }>('select pg_current_xact_id()::text as position');
      const after = { position: rows[0]!.position, accountId: accounts[0]!, sequence: '1' };
      const page = await readFeed(db, { types: ['email.new'], accountIds: accounts }, { after, limit: 10 });
      expect(page).toMatchObject({ data: [], end: after });
    } finally {
      await writing.query('rollback');
      writing.release();
    }
  });

  it('of a thousand accounts is read with an index scan for each type, not for each account', async () => {
    /** A page, and the index scans that it took. */
    const scans = (after: FeedPlace | undefined, limit: number) =>
      test.database.db.transaction(async (tx) => {
        const made = sql`select idx_scan::int as scans from pg_stat_xact_user_tables where relname = 'events'`;
        const before = await tx.execute<{ scans: number }>(made);
        const page = await readFeed(tx, { types: EVENT_TYPES, accountIds: accounts }, { after, limit });
        const { rows } = await tx.execute<{ scans: number }>(made);
        return { scans: (rows[0]?.scans ?? 0) - (before.rows[0]?.scans ?? 0), page };
      });
    const first = await scans(undefined, 50);
    expect(first.page.data).toHaveLength(50);
    expect(first.scans).toBeLessThan(EVENT_TYPES.length + 60);
    // after all that others have: it is not read again
    const { end } = await readFeed(test.database.db, { types: EVENT_TYPES, accountIds: ['acc_quiet'] }, { limit: 100 });
    const stream = await scans(end, 100);
    expect(stream.page).toMatchObject({ data: [], hasMore: false });
    expect(stream.scans).toBeLessThan(EVENT_TYPES.length + 60);
  });
});
