import { expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { getEmail } from '../../../src/db/queries/mail/emails.ts';
import { parsePieces } from '../../../src/db/driver/json-text.ts';
import { emails } from '../../../src/db/schema/index.ts';
import { markEmail } from '../../../src/mailbox/changes/mark.ts';
import { syncMailbox } from '../../../src/mailbox/sync-pass.ts';
import { PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { storedEvents } from '../../helpers/product/stored-events.ts';
import { type Engine, engineTests } from '../../helpers/product/engine.ts';

/** What the last event of an email says about its folders is what readers see, however its flags and folders change. */

const { ground, start } = engineTests();

async function seen({ ctx }: Engine): Promise<{ read: string[]; reported: string[] }> {
  const { database } = ground().database;
  const [row] = await ctx.db.select({ id: emails.id }).from(emails).where(eq(emails.accountId, ctx.account.id));
  const stored = await getEmail(database.pool, ctx.account.id, row!.id, { metaOnly: true });
  const events = (await storedEvents(database, ctx.account.id)).filter(({ objectId }) => objectId === row!.id);
  const { folders } = (events.at(-1)?.data as { email: { folders: string[] } }).email;
  return { read: parsePieces(stored!).folders, reported: folders };
}

it('reading an email of Gmail marks none of its other labels with \\Deleted', async () => {
  const engine = await inThreeFolders(`${PLAIN} CONDSTORE X-GM-EXT-1`);
  const { server, ctx } = engine;
  server.setFlag('INBOX', server.folder('INBOX').messages[0]!.uid, '\\Deleted');
  await syncMailbox(ctx, {});
  const before = await seen(engine);
  const [row] = await ctx.db.select({ id: emails.id }).from(emails).where(eq(emails.accountId, ctx.account.id));
  await markEmail(ctx, row!.id, true);
  expect(await seen(engine)).toEqual(before);
});

/** An email in INBOX, Work and the folder of all mail, with an event of each. */
async function inThreeFolders(capabilities = `${PLAIN} CONDSTORE`): Promise<Engine> {
  const engine = await start({ capabilities, folders: { Work: [], Archive: ['\\All'] } });
  const { server, ctx } = engine;
  server.append('INBOX', mailText({ subject: 'thrice' }), { date: new Date('2024-05-06T07:08:09Z') });
  await syncMailbox(ctx, { freshSession: true });
  const [message] = server.folder('INBOX').messages;
  for (const path of ['Work', 'Archive']) server.copy(server.folder('INBOX'), message!, server.folder(path));
  await syncMailbox(ctx, {});
  return engine;
}

it('a mark with \\Deleted while it is open where an email went is reported when that is known', async () => {
  const engine = await inThreeFolders();
  const { server, ctx } = engine;
  const [inbox] = server.folder('INBOX').messages;
  server.setFlag('INBOX', inbox!.uid, '\\Deleted');
  await syncMailbox(ctx, {});
  const work = (await engine.folder('Work')).id;
  expect(await seen(engine)).toEqual({ read: [work], reported: [work] });

  // In one pass it leaves INBOX, which leaves open where it went, and is marked in Work.
  server.expunge(server.folder('INBOX'), inbox!);
  server.setFlag('Work', server.folder('Work').messages[0]!.uid, '\\Deleted');
  await syncMailbox(ctx, {});
  await syncMailbox(ctx, { thorough: true });
  const archive = (await engine.folder('Archive')).id;
  expect(await seen(engine)).toEqual({ read: [archive], reported: [archive] });
});
