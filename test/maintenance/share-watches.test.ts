import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { createRunningWatches, type RunningWatches } from '../../src/mailbox/running-watches.ts';
import { shareWatches } from '../../src/maintenance/share-watches.ts';
import { announceWorker, forgetWorker } from '../../src/db/coordination/workers.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(() => test.database.db.execute(sql`delete from workers`));

/** Workers whose ended watches restart on the workers in turn, as Temporal assigns them. */
class Installation {
  readonly workers = new Map<string, RunningWatches>();
  logins = 0;
  private turn = 0;

  start(id: string): void {
    this.workers.set(id, createRunningWatches());
  }

  watch(): void {
    const all = [...this.workers.values()];
    const worker = all[this.turn++ % all.length] as RunningWatches;
    this.logins += 1;
    const remove = worker.add(() => {
      remove();
      this.watch();
    });
  }

  counts(): number[] {
    return [...this.workers.values()].map((watches) => watches.count());
  }

  /** One interval of every worker. */
  async interval(options: { loginsPerMinute?: number; settledMs?: number } = {}): Promise<void> {
    const { db } = test.database;
    for (const [id, watches] of this.workers) await announceWorker(db, id, watches.count());
    for (const [workerId, watches] of this.workers) {
      const limits = { loginsPerMinute: 240, settledMs: 0, intervalMs: 15_000, ...options };
      await shareWatches(db, { workerId, watches, ...limits });
    }
  }
}

/** One of two workers was killed, the other watches all mailboxes, and then the first has restarted. */
function afterFailOver(accounts: number): Installation {
  const installation = new Installation();
  installation.start('survivor');
  for (let n = 0; n < accounts; n++) installation.watch();
  installation.logins = 0;
  installation.start('restarted');
  return installation;
}

it('20 accounts are spread over both workers again after a fail-over, with few logins', async () => {
  const installation = afterFailOver(20);
  for (let n = 0; n < 20; n++) await installation.interval();
  const [survivor = 0, restarted = 0] = installation.counts();
  expect(survivor + restarted).toBe(20);
  expect(Math.abs(survivor - restarted)).toBeLessThanOrEqual(4);
  expect(installation.logins).toBeLessThanOrEqual(24);
  const { logins } = installation;
  await installation.interval();
  expect(installation.logins).toBe(logins);
});

it('500 accounts are spread within five minutes, with at most half of the logins of a provider', async () => {
  const installation = afterFailOver(500);
  for (let n = 0; n < 20; n++) {
    const before = installation.logins;
    await installation.interval();
    expect(installation.logins - before).toBeLessThanOrEqual(30);
  }
  expect(Math.abs((installation.counts()[0] ?? 0) - 250)).toBeLessThanOrEqual(25);
});

it('a worker that has just started, was killed or is alone moves nothing', async () => {
  const { db } = test.database;
  const installation = afterFailOver(20);
  await installation.interval({ settledMs: 30_000 });
  expect(installation.logins).toBe(0);
  installation.workers.delete('restarted');
  await db.execute(sql`update workers set seen_at = now() - interval '10 seconds' where id = 'restarted'`);
  await installation.interval();
  await forgetWorker(db, 'restarted');
  await installation.interval();
  expect(installation.logins).toBe(0);
});
