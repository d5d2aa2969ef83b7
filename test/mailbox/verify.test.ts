import { describe, expect, it } from '@jest/globals';
import { and, eq, sql } from 'drizzle-orm';
import { emails, folders, locations } from '../../src/db/schema/index.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { verifyMailbox } from '../../src/mailbox/verify.ts';
import { type FakeImapOptions, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';

/** What a verification finds in a store that a bug has left wrong, and how it is repaired. */

const { start: startOn } = engineTests();

const SERVERS: [string, FakeImapOptions][] = [
  ['with IMAP4rev1 alone', { capabilities: 'IMAP4rev1', folders: { Work: [] } }],
  ['with CONDSTORE and QRESYNC', { capabilities: `${PLAIN} MOVE CONDSTORE QRESYNC`, folders: { Work: [] } }],
];
const never = new AbortController().signal;

describe.each(SERVERS)('on a server %s', (_, options) => {
  async function start(): Promise<Engine> {
    const engine = await startOn(options);
    for (const subject of ['a', 'b', 'c', 'd']) engine.server.append('INBOX', mailText({ subject }));
    engine.server.append('Work', mailText({ subject: 'e' }), { flags: ['\\Seen'] });
    await syncMailbox(engine.ctx, { freshSession: true });
    return engine;
  }
  const inbox = async ({ ctx }: Engine, uid: number) => {
    const [folder] = await ctx.db
      .select()
      .from(folders)
      .where(and(eq(folders.accountId, ctx.account.id), eq(folders.path, 'INBOX')));
    return and(eq(locations.folderId, folder!.id), eq(locations.uid, uid));
  };
  const kinds = async ({ ctx }: Engine) =>
    (await verifyMailbox(ctx, never)).sample.map(({ kind, uid }) => `${kind} ${uid}`).sort();

  it('finds nothing in a correct store', async () => {
    const running = await start();
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ folders: 2, messages: 5, differences: 0, left: 0 });
  });

  it('finds a message that is not stored, one that was deleted, wrong flags and counters', async () => {
    const running = await start();
    const { db } = running.ctx;
    await db.delete(locations).where(await inbox(running, 1));
    await db
      .update(locations)
      .set({ seen: true })
      .where(await inbox(running, 2));
    running.server.folder('INBOX').messages = running.server.folder('INBOX').messages.filter(({ uid }) => uid !== 3);
    await db.execute(
      sql`update folders set unread_count = 17 where account_id = ${running.ctx.account.id} and path = 'Work'`,
    );
    // the counters agree with one another, so that no sync pass looks
    await db.execute(
      sql`update folders set total_count = 3, known_count = 3 where account_id = ${running.ctx.account.id} and path = 'INBOX'`,
    );
    const found = await kinds(running);
    expect(found).toEqual(expect.arrayContaining(['message_missing 3', 'message_not_stored 1']));
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ differences: 0 });
    expect(await running.events()).toContain('email.delete');
    const [work] = await db
      .select()
      .from(folders)
      .where(and(eq(folders.accountId, running.ctx.account.id), eq(folders.path, 'Work')));
    expect([work!.totalCount, work!.unreadCount]).toEqual([1, 0]);
  });

  it('finds an email that has no location', async () => {
    const running = await start();
    const { db, account } = running.ctx;
    await db.delete(locations).where(await inbox(running, 1));
    running.server.folder('INBOX').messages = running.server.folder('INBOX').messages.filter(({ uid }) => uid !== 1);
    await db.execute(
      sql`update folders set total_count = 3, known_count = 3, unread_count = 3 where account_id = ${account.id} and path = 'INBOX'`,
    );
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({
      ...{ differences: 1, left: 0, kinds: { email_without_location: 1 } },
    });
    expect((await running.events()).at(-1)).toBe('email.delete');
    expect(await db.select().from(emails).where(eq(emails.accountId, account.id))).toHaveLength(4);
  });

  it.each([
    ['above UIDNEXT', 4_000],
    ['of another folder', 3],
  ])('finds a location %s that the folder does not have', async (_, uid) => {
    const running = await start();
    const { db, account } = running.ctx;
    const work = await running.folder('Work');
    // the message left the folder that it was in
    await db
      .update(locations)
      .set({ folderId: work.id, uid })
      .where(await inbox(running, 2));
    running.server.folder('INBOX').messages = running.server.folder('INBOX').messages.filter((each) => each.uid !== 2);
    await db.execute(
      sql`update folders set total_count = 3, known_count = 3, unread_count = 3 where account_id = ${account.id} and path = 'INBOX'`,
    );
    await db.execute(sql`update folders set known_count = 2 where id = ${work.id}`);
    const found = await verifyMailbox(running.ctx, never);
    expect(found.kinds.message_missing ?? found.resolved.message_missing).toBe(1);
    expect(found.left).toBe(0);
    expect((await running.events()).at(-1)).toBe('email.delete');
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ differences: 0, kinds: {}, resolved: {} });
  });

  it('counts folders and counters that the sync pass repairs, and a wrong count of the locations', async () => {
    const running = await start();
    const { db, account } = running.ctx;
    const set = (values: string) =>
      db.execute(sql`update folders set ${sql.raw(values)} where account_id = ${account.id} and path = 'Work'`);
    await set(`total_count = 17`);
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ differences: 0, resolved: { counters: 1 } });
    await set(`known_count = 17`);
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ differences: 1, kinds: { counters: 1 } });
    running.server.createFolder('New');
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ resolved: { folder_not_stored: 1 } });
    running.server.deleteFolder('New');
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ resolved: { folder_missing: 1 } });
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ differences: 0, left: 0, kinds: {}, resolved: {} });
  });

  it('finds another message behind a UID', async () => {
    const running = await start();
    const messages = running.server.folder('INBOX').messages;
    [messages[0]!.source, messages[1]!.source] = [messages[1]!.source, messages[0]!.source];
    [messages[0]!.date, messages[1]!.date] = [messages[1]!.date, messages[0]!.date];
    expect(await kinds(running)).toEqual(['other_message 1', 'other_message 2']);
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ differences: 0, left: 0 });
    expect(await running.events()).toEqual(Array(5).fill('email.new'));
  });

  it('finds emails whose read state differs from that of their locations', async () => {
    const running = await start();
    const { db } = running.ctx;
    await db.update(emails).set({ isUnread: false }).where(eq(emails.subject, 'a'));
    expect(await verifyMailbox(running.ctx, never)).toMatchObject({ differences: 1, left: 0 });
    const [email] = await db
      .select()
      .from(emails)
      .where(and(eq(emails.subject, 'a'), eq(emails.accountId, running.ctx.account.id)));
    expect(email!.isUnread).toBe(true);
    expect((await running.events()).at(-1)).toBe('email.update');
  });
});

it('finds and repairs more differences than a call may have arguments', async () => {
  const count = 130_000;
  const { ctx, server, folder } = await startOn({ folders: { Work: [] } });
  await syncMailbox(ctx, { freshSession: true });
  const work = await folder('Work');
  // messages that the folder no longer holds, as in a database that was restored; the counters agree, so that no pass looks
  await ctx.db.execute(sql`
    insert into locations (folder_id, uid, account_id, seen, identity, weak_identity)
    select ${work.id}, n, ${ctx.account.id}, true, 'i' || n, 'w' || n from generate_series(1, ${count}::int) n`);
  await ctx.db.execute(sql`update folders set uid_next = ${count + 1} where id = ${work.id}`);
  server.folder('Work').uidNext = count + 1;
  const { kinds, left, sample } = await verifyMailbox(ctx, never);
  // the folder's count of its locations is wrong as well
  expect({ kinds, left }).toEqual({ kinds: { message_missing: count, counters: 1 }, left: 0 });
  expect(sample[0]).toEqual({ folderId: work.id, kind: 'message_missing', uid: 1 });
}, 120_000);
