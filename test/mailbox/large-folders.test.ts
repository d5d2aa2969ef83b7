import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq, type SQL, sql } from 'drizzle-orm';
import { inLease, type Lease } from '../../src/db/coordination/lease.ts';
import { folders } from '../../src/db/schema/index.ts';
import { applyFlags } from '../../src/mailbox/changes/flags.ts';
import { changeEmails } from '../../src/mailbox/change-emails.ts';
import type { SyncContext } from '../../src/mailbox/context.ts';
import { decideMissing } from '../../src/mailbox/sync-pass.ts';
import { renumberFolder } from '../../src/mailbox/folders/uidvalidity.ts';
import { applyVanishedRanges } from '../../src/mailbox/vanished.ts';
import { locateEmails } from '../../src/mailbox/store/email-states.ts';
import { countLocations, type FolderState, loadFolder } from '../../src/mailbox/store/folders.ts';
import { emailsAt, findCandidates, insertLocations, newestLocations } from '../../src/mailbox/store/locations.ts';
import { markVanished } from '../../src/mailbox/store/vanished-locations.ts';
import { applyList, serverOf, storedTypes } from '../helpers/product/folder-changes.ts';
import { emailAt, fillFolder, measure, type MeasuredDb } from '../helpers/fakes/large-folder.ts';
import { isLong } from '../helpers/runner/long.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeFolder } from '../helpers/assert/rows.ts';
import { statementsOf } from '../helpers/assert/statements.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

/**
 * What happens to a folder of 100,000 messages is done in transactions that each touch few rows, so that none takes 2 s
 * and the account's other writes get their turn. Every fiftieth message is an email, the others are baseline. What is
 * done in chunks is done to 50,000 in the short form: what a transaction touches is the same.
 */

const COUNT = isLong() ? 100_000 : 50_000;
const CHUNKS = COUNT / 1_000;
const inLong: (...test: Parameters<typeof it>) => void = isLong() ? it : () => {};
const EVERY = 50;
const EMAILS = COUNT / EVERY;
const MAX_WRITTEN = 2_100;
const MAX_READ = 10_000;

let filled: TestDatabase;
let account: string;
let folderId: string;
beforeAll(async () => {
  filled = await testDatabase();
  account = await storeAccount(filled.database);
  folderId = await storeFolder(filled.database, account);
  await storeFolder(filled.database, account, { role: 'INBOX' });
  await fillFolder(filled.database, account, folderId, { count: COUNT, every: EVERY });
  await filled.database.close();
}, 150_000);
afterAll(() => filled.drop());

let test: TestDatabase;
let measured: MeasuredDb;
let ctx: SyncContext;
let lease: Lease;
beforeEach(async () => {
  test = await testDatabase({ copyOf: filled });
  measured = measure(test.database);
  lease = { accountId: account, watchEpoch: null };
  const owner = { id: account, ownAddresses: [], connectedAt: new Date(0) };
  ctx = { db: measured.db, lease, account: owner, storage: { delete: async () => {} } } as unknown as SyncContext;
}, 60_000);
afterEach(() => test.drop());

const db = () => test.database.db;
const folder = async () => (await loadFolder(db(), folderId)) as FolderState;
const typesOf = () => storedTypes(test.database, account);

async function count(from: SQL): Promise<number | undefined> {
  const { rows } = await db().execute<{ count: number }>(sql`select count(*)::int as count from ${from}`);
  return rows[0]?.count;
}

/** Another write of the account, begun while the third chunk is under way; the number of chunks done when it was. */
function otherWrite(): Promise<number> {
  return new Promise((resolve, reject) => {
    measured.beforeCommit = (number) => {
      if (number !== 3) return;
      inLease(db(), lease, (tx) => tx.update(folders).set({ delimiter: '/' }).where(eq(folders.role, 'INBOX'))).then(
        () => resolve(measured.transactions.length),
        reject,
      );
    };
  });
}

function expectBounded(transactions: { min: number; max: number }): void {
  const done = measured.transactions;
  expect(done.length).toBeGreaterThanOrEqual(transactions.min);
  expect(done.length).toBeLessThanOrEqual(transactions.max);
  expect(Math.max(...done.map(({ rowsWritten }) => rowsWritten))).toBeLessThanOrEqual(MAX_WRITTEN);
  expect(Math.max(...done.map(({ rowsRead }) => rowsRead))).toBeLessThanOrEqual(MAX_READ);
}

describe(`a folder of ${COUNT.toLocaleString('en')} messages`, () => {
  it('is deleted in chunks, between which others write', async () => {
    const other = otherWrite();
    expect(await applyList(ctx, folderId, null)).toEqual({ missing: true });
    expect(await other).toBeLessThan(0.9 * CHUNKS);
    expectBounded({ min: CHUNKS, max: CHUNKS + 10 });
    expect(await typesOf()).toEqual([['email.folder.delete', folderId]]);
    expect(await folder()).toBeUndefined();
    expect(await count(sql`locations where vanished_at is null`)).toBe(0);
    expect(await count(sql`emails where missing_since is not null`)).toBe(EMAILS);
  }, 150_000);

  // as a deletion does it
  inLong(
    'loses its mail in chunks when it becomes a parent without mail',
    async () => {
      const other = otherWrite();
      expect(await applyList(ctx, folderId, { selectable: false })).toEqual({ missing: true });
      expect(await other).toBeLessThan(0.9 * CHUNKS);
      expectBounded({ min: CHUNKS, max: CHUNKS + 10 });
      expect(await folder()).toMatchObject({ selectable: false, vacating: null, knownCount: 0 });
      expect(await typesOf()).toEqual([]);
      expect(await count(sql`locations where vanished_at is null`)).toBe(0);
      expect(await count(sql`emails where missing_since is not null`)).toBe(EMAILS);
    },
    150_000,
  );

  it('is renamed without reading its mail', async () => {
    const path = 'Renamed';
    expect(await applyList(ctx, folderId, { path, name: path })).toEqual({ missing: false });
    const newest = await newestLocations(measured.db, folderId, 5);
    expect(newest.map(({ uid }) => uid)).toEqual([COUNT, COUNT - 1, COUNT - 2, COUNT - 3, COUNT - 4]);
    expect(await folder()).toMatchObject({ path, name: path, knownCount: COUNT });
    expect(await typesOf()).toEqual([['email.folder.update', folderId]]);
    expect(measured.transactions).toHaveLength(1);
    expect(measured.transactions[0]?.rowsRead).toBeLessThan(50);
  }, 60_000);

  it('gets a new UIDVALIDITY in chunks, and its emails keep their ids', async () => {
    const other = otherWrite();
    // message n has the UID n + 7 now; the 100 with the lowest UIDs were deleted, 10 new ones came at the end
    const server = serverOf({ shift: 7, from: 101, to: COUNT + 10 });
    const done = await renumberFolder(ctx, folderId, { uidValidity: 2, uidNext: COUNT + 18 }, server);
    expect(await other).toBeLessThan(1.9 * CHUNKS);
    expectBounded({ min: 2 * CHUNKS, max: 2 * CHUNKS + 10 });
    expect(server.largest).toBe(1000);
    expect(done).toMatchObject({ uidValidity: 2, uidNext: COUNT + 8, renumbering: null, knownCount: COUNT - 100 });
    const emailAtUid = await emailsAt(db(), folderId, [57, 157, COUNT / 2 + 7, COUNT + 7, COUNT + 8]);
    expect([...emailAtUid].sort(([a], [b]) => a - b)).toEqual([
      [157, emailAt(150)],
      [COUNT / 2 + 7, emailAt(COUNT / 2)],
      [COUNT + 7, emailAt(COUNT)],
    ]);
    expect(await count(sql`emails where missing_since is not null`)).toBe(2);
    expect(await count(sql`locations where vanished_at is null and uid > 0`)).toBe(COUNT - 100);
    expect(await typesOf()).toEqual([]);
  }, 150_000);

  it('is marked all read in chunks, each with its events', async () => {
    const other = otherWrite();
    const flags = Array.from({ length: COUNT }, (_, index) => ({
      uid: index + 1,
      seen: true,
      deleted: false,
      flags: [],
    }));
    await applyFlags(ctx, await folder(), flags, 0);
    expect(await other).toBeLessThan(1.9 * CHUNKS);
    expectBounded({ min: 2 * CHUNKS, max: 2 * CHUNKS });
    expect(await folder()).toMatchObject({ unreadCount: 0 });
    expect(await count(sql`emails where is_unread`)).toBe(0);
    expect(await count(sql`events where type = 'email.update'`)).toBe(EMAILS);
  }, 150_000);

  it('is emptied in chunks, and its emails are deleted some at a time', async () => {
    const now = new Date();
    for (let start = 1; start <= COUNT; start += 1000) {
      const uids = Array.from({ length: 1000 }, (_, index) => start + index);
      await inLease(measured.db, lease, async (tx) => {
        const emailIds = [...(await emailsAt(tx, folderId, uids)).values()];
        await changeEmails(tx, { lease, emailIds, now }, () => markVanished(tx, folderId, uids, now));
      });
    }
    expectBounded({ min: CHUNKS, max: CHUNKS });
    expect(await countLocations(db(), folderId)).toBe(0);
    // as autovacuum may do at any time
    await db().execute(sql`analyze`);
    await decideMissing(ctx, new Date(now.getTime() + 1000));
    expectBounded({ min: 1.55 * CHUNKS, max: 1.75 * CHUNKS });
    expect(await count(sql`locations`)).toBe(0);
    expect(await count(sql`emails`)).toBe(0);
    expect(await count(sql`events where type = 'email.delete'`)).toBe(EMAILS);
  }, 150_000);

  it('is not read when a message arrives', async () => {
    const uid = COUNT + 1;
    const arrival = { identity: 'i', weakIdentity: 'w', serverId: null };
    await measured.db.transaction(async (tx) => {
      await findCandidates(tx, account, [arrival]);
      const location = { folderId, uid, accountId: account, emailId: null, seen: false, flags: [] };
      await insertLocations(tx, [{ ...location, ...arrival }]);
      expect(await countLocations(tx, folderId)).toBe(COUNT + 1);
    });
    expect(measured.transactions[0]?.rowsRead).toBeLessThan(20);
  });

  it('is not read when a server reports that one message vanished', async () => {
    const ranges = [
      { from: 50, to: 50 },
      { from: COUNT + 1, to: 4_294_967_295 },
    ];
    const vanished = await measured.db.transaction(async (tx) =>
      applyVanishedRanges({ ...ctx, db: tx }, await folder(), ranges),
    );
    expect(vanished).toBe(true);
    // the table of emails is small enough to be read as a whole
    expect(measured.transactions[0]?.rowsRead).toBeLessThan(EMAILS + 50);
    expect(await count(sql`locations where vanished_at is not null and uid = 50`)).toBe(1);
    expect(await countLocations(db(), folderId)).toBe(COUNT - 1);
  });

  it.each([
    [
      'every second message',
      Array.from({ length: COUNT / 2 }, (_, index) => ({ from: 2 * index + 2, to: 2 * index + 2 })),
    ],
    [
      'all, in overlapping ranges',
      Array.from({ length: 5_000 }, (_, index) => ({ from: index + 1, to: 4_294_967_295 })),
    ],
  ])(
    'loses what a server reports as vanished in chunks: %s',
    async (_, ranges) => {
      const lost = ranges.length === COUNT / 2 ? COUNT / 2 : COUNT;
      const reads = await statementsOf(async () => {
        expect(await applyVanishedRanges(ctx, await folder(), [...ranges].reverse())).toBe(true);
      });
      expect(reads.filter((text) => text.includes('unnest')).length).toBeLessThan(lost / 500);
      expectBounded({ min: lost / 500, max: lost / 500 + CHUNKS });
      expect(await countLocations(db(), folderId)).toBe(COUNT - lost);
      expect(await count(sql`locations where vanished_at is null`)).toBe(COUNT - lost);
      expect(await applyVanishedRanges(ctx, await folder(), ranges)).toBe(false);
    },
    150_000,
  );

  it('has more emails than a statement may have parameters', async () => {
    const ids = Array.from({ length: 100_000 }, (_, index) => emailAt(index + 1));
    expect((await locateEmails(db(), ids)).size).toBe(EMAILS);
  });
});
