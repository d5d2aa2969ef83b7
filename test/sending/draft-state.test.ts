import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { inLease } from '../../src/db/lease.ts';
import { drafts, locations } from '../../src/db/schema.ts';
import { changeEmails } from '../../src/mailbox/change-emails.ts';
import { testDatabase, type TestDatabase } from '../helpers/postgres.ts';
import { storeEmail, storeFolder } from '../helpers/rows.ts';
import { storeAccount } from '../helpers/stored-account.ts';

let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

it.each(['superseded', 'sent'])('a draft that was %s stays so when its email leaves Drafts later', async (state) => {
  const { db } = test.database;
  const accountId = await storeAccount(test.database);
  const [from, to] = [
    await storeFolder(test.database, accountId, { role: 'DRAFTS' }),
    await storeFolder(test.database, accountId, { role: 'INBOX' }),
  ];
  const { id, draftId } = await storeEmail(test.database, accountId, { draft: true, folders: [from] });
  await db
    .update(drafts)
    .set({ state })
    .where(eq(drafts.id, draftId as string));
  const lease = { accountId, watchEpoch: null };
  await inLease(db, lease, (tx) =>
    changeEmails(tx, lease, [id], new Date(), async () => {
      await tx.update(locations).set({ folderId: to }).where(eq(locations.emailId, id));
    }),
  );
  const [row] = await db
    .select()
    .from(drafts)
    .where(eq(drafts.id, draftId as string));
  expect(row).toMatchObject({ state, emailId: null });
});
