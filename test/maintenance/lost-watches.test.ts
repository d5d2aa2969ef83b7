import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { createLostWatches } from '../../src/maintenance/lost-watches.ts';
import { takeLease } from '../../src/db/coordination/lease.ts';
import { announceWorker } from '../../src/db/coordination/workers.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(() => test.database.db.execute(sql`delete from workers; delete from accounts`));

/** Two workers, of which `own` checks the other; it has signalled the workflows of `signalled`. */
async function twoWorkers(accounts: number) {
  const { db } = test.database;
  const signalled: string[] = [];
  let isAway = false;
  let isSlow = false;
  let isCut = false;
  const failing = new Set<string>();
  const look = createLostWatches({
    db: new Proxy(db, {
      get(target, name, receiver) {
        if (name !== 'execute' || !isCut || signalled.length === 0) return Reflect.get(target, name, receiver);
        return () => Promise.reject(new Error('the database is away'));
      },
    }),
    logger: createLogger('silent', 'test'),
    workerId: 'own',
    retryWatch: async (id, isLost) => {
      expect(['own', 'other', 'unknown'].map(isLost)).toEqual([false, true, true]);
      if (isSlow) await new Promise((resolve) => setTimeout(resolve, 1_100));
      if (isAway || failing.delete(id)) throw new Error('Temporal is away');
      signalled.push(id);
    },
    intervalMs: 500,
  });
  await announceWorker(db, 'own', 0);
  await announceWorker(db, 'other', accounts);
  const ids: string[] = [];
  for (let n = 0; n < accounts; n++) {
    const id = await storeAccount(test.database);
    await takeLease(db, id, 'other');
    ids.push(id);
  }
  const looks = async (count: number, between = async () => {}) => {
    for (let n = 0; n < count; n++) {
      await between();
      await look();
    }
  };
  const temporal = (away: boolean) => void (isAway = away);
  const slow = () => void (isSlow = true);
  /** the database, from the first signal on */
  const cut = (away: boolean) => void (isCut = away);
  return { db, signalled, ids: ids.sort(), looks, temporal, slow, cut, failing };
}

it('signals the workflows of all mailboxes of a lost worker, once', async () => {
  const { signalled, ids, looks } = await twoWorkers(45);
  await looks(5);
  expect(signalled).toEqual([]);
  await looks(3);
  expect(signalled.sort()).toEqual(ids);
});

it('does not signal those that another worker has taken over', async () => {
  const { db, signalled, ids, looks } = await twoWorkers(2);
  await takeLease(db, ids[0]!, 'own');
  await looks(8);
  expect(signalled).toEqual([ids[1]]);
});

it('includes mailboxes whose account is being written', async () => {
  const { db, signalled, ids, looks } = await twoWorkers(3);
  await looks(5);
  // a lost worker may leave such a transaction open: the other mailboxes do not wait for its end
  await db.transaction(async (tx) => {
    await tx.execute(sql`select 1 from accounts where id = ${ids[1]} for no key update`);
    await looks(3);
    expect(signalled.sort()).toEqual([ids[0], ids[2]]);
  });
  await looks(1);
  expect(signalled.sort()).toEqual(ids);
});

it('does not signal for a worker that announces itself, however long it watches', async () => {
  const { db, signalled, looks } = await twoWorkers(1);
  await looks(20, () => announceWorker(db, 'other', 1));
  expect(signalled).toEqual([]);
});

it('gives the others time after its own pause', async () => {
  const { signalled, looks } = await twoWorkers(1);
  await looks(4);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  await looks(5);
  expect(signalled).toEqual([]);
  await looks(1);
  expect(signalled).toHaveLength(1);
});

it('repeats signals that failed', async () => {
  const { signalled, ids, looks, temporal } = await twoWorkers(30);
  temporal(true);
  await looks(7);
  expect(signalled).toEqual([]);
  temporal(false);
  await looks(1);
  expect(signalled.sort()).toEqual(ids);
});

it('continues when signals are slow and some fail', async () => {
  const { signalled, ids, looks, slow, failing } = await twoWorkers(45);
  slow();
  failing.add(ids[0]!).add(ids[1]!);
  await looks(6);
  expect(signalled.sort()).toEqual(ids.slice(2));
  await looks(1);
  expect(signalled.sort()).toEqual(ids);
});

it('repeats signals that failed before the database was down', async () => {
  const { signalled, ids, looks, cut, failing } = await twoWorkers(45);
  failing.add(ids[0]!);
  cut(true);
  await looks(5);
  await expect(looks(1)).rejects.toThrow('the database is away');
  await expect(looks(1)).rejects.toThrow('the database is away');
  expect(signalled.length).toBeLessThan(45);
  cut(false);
  await looks(1);
  expect(signalled.sort()).toEqual(ids);
});
