import { Readable } from 'node:stream';
import { describe, expect, it } from '@jest/globals';
import { and, asc, eq, sql } from 'drizzle-orm';
import { accountsWithDueReparses, emailsToReparse } from '../../src/mailbox/reparse/reparses.ts';
import { attachments, contacts, emailContents, emailSearch, emails, locations } from '../../src/db/schema/index.ts';
import { matchFiles } from '../../src/mailbox/reparse/files.ts';
import { reparseEmail } from '../../src/mailbox/reparse/reparse.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import type { MailParser } from '../../src/mime/parser.ts';
import { PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';
import { storedEvents } from '../helpers/product/stored-events.ts';

/** Stored mail that an older release read worse, or cut short, is read again. */

const { start: startOn } = engineTests();
const FILE = { name: 'a.bin', type: 'application/octet-stream', content: Buffer.alloc(400_000, 'file ') };

async function start(): Promise<Engine> {
  const engine = await startOn({ capabilities: PLAIN, folders: { Drafts: [] } });
  const date = new Date('2026-03-04T05:06:07Z');
  engine.server.append('INBOX', mailText({ subject: 'plain', text: 'a text', date }));
  engine.server.append('INBOX', mailText({ subject: 'files', text: 'see file', date, attachments: [FILE] }));
  engine.server.append('INBOX', mailText({ subject: 'last', html: '<p>some <b>html</b></p>', date }));
  await syncMailbox(engine.ctx, { freshSession: true });
  return engine;
}

/** Every row of the account's mail, with the transaction that wrote it last. */
async function rowsOf({ ctx }: Engine, { withXmin = true } = {}) {
  const tables = [emails, emailContents, emailSearch, attachments, locations, contacts] as const;
  const rows = [];
  for (const table of tables) {
    const found = await ctx.db.execute<Record<string, unknown>>(
      sql`select t.xmin::text as xmin, t.* from ${table} t where account_id = ${ctx.account.id} order by t::text`,
    );
    rows.push(...found.rows.map(({ xmin, ...row }) => (withXmin ? { xmin, ...row } : row)));
  }
  return rows;
}

const ofAccount = ({ account }: Engine['ctx']) => ({ ...account, authservId: 'mx.example.test' });

async function reparseAll({ ctx }: Engine, parser: Pick<MailParser, 'parse'> = ctx.parser): Promise<string[]> {
  const { rows } = await emailsToReparse(ctx.db, ctx.account.id, { list: 'emails', last: null }, 100);
  const outcomes: string[] = [];
  for (const row of rows)
    outcomes.push(`${row.subject}: ${await reparseEmail({ ...ctx, parser }, ofAccount(ctx), row)}`);
  return outcomes.sort();
}

const emailWith = async ({ ctx }: Engine, subject: string) => {
  const isIt = and(eq(emails.accountId, ctx.account.id), eq(emails.subject, subject));
  const [row] = await ctx.db.select().from(emails).where(isIt);
  return row!;
};

/** As a release left it that read nothing of the message but its size. */
async function damage({ ctx }: Engine, id: string, { isComplete = true } = {}): Promise<void> {
  const { db } = ctx;
  const empty = { identifier: '', display_name: '', identifier_type: 'EMAIL_ADDRESS' as const };
  const arrival = new Date('2026-05-01T00:00:00Z');
  const header = { subject: 'cut', fromAttendee: empty, toAttendees: [], messageId: null, date: arrival };
  await db
    .update(emails)
    .set({ ...header, hasAttachments: false, isComplete })
    .where(eq(emails.id, id));
  await db.update(emailContents).set({ body: '', bodyPlain: '', attachments: [] }).where(eq(emailContents.emailId, id));
  await db.update(emailSearch).set({ text: '', subject: '', date: arrival }).where(eq(emailSearch.emailId, id));
  await db.update(locations).set({ date: arrival }).where(eq(locations.emailId, id));
}

describe('parsing stored mail again', () => {
  it('changes nothing where the result is the same', async () => {
    const engine = await start();
    const before = await rowsOf(engine);
    const files = await engine.files();
    expect(await reparseAll(engine)).toEqual(['files: unchanged', 'last: unchanged', 'plain: unchanged']);
    expect(await rowsOf(engine)).toEqual(before);
    expect(await engine.files()).toEqual(files);
  });

  it('repairs damaged rows and changes no others; id, thread, flags and folders stay, without an event', async () => {
    const engine = await start();
    const [right, events, files] = [
      await rowsOf(engine, { withXmin: false }),
      await engine.events(),
      await engine.files(),
    ];
    const { id } = await emailWith(engine, 'plain');
    await damage(engine, id);
    expect(await rowsOf(engine, { withXmin: false })).not.toEqual(right);
    const others = (await rowsOf(engine)).filter((row) => ![row['id'], row['email_id']].includes(id));
    expect(await reparseAll(engine)).toEqual(['cut: changed', 'files: unchanged', 'last: unchanged']);
    expect(await rowsOf(engine, { withXmin: false })).toEqual(right);
    const after = (await rowsOf(engine)).filter((row) => ![row['id'], row['email_id']].includes(id));
    // the contact is refreshed with the email
    expect(after.filter((row) => !('address' in row))).toEqual(others.filter((row) => !('address' in row)));
    expect(await engine.events()).toEqual(events);
    expect(await engine.files()).toEqual(files);
    expect(await reparseAll(engine)).toEqual(['files: unchanged', 'last: unchanged', 'plain: unchanged']);
  });

  it('restores lost files, keeps existing ones, and deletes those that are not attachments', async () => {
    const engine = await start();
    const { db } = engine.ctx;
    const { id } = await emailWith(engine, 'files');
    const [kept] = await db.select().from(attachments).where(eq(attachments.emailId, id));
    const strayId = kept!.id.replace(/.{3}$/, '000');
    const strayKey = `${engine.ctx.account.id}/att/${strayId}`;
    await engine.ctx.storage.put(strayKey, Buffer.from('no file'));
    await db.insert(attachments).values({ ...kept!, id: strayId, storageKey: strayKey, size: 7 });
    expect(await reparseAll(engine)).toContain('files: changed');
    expect(await db.select().from(attachments).where(eq(attachments.emailId, id))).toEqual([kept]);
    expect(await engine.ctx.storage.size(strayKey)).toBeUndefined();

    await db.delete(attachments).where(eq(attachments.emailId, id));
    await db.update(emailContents).set({ attachments: [] }).where(eq(emailContents.emailId, id));
    expect(await reparseAll(engine)).toContain('files: changed');
    const [found] = await db.select().from(attachments).where(eq(attachments.emailId, id));
    expect(found).toMatchObject({ name: 'a.bin', size: FILE.content.length });
    expect(await engine.ctx.storage.size(found!.storageKey)).toBe(FILE.content.length);
  });

  it('removes nothing when it is cut short itself', async () => {
    const engine = await start();
    const before = await rowsOf(engine);
    const cutShort = {
      parse: async (...args: Parameters<MailParser['parse']>) => ({
        ...(await engine.ctx.parser.parse(...args)),
        ...{ body: '', bodyPlain: '', isPartial: true },
      }),
    };
    expect(await reparseAll(engine, cutShort)).toEqual(['files: incomplete', 'last: incomplete', 'plain: incomplete']);
    expect(await rowsOf(engine)).toEqual(before);
    // nor where what is stored was cut short, too, but later
    await engine.ctx.db.update(emails).set({ isComplete: false }).where(eq(emails.accountId, engine.ctx.account.id));
    const cutBefore = await rowsOf(engine, { withXmin: false });
    const files = await engine.files();
    for (const less of [{ body: '', bodyPlain: '' }, { attachments: [] }, { headers: [] }, { to: [], cc: [] }]) {
      const shorter = {
        parse: async (...args: Parameters<MailParser['parse']>) => ({
          ...(await engine.ctx.parser.parse(...args)),
          ...{ searchText: ' less ', ...less, isPartial: true },
        }),
      };
      const { id } = await emailWith(engine, 'files');
      const [row] = await engine.ctx.db.select().from(emails).where(eq(emails.id, id));
      expect(await reparseEmail({ ...engine.ctx, parser: shorter }, ofAccount(engine.ctx), row!)).toBe('incomplete');
    }
    expect(await emailWith(engine, 'files')).toMatchObject({ reparses: 3 });
    await engine.ctx.db.update(emails).set({ reparses: 0 }).where(eq(emails.accountId, engine.ctx.account.id));
    expect(await rowsOf(engine, { withXmin: false })).toEqual(cutBefore);
    expect(await engine.files()).toEqual(files);
  });

  it('takes mail of the account itself for no bounce', async () => {
    const engine = await startOn({ capabilities: PLAIN, folders: { Sent: ['\\Sent'] } });
    const [from, to] = ['postmaster@alias.test', 'one@x.test'];
    engine.server.append('Sent', mailText({ subject: 'sent', from, to }));
    engine.server.append('INBOX', mailText({ subject: 'received', from, to }));
    await syncMailbox(engine.ctx, { freshSession: true });
    expect(await reparseAll(engine)).toEqual(['received: unchanged', 'sent: unchanged']);
    // as earlier releases read it
    const { bounce } = await emailWith(engine, 'received');
    expect(bounce).not.toBeNull();
    const { id } = await emailWith(engine, 'sent');
    await engine.ctx.db.update(emails).set({ bounce }).where(eq(emails.id, id));
    await engine.ctx.db.delete(contacts).where(eq(contacts.accountId, engine.ctx.account.id));
    expect(await reparseAll(engine)).toEqual(['received: unchanged', 'sent: changed']);
    expect(await emailWith(engine, 'sent')).toMatchObject({ bounce: null });
    const people = await engine.ctx.db.select().from(contacts).where(eq(contacts.accountId, engine.ctx.account.id));
    expect(people.map(({ address }) => address)).toEqual([to]);
  });

  it('skips an email without a source', async () => {
    const engine = await start();
    const before = await rowsOf(engine);
    const { storageKey } = await emailWith(engine, 'last');
    await engine.ctx.storage.delete([storageKey]);
    expect(await reparseAll(engine)).toContain('last: unreadable');
    expect(await rowsOf(engine)).toEqual(before);
  });
});

describe('the files of a mail that is parsed again', () => {
  it('are read once each, however many are of one size', async () => {
    const content = (n: number) => Buffer.from(`file ${String(n).padStart(4, '0')}`);
    const old = Array.from({ length: 30 }, (_, n) => ({ id: `att_${n}`, size: 9, storageKey: `key ${n}` }));
    const reads: string[] = [];
    const storage = {
      get: async (key: string) => (reads.push(key), Readable.from([content(Number(key.slice(4)))])),
      put: async () => 0,
    };
    const shown = { extension: '', size: 9, mime: 'text/plain', cid: null, inline: false, embedded: false };
    const found = (from: number) =>
      Array.from({ length: 30 }, (_, n) => ({ ...shown, name: `${n}`, content: content(from + n) }));
    const match = (attachments: ReturnType<typeof found>) =>
      matchFiles({ storage, accountId: 'acc_1', written: [] }, { attachments }, old);
    const same = await match(found(0).reverse());
    expect(same.attachments.map(({ id }) => id)).toEqual(old.map(({ id }) => id).reverse());
    expect(same).toMatchObject({ written: [], unused: [] });
    expect(reads).toHaveLength(30);
    const others = await match(found(20));
    expect(others.written).toHaveLength(20);
    expect(others.unused).toEqual(old.slice(0, 20).map(({ storageKey }) => storageKey));
    expect(reads).toHaveLength(60);
  });
});

describe('a mail whose parsing was cut short', () => {
  it('is reported once, when it is complete', async () => {
    const engine = await start();
    const { id } = await emailWith(engine, 'files');
    const before = await engine.events();
    await damage(engine, id, { isComplete: false });
    const cut: Pick<MailParser, 'parse'> = {
      parse: async (source) => ({ ...(await engine.ctx.parser.parse(source)), bodyPlain: 'more', isPartial: true }),
    };
    expect(await reparseAll(engine, cut)).toContain('cut: incomplete');
    expect(await engine.events()).toEqual(before);
    expect(await reparseAll(engine)).toContain('files: changed');
    expect(await engine.events()).toEqual([...before, 'email.update']);
    const [event] = (await storedEvents(engine.ctx, engine.ctx.account.id)).slice(-1);
    expect(event?.data).toMatchObject({
      email: { id, subject: 'files', is_complete: true, has_attachments: true, attachments: [{ name: 'a.bin' }] },
    });
    expect(await reparseAll(engine)).toContain('files: unchanged');
    expect(await engine.events()).toHaveLength(before.length + 1);
  });

  it('is due a few times, at growing intervals, with a longer time limit', async () => {
    const engine = await start();
    const { db, account } = engine.ctx;
    const { id } = await emailWith(engine, 'plain');
    const patiences: (number | undefined)[] = [];
    const slow = {
      parse: async (...[source, options]: Parameters<MailParser['parse']>) => {
        patiences.push(options?.patience);
        return { ...(await engine.ctx.parser.parse(source)), isPartial: true };
      },
    };
    const due = async () =>
      (await emailsToReparse(db, account.id, { list: 'incomplete', last: null }, 10)).rows.map((row) => row.id);
    const storedAgo = (age: string) =>
      db.execute(sql`update emails set created_at = now() - ${age}::interval where id = ${id}`);
    await db.update(emails).set({ isComplete: false }).where(eq(emails.id, id));
    expect(await due()).toEqual([]);
    for (const [tooSoon, age] of [
      ['9 minutes', '11 minutes'],
      ['5 hours', '7 hours'],
      ['1 day', '3 days'],
    ] as const) {
      await storedAgo(tooSoon);
      expect([await due(), await accountsWithDueReparses(db, 10)]).toEqual([[], []]);
      await storedAgo(age);
      expect([await due(), await accountsWithDueReparses(db, 10)]).toEqual([[id], [account.id]]);
      const [row] = await db.select().from(emails).where(eq(emails.id, id)).orderBy(asc(emails.id));
      expect(await reparseEmail({ ...engine.ctx, parser: slow }, ofAccount(engine.ctx), row!)).toBe('incomplete');
    }
    await storedAgo('1 year');
    expect(await due()).toEqual([]);
    expect(patiences.every((patience) => (patience ?? 1) > 1)).toBe(true);
    expect(patiences).toHaveLength(3);
    // the user asks for it
    expect(await reparseAll(engine)).toContain('plain: changed');
    expect(await emailWith(engine, 'plain')).toMatchObject({ isComplete: true });
  });
});
