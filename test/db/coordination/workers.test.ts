import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { readReadiness } from '../../../src/db/coordination/readiness.ts';
import { announceWorker, forgetDeadWorkers, hasWorker, liveWorkers } from '../../../src/db/coordination/workers.ts';
import { createLiveWorkers } from '../../../src/maintenance/live-workers.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

it('a worker that announced itself before the clock was set back is dead, and does not lead', async () => {
  const { db, pool } = test.database;
  const ids = async () => (await liveWorkers(db)).map(({ id }) => id);
  await announceWorker(db, 'dead', 0);
  await db.execute(sql`update workers set seen_at = now() + interval '2 hours', started_at = now() - interval '1 day'`);
  expect(await ids()).toEqual([]);
  expect(await hasWorker(db)).toBe(false);
  expect((await readReadiness(pool)).hasWorker).toBe(false);

  await announceWorker(db, 'live', 0);
  expect(await ids()).toEqual(['live']);
  const live = createLiveWorkers(db, 'live');
  await live.look();
  expect([live.count(), live.leads()]).toEqual([1, true]);
  await forgetDeadWorkers(db);
  expect((await db.execute<{ id: string }>(sql`select id from workers`)).rows).toEqual([{ id: 'live' }]);
});
