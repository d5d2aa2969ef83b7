import { describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { emails, locations } from '../../src/db/schema/index.ts';
import { inLease } from '../../src/db/coordination/lease.ts';
import { markEmail } from '../../src/mailbox/changes/mark.ts';
import { moveEmail } from '../../src/mailbox/changes/move.ts';
import { syncFolder } from '../../src/mailbox/folder-pass.ts';
import { updateFolder } from '../../src/mailbox/store/folders.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { type FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { isLong } from '../helpers/runner/long.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';

/** A server that numbers messages anew under the same UIDVALIDITY, as Courier did with UIDs given under EXAMINE. */

const { start: startOn } = engineTests();

const folders = { Work: [], Trash: ['\\Trash'] };
const SERVERS = [`${PLAIN} MOVE`, 'IMAP4rev1', `${PLAIN} MOVE CONDSTORE QRESYNC`];

/** Puts another message before all others and gives the UIDs in the new order. */
function renumber(server: FakeImap, path: string, subject?: string): void {
  const folder = server.folder(path);
  if (subject) {
    folder.uidNext++;
    const message = { uid: 0, flags: new Set<string>(), date: new Date(), source: mailText({ subject }), modseq: 0 };
    folder.messages.unshift(message);
  } else folder.messages.reverse();
  const uids = Array.from(
    { length: folder.messages.length },
    (_, index) => folder.uidNext - folder.messages.length + index,
  );
  folder.messages.forEach((message, index) => {
    message.uid = uids[index]!;
    message.modseq = ++folder.modseq;
  });
}

const subjectsIn = (server: FakeImap, path: string) =>
  server.folder(path).messages.map(({ source }) => /^Subject: (.*)$/m.exec(source.toString())?.[1]?.trim());

describe.each(SERVERS)('with %s', (capabilities) => {
  async function start(): Promise<{ running: Engine; idOf(subject: string): Promise<string> }> {
    const running = await startOn({ capabilities, folders });
    for (const subject of ['a', 'b', 'c']) running.server.append('INBOX', mailText({ subject }));
    await syncMailbox(running.ctx, { freshSession: true });
    const idOf = async (subject: string) => {
      const rows = await running.ctx.db.select().from(emails).where(eq(emails.accountId, running.ctx.account.id));
      return rows.find((row) => row.subject === subject)!.id;
    };
    return { running, idOf };
  }

  it('a move takes the message that is meant', async () => {
    const { running, idOf } = await start();
    renumber(running.server, 'INBOX');
    await moveEmail(running.ctx, await idOf('a'), () => running.folder('Trash'));
    expect(subjectsIn(running.server, 'Trash')).toEqual(['a']);
    expect(subjectsIn(running.server, 'INBOX').sort()).toEqual(['b', 'c']);
  });

  it('a flag is set on the message that is meant', async () => {
    const { running, idOf } = await start();
    renumber(running.server, 'INBOX');
    await markEmail(running.ctx, await idOf('c'), true);
    const seen = running.server.folder('INBOX').messages.filter(({ flags }) => flags.has('\\Seen'));
    expect(seen.map(({ source }) => source.toString().includes('Subject: c'))).toEqual([true]);
  });

  it('a new message makes one email, and the others keep theirs', async () => {
    const { running, idOf } = await start();
    const before = await Promise.all(['a', 'b', 'c'].map(idOf));
    renumber(running.server, 'INBOX', 'new');
    for (let i = 0; i < 2; i++) await syncMailbox(running.ctx, {});
    expect(await Promise.all(['a', 'b', 'c'].map(idOf))).toEqual(before);
    expect(await running.events()).toEqual(Array(4).fill('email.new'));
    for (const subject of ['a', 'b', 'c', 'new']) {
      const [location] = await running.ctx.db
        .select()
        .from(locations)
        .where(eq(locations.emailId, await idOf(subject)));
      const message = running.server.folder('INBOX').messages.find(({ uid }) => uid === location!.uid);
      expect(message?.source.toString()).toContain(`Subject: ${subject}`);
    }
  });
});

it('an email is not deleted while the folder that it moved to cannot be opened', async () => {
  const running = await startOn({ capabilities: `${PLAIN} MOVE`, folders });
  const { server } = running;
  server.append('INBOX', mailText({ subject: 'moved' }));
  await syncMailbox(running.ctx, { freshSession: true });
  server.script.command = (command, session) => {
    if (!/SELECT|EXAMINE/.test(command.name) || command.args[0] !== 'Work') return false;
    session.done(command, 'NO [INUSE] busy');
    return true;
  };
  const inbox = server.folder('INBOX');
  server.move(inbox, inbox.messages[0]!, server.folder('Work'));
  for (let i = 0; i < 3; i++) await syncMailbox(running.ctx, {});
  expect(await running.events()).toEqual(['email.new']);
  server.script = {};
  await syncMailbox(running.ctx, {});
  expect(await running.events()).toEqual(['email.new', 'email.update']);
});

it('a folder that is deleted and created again under its name loses its old mail in one sync', async () => {
  const running = await startOn({ capabilities: `${PLAIN} MOVE`, folders });
  const { server } = running;
  server.append('Work', mailText({ subject: 'old' }));
  await syncMailbox(running.ctx, { freshSession: true });
  server.deleteFolder('Work');
  server.createFolder('Work');
  server.append('Work', mailText({ subject: 'fresh' }));
  await syncMailbox(running.ctx, {});
  expect((await running.events()).sort()).toEqual(['email.delete', 'email.new', 'email.new']);
});

it.each([`${PLAIN} MOVE`, 'IMAP4rev1'])(
  'no write hits another message, whenever the server renumbers (%s)',
  async (capabilities) => {
    const running = await startOn({ capabilities, folders });
    const { server, ctx } = running;
    const subjects = Array.from({ length: 12 }, (_, index) => `mail ${index}.`);
    for (const subject of subjects) server.append('INBOX', mailText({ subject }));
    await syncMailbox(ctx, { freshSession: true });
    const rows = await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
    const idOf = new Map(rows.map(({ id, subject }) => [subject, id]));
    /** `folder seen` of each subject, as it must be */
    const expected = new Map(subjects.map((subject) => [subject, 'INBOX false']));
    const actual = () =>
      new Map(
        subjects.map((subject) => [
          subject,
          ['INBOX', 'Work']
            .flatMap((path) =>
              server
                .folder(path)
                .messages.filter(({ source }) => source.includes(`Subject: ${subject}`))
                .map(({ flags }) => `${path} ${flags.has('\\Seen')}`),
            )
            .join(),
        ]),
      );
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    for (let write = 0; write < (isLong() ? 500 : 60); write++) {
      if (random(3) === 0) renumber(server, random(2) === 0 ? 'INBOX' : 'Work');
      const subject = subjects[random(subjects.length)]!;
      const id = idOf.get(subject)!;
      const [path, seen] = expected.get(subject)!.split(' ');
      if (random(2) === 0) {
        await markEmail(ctx, id, seen === 'false');
        expected.set(subject, `${path} ${seen === 'false'}`);
      } else {
        const target = path === 'INBOX' ? 'Work' : 'INBOX';
        await moveEmail(ctx, id, () => running.folder(target));
        expected.set(subject, `${target} ${seen}`);
      }
      expect(actual()).toEqual(expected);
    }
  },
  240_000,
);

it.each([PLAIN, `${PLAIN} CONDSTORE`, `${PLAIN} CONDSTORE QRESYNC`])(
  'a pass saves nothing of a folder that another process has mapped to a new UIDVALIDITY since it was opened, with %s',
  async (capabilities) => {
    const running = await startOn({ capabilities, folders });
    const { server, ctx } = running;
    for (const subject of ['a', 'b', 'c']) server.append('INBOX', mailText({ subject }));
    await syncMailbox(ctx, { freshSession: true });
    server.append('INBOX', mailText({ subject: 'd' }));
    server.setFlag('INBOX', 1, '\\Seen');
    server.remove('INBOX', 2);
    const before = await running.folder('INBOX');
    // the session of this pass has the folder open as it was before
    const mapped = { uidValidity: before.uidValidity! + 100, uidNext: 1_000, highestModseq: null };
    let isMapped = false;
    server.script.command = (command, session) => {
      if (isMapped || command.name !== 'SELECT') return false;
      isMapped = true;
      void inLease(ctx.db, ctx.lease, (tx) => updateFolder(tx, before.id, mapped)).then(() => session.answer(command));
      return true;
    };
    await syncFolder(ctx, before.id, { everyFlag: true, compared: new Set() });
    expect(await running.folder('INBOX')).toMatchObject(mapped);
    const rows = await ctx.db.select().from(locations).where(eq(locations.folderId, before.id));
    expect(rows.map(({ seen, vanishedAt }) => [seen, vanishedAt])).toEqual(Array(3).fill([false, null]));
    expect(await running.events()).toEqual(Array(3).fill('email.new'));
  },
);
