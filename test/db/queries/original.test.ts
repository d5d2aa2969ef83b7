import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import type { Email } from '../../../src/contract/email.ts';
import { storedOrSent } from '../../../src/db/queries/mail/sent-email.ts';
import { findForwarded, findReplyTarget } from '../../../src/db/queries/mail/original.ts';
import { attachments, emails, sends, trackingRecords } from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';
import { storeEmail } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { testDatabase, type TestDatabase } from '../../helpers/servers/postgres.ts';

/** The originals of replies and forwards. */

let test: TestDatabase;
let accountId: string;

beforeAll(async () => {
  test = await testDatabase();
  accountId = await storeAccount(test.database);
});
afterAll(() => test.drop());

it.each(['email_', 'email_1', `${newId('email')}x`, newId('email').toUpperCase().replace('EMAIL', 'email')])(
  'the malformed id %s is no email, and no Message-ID either',
  async (reference) => {
    expect(await findReplyTarget(test.database.db, accountId, reference)).toBeUndefined();
    expect(await findForwarded(test.database.db, accountId, reference)).toBeUndefined();
  },
);

it('a Message-ID that begins like an id is one', async () => {
  const target = await findReplyTarget(test.database.db, accountId, '<email_1@example.test>');
  expect(target).toEqual({ messageId: '<email_1@example.test>', references: [] });
  expect(await findReplyTarget(test.database.db, accountId, 'email_1@example.test')).toEqual(target);
});

it('an email that was just sent is found by its send until its copy is stored', async () => {
  const { db } = test.database;
  const id = newId('email');
  const headers = [{ name: 'References', value: '<a@x.test>' }];
  const email = { subject: 'sent', body: '', body_plain: 'hello', headers } as Partial<Email> as Email;
  const row = { id, accountId, state: 'sent', apiKeyId: 'pk_1', apiKeyName: 'key', email };
  const times = { createdAt: new Date(), updatedAt: new Date() };
  await db
    .insert(sends)
    .values({ ...row, ...times, messageId: '<sent@x.test>', storageKey: `${accountId}/sent/1.eml` });
  const file = { id: newId('attachment'), emailId: id, accountId, name: 'a.txt', mime: 'text/plain' };
  await db.insert(attachments).values({ ...file, size: 3, storageKey: 'a' });
  const original = { messageId: '<sent@x.test>', references: ['<a@x.test>'] };
  for (const reference of [id, '<sent@x.test>', 'sent@x.test']) {
    expect(await findReplyTarget(db, accountId, reference)).toEqual(original);
    expect(await findForwarded(db, accountId, reference)).toEqual({
      ...{ ...original, emailId: id, subject: 'sent' },
      ...{ storageKey: `${accountId}/sent/1.eml`, size: 9, files: { count: 1, bytes: 3 } },
    });
  }
});

it('an email whose Message-ID the SMTP server has replaced is found by both', async () => {
  const { db } = test.database;
  const [ours, theirs] = ['<ours@x.test>', '<theirs@prod.outlook.com>'];
  const { id } = await storeEmail(test.database, accountId);
  await db.update(emails).set({ messageId: theirs }).where(eq(emails.id, id));
  const row = { id, accountId, state: 'sent', apiKeyId: 'pk_1', apiKeyName: 'key', messageId: ours };
  await db.insert(sends).values({ ...row, serverMessageId: theirs, createdAt: new Date(), updatedAt: new Date() });
  for (const reference of [id, ours, theirs]) {
    expect(await findReplyTarget(db, accountId, reference)).toMatchObject({ messageId: theirs });
    expect(await findForwarded(db, accountId, reference)).toMatchObject({ emailId: id, messageId: theirs });
  }
});

it('a tracked email is found with the targets of its links', async () => {
  const { db } = test.database;
  const { id } = await storeEmail(test.database, accountId);
  expect(await findForwarded(db, accountId, id)).not.toHaveProperty('tracked');
  const trackingId = newId('tracking');
  const links = ['https://a.test/', 'https://b.test/'];
  await db.update(emails).set({ trackingId }).where(eq(emails.id, id));
  const record = { accountId, emailId: id, messageId: '<t@x.test>', label: null, opens: true, createdAt: new Date() };
  await db.insert(trackingRecords).values({ ...record, id: trackingId, links });
  expect(await findForwarded(db, accountId, id)).toMatchObject({ emailId: id, tracked: { trackingId, links } });
});

it('an email whose copy is stored between both looks is found', async () => {
  let isStored = false;
  const readStored = () => Promise.resolve(isStored ? 'stored' : undefined);
  const readSent = () => {
    isStored = true;
    return Promise.resolve(undefined);
  };
  expect(await storedOrSent(readStored, readSent)).toBe('stored');
});
