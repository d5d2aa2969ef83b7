import { describe, expect, it } from '@jest/globals';
import { deleteFolder } from '../../../src/mailbox/folders/delete.ts';
import { markVacating } from '../../../src/mailbox/folders/vacate.ts';
import { syncMailbox } from '../../../src/mailbox/sync-pass.ts';
import { PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { engineTests } from '../../helpers/product/engine.ts';

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

describe('a folder that the server lists still after another program deleted the one that holds it', () => {
  const start = () =>
    startOn({ capabilities: `${PLAIN} MOVE`, folders: { Work: [], 'Work/New': [], Trash: ['\\Trash'] } });

  it('moves to the top level with its event', async () => {
    const running = await start();
    running.server.deleteFolder('Work');
    await syncMailbox(running.ctx, { freshSession: true });
    expect((await running.folder('Work/New')).parentId).toBeNull();
    expect(await running.events()).toEqual(['email.folder.delete', 'email.folder.update']);
    await syncMailbox(running.ctx, { freshSession: true });
    expect(await running.events()).toHaveLength(2);
  });

  it('moves back into it when it is created again', async () => {
    const running = await start();
    running.server.deleteFolder('Work');
    await syncMailbox(running.ctx, { freshSession: true });
    running.server.createFolder('Work');
    await syncMailbox(running.ctx, { freshSession: true });
    expect((await running.folder('Work/New')).parentId).toBe((await running.folder('Work')).id);
    expect((await running.events()).slice(2).sort()).toEqual(['email.folder.create', 'email.folder.update']);
  });
});
