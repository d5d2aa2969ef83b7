import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { EVENT_TYPES } from '../../../src/contract/events.ts';
import { lastRestoredAt, markRestored } from '../../../src/db/coordination/restored.ts';
import { recordEvents } from '../../../src/db/outbox.ts';
import { placeOfRestoreAfter, readFeed } from '../../../src/db/queries/event-feed.ts';
import { newId } from '../../../src/new-id.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { announceWorker } from '../../../src/db/coordination/workers.ts';
import { builtEntry } from '../../helpers/product/built.ts';
import { run } from '../../helpers/product/child.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { type TestDatabase, testDatabase } from '../../helpers/servers/postgres.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

interface Listed {
  id: string;
  type: string;
  account_id: string;
  sequence: number;
  epoch?: number;
  data: { set_back_to?: string };
}

async function feed(after?: Awaited<ReturnType<typeof placeOfRestoreAfter>>): Promise<Listed[]> {
  const { data } = await readFeed(test.database.db, { types: EVENT_TYPES }, { after, limit: 100 });
  return data.map((text) => JSON.parse(text) as Listed);
}

async function record(accountId: string): Promise<void> {
  const change = { type: 'email.new' as const, objectId: newId('email'), data: { email: {} }, createdAt: new Date() };
  await test.database.db.transaction((tx) => recordEvents(tx, accountId, [change]));
}

it('a restore has a later epoch than the one before, even by a clock that was set back, and numbers continue above it', async () => {
  const { db } = test.database;
  const [one, other] = [await storeAccount(test.database), await storeAccount(test.database)];
  await record(one);
  expect(await lastRestoredAt(db)).toBeUndefined();
  const first = await markRestored(db, new Date());
  expect(first.accounts).toBe(2);
  expect(await lastRestoredAt(db)).toEqual(new Date(first.epoch));
  await record(one);
  await record(one);
  const second = await markRestored(db, new Date(first.epoch - 60_000));
  expect(second.epoch).toBe(first.epoch + 1);
  await record(other);

  // transactions in other databases hold the feed back
  const all = await waitFor(async () => ((await feed()).length === 8 ? feed() : undefined), { timeoutMs: 30_000 });
  const of = (accountId: string) =>
    all
      .filter((event) => event.account_id === accountId)
      .map(({ type, sequence, epoch }) => ({ type, sequence, epoch }));
  const [{ epoch: e1 }, { epoch: e2 }] = [first, second];
  expect(of(one)).toEqual([
    { type: 'email.new', sequence: 1, epoch: undefined },
    { type: 'account.restored', sequence: e1 + 1, epoch: e1 },
    { type: 'email.new', sequence: e1 + 2, epoch: e1 },
    { type: 'email.new', sequence: e1 + 3, epoch: e1 },
    { type: 'account.restored', sequence: e1 + 4, epoch: e2 },
  ]);
  expect(of(other)).toEqual([
    { type: 'account.restored', sequence: e1 + 1, epoch: e1 },
    { type: 'account.restored', sequence: e2 + 1, epoch: e2 },
    { type: 'email.new', sequence: e2 + 2, epoch: e2 },
  ]);
  const restored = all.find(({ type }) => type === 'account.restored');
  expect(Date.parse(restored?.data.set_back_to ?? '')).toBeLessThanOrEqual(first.epoch);

  // a list continues after an event that was lost
  const place = await placeOfRestoreAfter(db, new Date(first.epoch - 1));
  expect((await feed(place))[0]).toMatchObject({ type: 'account.restored', epoch: e1 });
  expect(await feed(place)).toHaveLength(7);
  expect(await placeOfRestoreAfter(db, new Date(second.epoch + 60_000))).toBeUndefined();
});

it('`npm run restore` without a file marks the database of DATABASE_URL, which pg_restore has restored', async () => {
  const { db } = test.database;
  const before = await lastRestoredAt(db);
  const env = {
    PATH: process.env['PATH'],
    DATABASE_URL: test.url,
    ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
  };
  const announcing = setInterval(() => void announceWorker(db, 'a-worker', 1).catch(() => {}), 500);
  await announceWorker(db, 'a-worker', 1);
  const refused = run(process.execPath, [builtEntry('restore')], { env }).finally(() => clearInterval(announcing));
  await expect(refused).rejects.toMatchObject({
    code: 1,
    stderr: 'workers use this database: stop all processes first.\n',
  });
  expect(await lastRestoredAt(db)).toEqual(before);

  // that worker was killed, and its row still says that it runs
  const { stdout } = await run(process.execPath, [builtEntry('restore')], { env });
  expect(stdout).toMatch(/^The database is marked as restored: 2 accounts, as of /);
  expect((await lastRestoredAt(db))?.getTime()).toBeGreaterThan(before?.getTime() ?? 0);
  const failed = run(process.execPath, [builtEntry('backup'), 'some-file'], { env });
  await expect(failed).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('back it up with pg_dump') });
}, 30_000);
