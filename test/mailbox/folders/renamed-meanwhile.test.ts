import { expect, it } from '@jest/globals';
import { bringToPath } from '../../../src/mailbox/folders/change.ts';
import { syncMailbox } from '../../../src/mailbox/sync-pass.ts';
import { loadFolders } from '../../../src/mailbox/store/folders.ts';
import { PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { engineTests } from '../../helpers/product/engine.ts';

/** What the watch sees on its own connection while a call renames a folder. */

const { start: startOn } = engineTests();

/** Renames `Work`, with `Work/New` in it, to `Play`; the watch syncs after `midway`. */
async function renamed(midway: (server: Awaited<ReturnType<typeof startOn>>['server']) => () => void) {
  const engine = await startOn({ capabilities: `${PLAIN} MOVE`, folders: { Work: [], 'Work/New': [] } });
  const { server, ctx } = engine;
  server.append('Work', mailText({ subject: 'in the folder' }), { date: new Date('2024-05-06T07:08:09Z') });
  await syncMailbox(ctx, { freshSession: true });
  const ids = [(await engine.folder('Work')).id, (await engine.folder('Work/New')).id];
  const watching = { ...ctx, session: await ctx.reopen() };
  await bringToPath(ctx, ids[0]!, 'Play', async () => {
    const finish = midway(server);
    await syncMailbox(watching, { freshSession: true });
    finish();
  });
  for (let i = 0; i < 2; i++) await syncMailbox(watching, { freshSession: true });
  const stored = await loadFolders(ctx.db, ctx.account.id);
  return {
    before: ids,
    after: ['Play', 'Play/New'].map((path) => stored.find((folder) => folder.path === path)?.id),
    paths: stored.map(({ path }) => path).sort(),
    events: await engine.events(),
  };
}

it('a folder that the list shows at neither path while it is renamed keeps its id, and those in it', async () => {
  const result = await renamed((server) => {
    const hidden = ['Work', 'Work/New'].map((path) => server.folder(path));
    for (const { path } of hidden) server.deleteFolder(path);
    return () => {
      for (const folder of hidden) server.folders.set(folder.path, folder);
      server.renameFolder('Work', 'Play');
    };
  });
  expect(result.after).toEqual(result.before);
  expect(result.events).toEqual(['email.new', 'email.folder.update']);
});

it('a folder that the list shows at both paths while it is renamed keeps its id, and those in it', async () => {
  const result = await renamed((server) => {
    for (const path of ['Work', 'Work/New']) {
      const at = path.replace('Work', 'Play');
      server.folders.set(at, { ...server.folder(path), path: at });
    }
    return () => {
      for (const path of ['Work', 'Work/New']) server.deleteFolder(path);
    };
  });
  expect(result.after).toEqual(result.before);
  expect(result.paths).toEqual(['INBOX', 'Play', 'Play/New']);
  expect(result.events).toEqual(['email.new', 'email.folder.update']);
});
