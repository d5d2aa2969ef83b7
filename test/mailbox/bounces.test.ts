import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import type { Bounce } from '../../src/contract/email.ts';
import { emails, sends } from '../../src/db/schema/index.ts';
import { findBounced, linkReports, linkEarlierBounces } from '../../src/mailbox/bounces.ts';
import { newId } from '../../src/new-id.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { type EmailOptions, storeEmail, storeFolder } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

let test: TestDatabase;
let account: string;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());
beforeEach(async () => {
  account = await storeAccount(test.database);
});

const ID = '<sent@example.test>';
const SAYS = { recipient: 'gone@x.y', action: 'failed', status: '5.1.1', diagnostic: 'no such user', recipients: [] };

const store = async (options: EmailOptions = {}, owner = account) =>
  (await storeEmail(test.database, owner, { messageId: ID, ...options })).id;

async function storeSend(state = 'sent', owner = account, messageId = ID, serverMessageId?: string): Promise<string> {
  const [id, at] = [newId('email'), new Date()];
  await test.database.db.insert(sends).values({
    id,
    accountId: owner,
    messageId,
    serverMessageId,
    apiKeyId: 'pk_x',
    apiKeyName: 'x',
    trackingId: `trk_${id.slice(6)}`,
    state,
    createdAt: at,
    updatedAt: at,
  });
  return id;
}

const found = async () => (await findBounced(test.database.db, account, [ID, '<other@x>'])).get(ID)?.emailId;

it('links a bounce to the email in Sent, not to the received copy or a draft of it', async () => {
  await store({ draft: true });
  expect(await found()).toBeUndefined();
  const received = await store({ folders: [await storeFolder(test.database, account, { role: 'INBOX' })] });
  expect(await found()).toBe(received);
  const own = await store();
  await test.database.db.update(emails).set({ isEcho: true }).where(eq(emails.id, own));
  expect(await found()).toBe(own);
  const sent = await store({ folders: [await storeFolder(test.database, account, { role: 'SENT' })] });
  expect(await found()).toBe(sent);
});

it('links a bounce to an email whose Sent copy is not ingested yet', async () => {
  await storeSend('failed');
  const otherAccount = await storeAccount(test.database);
  await storeSend('sent', otherAccount);
  await store({}, otherAccount);
  expect(await found()).toBeUndefined();
  const unknown = await storeSend('unknown');
  expect(await found()).toBe(unknown);
  const sent = await storeSend();
  await store({ folders: [await storeFolder(test.database, account, { role: 'SENT' })] });
  expect(await found()).toBe(sent);
});

it('links a bounce that names the Message-ID that the SMTP server gave the email', async () => {
  const sent = await storeSend('sent', account, '<ours@example.test>', ID);
  expect(await found()).toBe(sent);
});

it('of several possible Message-IDs, uses the one of a sent email', async () => {
  const sent = await storeSend();
  const bounces = await linkReports(test.database.db, account, [
    { bounce: { ...SAYS, messageIds: ['<relay@x>', ID] }, complaint: null },
    { bounce: null, complaint: null },
    { bounce: { ...SAYS, messageIds: ['<unknown@x>', '<other@x>'] }, complaint: null },
    { bounce: { ...SAYS, messageIds: [] }, complaint: null },
  ]);
  expect(bounces.map(({ bounce }) => bounce)).toEqual([
    { ...SAYS, message_id: ID, email_id: sent, tracking_id: `trk_${sent.slice(6)}` },
    null,
    { ...SAYS, message_id: '<unknown@x>', email_id: null, tracking_id: null },
    { ...SAYS, message_id: null, email_id: null, tracking_id: null },
  ]);
});

it('a bounce that arrives before its email is linked later, once', async () => {
  const { db } = test.database;
  const untied: Bounce = { ...SAYS, message_id: ID, email_id: null, tracking_id: null };
  const bounce = await store({ messageId: '<report@x>' });
  const other = await store({ messageId: '<report-2@x>' });
  await db.update(emails).set({ bounce: untied }).where(eq(emails.id, bounce));
  await db
    .update(emails)
    .set({ bounce: { ...untied, message_id: '<other@x>' } })
    .where(eq(emails.id, other));
  const bounceOf = async (id: string) => (await db.select().from(emails).where(eq(emails.id, id)))[0]?.bounce;
  const tie = () => db.transaction((tx) => linkEarlierBounces(tx, account, [ID]));
  await tie();
  expect(await bounceOf(bounce)).toEqual(untied);
  const sent = await store({ folders: [await storeFolder(test.database, account, { role: 'SENT' })] });
  await tie();
  expect(await bounceOf(bounce)).toEqual({ ...untied, email_id: sent });
  await storeSend();
  await tie();
  expect(await bounceOf(bounce)).toEqual({ ...untied, email_id: sent });
  expect(await bounceOf(other)).toMatchObject({ email_id: null });
});
