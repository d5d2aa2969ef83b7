import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq, type SQL, sql } from 'drizzle-orm';
import { createHousekeepingActivities } from '../../src/activities/housekeeping.ts';
import { retentions } from '../../src/maintenance/retention.ts';
import { deleteUnusedTracking } from '../../src/db/queries/tracking.ts';
import { sends, trackingRecords } from '../../src/db/schema/index.ts';
import { DAY } from '../../src/duration.ts';
import { newId } from '../../src/new-id.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import type { Storage } from '../../src/storage/storage.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { waitFor } from '../helpers/assert/wait.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test?.drop());

const query = (text: string, values: unknown[] = []) => test.database.pool.query(text, values);

interface Plan {
  'Node Type': string;
  'Relation Name'?: string;
  Filter?: string;
  Plans?: Plan[];
}
const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];

/** The plan of what `deleteBefore` runs, where an index or the place of rows is used if it can be. */
async function planOf(deleteBefore: (db: never, before: Date) => Promise<unknown>): Promise<Plan[]> {
  const statements: SQL[] = [];
  const keep = (statement: SQL) => {
    statements.push(statement);
    return Promise.resolve({ rows: [], rowCount: 0 });
  };
  // its progress, where it has one, is read and stored
  await deleteBefore(Object.assign(Object.create(test.database.db), { execute: keep }) as never, new Date());
  return test.database.db.transaction(async (tx) => {
    await tx.execute(sql`set local enable_seqscan = off`);
    const [statement] = statements;
    if (!statement || statements.length > 1) throw new Error('not one statement');
    const { rows } = await tx.execute<{ 'QUERY PLAN': { Plan: Plan }[] }>(sql`explain (format json) ${statement}`);
    return nodesOf(rows[0]?.['QUERY PLAN'][0]?.Plan as Plan);
  });
}

describe('what expires', () => {
  it.each(retentions({}))('$rows are found by an index or their place, whatever their number', async (retention) => {
    const plan = await planOf(retention.deleteBefore);
    // each row of the table would be compared with the thousand that the statement deletes
    const compared = plan.filter((node) => node['Node Type'] === 'Seq Scan' && / = ANY /.test(node.Filter ?? ''));
    expect(compared).toEqual([]);
    expect(plan.map((node) => node['Node Type'])).toContain('ModifyTable');
  });

  it('is not deleted when it was changed a moment ago: an idempotency key that is reserved again', async () => {
    await query(`insert into api_keys (id, name, prefix, digest, issued_at)
      values ('pk_r', 'k', 'p', decode(repeat('00', 32), 'hex'), now())`);
    await query(`insert into idempotency_keys (api_key_id, key, fingerprint, created_at)
      values ('pk_r', 'repeated', '\\x00', now() - interval '2 days')`);
    const client = await test.database.pool.connect();
    try {
      await client.query('begin');
      await client.query(`update idempotency_keys set created_at = now() where key = 'repeated'`);
      const { deleteBefore, ageMs } = retentions({}).find(({ rows }) => rows === 'idempotency keys') ?? {};
      const deleted = deleteBefore?.(test.database.db, new Date(Date.now() - (ageMs ?? 0)));
      await waitFor(async () => {
        const waiting = await query(`select from pg_locks where not granted and locktype = 'transactionid'`);
        return (waiting.rowCount ?? 0) > 0;
      });
      await client.query('commit');
      expect(await deleted).toBe(0);
    } finally {
      client.release();
    }
    expect((await query('select key from idempotency_keys')).rows).toEqual([{ key: 'repeated' }]);
  });
});

describe('housekeeping', () => {
  const lines: { msg: string; step?: string; level: string }[] = [];
  const logger = createLogger('info', 'test', { write: (line: string) => void lines.push(JSON.parse(line)) });
  beforeEach(() => {
    lines.length = 0;
  });

  it('does its other steps when one fails, and fails at its end', async () => {
    await query(`insert into api_keys (id, name, prefix, digest, issued_at)
      values ('pk_s', 'k', 'q', decode(repeat('01', 32), 'hex'), now())`);
    await query(`insert into attempt_counts (minute, endpoint_id, succeeded, failed)
      values (now() - interval '9 days', 'whe_1', 1, 0)`);
    await query(`insert into sessions (digest, api_key_id, created_at, expires_at)
      values (decode(repeat('02', 32), 'hex'), 'pk_s', now(), now() - interval '1 minute')`);
    await query(`insert into uploads (id, api_key_id, filename, content_type, size, created_at, expires_at)
      values ('upl_1', 'pk_s', 'a', 'text/plain', 1, now(), now() - interval '1 minute')`);
    await query(`create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'canceling statement due to statement timeout' using errcode = '57014'; end $$`);
    await query(`create trigger refuse before delete on attempt_counts for each row execute function refuse()`);
    const swept: string[] = [];
    const storage = {
      deletePrefix: () => Promise.reject(new Error('no such bucket')),
      deleteUnfinished: async () => {},
      list: (prefix: string) => Promise.resolve((swept.push(prefix), [])),
    };
    const { deleteExpired } = createHousekeepingActivities({
      db: test.database.db,
      storage: storage as unknown as Storage,
      lostRuns: { findOverdue: async () => {} },
      logger,
    });
    await expect(new MockActivityEnvironment().run(deleteExpired)).rejects.toThrow();
    expect((await query('select from sessions')).rowCount).toBe(0);
    expect(swept).toEqual(['uploads/']);
    expect(lines).toMatchObject([
      { level: 'error', msg: 'housekeeping step failed; the others follow', step: 'attempt counts' },
      { level: 'error', msg: 'housekeeping step failed; the others follow', step: 'expired uploads' },
    ]);
    await query('drop trigger refuse on attempt_counts');
  });

  it('does no other step when the database only reads', async () => {
    await query(`insert into attempt_counts (minute, endpoint_id, succeeded, failed)
      values (now() - interval '9 days', 'whe_2', 1, 0) on conflict do nothing`);
    await query(`create function refuse_writes() returns trigger language plpgsql as
      $$ begin raise exception 'cannot execute DELETE in a read-only transaction' using errcode = '25006'; end $$`);
    await query(`create trigger refuse before delete on attempt_counts for each row execute function refuse_writes()`);
    const { deleteExpired } = createHousekeepingActivities({
      db: test.database.db,
      storage: {} as Storage,
      lostRuns: { findOverdue: async () => {} },
      logger,
    });
    await expect(new MockActivityEnvironment().run(deleteExpired)).rejects.toThrow();
    expect(lines).toEqual([]);
    await query('drop trigger refuse on attempt_counts');
  });
});

it('looks at the tracking of old sends 10,000 records at a time, once a day where there are more', async () => {
  const { db } = test.database;
  await query(`delete from installation where name = 'unused_tracking'`);
  const accountId = newId('account');
  const [count, unused] = [20_500, ['trk_000001', 'trk_010500', 'trk_020500']];
  await db.execute(sql`
    insert into tracking_records (id, account_id, email_id, message_id, opens, links, created_at)
    select 'trk_' || to_char(n, 'FM000000'), ${accountId}, 'email_' || n, '<m@x>', true, '[]',
      now() - interval '400 days' + n / 5 * interval '1 second' from generate_series(1, ${count}::int) n`);
  await db.execute(sql`
    insert into sends (id, account_id, message_id, api_key_id, api_key_name, state, created_at, updated_at)
    select email_id, account_id, '<m@x>', 'pk', 'key', 'sent', now(), now() from tracking_records
    where account_id = ${accountId} and id <> all(${sql.param(unused)}::text[])`);
  const before = new Date(Date.now() - 365 * DAY);
  const walk = async () => {
    const looked: number[] = [];
    do looked.push(await deleteUnusedTracking(db, before));
    while (looked.at(-1) !== 0);
    return looked;
  };
  const left = () => db.$count(trackingRecords, eq(trackingRecords.accountId, accountId));
  expect(await walk()).toEqual([10_000, 10_000, 0]);
  expect(await left()).toBe(count - unused.length);
  await db.delete(sends).where(eq(sends.accountId, accountId));
  expect(await walk()).toEqual([0]);
  const { now } = Date;
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => now.call(Date) + DAY);
  try {
    expect(await walk()).toEqual([10_000, 10_000, 0]);
  } finally {
    clock.mockRestore();
  }
  expect(await left()).toBe(0);
});
