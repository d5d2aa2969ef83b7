import { expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { emails, locations } from '../../src/db/schema/index.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { removeDraftEmail } from '../../src/sending/drafts.ts';
import { PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { engineTests } from '../helpers/product/engine.ts';

const { start } = engineTests();

it('a draft that another program moves to INBOX just as it is deleted stays stored there', async () => {
  const engine = await start({ capabilities: `${PLAIN} MOVE CONDSTORE`, folders: { Drafts: ['\\Drafts'] } });
  const { server, ctx } = engine;
  server.append('INBOX', mailText({ subject: 'first' }));
  server.append('Drafts', mailText({ subject: 'moved' }));
  await syncMailbox(ctx, { freshSession: true });
  const ofAccount = eq(emails.accountId, ctx.account.id);
  const draft = (await ctx.db.select().from(emails).where(ofAccount)).find(({ isDraft }) => isDraft)!;

  // The deletion has read where the draft is; now it moves, and the watch sees that.
  let isMoved = false;
  server.script.command = (command, session) => {
    if (isMoved || command.name !== 'SELECT' || command.args[0] !== 'Drafts') return false;
    isMoved = true;
    const drafts = server.folder('Drafts');
    server.move(drafts, drafts.messages[0]!, server.folder('INBOX'));
    void syncMailbox(ctx, {}).then(() => session.answer(command));
    return true;
  };
  await removeDraftEmail({ ...ctx, session: await ctx.reopen() }, draft.draftId!);
  // As many messages as are stored: their number alone shows no difference.
  server.expunge(server.folder('INBOX'), server.folder('INBOX').messages[0]!);
  for (let pass = 0; pass < 2; pass++) await syncMailbox(ctx, { thorough: true });

  const stored = await ctx.db.select().from(locations).where(eq(locations.accountId, ctx.account.id));
  // Asked again, as after a crash, it takes nothing away either.
  await removeDraftEmail({ ...ctx, session: await ctx.reopen() }, draft.draftId!);
  expect(server.folder('INBOX').messages).toHaveLength(1);
  expect(stored.map(({ uid }) => uid)).toEqual(server.folder('INBOX').messages.map(({ uid }) => uid));
  const left = await ctx.db.select().from(emails).where(ofAccount);
  expect(left.map(({ id, subject, isDraft }) => ({ id, subject, isDraft }))).toEqual([
    { id: draft.id, subject: 'moved', isDraft: false },
  ]);
});
