import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { changeAccount } from '../../src/db/queries/accounts.ts';
import { deleteOldMail } from '../../src/maintenance/mail-retention.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../helpers/product/mailbox.ts';
import { openSyncGround, type SyncGround, WatchedAccount } from '../helpers/product/watched-account.ts';

/** What `retention_days` deletes, on a Dovecot. */

let ground: SyncGround;
beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());

let account: WatchedAccount;
let box: Mailbox;
beforeEach(async () => {
  const user = await addUser();
  account = new WatchedAccount(ground, user.imapPort, { pollMs: 200, login: user });
  box = await openMailbox(user);
  await account.connect();
});
afterEach(async () => {
  await account.stop().catch(() => {});
  await box.close();
  expect(account.failure).toBeUndefined();
});

const db = () => ground.database.database.db;
const subjects = async () =>
  (
    await db().execute<{ subject: string }>(
      sql`select subject from emails where account_id = ${account.id} and subject <> 'marker' order by subject`,
    )
  ).rows.map(({ subject }) => subject);
const deleteOld = () => deleteOldMail({ db: db(), storage: ground.storage }, () => false);
/** As if it had been ingested then. */
const age = (days: number) =>
  db().execute(
    sql`update emails set created_at = now() - make_interval(days => ${days}) where account_id = ${account.id}`,
  );
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000);

it('mail older than its days leaves the store without an event, and does not come back when it is moved', async () => {
  const old = await box.append('INBOX', { subject: 'old', date: daysAgo(40) });
  await box.append('INBOX', { subject: 'recent', date: daysAgo(2) });
  expect(await account.settle(box, 2)).toEqual(['email.new', 'email.new']);
  await changeAccount(db(), account.id, { retentionDays: 30 });

  // it was stored today
  expect(await deleteOld()).toBe(true);
  expect(await subjects()).toEqual(['old', 'recent']);

  await age(2);
  expect(await deleteOld()).toBe(true);
  expect(await subjects()).toEqual(['recent']);
  const { rows } = await db().execute(sql`
    select from attachments a where a.account_id = ${account.id}
    union all select from email_contents c where not exists (select from emails e where e.id = c.email_id)`);
  expect(rows).toHaveLength(0);
  // the mailbox keeps it
  expect(await box.uids('INBOX')).toContain(old);

  await box.createFolder('Filed');
  await box.move('INBOX', old, 'Filed');
  await box.append('INBOX', { subject: 'later' });
  const events = await account.settle(box, 4);
  expect(events.slice(2).sort()).toEqual(['email.folder.create', 'email.new']);
  expect(await subjects()).toEqual(['later', 'recent']);
});

it('all mail is kept without the setting', async () => {
  await box.append('INBOX', { subject: 'old', date: daysAgo(4000) });
  await account.settle(box, 1);
  await age(4000);
  expect(await deleteOld()).toBe(true);
  expect(await subjects()).toEqual(['old']);
});
