import { expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import { getEmail } from '../../../src/db/queries/mail/emails.ts';
import { parsePieces } from '../../../src/db/driver/json-text.ts';
import { mark } from '../../../src/mailbox/changes/pending-removals.ts';
import { emails, locations, pathReservations } from '../../../src/db/schema/index.ts';
import { markEmail } from '../../../src/mailbox/changes/mark.ts';
import { moveEmail } from '../../../src/mailbox/changes/move.ts';
import { loadOngoing, reservePath } from '../../../src/mailbox/folders/reservations.ts';
import { loadLocations } from '../../../src/mailbox/store/moves.ts';
import { syncMailbox } from '../../../src/mailbox/sync-pass.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { storedEvents } from '../../helpers/product/stored-events.ts';
import { type Engine, engineTests } from '../../helpers/product/engine.ts';

/** A move by copying that was stopped after its COPY: the email is in both folders. */

const { ground, start: startOn } = engineTests();

/** The id of the only email of the account. */
async function theEmail({ ctx }: Engine): Promise<string> {
  const [row] = await ctx.db.select({ id: emails.id }).from(emails).where(eq(emails.accountId, ctx.account.id));
  return row!.id;
}

async function abandoned(): Promise<{ engine: Engine; id: string }> {
  const engine = await startOn({ capabilities: PLAIN, folders: { Work: [] } });
  const { server, ctx } = engine;
  const uid = server.append('INBOX', mailText({ subject: 'halfway' }), { date: new Date('2024-05-06T07:08:09Z') });
  await syncMailbox(ctx, { freshSession: true });
  const id = await theEmail(engine);
  await mark(ctx, { folderId: (await engine.folder('INBOX')).id, uid, emailId: id });
  const inbox = server.folder('INBOX');
  server.copy(inbox, inbox.messages[0]!, server.folder('Work'));
  return { engine, id };
}

/** As if the move had been stopped three minutes ago. */
async function letTimePass({ ctx }: Engine): Promise<void> {
  const earlier = sql`${locations.pendingRemovalSince} - interval '3 minutes'`;
  await ctx.db.update(locations).set({ pendingRemovalSince: earlier }).where(eq(locations.accountId, ctx.account.id));
}

/** The folders of the email as readers see them, and as its last event says. */
async function seen({ ctx }: Engine, id: string): Promise<{ read: string[]; reported: string[]; events: number }> {
  const { database } = ground().database;
  const stored = await getEmail(database.pool, ctx.account.id, id, { metaOnly: true });
  const events = (await storedEvents(database, ctx.account.id)).filter(({ objectId }) => objectId === id);
  const { folders } = (events.at(-1)?.data as { email: { folders: string[] } }).email;
  return { read: parsePieces(stored!).folders, reported: folders, events: events.length };
}

it('what readers see of an email whose move was abandoned changes with an event', async () => {
  const { engine, id } = await abandoned();
  const [inbox, work] = [(await engine.folder('INBOX')).id, (await engine.folder('Work')).id];
  await syncMailbox(engine.ctx, {});
  expect(await seen(engine, id)).toEqual({ read: [work], reported: [work], events: 2 });
  await letTimePass(engine);
  expect(await seen(engine, id)).toEqual({ read: [work], reported: [work], events: 2 });
  await syncMailbox(engine.ctx, {});
  const both = [inbox, work].sort();
  expect(await seen(engine, id)).toEqual({ read: both, reported: both, events: 3 });
  await syncMailbox(engine.ctx, {});
  expect((await seen(engine, id)).events).toBe(3);
});

it('a mark and a reservation that were made before the clock was set back by an hour hold up nothing', async () => {
  const { engine, id } = await abandoned();
  const { ctx } = engine;
  const later = sql`now() + interval '1 hour'`;
  await ctx.db.update(locations).set({ pendingRemovalSince: later }).where(eq(locations.accountId, ctx.account.id));
  await markEmail(ctx, id, true);
  expect(engine.server.folder('INBOX').messages[0]?.flags.has('\\Seen')).toBe(true);
  await syncMailbox(ctx, {});
  const both = [(await engine.folder('INBOX')).id, (await engine.folder('Work')).id].sort();
  expect(await seen(engine, id)).toMatchObject({ read: both, reported: both });

  await reservePath(ctx.db, ctx.lease, { path: 'New', folderId: 'fld_a' });
  expect(await reservePath(ctx.db, ctx.lease, { path: 'New', folderId: 'fld_b' })).toBe('taken');
  await ctx.db.update(pathReservations).set({ createdAt: later }).where(eq(pathReservations.accountId, ctx.account.id));
  expect(await loadOngoing(ctx.db, ctx.account.id)).toEqual([]);
  expect(await reservePath(ctx.db, ctx.lease, { path: 'New', folderId: 'fld_b' })).toBe('again');
}, 40_000);

it('a move that continues after its mark has expired does not copy the email again', async () => {
  const { engine, id } = await abandoned();
  await letTimePass(engine);
  await syncMailbox(engine.ctx, {});
  await moveEmail(engine.ctx, id, () => engine.folder('Work'));
  expect(engine.server.folder('Work').messages).toHaveLength(1);
  expect(engine.server.folder('INBOX').messages).toHaveLength(0);
  const work = (await engine.folder('Work')).id;
  expect(await seen(engine, id)).toMatchObject({ read: [work], reported: [work] });
});

/** A move out of two folders that was stopped after it had marked the one in Work. */
async function stoppedInTwoFolders(): Promise<{ engine: Engine; id: string; inbox: string; work: string }> {
  const engine = await startOn({ capabilities: PLAIN, folders: { Work: [] } });
  const { server, ctx } = engine;
  server.append('INBOX', mailText({ subject: 'twice' }), { date: new Date('2024-05-06T07:08:09Z') });
  await syncMailbox(ctx, { freshSession: true });
  server.copy(server.folder('INBOX'), server.folder('INBOX').messages[0]!, server.folder('Work'));
  await syncMailbox(ctx, {});
  const [inbox, work] = [(await engine.folder('INBOX')).id, (await engine.folder('Work')).id];
  const { uid } = server.folder('Work').messages[0]!;
  const id = await theEmail(engine);
  await mark(ctx, { folderId: work, uid, emailId: id });
  return { engine, id, inbox, work };
}

it('another program expunges what a stopped move was about to take away: an event says so', async () => {
  const { engine, id, inbox, work } = await stoppedInTwoFolders();
  expect((await seen(engine, id)).reported).toEqual([inbox, work].sort());
  const folder = engine.server.folder('Work');
  engine.server.expunge(folder, folder.messages[0]!);
  await syncMailbox(engine.ctx, {});
  await syncMailbox(engine.ctx, { thorough: true });
  expect(await seen(engine, id)).toEqual({ read: [inbox], reported: [inbox], events: 3 });
});

it('another program marks with \\Deleted what a stopped move was about to take away: an event says so', async () => {
  const { engine, id, inbox } = await stoppedInTwoFolders();
  engine.server.setFlag('Work', engine.server.folder('Work').messages[0]!.uid, '\\Deleted');
  await syncMailbox(engine.ctx, { thorough: true });
  expect(await seen(engine, id)).toEqual({ read: [inbox], reported: [inbox], events: 3 });
  await letTimePass(engine);
  await syncMailbox(engine.ctx, { thorough: true });
  expect(await seen(engine, id)).toEqual({ read: [inbox], reported: [inbox], events: 3 });
});

it('a move that was stopped before it changed anything has no event', async () => {
  const { engine, id, inbox, work } = await stoppedInTwoFolders();
  await letTimePass(engine);
  await syncMailbox(engine.ctx, { thorough: true });
  const both = [inbox, work].sort();
  expect(await seen(engine, id)).toEqual({ read: both, reported: both, events: 2 });
});

it('a move whose COPY takes long does not count as one that was stopped', async () => {
  const engine = await startOn({ capabilities: PLAIN, folders: { Work: [] } });
  const { server, ctx } = engine;
  server.append('INBOX', mailText({ subject: 'large' }), { date: new Date('2024-05-06T07:08:09Z') });
  await syncMailbox(ctx, { freshSession: true });
  const id = await theEmail(engine);
  let finish: (() => void) | undefined;
  server.script.command = (command, session) => {
    if (command.name !== 'UID COPY' || finish) return false;
    finish = () => session.answer(command);
    return true;
  };
  const moved = moveEmail(ctx, id, () => engine.folder('Work'));
  await waitFor(() => finish);
  // as if the COPY had taken a minute already
  const earlier = sql`${locations.pendingRemovalSince} - interval '1 minute'`;
  await ctx.db.update(locations).set({ pendingRemovalSince: earlier }).where(eq(locations.emailId, id));
  await waitFor(async () => (await loadLocations(ctx.db, ctx.account.id, id))?.some(({ beingMoved }) => beingMoved));
  finish!();
  await moved;
  expect(server.folder('Work').messages).toHaveLength(1);
  const work = (await engine.folder('Work')).id;
  expect(await seen(engine, id)).toEqual({ read: [work], reported: [work], events: 2 });
});
