import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import { listFolders } from '../../src/db/queries/folders.ts';
import { changeAccount } from '../../src/db/queries/accounts.ts';
import { inLease, type Lease } from '../../src/db/coordination/lease.ts';
import { folders, locations } from '../../src/db/schema/index.ts';
import type { PlanContext } from '../../src/mailbox/folders/apply.ts';
import { removeAllExcluded } from '../../src/mailbox/folders/exclude.ts';
import { renumberFolder } from '../../src/mailbox/folders/uidvalidity.ts';
import { loadFolder, loadFolders } from '../../src/mailbox/store/folders.ts';
import { emailsAt, findCandidates, insertLocations } from '../../src/mailbox/store/locations.ts';
import { deleteVanished, markVanished } from '../../src/mailbox/store/vanished-locations.ts';
import { loadLocations, moveLocations } from '../../src/mailbox/store/moves.ts';
import { openStorage } from '../../src/storage/storage.ts';
import { applyList, factsOf, serverOf, storedTypes } from '../helpers/product/folder-changes.ts';
import { emailAt, fillFolder, measure, type MeasuredDb } from '../helpers/fakes/large-folder.ts';
import { isLong } from '../helpers/runner/long.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeFolder } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

/** Folders of three chunks: what is seen between the chunks, and what a crash between them leaves. */

const COUNT = 2_500;
/** The short form has crashes in the first and the last transactions of each step. */
const some = (all: number[], short: number[]) => (isLong() ? all : short);

let filled: TestDatabase;
let account: string;
let folderId: string;
let otherId: string;
beforeAll(async () => {
  filled = await testDatabase();
  account = await storeAccount(filled.database);
  folderId = await storeFolder(filled.database, account, { name: 'Large' });
  otherId = await storeFolder(filled.database, account, { name: 'Other' });
  await fillFolder(filled.database, account, folderId, { count: COUNT, every: 1 });
  await filled.database.close();
}, 60_000);
afterAll(() => filled.drop());

let test: TestDatabase;
let measured: MeasuredDb;
let ctx: PlanContext;
let lease: Lease;
beforeEach(async () => {
  test = await testDatabase({ copyOf: filled });
  measured = measure(test.database);
  lease = { accountId: account, watchEpoch: null };
  const storage = openStorage('file:///nowhere');
  ctx = { db: measured.db, lease, storage, account: { id: account, ownAddresses: [], connectedAt: new Date(0) } };
}, 60_000);
afterEach(() => test.drop());

const db = () => test.database.db;
const typesOf = () => storedTypes(test.database, account);
const identityOf = (n: number) => ({ identity: `i${n}`, weakIdentity: `w${n}`, serverId: null });

/** The process dies within the transaction of that number. */
async function crashIn(number: number, work: () => Promise<unknown>): Promise<void> {
  measured.beforeCommit = (ended) => {
    if (ended === number) throw new Error('crash');
  };
  await expect(work()).rejects.toThrow('crash');
  measured.beforeCommit = () => {};
}

async function expectCounted(): Promise<void> {
  const { rows } = await db().execute(sql`
    select f.name from folders f where f.known_count <> (
      select count(*) from locations l where l.folder_id = f.id and l.vanished_at is null)`);
  expect(rows).toEqual([]);
}

describe('a folder that is deleted at the server', () => {
  it.each(some([2, 3, 4, 5, 6], [2, 4, 6]))(
    'is deleted with one event after a crash in transaction %d',
    async (number) => {
      await crashIn(number, () => applyList(ctx, folderId, null));
      await applyList(ctx, folderId, null);
      expect(await typesOf()).toEqual([['email.folder.delete', folderId]]);
      expect(await loadFolder(db(), folderId)).toBeUndefined();
      const left = await db().select().from(locations).where(sql`vanished_at is null`);
      expect(left).toEqual([]);
    },
  );

  it('is shown until its event, but is matched with nothing, and no command goes to it', async () => {
    await crashIn(3, () => applyList(ctx, folderId, null));
    expect((await listFolders(db(), account)).map(({ id }) => id)).toContain(folderId);
    expect((await loadFolders(db(), account)).map(({ id }) => id)).toEqual([otherId]);
    // one that was taken out, and one whose turn has not come
    for (const uid of [1, COUNT]) {
      expect(await loadLocations(db(), account, emailAt(uid))).toEqual([]);
      const [candidate] = await findCandidates(db(), account, [identityOf(uid)]);
      expect(candidate?.vanishedAt).toBeInstanceOf(Date);
    }
    await expectCounted();
  });

  it('releases its path to another one immediately', async () => {
    const { path } = (await loadFolder(db(), folderId))!;
    await crashIn(3, () => applyList(ctx, folderId, null));
    const facts = { ...factsOf((await loadFolder(db(), otherId))!), path, name: 'Large' };
    await applyList(ctx, folderId, null, [facts]);
    const [deleted, created] = await typesOf();
    expect(deleted).toEqual(['email.folder.delete', folderId]);
    expect(created).toEqual(['email.folder.create', expect.not.stringContaining(folderId)]);
  });

  it('is deleted once by two sync passes at a time', async () => {
    const second = { ...ctx, db: measure(test.database).db };
    await Promise.all([applyList(ctx, folderId, null), applyList(second, folderId, null)]);
    expect(await typesOf()).toEqual([['email.folder.delete', folderId]]);
  });

  it('leaves emails of other folders there, with their events before its own', async () => {
    const copies = [1, COUNT].map((uid) => ({ uid, folderId: otherId, accountId: account, emailId: emailAt(uid) }));
    await inLease(db(), lease, (tx) =>
      insertLocations(
        tx,
        copies.map((copy) => ({ ...copy, ...identityOf(copy.uid), seen: false, flags: [] })),
      ),
    );
    await applyList(ctx, folderId, null);
    expect(await typesOf()).toEqual([
      ['email.update', emailAt(1)],
      ['email.update', emailAt(COUNT)],
      ['email.folder.delete', folderId],
    ]);
    await expectCounted();
  });
});

describe('a folder that becomes a parent without mail', () => {
  it('continues after a crash, and starts over when it holds mail again', async () => {
    await crashIn(3, () => applyList(ctx, folderId, { selectable: false }));
    expect(await loadFolder(db(), folderId)).toMatchObject({ vacating: 'noselect', selectable: false });
    await applyList(ctx, folderId, { selectable: true });
    const folder = await loadFolder(db(), folderId);
    expect(folder).toMatchObject({ vacating: null, selectable: true, uidValidity: 0, uidNext: 1, knownCount: 0 });
    expect(await typesOf()).toEqual([]);
  });
});

describe('a folder with a new UIDVALIDITY', () => {
  const server = () => serverOf({ shift: 7, from: 1, to: COUNT });
  const renumber = (uidValidity: number, source = server()) =>
    renumberFolder(ctx, folderId, { uidValidity, uidNext: COUNT + 8 }, source);
  const emailIdsAt = async (shift: number) => {
    const uids = [1, 1000, COUNT].map((uid) => uid + shift);
    return [...(await emailsAt(db(), folderId, uids)).values()].sort();
  };
  const expected = [emailAt(1), emailAt(1000), emailAt(COUNT)].sort();

  it.each(some([2, 3, 5, 6, 8, 9], [2, 6, 9]))('keeps its emails after a crash in transaction %d', async (number) => {
    await crashIn(number, () => renumber(2));
    expect(await loadFolder(db(), folderId)).toMatchObject({ uidValidity: -1, renumbering: { uidValidity: 2 } });
    expect(await renumber(2)).toMatchObject({ uidValidity: 2, uidNext: COUNT + 8, renumbering: null });
    expect(await emailIdsAt(7)).toEqual(expected);
    expect(await typesOf()).toEqual([]);
    await expectCounted();
  });

  it.each(some([2, 3, 6, 7], [3, 6]))(
    'keeps them when it gets yet another one after transaction %d',
    async (number) => {
      await crashIn(number, () => renumber(2));
      const done = await renumber(3, serverOf({ shift: 3, from: 1, to: COUNT }));
      expect(done).toMatchObject({ uidValidity: 3, knownCount: COUNT });
      expect(await emailIdsAt(3)).toEqual(expected);
      await expectCounted();
    },
  );

  it('is numbered once by two sync passes at a time', async () => {
    const second = { ...ctx, db: measure(test.database).db };
    const selected = { uidValidity: 2, uidNext: COUNT + 8 };
    const [first, other] = await Promise.all([renumber(2), renumberFolder(second, folderId, selected, server())]);
    expect(first).toMatchObject({ uidValidity: 2, knownCount: COUNT });
    expect(other).toEqual(first);
    expect(await emailIdsAt(7)).toEqual(expected);
  });

  it('is not renumbered when it is deleted in the meantime', async () => {
    await crashIn(3, () => renumber(2));
    await applyList(ctx, folderId, null);
    await expect(renumber(2)).rejects.toMatchObject({ code: 'provider_error' });
    expect(await typesOf()).toEqual([['email.folder.delete', folderId]]);
  });
});

it('a folder that is excluded leaves in steps, when the time of each is up', async () => {
  await changeAccount(db(), account, { folderChoice: { exclude: ['Large *'] } });
  const step = (calls: number) => removeAllExcluded({ db: db(), storage: ctx.storage }, () => calls-- <= 0);
  // the account, the folder and a chunk
  expect(await step(3)).toBe(false);
  expect((await loadFolder(db(), folderId))?.knownCount).toBe(COUNT - 1_000);
  expect(await step(100)).toBe(true);
  expect(await loadFolder(db(), folderId)).toBeUndefined();
});

describe('the number of known locations', () => {
  it('follows every change of them', async () => {
    const key = (uid: number) => ({ folderId, uid });
    const moved = {
      uid: 9,
      folderId: otherId,
      accountId: account,
      emailId: emailAt(1),
      seen: false,
      flags: [],
      ...identityOf(1),
    };
    await inLease(db(), lease, async (tx) => {
      await markVanished(tx, folderId, [1, 2, 3], new Date());
      await markVanished(tx, folderId, [3, 4], new Date());
      await insertLocations(tx, [{ ...moved, folderId, uid: 5 }]);
      await insertLocations(tx, [{ ...moved, folderId, uid: COUNT + 1 }]);
      await moveLocations(tx, { removed: [key(4), key(6)], added: [moved] });
      await moveLocations(tx, { removed: [key(4)], added: [moved] });
      await deleteVanished(tx, [emailAt(2)]);
    });
    await expectCounted();
    const [other] = await db().select().from(folders).where(eq(folders.id, otherId));
    expect(other).toMatchObject({ knownCount: 1, totalCount: 1, unreadCount: 1 });
    const folder = await loadFolder(db(), folderId);
    expect(folder).toMatchObject({ knownCount: COUNT - 4, totalCount: COUNT - 1, unreadCount: COUNT - 1 });
  });
});
