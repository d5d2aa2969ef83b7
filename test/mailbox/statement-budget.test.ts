import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { eq } from 'drizzle-orm';
import { emails } from '../../src/db/schema/index.ts';
import { fetchMeta } from '../../src/imap/fetch.ts';
import { selectFolder } from '../../src/imap/select.ts';
import { applyFlags } from '../../src/mailbox/changes/flags.ts';
import { markEmail } from '../../src/mailbox/changes/mark.ts';
import { moveEmail } from '../../src/mailbox/changes/move.ts';
import { ingest } from '../../src/mailbox/ingest/ingest.ts';
import { selectionOf } from '../../src/mailbox/selected.ts';
import { syncMailbox } from '../../src/mailbox/sync-pass.ts';
import { PLAIN } from '../helpers/fakes/fake-imap.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { statementsOf } from '../helpers/assert/statements.ts';
import { type Engine, engineTests } from '../helpers/product/engine.ts';

/** What a statement costs is paid for each, whatever it does: begin and commit count. */
const OF_ONE_MAIL = 8;
const OF_A_BATCH = 8;

const { start } = engineTests();

test.each([
  ['one mail', 1, OF_ONE_MAIL],
  ['50 mails', 50, OF_A_BATCH],
])('%s is ingested by few statements', async (_name, count, budget) => {
  const { server, ctx, folder } = await start();
  for (let n = 0; n < count; n++)
    server.append('INBOX', mailText({ from: `sender${n}@example.test`, subject: `mail ${n}` }));
  const stored = await folder('INBOX');
  const selected = await selectFolder(ctx.session, 'INBOX');
  const target = {
    folder: stored,
    selection: selectionOf(ctx.session, selected),
    source: 'live' as const,
    localRevision: stored.localRevision,
  };
  const metas = await fetchMeta(ctx.session, 1);
  const statements = await statementsOf(async () => {
    expect(await ingest(ctx, target, metas)).toMatchObject({ ingested: count });
  });
  expect(statements.length <= budget ? [] : statements).toEqual([]);
});

/** Of a pass over all folders, as one is made of each mailbox every 25 seconds. */
const AT_REST = 4;

test('a pass without changes runs few statements', async () => {
  const { server, ctx } = await start({ folders: { Work: [], Trash: ['\\Trash'] } });
  server.append('INBOX', mailText({ subject: 'there before' }));
  await syncMailbox(ctx, { freshSession: true });
  const statements = await statementsOf(() => syncMailbox(ctx, {}));
  expect(statements.length <= AT_REST ? [] : statements).toEqual([]);
});

/** With the record that the run has done it, apart from the one that loads the account with its credentials; of a move, also from the one that finds its target. */
const OF_A_MARK = 7;
const OF_A_MOVE = 10;
/** One by which another program has read an email. */
const OF_A_FLAG = 8;

const aRun = () => ({ workflowId: 'change/1', runId: randomUUID() });

describe('a change of an email is stored by few statements', () => {
  async function stored(count = 1): Promise<{ running: Engine; id: string }> {
    const running = await start({ capabilities: `${PLAIN} MOVE`, folders: { Work: [], Trash: ['\\Trash'] } });
    for (let n = 0; n < count; n++) running.server.append('INBOX', mailText({ subject: `mail ${n}` }));
    await syncMailbox(running.ctx, { freshSession: true });
    const [email] = await running.ctx.db.select().from(emails).where(eq(emails.accountId, running.ctx.account.id));
    return { running, id: email!.id };
  }

  const withinBudget = async (budget: number, work: () => Promise<unknown>) => {
    const statements = await statementsOf(work);
    expect(statements.length <= budget ? [] : statements).toEqual([]);
  };

  test('that marks it', async () => {
    const { running, id } = await stored();
    await withinBudget(OF_A_MARK, () => markEmail(running.ctx, id, true, aRun()));
    await withinBudget(OF_A_MARK, () => markEmail(running.ctx, id, false, aRun()));
    expect(await running.events()).toEqual(['email.new', 'email.update', 'email.update']);
    expect(await running.folder('INBOX')).toMatchObject({ unreadCount: 1, localRevision: 2 });
  });

  test('that moves it', async () => {
    const { running, id } = await stored();
    const target = await running.folder('Work');
    await withinBudget(OF_A_MOVE, () => moveEmail(running.ctx, id, async () => target, aRun()));
    expect(await running.events()).toEqual(['email.new', 'email.update']);
    const counts = async (path: string) => {
      const { totalCount, unreadCount } = await running.folder(path);
      return [totalCount, unreadCount];
    };
    expect([await counts('INBOX'), await counts('Work')]).toEqual([
      [0, 0],
      [1, 1],
    ]);
  });

  test.each([1, 50])('that another program makes of %s', async (count) => {
    const { running } = await stored(count);
    const folder = await running.folder('INBOX');
    const flags = running.server
      .folder('INBOX')
      .messages.map(({ uid }) => ({ uid, seen: true, deleted: false, flags: [] }));
    await withinBudget(OF_A_FLAG, () => applyFlags(running.ctx, folder, flags, folder.localRevision));
    expect((await running.events()).filter((type) => type === 'email.update')).toHaveLength(count);
    expect(await running.folder('INBOX')).toMatchObject({ unreadCount: 0 });
  });
});
