import { describe, expect, it } from '@jest/globals';
import { and, eq, isNull } from 'drizzle-orm';
import { emails, folders, locations } from '../../src/db/schema/index.ts';
import { moveEmail } from '../../src/mailbox/changes/move.ts';
import { markEmail } from '../../src/mailbox/changes/mark.ts';
import { selectFolder } from '../../src/imap/select.ts';
import { ingestAppended } from '../../src/mailbox/ingest/ingest.ts';
import { saveStatusCounters } from '../../src/mailbox/store/folders.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import type { SyncContext } from '../../src/mailbox/context.ts';
import type { Command } from '../helpers/fakes/fake-imap-wire.ts';
import { type FakeImap, type FakeImapOptions, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** What other mail programs do to messages that this API has just placed, before the next sync pass sees those. */

const { start: startOn } = engineTests();

const folderOptions = { Work: [], Later: [], Trash: ['\\Trash'] };
const SERVERS: [string, FakeImapOptions][] = [
  ['with UIDPLUS and MOVE', { capabilities: `${PLAIN} MOVE`, folders: folderOptions }],
  ['with IMAP4rev1 alone', { capabilities: 'IMAP4rev1', folders: folderOptions }],
  ['with CONDSTORE and QRESYNC', { capabilities: `${PLAIN} MOVE CONDSTORE QRESYNC`, folders: folderOptions }],
];

/** Where the store has the email, live locations alone. */
async function pathsOf({ ctx }: Engine, emailId: string): Promise<string[]> {
  const rows = await ctx.db
    .select({ path: folders.path })
    .from(locations)
    .innerJoin(folders, eq(folders.id, locations.folderId))
    .where(and(eq(locations.emailId, emailId), isNull(locations.vanishedAt)));
  return rows.map(({ path }) => path).sort();
}

/** Where the server has the message with this subject. */
function serverPaths(server: FakeImap, subject: string): string[] {
  return [...server.folders.values()]
    .flatMap(({ path, messages }) => messages.filter(({ source }) => source.includes(subject)).map(() => path))
    .sort();
}

async function onlyEmail({ ctx }: Engine): Promise<{ id: string; isUnread: boolean }> {
  const [row] = await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
  return row!;
}

describe.each(SERVERS)('on a server %s', (_, options) => {
  async function placed(subject: string): Promise<{ running: Engine; id: string }> {
    const running = await startOn(options);
    running.server.append('INBOX', mailText({ subject }), { date: new Date('2024-05-06T07:08:09Z') });
    await syncMailbox(running.ctx, { freshSession: true });
    const { id } = await onlyEmail(running);
    await moveEmail(running.ctx, id, () => running.folder('Work'));
    expect(await pathsOf(running, id)).toEqual(['Work']);
    return { running, id };
  }
  const takeOut = ({ server }: Engine) => server.folder('Work').messages.at(-1)!;

  it('an email that is expunged right after a move is deleted, and its folder is clean again', async () => {
    const { running, id } = await placed('expunged');
    running.server.remove('Work', takeOut(running).uid);
    await syncMailbox(running.ctx, {});
    expect(await pathsOf(running, id)).toEqual([]);
    expect(await running.events()).toEqual(['email.new', 'email.update', 'email.delete']);
    const { totalCount, unreadCount, uidNext } = await running.folder('Work');
    expect([totalCount, unreadCount, uidNext]).toEqual([0, 0, running.server.folder('Work').uidNext]);
    const selected = () =>
      running.server.log.filter(({ name, args }) => /SELECT|EXAMINE/.test(name) && args[0] === 'Work').length;
    const before = selected();
    await syncMailbox(running.ctx, {});
    expect(selected()).toBe(before);
  });

  it('an email that is moved again right after a move is in the last folder alone', async () => {
    const { running, id } = await placed('moved on');
    const { server } = running;
    server.move(server.folder('Work'), takeOut(running), server.folder('Later'));
    await syncMailbox(running.ctx, {});
    await syncMailbox(running.ctx, {});
    expect(await pathsOf(running, id)).toEqual(serverPaths(server, 'moved on'));
    expect(await running.events()).toEqual(['email.new', 'email.update', 'email.update']);
  });

  it('an email that is copied right after a move is in both folders, one email', async () => {
    const { running, id } = await placed('copied');
    const { server } = running;
    server.copy(server.folder('Work'), takeOut(running), server.folder('Later'));
    await syncMailbox(running.ctx, {});
    expect(await pathsOf(running, id)).toEqual(['Later', 'Work']);
    expect(await running.events()).toEqual(['email.new', 'email.update', 'email.update']);
  });

  it('an email that another program copies to where it is being moved is stored once, and the other copy is another email', async () => {
    const running = await startOn(options);
    const { server, ctx } = running;
    server.append('INBOX', mailText({ subject: 'both' }), { date: new Date('2024-05-06T07:08:09Z') });
    await syncMailbox(ctx, { freshSession: true });
    const { id } = await onlyEmail(running);
    const watching = { ...ctx, session: await ctx.reopen() };
    let seen: Promise<unknown> | undefined;
    server.script.command = (command, session) => {
      if (seen || !/^UID (COPY|MOVE)$/.test(command.name)) return;
      const [message] = server.folder('INBOX').messages;
      server.copy(server.folder('INBOX'), message!, server.folder('Work'));
      seen = syncMailbox(watching, { freshSession: true }).then(() => session.answer(command));
      return true;
    };
    await moveEmail(ctx, id, () => running.folder('Work'));
    await seen;
    await syncMailbox(ctx, {});
    expect(serverPaths(server, 'both')).toEqual(['Work', 'Work']);
    expect(await pathsOf(running, id)).toEqual(['Work']);
    const stored = await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
    expect(stored.map((email) => email.id).length).toBe(2);
    const { totalCount, unreadCount } = await running.folder('Work');
    expect([totalCount, unreadCount]).toEqual([2, 2]);
  });

  it('counters that were read before this API has stored what it appended are not saved after that', async () => {
    const running = await startOn(options);
    const { server, ctx } = running;
    await syncMailbox(ctx, { freshSession: true });
    const before = await running.folder('Work');
    const uid = server.append('Work', mailText({ subject: 'appended' }));
    const selected = await selectFolder(ctx.session, 'Work');
    await ingestAppended(ctx, before, selected, [uid]);
    // another program has expunged it, and the watch saw the folder empty before it was stored
    server.remove('Work', uid);
    await ctx.db.transaction((tx) => saveStatusCounters(tx, before, { messages: 0, unseen: 0 }));
    expect((await running.folder('Work')).totalCount).toBe(1);
    await syncMailbox(ctx, {});
    await syncMailbox(ctx, {});
    const { totalCount, knownCount } = await running.folder('Work');
    expect([totalCount, knownCount]).toEqual([0, 0]);
    expect(await running.events()).toEqual(['email.new', 'email.delete']);
  });

  it('the counters are right when a flag changes in the same moment', async () => {
    const { running, id } = await placed('flagged');
    running.server.setFlag('Work', takeOut(running).uid, '\\Seen');
    await syncMailbox(running.ctx, {});
    await syncMailbox(running.ctx, {});
    expect((await running.folder('Work')).unreadCount).toBe(0);
    expect((await onlyEmail(running)).isUnread).toBe(false);
    await markEmail(running.ctx, id, false);
    running.server.remove('Work', takeOut(running).uid);
    await syncMailbox(running.ctx, {});
    await syncMailbox(running.ctx, {});
    expect((await running.folder('Work')).unreadCount).toBe(0);
  });

  it('a read copy that leaves makes the email unread again', async () => {
    const running = await startOn(options);
    const { server } = running;
    const date = new Date('2024-05-06T07:08:09Z');
    const uid = server.append('INBOX', mailText({ subject: 'twice' }), { date });
    const message = server.folder('INBOX').messages.find((each) => each.uid === uid)!;
    const copy = server.copy(server.folder('INBOX'), message, server.folder('Work'));
    await syncMailbox(running.ctx, { freshSession: true });
    server.setFlag('Work', copy, '\\Seen');
    await syncMailbox(running.ctx, {});
    expect((await onlyEmail(running)).isUnread).toBe(false);
    server.remove('Work', copy);
    await syncMailbox(running.ctx, {});
    const email = await onlyEmail(running);
    expect(await pathsOf(running, email.id)).toEqual(['INBOX']);
    expect(email.isUnread).toBe(true);
  });

  it('a message that can be fetched only after its UID was announced is one new email', async () => {
    const running = await startOn(options);
    const { server } = running;
    const inbox = server.folder('INBOX');
    inbox.uidNext += 1;
    await syncMailbox(running.ctx, { freshSession: true });
    server.append('INBOX', mailText({ subject: 'after it' }));
    await syncMailbox(running.ctx, {});
    expect(await running.events()).toEqual(['email.new']);
    inbox.messages.unshift({
      uid: 1,
      flags: new Set(),
      date: new Date(),
      source: mailText({ subject: 'late' }),
      modseq: ++inbox.modseq,
    });
    await syncMailbox(running.ctx, {});
    await syncMailbox(running.ctx, {});
    expect(await running.events()).toEqual(['email.new', 'email.new']);
  });
});

describe.each(SERVERS)(
  'an email that is moved on a server %s to a folder that has only announced its UID',
  (_, options) => {
    async function announced() {
      const running = await startOn(options);
      const { server, ctx } = running;
      server.append('INBOX', mailText({ subject: 'late' }), { date: new Date('2024-05-06T07:08:09Z') });
      await syncMailbox(ctx, { freshSession: true });
      const message = server.folder('INBOX').messages[0]!;
      const work = server.folder('Work');
      const uid = work.uidNext++;
      server.remove('INBOX', message.uid);
      return { running, show: () => work.messages.push({ ...message, uid, modseq: ++work.modseq }) };
    }

    it('is the same email when the folder shows it', async () => {
      const { running, show } = await announced();
      const { id } = await onlyEmail(running);
      expect(await syncMailbox(running.ctx, {})).toMatchObject({ missing: true, undecided: true });
      show();
      await syncMailbox(running.ctx, { missingBefore: true });
      expect(await pathsOf(running, id)).toEqual(['Work']);
      expect(await running.events()).toEqual(['email.new', 'email.update']);
    });

    it('is deleted by the next sync when the folder does not show it', async () => {
      const { running } = await announced();
      await syncMailbox(running.ctx, {});
      expect(await running.events()).toEqual(['email.new']);
      expect(await syncMailbox(running.ctx, { missingBefore: true })).toMatchObject({
        missing: false,
        undecided: false,
      });
      expect(await running.events()).toEqual(['email.new', 'email.delete']);
    });

    it('is deleted after a while when the folder counts it and never shows it', async () => {
      const { running } = await announced();
      const { db, account } = running.ctx;
      running.server.script.answer = (text, { name, args }) => {
        if (name === 'SELECT' && args[0] === 'Work') return text.replace('* 0 EXISTS', '* 1 EXISTS');
        return text.replace(/^(\* STATUS "?Work"? .*MESSAGES) 0/, '$1 1');
      };
      for (let n = 0; n < 2; n++) await syncMailbox(running.ctx, { missingBefore: true });
      expect(await running.events()).toEqual(['email.new']);
      const earlier = new Date(Date.now() - 15_000);
      await db.update(locations).set({ vanishedAt: earlier }).where(eq(locations.accountId, account.id));
      await db.update(emails).set({ missingSince: earlier }).where(eq(emails.accountId, account.id));
      expect(await syncMailbox(running.ctx, { missingBefore: true })).toMatchObject({ missing: false });
      expect(await running.events()).toEqual(['email.new', 'email.delete']);
    });
  },
);

describe('on a server without MOVE, an email that another call marks as read while it is moved', () => {
  const isDeletion = ({ name, args }: Command) => name === 'UID STORE' && args.flat(9).includes('\\Deleted');

  async function ground(): Promise<{ running: Engine; id: string; other: SyncContext }> {
    const running = await startOn({ capabilities: PLAIN, folders: folderOptions });
    running.server.append('INBOX', mailText({ subject: 'both' }), { date: new Date('2024-05-06T07:08:09Z') });
    await syncMailbox(running.ctx, { freshSession: true });
    const other = { ...running.ctx, session: await running.ctx.reopen() };
    return { running, id: (await onlyEmail(running)).id, other };
  }

  async function expectRead(running: Engine, id: string): Promise<void> {
    expect(running.server.folder('Work').messages.map(({ flags }) => [...flags])).toEqual([['\\Seen']]);
    expect(running.server.folder('INBOX').messages).toEqual([]);
    await syncMailbox(running.ctx, {});
    expect((await onlyEmail(running)).isUnread).toBe(false);
    expect(await pathsOf(running, id)).toEqual(['Work']);
    expect(await running.events()).toEqual(['email.new', 'email.update', 'email.update']);
  }

  it('is read in the end when the call comes between COPY and EXPUNGE', async () => {
    const { running, id, other } = await ground();
    let marking: Promise<void> | undefined;
    running.server.script.command = (command, session) => {
      if (marking || !isDeletion(command)) return;
      marking = markEmail(other, id, true);
      // time enough for it to end, if it does not wait for the move
      setTimeout(() => session.answer(command), 500);
      return true;
    };
    await moveEmail(running.ctx, id, () => running.folder('Work'));
    await marking;
    await expectRead(running, id);
  });

  it('is read in the end when the call has begun before, and its STORE comes after the COPY', async () => {
    const { running, id, other } = await ground();
    let moving: Promise<void> | undefined;
    let storeSeen: (() => void) | undefined;
    running.server.script.command = (command, session) => {
      const isStore = command.name === 'UID STORE';
      if (isStore && !moving) {
        storeSeen = () => session.answer(command);
        moving = moveEmail(running.ctx, id, () => running.folder('Work'));
        return true;
      }
      if (!isDeletion(command) || !storeSeen) return;
      storeSeen();
      storeSeen = undefined;
      setTimeout(() => session.answer(command), 500);
      return true;
    };
    await markEmail(other, id, true);
    await moving;
    await expectRead(running, id);
  });
});

it('an email that another program moves before a STORE, which is refused then, is marked where it went', async () => {
  const running = await startOn({ folders: folderOptions });
  const { server, ctx } = running;
  const uid = server.append('INBOX', mailText(), { date: new Date('2024-05-06T07:08:09Z') });
  await syncMailbox(ctx, { freshSession: true });
  let refused = 0;
  server.script.command = (command, session) => {
    if (command.name !== 'UID STORE' || refused > 0) return false;
    refused++;
    const inbox = server.folder('INBOX');
    server.move(inbox, inbox.messages.find((message) => message.uid === uid)!, server.folder('Later'));
    session.done(command, 'NO [EXPUNGEISSUED] some of the messages are gone');
    return true;
  };
  const { id } = await onlyEmail(running);
  await markEmail(ctx, id, true);
  expect(refused).toBe(1);
  expect(await pathsOf(running, id)).toEqual(['Later']);
  expect([...server.folder('Later').messages[0]!.flags]).toEqual(['\\Seen']);
});

it('flags that another program changes between COPY and EXPUNGE are not lost', async () => {
  const running = await startOn({ capabilities: 'IMAP4rev1', folders: folderOptions });
  const { server } = running;
  const date = new Date('2024-05-06T07:08:09Z');
  const uid = server.append('INBOX', mailText({ subject: 'flagged' }), { date, flags: ['\\Seen', '\\Answered'] });
  await syncMailbox(running.ctx, { freshSession: true });
  server.script.command = ({ name }) => {
    if (name !== 'UID COPY') return;
    // when it has been answered
    setImmediate(() => {
      server.setFlag('INBOX', uid, '\\Flagged');
      server.folder('INBOX').messages[0]?.flags.delete('\\Seen');
    });
  };
  const { id } = await onlyEmail(running);
  await moveEmail(running.ctx, id, () => running.folder('Work'));
  expect([...server.folder('Work').messages[0]!.flags].sort()).toEqual(['\\Answered', '\\Flagged']);
  expect(server.folder('INBOX').messages).toEqual([]);
  await syncMailbox(running.ctx, {});
  expect((await onlyEmail(running)).isUnread).toBe(true);
});

describe('mail from before the account connected', () => {
  it('makes no email.new when it is copied twice into one folder', async () => {
    const running = await startOn({ folders: folderOptions }, (server) => {
      server.append('INBOX', mailText({ subject: 'old' }), { date: new Date('2024-05-06T07:08:09Z') });
    });
    const { server } = running;
    const { scanBaseline } = await import('../../src/mailbox/baseline.ts');
    await scanBaseline(running.ctx, new AbortController().signal);
    await syncMailbox(running.ctx, { freshSession: true });
    const [old] = server.folder('INBOX').messages;
    for (let i = 0; i < 2; i++) server.copy(server.folder('INBOX'), old!, server.folder('Trash'));
    await syncMailbox(running.ctx, {});
    expect(await running.events()).toEqual([]);
  });
});

it('a call marks emails that other calls are moving where they go, without a sync for each', async () => {
  const running = await startOn({ capabilities: `${PLAIN} MOVE`, folders: folderOptions });
  const { server, ctx } = running;
  for (let n = 0; n < 4; n++) server.append('INBOX', mailText({ subject: `moved ${n}` }));
  await syncMailbox(ctx, { freshSession: true });
  const rows = await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
  // the server takes a while to say that it has moved a message
  server.script.command = ({ name }, session) => {
    if (name !== 'UID MOVE') return false;
    const write = session.write.bind(session);
    session.write = (data) => void setTimeout(() => write(data), 200);
    return false;
  };
  const own = () => ctx.reopen().then((session) => ({ ...ctx, session }));
  const pairs = await Promise.all(rows.map(async ({ id }) => ({ id, mover: await own(), marker: await own() })));
  const syncs = () => server.log.filter(({ name, args }) => name === 'LIST' && args[1] === '*').length;
  const before = syncs();
  await Promise.all(
    pairs.map(async ({ id, mover, marker }) => {
      const moving = moveEmail(mover, id, () => running.folder('Work'));
      await waitFor(() => server.log.some(({ name }) => name === 'UID MOVE'), { what: 'the move' });
      await Promise.all([moving, markEmail(marker, id, true)]);
    }),
  );
  expect(syncs() - before).toBe(0);
  expect(server.folder('Work').messages.map(({ flags }) => flags.has('\\Seen'))).toEqual([true, true, true, true]);
  expect((await running.events()).filter((type) => type === 'email.delete')).toEqual([]);
});
