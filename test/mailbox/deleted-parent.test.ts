import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { deleteFolder } from '../../src/mailbox/folders/delete.ts';
import { markVacating } from '../../src/mailbox/folders/vacate.ts';
import { PLAIN } from '../helpers/fake-imap.ts';
import { openSyncGround, type SyncGround } from '../helpers/watched-account.ts';
import { type Engine, startEngine } from './engine.ts';

let ground: SyncGround;
let engine: Engine | undefined;

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());
afterEach(() => engine?.close());

it('a folder in one whose deletion is finished later is reported at the top level', async () => {
  const folders = { Work: [], 'Work/New': [], Trash: ['\\Trash'] };
  const running = await startEngine(ground, { capabilities: `${PLAIN} MOVE`, folders });
  engine = running;
  const { server, ctx } = running;
  const { id } = await running.folder('Work');
  expect((await running.folder('Work/New')).parentId).toBe(id);
  await ctx.db.transaction((tx) => markVacating(tx, [id], 'deletion'));
  server.deleteFolder('Work');
  await deleteFolder(ctx, id);
  expect((await running.folder('Work/New')).parentId).toBeNull();
  expect(await running.events()).toEqual(['email.folder.delete', 'email.folder.update']);
});
