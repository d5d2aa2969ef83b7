import { expect, it } from '@jest/globals';
import { deleteFolder } from '../../src/mailbox/folders/delete.ts';
import { markVacating } from '../../src/mailbox/folders/vacate.ts';
import { PLAIN } from '../helpers/fake-imap.ts';
import { engineTests } from './engine.ts';

const { start: startOn } = engineTests();

it('a folder in one whose deletion is finished later is reported at the top level', async () => {
  const folders = { Work: [], 'Work/New': [], Trash: ['\\Trash'] };
  const running = await startOn({ capabilities: `${PLAIN} MOVE`, folders });
  const { server, ctx } = running;
  const { id } = await running.folder('Work');
  expect((await running.folder('Work/New')).parentId).toBe(id);
  await ctx.db.transaction((tx) => markVacating(tx, [id], 'deletion'));
  server.deleteFolder('Work');
  await deleteFolder(ctx, id);
  expect((await running.folder('Work/New')).parentId).toBeNull();
  expect(await running.events()).toEqual(['email.folder.delete', 'email.folder.update']);
});
