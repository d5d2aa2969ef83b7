import { describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { emails, folders, locations } from '../../../src/db/schema/index.ts';
import { fetchMeta } from '../../../src/imap/fetch.ts';
import { moveEmail, saveMove } from '../../../src/mailbox/changes/move.ts';
import { LocationChanged } from '../../../src/mailbox/changes/locate.ts';
import { commitBatch } from '../../../src/mailbox/ingest/commit.ts';
import { syncFolder } from '../../../src/mailbox/folder-pass.ts';
import { type Selection, withSelected } from '../../../src/mailbox/selected.ts';
import { loadLocations } from '../../../src/mailbox/store/moves.ts';
import { syncMailbox } from '../../../src/mailbox/sync-pass.ts';
import { PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { storedEvents } from '../../helpers/product/stored-events.ts';
import { type Engine, engineTests } from '../../helpers/product/engine.ts';

/** What a pass or a call finds out after another one has deleted the folder that it is about. */

const { ground, start: startOn } = engineTests();

async function start(): Promise<Engine> {
  const engine = await startOn({ capabilities: `${PLAIN} MOVE`, folders: { Work: [], Later: [] } });
  const { server } = engine;
  server.append('INBOX', mailText({ subject: 'in both' }), { date: new Date('2024-05-06T07:08:09Z') });
  await syncMailbox(engine.ctx, { freshSession: true });
  return engine;
}

async function forget({ server, ctx }: Engine, path: string): Promise<void> {
  server.deleteFolder(path);
  for (const session of server.sessions) if (session.selected?.path === path) session.selected = undefined;
  await syncMailbox(ctx, { freshSession: true });
}

/** Locations in folders that are not stored. */
async function orphans({ ctx }: Engine) {
  const stored = (await ctx.db.select({ id: folders.id }).from(folders)).map(({ id }) => id);
  const all = await ctx.db.select().from(locations).where(eq(locations.accountId, ctx.account.id));
  return all.filter(({ folderId }) => !stored.includes(folderId));
}

const onlyEmail = async ({ ctx }: Engine) =>
  (await ctx.db.select().from(emails).where(eq(emails.accountId, ctx.account.id)))[0]!;

/** The folders of the last event of an email. */
async function lastFolders({ ctx }: Engine): Promise<string[]> {
  const events = await storedEvents(ground().database.database, ctx.account.id);
  const last = events.filter(({ type }) => type.startsWith('email.') && !type.includes('folder')).at(-1);
  return (last?.data as { email: { folders: string[] } }).email.folders;
}

describe('a folder that is deleted in the meantime', () => {
  it('gets no mail that was read of it before', async () => {
    const running = await start();
    const { server, ctx } = running;
    const inbox = server.folder('INBOX');
    server.copy(inbox, inbox.messages[0]!, server.folder('Work'));
    const folder = await running.folder('Work');
    let selection: Selection | undefined;
    const metas = await withSelected(ctx.session, 'Work', (selected) => {
      selection = selected;
      return fetchMeta(ctx.session, 1);
    });
    await forget(running, 'Work');
    const target = { folder, selection: selection!, source: 'live' } as const;
    const batch = { metas: metas ?? [], requested: new Set<number>(), mails: [] };
    expect(await commitBatch(ctx, target, batch)).toMatchObject({ ingested: 0 });
    expect(await orphans(running)).toEqual([]);
    expect(await running.events()).toEqual(['email.new', 'email.folder.delete']);
  });

  it('gets no email that was moved there before', async () => {
    const running = await start();
    const { ctx } = running;
    const { id } = await onlyEmail(running);
    const [from] = (await loadLocations(ctx.db, ctx.account.id, id)) ?? [];
    const target = await running.folder('Work');
    await forget(running, 'Work');
    const outcome = { target, removed: [from!], arrived: { uid: 1, from: from! } };
    await expect(saveMove(ctx, id, outcome)).rejects.toThrow(LocationChanged);
    expect(await orphans(running)).toEqual([]);
    await moveEmail(ctx, id, () => running.folder('Later'));
    expect((await loadLocations(ctx.db, ctx.account.id, id))?.map(({ path }) => path)).toEqual(['Later']);
  });
});

it('an email that comes back to its other folder after one was deleted is reported there alone', async () => {
  const running = await start();
  const { server, ctx } = running;
  const inbox = server.folder('INBOX');
  const [message] = inbox.messages;
  server.copy(inbox, message!, server.folder('Work'));
  await syncMailbox(ctx, {});
  server.remove('INBOX', message!.uid);
  await syncFolder(ctx, (await running.folder('INBOX')).id, { everyFlag: false, compared: new Set() });
  server.deleteFolder('Work');
  server.append('INBOX', message!.source, { date: message!.date });
  for (let i = 0; i < 2; i++) await syncMailbox(ctx, { freshSession: true });
  expect(await lastFolders(running)).toEqual([(await running.folder('INBOX')).id]);
  expect(await running.events()).not.toContain('email.delete');
});

it('an email whose folder is deleted while its copy among all mail is renewed is reported there alone', async () => {
  const engine = await startOn({ capabilities: `${PLAIN} MOVE`, folders: { Work: [], All: ['\\All'] } });
  const { server, ctx } = engine;
  const [source, date] = [mailText({ subject: 'labelled' }), new Date('2024-05-06T07:08:09Z')];
  server.append('Work', source, { date });
  const uid = server.append('All', source, { date });
  await syncMailbox(ctx, { freshSession: true });
  server.remove('All', uid);
  server.append('All', source, { date });
  const all = await engine.folder('All');
  await syncFolder(ctx, all.id, { everyFlag: false, compared: new Set(), arrivalsBelow: 1_000 });
  server.deleteFolder('Work');
  for (let i = 0; i < 2; i++) await syncMailbox(ctx, { freshSession: true });
  expect(await lastFolders(engine)).toEqual([all.id]);
});

it('a move that ends after its email was deleted leaves no location without an email', async () => {
  const running = await start();
  const { server, ctx } = running;
  const { id } = await onlyEmail(running);
  const [from] = (await loadLocations(ctx.db, ctx.account.id, id)) ?? [];
  server.remove('INBOX', from!.uid);
  await syncMailbox(ctx, {});
  await saveMove(ctx, id, { target: await running.folder('Work'), removed: [from!], arrived: { uid: 1, from: from! } });
  expect(await ctx.db.select().from(locations).where(eq(locations.emailId, id))).toEqual([]);
});
