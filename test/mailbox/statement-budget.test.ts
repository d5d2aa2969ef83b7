import { expect, test } from '@jest/globals';
import { fetchMeta } from '../../src/imap/fetch.ts';
import { selectFolder } from '../../src/imap/select.ts';
import { ingest } from '../../src/mailbox/ingest/ingest.ts';
import { selectionOf } from '../../src/mailbox/selected.ts';
import { mailText } from '../helpers/mail-text.ts';
import { statementsOf } from '../helpers/statements.ts';
import { engineTests } from './engine.ts';

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
  const selected = await selectFolder(ctx.session, 'INBOX');
  const target = {
    folder: await folder('INBOX'),
    selection: selectionOf(ctx.session, selected),
    source: 'live' as const,
  };
  const metas = await fetchMeta(ctx.session, 1);
  const statements = await statementsOf(async () => {
    expect(await ingest(ctx, target, metas)).toMatchObject({ ingested: count });
  });
  expect(statements.length <= budget ? [] : statements).toEqual([]);
});
