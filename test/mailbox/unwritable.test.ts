import { describe, expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import { accounts, emails } from '../../src/db/schema/index.ts';
import { copyMessages, moveMessages } from '../../src/imap/move.ts';
import { openFolder } from '../../src/imap/select.ts';
import { changeFlags, markEmail } from '../../src/mailbox/changes/mark.ts';
import { moveEmail } from '../../src/mailbox/changes/move.ts';
import { trashEmail } from '../../src/mailbox/changes/trash.ts';
import { loadLocations } from '../../src/mailbox/store/moves.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { type FakeImapOptions, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';
import { mailText } from '../helpers/product/mail-text.ts';

/** Emails in folders that refuse a part of a change, or ignore it; and changes of emails that were made in part before. */

const { start } = engineTests();
const folders = { Shared: [], Work: [], Trash: ['\\Trash'] };
const SERVERS: [string, FakeImapOptions][] = [
  ['with MOVE', { capabilities: `${PLAIN} MOVE`, folders }],
  ['with UIDPLUS', { capabilities: PLAIN, folders }],
  ['with IMAP4rev1 alone', { capabilities: 'IMAP4rev1', folders }],
];

async function received(engine: Engine, flags: string[] = []): Promise<string> {
  engine.server.append('INBOX', mailText({ subject: 'x' }), { flags });
  await syncMailbox(engine.ctx, { freshSession: true });
  return (await stored(engine))[0]!.id;
}

function stored({ ctx }: Engine) {
  return ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id));
}

/** An email in INBOX and in a read-only folder. */
async function shared(options: FakeImapOptions, flags: string[] = []): Promise<{ engine: Engine; id: string }> {
  const engine = await start(options);
  const id = await received(engine, flags);
  const { server } = engine;
  server.copy(server.folder('INBOX'), server.folder('INBOX').messages[0]!, server.folder('Shared'));
  await syncMailbox(engine.ctx, { freshSession: true });
  expect(await places(engine, id)).toEqual(['INBOX', 'Shared']);
  server.script.answer = (text, { name, args }) =>
    name === 'SELECT' && args[0] === 'Shared' ? text.replace('READ-WRITE', 'READ-ONLY') : text;
  return { engine, id };
}

const places = async ({ ctx }: Engine, id: string) =>
  ((await loadLocations(ctx.db, ctx.account.id, id)) ?? []).map(({ path }) => path).sort();
const flagsIn = ({ server }: Engine, path: string) => server.folder(path).messages.map(({ flags }) => [...flags]);
const count = ({ server }: Engine, path: string) => server.folder(path).messages.length;

describe.each(SERVERS)('an email with a copy in a read-only folder, on a server %s,', (_, options) => {
  it('is marked as read', async () => {
    const { engine, id } = await shared(options);
    await markEmail(engine.ctx, id, true);
    expect((await stored(engine))[0]).toMatchObject({ isUnread: false });
    expect([flagsIn(engine, 'INBOX'), flagsIn(engine, 'Shared')]).toEqual([[['\\Seen']], [[]]]);
    await syncMailbox(engine.ctx, { freshSession: true });
    expect((await stored(engine))[0]).toMatchObject({ isUnread: false });
  });

  it('keeps a flag that the copy has: the rest is made and stored, and the call says so', async () => {
    const { engine, id } = await shared(options, ['\\Seen']);
    await expect(markEmail(engine.ctx, id, false)).rejects.toMatchObject({
      code: 'provider_rejected',
      detail: 'the provider does not allow changes in this folder',
    });
    const locations = (await loadLocations(engine.ctx.db, engine.ctx.account.id, id)) ?? [];
    expect(locations.map(({ path, seen }) => [path, seen]).sort()).toEqual([
      ['INBOX', false],
      ['Shared', true],
    ]);
    expect(flagsIn(engine, 'INBOX')).toEqual([[]]);
  });

  it('moves out of the other folder', async () => {
    const { engine, id } = await shared(options);
    await moveEmail(engine.ctx, id, () => engine.folder('Work'));
    expect(await places(engine, id)).toEqual(['Shared', 'Work']);
    expect([count(engine, 'INBOX'), count(engine, 'Work'), count(engine, 'Shared')]).toEqual([0, 1, 1]);
    await moveEmail(engine.ctx, id, () => engine.folder('Work'));
    expect(await places(engine, id)).toEqual(['Shared', 'Work']);
    expect(await engine.events()).toEqual(['email.new', 'email.update', 'email.update']);
  });
});

describe('a server without MOVE', () => {
  it('that does not keep \\Deleted gets no copy', async () => {
    const engine = await start({ capabilities: PLAIN, folders, permanentFlags: '\\Seen' });
    const id = await received(engine);
    await expect(moveEmail(engine.ctx, id, () => engine.folder('Work'))).rejects.toMatchObject({
      code: 'provider_rejected',
      detail: 'the mail server does not allow messages to be removed from this folder',
    });
    expect([await places(engine, id), count(engine, 'INBOX'), count(engine, 'Work')]).toEqual([['INBOX'], 1, 0]);
  });

  it('that ignores \\Deleted has not moved the email', async () => {
    const engine = await start({ capabilities: PLAIN, folders });
    const id = await received(engine);
    engine.server.script.command = (command, session) => {
      if (command.name !== 'UID STORE' || !String(command.args[2]).includes('\\Deleted')) return false;
      session.done(command);
      return true;
    };
    await expect(moveEmail(engine.ctx, id, () => engine.folder('Work'))).rejects.toMatchObject({
      code: 'provider_rejected',
    });
    await syncMailbox(engine.ctx, { freshSession: true });
    expect(await places(engine, id)).toEqual(['INBOX', 'Work']);
    expect((await loadLocations(engine.ctx.db, engine.ctx.account.id, id))?.some(({ beingMoved }) => beingMoved)).toBe(
      false,
    );
  });
});

it.each([
  ['is not permanent', { permanentFlags: '\\Deleted \\Flagged \\*' }, false],
  ['is ignored', {}, true],
])('\\Seen that %s is refused, as other flags are', async (_, options, isIgnored) => {
  const engine = await start(options);
  const id = await received(engine);
  engine.server.script.command = (command, session) => {
    if (!isIgnored || command.name !== 'UID STORE') return false;
    session.done(command);
    return true;
  };
  await expect(markEmail(engine.ctx, id, true)).rejects.toMatchObject({
    code: 'provider_rejected',
    detail: 'the mail server does not store \\Seen in this folder',
  });
  expect((await stored(engine))[0]).toMatchObject({ isUnread: true });
  await changeFlags(engine.ctx, id, { add: [], remove: ['\\Seen'] });
});

describe.each(SERVERS)('a Trash that the account does not include, on a server %s,', (_, options) => {
  it.each(['copied', 'moved'])('gets an email once that an attempt before had %s', async (step) => {
    const engine = await start(options);
    engine.server.append('Trash', mailText({ subject: 'another' }));
    const id = await received(engine);
    const { ctx } = engine;
    const choice = { exclude: ['TRASH'] };
    const ofAccount = eq(accounts.id, ctx.account.id);
    await ctx.db.update(accounts).set({ folderChoice: choice }).where(ofAccount);
    ctx.account.choice = { folders: choice, isApplied: true };
    await syncMailbox(ctx, { freshSession: true });
    await openFolder(ctx.session, 'INBOX');
    await (step === 'copied' ? copyMessages : moveMessages)(ctx.session, [1], 'Trash');
    await trashEmail(ctx, id);
    await trashEmail(ctx, id);
    expect([count(engine, 'INBOX'), await stored(engine)]).toEqual([0, []]);
    // a MOVE is one step
    if (step === 'moved' || !options.capabilities?.includes('MOVE')) expect(count(engine, 'Trash')).toBe(2);
    expect((await engine.events()).filter((type) => type === 'email.delete')).toHaveLength(1);
  });
});

it('a move by copying that is refused for now after its copy makes no second copy', async () => {
  const engine = await start({ capabilities: PLAIN, folders });
  const id = await received(engine);
  let refusals = 1;
  engine.server.script.command = (command, fake) => {
    const isDeletion = command.name === 'UID STORE' && JSON.stringify(command.args).includes('Deleted');
    if (!isDeletion || refusals-- <= 0) return false;
    fake.done(command, 'NO [INUSE] locked');
    return true;
  };
  const move = () => moveEmail(engine.ctx, id, () => engine.folder('Work'));
  await expect(move()).rejects.toMatchObject({ refused: true });
  expect(count(engine, 'Work')).toBe(1);
  await move();
  expect([count(engine, 'INBOX'), count(engine, 'Work')]).toEqual([0, 1]);
}, 30_000);

describe('an email whose content the database refuses', () => {
  it('is stored with its header alone, and holds up no other', async () => {
    const engine = await start({ folders });
    const { db } = engine.ctx;
    await db.execute(sql`
      create function refuse() returns trigger language plpgsql as $$ begin
        raise exception 'unsupported Unicode escape sequence' using errcode = '22P05'; end $$`);
    await db.execute(sql`
      create trigger refuse before insert on email_contents for each row when (new.body::text like '%refused%') execute function refuse()`);
    const subjects = Array.from({ length: 60 }, (_, n) => `mail ${n}`);
    for (const [n, subject] of subjects.entries()) {
      engine.server.append('INBOX', mailText({ subject, text: [3, 57].includes(n) ? 'refused' : 'x' }));
    }
    await syncMailbox(engine.ctx, { freshSession: true });
    const all = await stored(engine);
    await db.execute(sql`drop trigger refuse on email_contents; drop function refuse`);
    expect(all.map(({ subject }) => subject).sort()).toEqual([...subjects].sort());
    const incomplete = all.filter(({ isComplete }) => !isComplete).map(({ subject }) => subject);
    expect(incomplete.sort()).toEqual(['mail 3', 'mail 57']);
    engine.server.append('INBOX', mailText({ subject: 'later' }));
    await syncMailbox(engine.ctx, { freshSession: true });
    expect(await stored(engine)).toHaveLength(61);
  });
});
