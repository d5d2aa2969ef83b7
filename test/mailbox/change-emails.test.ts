import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { inLease, type Lease } from '../../src/db/coordination/lease.ts';
import { drafts, locations } from '../../src/db/schema/index.ts';
import { changeEmails } from '../../src/mailbox/change-emails.ts';
import { storeFlagChanges } from '../../src/mailbox/changes/flags.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeEmail, storeFolder } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';
import { storedEvents } from '../helpers/product/stored-events.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

let account: string;
let lease: Lease;
beforeEach(async () => {
  account = await storeAccount(test.database);
  lease = { accountId: account, watchEpoch: null };
});

const db = () => test.database.db;
const typesOf = async () => (await storedEvents(test.database, account)).map(({ type }) => type);

describe('a draft whose email leaves Drafts', () => {
  it.each([
    ['active', 'Trash', 'deleted'],
    ['active', 'SENT', 'sent'],
    ['superseded', 'Trash', 'superseded'],
    ['superseded', 'SENT', 'superseded'],
    ['sent', 'Trash', 'sent'],
    ['failed', 'Trash', 'failed'],
  ])('that was %s and is in %s is %s', async (state, target, expected) => {
    const from = await storeFolder(test.database, account, { role: 'DRAFTS' });
    const to = await storeFolder(test.database, account, { role: target === 'SENT' ? 'SENT' : 'TRASH' });
    const { id, draftId } = await storeEmail(test.database, account, { draft: true, folders: [from] });
    await db().update(drafts).set({ state }).where(eq(drafts.emailId, id));
    await inLease(db(), lease, (tx) =>
      changeEmails(tx, { lease, emailIds: [id], now: new Date() }, async () => {
        await tx.update(locations).set({ folderId: to }).where(eq(locations.emailId, id));
      }),
    );
    const [draft] = await db().select().from(drafts).where(eq(drafts.id, draftId!));
    expect(draft).toMatchObject({ state: expected, emailId: null });
    expect(await typesOf()).toEqual(['email.draft.delete', target === 'SENT' ? 'email.new' : 'email.update']);
  });
});

describe('flags of many messages', () => {
  it('are stored by as many statements as those of one', async () => {
    const folder = await storeFolder(test.database, account, { unread: 20 });
    const uids: number[] = [];
    for (let i = 0; i < 20; i++) {
      const { id } = await storeEmail(test.database, account, { folders: [folder], unread: true });
      const [location] = await db().select().from(locations).where(eq(locations.emailId, id));
      uids.push(location!.uid);
    }
    const read = (some: number[]) =>
      countStatements(() =>
        inLease(db(), lease, (tx) =>
          storeFlagChanges(tx, lease, {
            flags: some.map((uid) => ({ folderId: folder, uid, seen: true, deleted: false, flags: [] })),
          }),
        ),
      );
    const ofOne = await read(uids.slice(0, 1));
    expect(await read(uids.slice(1))).toBe(ofOne);
    expect(await typesOf()).toEqual(Array<string>(20).fill('email.update'));
  });
});

async function countStatements(work: () => Promise<unknown>): Promise<number> {
  const client = await test.database.pool.connect();
  const proto = Object.getPrototypeOf(client) as { query: (...args: unknown[]) => unknown };
  client.release();
  const { query } = proto;
  let statements = 0;
  proto.query = function (...args) {
    statements++;
    return query.apply(this, args);
  };
  try {
    await work();
  } finally {
    proto.query = query;
  }
  return statements;
}
