import { describe, expect, it } from '@jest/globals';
import { asc, eq } from 'drizzle-orm';
import { accounts, emails, locations } from '../../src/db/schema/index.ts';
import { inLease } from '../../src/db/coordination/lease.ts';
import { scanBaseline } from '../../src/mailbox/baseline.ts';
import { reservePath } from '../../src/mailbox/folders/reservations.ts';
import { markVacating } from '../../src/mailbox/folders/vacate.ts';
import { DoubtfulList } from '../../src/mailbox/folders/list-pass.ts';
import { type SyncOptions, syncMailbox, syncNotified, syncOnce } from '../../src/mailbox/sync-pass.ts';
import { gmailOptions } from '../helpers/fakes/fake-gmail.ts';
import { type FakeImap, type FakeMessage, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';

const { start } = engineTests();

const sync = ({ ctx }: Engine, options: SyncOptions = {}) => syncMailbox(ctx, options);

const emailsOf = ({ ctx }: Engine) => ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));

/** Where the emails are, as paths, those without a location too; baseline as `-`. */
async function located({ ctx, ...engine }: Engine): Promise<string[]> {
  const rows = await ctx.db
    .select()
    .from(locations)
    .where(eq(locations.accountId, ctx.account.id))
    .orderBy(asc(locations.uid));
  const paths = new Map(
    await Promise.all(
      [...engine.server.folders.keys()].map(async (path) => [(await engine.folder(path)).id, path] as const),
    ),
  );
  return rows
    .map(
      ({ folderId, emailId, vanishedAt }) => `${paths.get(folderId)}${emailId ? '' : ' -'}${vanishedAt ? ' left' : ''}`,
    )
    .sort();
}

const DATE = new Date('2024-05-06T07:08:09Z');
const server2000 = { capabilities: 'IMAP4rev1', folders: { Work: [], Later: [] } };
const modern = { capabilities: `${PLAIN} CONDSTORE QRESYNC`, folders: { Work: [], Later: [] } };

/** Moves a message as another mail program does. */
function move(server: FakeImap, from: string, uid: number, to: string): number {
  const message = server.folder(from).messages.find((each) => each.uid === uid);
  if (!message) throw new Error(`${from} has no message ${uid}`);
  return server.move(server.folder(from), message, server.folder(to));
}

describe.each([
  ['with IMAP4rev1 alone', server2000],
  ['with CONDSTORE and QRESYNC', modern],
])('a sync of a mailbox on a server %s', (_, options) => {
  it('stores new messages of every folder', async () => {
    const engine = await start(options);
    engine.server.append('INBOX', mailText());
    engine.server.append('Work', mailText());
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new', 'email.new']);
    await sync(engine);
    expect(await engine.events()).toHaveLength(2);
  });

  it('emits one email.update for a move, to a folder that was synced before or after', async () => {
    const engine = await start(options);
    const [a, b] = ['a', 'b'].map((subject) => engine.server.append('INBOX', mailText({ subject }), { date: DATE }));
    await sync(engine);
    move(engine.server, 'INBOX', a as number, 'Work');
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new', 'email.new', 'email.update']);
    move(engine.server, 'INBOX', b as number, 'Later');
    move(engine.server, 'Work', 1, 'INBOX');
    await sync(engine);
    expect((await engine.events()).slice(3).sort()).toEqual(['email.update', 'email.update']);
    expect(await located(engine)).toEqual(['INBOX', 'Later']);
  });

  it('emits one email.delete once every folder was synced', async () => {
    const engine = await start(options);
    const uid = engine.server.append('INBOX', mailText());
    await sync(engine);
    expect(await engine.files()).toHaveLength(1);
    engine.server.remove('INBOX', uid);
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new', 'email.delete']);
    expect(await emailsOf(engine)).toEqual([]);
    expect(await engine.files()).toEqual([]);
  });

  it('keeps the id of a message that returns under another UID', async () => {
    const engine = await start(options);
    const uid = engine.server.append('INBOX', mailText(), { date: DATE });
    await sync(engine);
    const [before] = await emailsOf(engine);
    move(engine.server, 'INBOX', uid, 'INBOX');
    await sync(engine);
    expect((await emailsOf(engine)).map(({ id }) => id)).toEqual([before?.id]);
    expect((await engine.events()).filter((type) => type !== 'email.update')).toEqual(['email.new']);
  });

  it('emits one email.update for a flag', async () => {
    const engine = await start(options);
    const uid = engine.server.append('INBOX', mailText());
    await sync(engine);
    engine.server.setFlag('INBOX', uid, '\\Seen');
    await sync(engine, { thorough: true });
    expect(await engine.events()).toEqual(['email.new', 'email.update']);
    expect((await emailsOf(engine)).map(({ isUnread }) => isUnread)).toEqual([false]);
  });

  it('maps emails to their UIDs under a new UIDVALIDITY, without events, and finds what is new or gone', async () => {
    const engine = await start(options);
    const stays = mailText({ subject: 'stays' });
    engine.server.append('INBOX', mailText({ subject: 'goes' }), { date: DATE });
    engine.server.append('INBOX', stays, { date: DATE });
    await sync(engine);
    const before = (await emailsOf(engine)).find(({ subject }) => subject === 'stays')?.id;
    const inbox = engine.server.folder('INBOX');
    Object.assign(inbox, { uidValidity: 77, uidNext: 1, modseq: 1, messages: [], vanished: [] });
    engine.server.append('INBOX', stays, { date: DATE });
    engine.server.append('INBOX', mailText({ subject: 'comes' }), { date: DATE });
    await sync(engine);
    await sync(engine, { thorough: true });
    const now = await emailsOf(engine);
    expect(now.map(({ subject }) => subject).sort()).toEqual(['comes', 'stays']);
    expect(now.find(({ subject }) => subject === 'stays')?.id).toBe(before);
    expect((await engine.events()).slice(2).sort()).toEqual(['email.delete', 'email.new']);
    expect(await engine.folder('INBOX')).toMatchObject({ uidValidity: 77, uidNext: 3 });
  });

  it('emits nothing of messages from before the connect that move', async () => {
    const engine = await start(options, (server) => server.append('INBOX', mailText(), { date: DATE }));
    await scanBaseline(engine.ctx, new AbortController().signal);
    await sync(engine, { thorough: true });
    move(engine.server, 'INBOX', 1, 'Work');
    await sync(engine);
    expect(await engine.events()).toEqual([]);
    expect(await located(engine)).toEqual(['Work -']);
  });

  it('emits one email.new for a message that another program moves before it was seen', async () => {
    const engine = await start(options);
    const uid = engine.server.append('INBOX', mailText());
    move(engine.server, 'INBOX', uid, 'Later');
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new']);
    expect(await located(engine)).toEqual(['Later']);
  });
});

describe('a sync of a mailbox', () => {
  it('decides about a message that moved on during the pass with a second pass', async () => {
    const engine = await start({ folders: { Work: [] } });
    const uid = engine.server.append('Work', mailText(), { date: DATE });
    await sync(engine);
    // INBOX is synced before Work: when Work is opened, the message has just moved to INBOX
    engine.server.append('Work', mailText({ subject: 'another' }));
    let moved = false;
    engine.server.script.command = ({ name, args }) => {
      if (moved || name !== 'SELECT' || args[0] !== 'Work') return;
      moved = true;
      move(engine.server, 'Work', uid, 'INBOX');
    };
    await sync(engine);
    expect((await engine.events()).sort()).toEqual(['email.new', 'email.new', 'email.update']);
  });

  it('decides about a message only when no folder changed since the last pass', async () => {
    const engine = await start(server2000);
    const { server } = engine;
    const text = mailText();
    const uid = server.append('Work', text, { date: DATE });
    await sync(engine);
    // another program moves it by EXPUNGE and APPEND, the latter after the second pass has seen the counters of Later
    server.remove('Work', uid);
    let seen = 0;
    server.script.command = ({ name, args }) => {
      if (name !== 'STATUS' || args[0] !== 'Later' || ++seen !== 2) return;
      setImmediate(() => server.append('Later', text, { date: DATE }));
    };
    await sync(engine);
    expect(seen).toBeGreaterThan(2);
    expect(await engine.events()).toEqual(['email.new', 'email.update']);
    expect(await located(engine)).toEqual(['Later']);
  });

  it('decides about a message that left before the clock was set back by an hour', async () => {
    const engine = await start();
    const uid = engine.server.append('INBOX', mailText());
    await sync(engine);
    const { db, account } = engine.ctx;
    const later = new Date(Date.now() + 60 * 60_000);
    engine.server.remove('INBOX', uid);
    await db.update(locations).set({ vanishedAt: later }).where(eq(locations.accountId, account.id));
    await db.update(emails).set({ missingSince: later }).where(eq(emails.accountId, account.id));
    const { missing } = await sync(engine);
    await sync(engine, { missingBefore: missing });
    expect(await engine.events()).toEqual(['email.new', 'email.delete']);
    expect(await located(engine)).toEqual([]);
  });

  it('gives a path that is reserved for a folder which is being deleted to a new one', async () => {
    const engine = await start({ folders: { Work: [] } });
    await sync(engine);
    const { id } = await engine.folder('Work');
    const { db, lease } = engine.ctx;
    await reservePath(db, lease, { path: 'Moved', folderId: id });
    await inLease(db, lease, (tx) => markVacating(tx, [id], 'deletion'));
    engine.server.renameFolder('Work', 'Moved');
    await sync(engine, { freshSession: true });
    expect((await engine.folder('Moved')).id).not.toBe(id);
    expect((await engine.events()).sort()).toEqual(['email.folder.create', 'email.folder.delete']);
  });

  it('leaves a folder that the server does not open to the next one', async () => {
    const engine = await start({ folders: { Work: [] } });
    engine.server.append('Work', mailText());
    engine.server.script.command = (command, session) => {
      if (!/SELECT|EXAMINE/.test(command.name) || command.args[0] !== 'Work') return false;
      session.done(command, 'NO not now');
      return true;
    };
    await sync(engine);
    expect(await engine.events()).toEqual([]);
    engine.server.script = {};
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new']);
  });

  it('leaves the rest of a folder to the next one when its UIDs change in between', async () => {
    const engine = await start({ folders: { Work: [] } });
    engine.server.append('INBOX', mailText(), { date: DATE });
    await sync(engine);
    const [copied] = engine.server.folder('INBOX').messages;
    engine.server.copy(engine.server.folder('INBOX'), copied as FakeMessage, engine.server.folder('Work'));
    // Work is selected, then INBOX, which has the look-alike, then Work again
    let selects = 0;
    engine.server.script.command = ({ name, args }) => {
      if (name !== 'SELECT' || args[0] !== 'Work' || ++selects !== 2) return;
      Object.assign(engine.server.folder('Work'), { uidValidity: 99 });
    };
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new']);
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new', 'email.update']);
    expect(await located(engine)).toEqual(['INBOX', 'Work']);
    expect((await engine.folder('Work')).uidValidity).toBe(99);
  });

  it('syncs only the folders of a notification', async () => {
    const engine = await start({ folders: { Work: [], Later: [] } });
    const list = await sync(engine, { freshSession: true });
    engine.server.append('Work', mailText());
    engine.server.append('Later', mailText());
    expect(await syncNotified(engine.ctx, list, new Set(['Work']))).toBe(list);
    expect(await located(engine)).toEqual(['Work']);
    engine.server.createFolder('Newer');
    await syncNotified(engine.ctx, list, new Set(['Newer']));
    expect(await engine.events()).toEqual(['email.new', 'email.folder.create', 'email.new']);
  });

  it('accepts the deletion of a folder on a new connection only', async () => {
    const engine = await start({ folders: { Work: [] } });
    engine.server.append('Work', mailText());
    await sync(engine, { freshSession: true });
    engine.server.deleteFolder('Work');
    await expect(sync(engine)).rejects.toThrow(DoubtfulList);
    await syncOnce(engine.ctx, {});
    expect(await engine.events()).toEqual(['email.new', 'email.folder.delete', 'email.delete']);
    expect(engine.server.sessions.size).toBeLessThanOrEqual(2);
  });

  it('accepts a list that still has a deleted folder on a new connection only', async () => {
    const engine = await start({ folders: { Work: [] } });
    engine.server.append('Work', mailText());
    await sync(engine, { freshSession: true });
    // as a session of Dovecot continues that listed the folder while it was renamed, and then deleted
    engine.server.deleteFolder('Work');
    const stale = [...engine.server.sessions];
    engine.server.script.answer = (text, { name }, session) =>
      name === 'LIST' && stale.includes(session) && / OK /.test(text) ? `* LIST () "/" "Work"\r\n${text}` : text;
    await expect(sync(engine)).rejects.toThrow(DoubtfulList);
    await syncOnce(engine.ctx, {});
    expect(await engine.events()).toEqual(['email.new', 'email.folder.delete', 'email.delete']);
  });

  it('reports a folder that it has read before and that is listed but cannot be opened, on one connection', async () => {
    const engine = await start({ folders: { Work: [] } });
    engine.server.append('Work', mailText());
    await sync(engine, { freshSession: true });
    engine.server.script.answer = (text) => (text.startsWith('* STATUS "Work"') ? '' : text);
    engine.server.script.command = (command, session) => {
      if (!/SELECT|EXAMINE/.test(command.name) || command.args[0] !== 'Work') return false;
      session.done(command, 'NO not allowed');
      return true;
    };
    await sync(engine, { freshSession: true });
    await sync(engine);
    const { db, account } = engine.ctx;
    const rows = await db.select({ is: accounts.watchFailure }).from(accounts).where(eq(accounts.id, account.id));
    const { id } = await engine.folder('Work');
    expect(rows).toEqual([{ is: `the IMAP server refused SELECT: not allowed (in the folder ${id})` }]);
    expect(engine.server.sessions.size).toBe(1);
  });

  it('renews the connection once more when another folder disappears during the pass on the new one', async () => {
    const engine = await start({ folders: { Work: [], Later: [] } });
    engine.server.append('Work', mailText());
    await sync(engine, { freshSession: true });
    engine.server.deleteFolder('Work');
    engine.server.append('INBOX', mailText());
    let later = true;
    engine.server.script.command = ({ name }) => {
      if (!later || name !== 'SELECT') return;
      later = false;
      engine.server.deleteFolder('Later');
    };
    await syncOnce(engine.ctx, {});
    expect(later).toBe(false);
    const events = await engine.events();
    expect(events.filter((type) => type === 'email.folder.delete')).toHaveLength(2);
  });

  it('reads the baseline of a folder whose STATUS was refused when it is first opened', async () => {
    const engine = await start({ folders: { Work: [] } }, (server) => {
      server.append('Work', mailText());
      server.script.answer = (text) => (text.startsWith('* STATUS "Work"') ? '' : text);
    });
    expect(await engine.folder('Work')).toMatchObject({ uidNext: null });
    engine.server.script = {};
    await sync(engine);
    expect(await engine.folder('Work')).toMatchObject({ uidNext: 2, baselineUidNext: 2 });
    expect(await engine.events()).toEqual([]);
  });

  it('does not treat messages that a SEARCH leaves out as deleted', async () => {
    const engine = await start({ folders: {} });
    const uids = [0, 1, 2].map((n) => engine.server.append('INBOX', mailText({ subject: `mail ${n}` })));
    await sync(engine);
    engine.server.remove('INBOX', uids[0] as number);
    engine.server.script.answer = (text, { name }) =>
      name === 'UID SEARCH' && text.startsWith('* SEARCH') ? '* SEARCH\r\n' : text;
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new', 'email.new', 'email.new', 'email.delete']);
  });
});

describe('a sync of a Gmail mailbox', () => {
  const ALL = '[Gmail]/All Mail';

  it('asks the other folders about an email in All Mail that nothing matches', async () => {
    const engine = await start(gmailOptions());
    await sync(engine, { freshSession: true });
    // it arrives in INBOX after INBOX was synced, and before All Mail is
    const raw = mailText();
    const ids = { emailId: '181', threadId: '171', date: new Date() };
    let arrived = false;
    engine.server.script.command = ({ name, args }) => {
      if (arrived || name !== 'SELECT' || args[0] !== ALL) return;
      arrived = true;
      engine.server.add('INBOX', raw, ids);
      engine.server.add(ALL, raw, ids);
    };
    await sync(engine, { changed: new Set([ALL]) });
    expect(await engine.events()).toEqual(['email.new']);
    expect(await located(engine)).toEqual(['INBOX', ALL].sort());
    expect(await emailsOf(engine)).toHaveLength(1);
  });

  it('leaves an email that reaches All Mail after that to the next one', async () => {
    const engine = await start(gmailOptions());
    await sync(engine, { freshSession: true });
    const archived = { emailId: '182', threadId: '172', date: new Date() };
    engine.server.add(ALL, mailText({ subject: 'archived' }), archived);
    const ids = { emailId: '183', threadId: '173', date: new Date() };
    const raw = mailText({ subject: 'late' });
    let opened = 0;
    engine.server.script.command = ({ name, args }) => {
      if (name !== 'SELECT' || args[0] !== ALL || ++opened !== 2) return;
      engine.server.add('INBOX', raw, ids);
      engine.server.add(ALL, raw, ids);
    };
    await sync(engine);
    expect((await emailsOf(engine)).map(({ subject }) => subject)).toEqual(['archived']);
    await sync(engine);
    expect(await engine.events()).toEqual(['email.new', 'email.new']);
    expect(await located(engine)).toEqual(['INBOX', ALL, ALL].sort());
  });
});

it('a folder of which the server lists more vanished messages than are read is compared as a whole', async () => {
  const engine = await start(modern);
  for (const subject of ['one', 'two', 'three']) engine.server.append('INBOX', mailText({ subject }));
  await sync(engine);
  engine.server.remove('INBOX', 2);
  const others = Array.from({ length: 200_000 }, (_, index) => 1_000 + 2 * index).join(',');
  engine.server.script.answer = (text) => text.replace('* VANISHED (EARLIER) ', `* VANISHED (EARLIER) ${others},`);
  const pass = async () => {
    const session = await engine.ctx.reopen();
    await syncMailbox({ ...engine.ctx, session }, { freshSession: true, thorough: true }).finally(() => session.end());
  };
  await expect(pass()).rejects.toMatchObject({ flooded: true });
  await pass();
  expect((await emailsOf(engine)).map(({ subject }) => subject).sort()).toEqual(['one', 'three']);
  expect(await engine.events()).toEqual([...Array<string>(3).fill('email.new'), 'email.delete']);
  await pass();
});
