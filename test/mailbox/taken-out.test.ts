import { expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { selectFolder } from '../../src/imap/select.ts';
import { emails, folders, locations } from '../../src/db/schema/index.ts';
import { moveEmail } from '../../src/mailbox/changes/move.ts';
import type { SyncContext } from '../../src/mailbox/context.ts';
import { ingestAppended } from '../../src/mailbox/ingest/ingest.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import type { MailParser } from '../../src/mime/parser.ts';
import { removeDraftEmail } from '../../src/sending/drafts.ts';
import { PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';

/** Messages that this API takes out of a folder after a sync pass has fetched them, and before it commits them. */

const { start } = engineTests();

async function startEngine(): Promise<{ engine: Engine; other: SyncContext }> {
  const engine = await start({ capabilities: `${PLAIN} MOVE`, folders: { Drafts: ['\\Drafts'], Work: [], Later: [] } });
  await syncMailbox(engine.ctx, { freshSession: true });
  return { engine, other: { ...engine.ctx, session: await engine.ctx.reopen() } };
}

/** The context of a pass that calls this once, before it commits what it has fetched. */
function pausedIn({ ctx }: Engine, pause: () => Promise<unknown>): SyncContext {
  let isDone = false;
  const parseMany: MailParser['parseMany'] = async (sources) => {
    const parsed = await ctx.parser.parseMany(sources);
    if (!isDone && sources.length > 0) {
      isDone = true;
      await pause();
    }
    return parsed;
  };
  return { ...ctx, parser: { ...ctx.parser, parseMany, parse: async (source) => (await parseMany([source]))[0]! } };
}

/** Stores a message as the call does that appended it, and returns its email. */
async function stored(other: SyncContext, engine: Engine, path: string, uid: number) {
  const selected = await selectFolder(other.session, path);
  await ingestAppended(other, await engine.folder(path), selected, [uid]);
  const [row] = await other.db.select().from(emails).where(eq(emails.accountId, other.account.id));
  return row!;
}

async function locatedPaths({ ctx }: Engine): Promise<string[]> {
  const rows = await ctx.db
    .select({ path: folders.path })
    .from(locations)
    .innerJoin(folders, eq(folders.id, locations.folderId))
    .where(eq(locations.accountId, ctx.account.id));
  return rows.map(({ path }) => path);
}

it('a draft that a call has deleted is not stored again', async () => {
  const { engine, other } = await startEngine();
  const uid = engine.server.append('Drafts', mailText({ subject: 'draft' }), { flags: ['\\Draft'] });
  const ctx = pausedIn(engine, async () => {
    const { draftId } = await stored(other, engine, 'Drafts', uid);
    await removeDraftEmail(other, draftId!);
  });
  const list = await syncMailbox(ctx, {});
  expect(engine.server.folder('Drafts').messages).toEqual([]);
  expect(await engine.events()).toEqual(['email.draft.new', 'email.draft.delete']);
  expect([await locatedPaths(engine), await engine.files(), list.undecided]).toEqual([[], [], false]);
  expect(await engine.folder('Drafts')).toMatchObject({ uidNext: uid + 1, totalCount: 0 });
});

it('an email that a call has moved on is shown where it is only, and a message beside it is stored', async () => {
  const { engine, other } = await startEngine();
  const { server } = engine;
  const uid = server.append('Work', mailText({ subject: 'moved' }), { date: new Date('2024-05-06T07:08:09Z') });
  server.append('Work', mailText({ subject: 'stays' }), { date: new Date('2024-05-06T07:08:10Z') });
  const ctx = pausedIn(engine, async () => {
    const { id } = await stored(other, engine, 'Work', uid);
    await moveEmail(other, id, () => engine.folder('Later'));
  });
  await syncMailbox(ctx, {});
  expect(await engine.events()).toEqual(['email.new', 'email.update', 'email.new']);
  expect((await locatedPaths(engine)).sort()).toEqual(['Later', 'Work']);
});
