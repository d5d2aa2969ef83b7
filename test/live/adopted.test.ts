import { afterAll, expect, test } from '@jest/globals';
import type { Email } from '../../src/contract/email.ts';
import { emailOf } from '../helpers/fakes/receiver.ts';
import { connectUser, type OwnLive, startLive } from '../helpers/product/live.ts';
import { newMessageId } from '../helpers/product/mail-text.ts';
import type { TestDatabase } from '../helpers/servers/postgres.ts';
import { unreleasedDatabase } from '../helpers/servers/unreleased-database.ts';

/** API and worker begin together on a database of the last version before 0.1.0: one of them adopts it. */

let database: TestDatabase;
let live: OwnLive;

afterAll(async () => {
  await live?.close();
  await database?.drop();
});

test('a database of the last version before 0.1.0 is adopted, and mail is received, changed, drafted and sent with it', async () => {
  database = await unreleasedDatabase();
  live = await startLive({ DATABASE_URL: database.url });
  const anna = await connectUser(live);
  const { call } = await anna.receive('INBOX', 'in an adopted database');
  const email = emailOf(call);
  await live.api.post(`/${anna.account.id}/emails/${email.id}/read`);
  await anna.event('email.update', (one) => emailOf(one).id === email.id);
  await live.api.post(`/${anna.account.id}/drafts`, {
    to: [{ email: anna.user.user }],
    subject: 'a draft',
    plain_text: 'x',
  });
  const subject = `sent ${newMessageId()}`;
  await live.api.post(`/${anna.account.id}/emails/send`, { to: [{ email: anna.user.user }], subject, plain_text: 'x' });
  await anna.event('email.new', (one) => emailOf(one).subject === subject);
  const read = await live.api.get<Email>(`/${anna.account.id}/emails/${email.id}`);
  expect(read).toMatchObject({ subject: 'in an adopted database', is_unread: false });
  const records = 'SELECT FROM drizzle.__drizzle_migrations WHERE created_at <= 1795461610728';
  expect((await database.database.pool.query(records)).rowCount).toBe(0);
}, 180_000);
