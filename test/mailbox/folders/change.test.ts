import { describe, expect, it } from '@jest/globals';
import { changeFolder } from '../../../src/mailbox/folders/change.ts';
import { syncOnce } from '../../../src/mailbox/sync-pass.ts';
import { choose, type Engine, engineTests } from '../../helpers/product/engine.ts';
import { mailText } from '../../helpers/product/mail-text.ts';

/** Where folders are after they are created, renamed or moved. */

const { start } = engineTests();

const paths = ({ server }: Engine) => [...server.folders.keys()].sort();

describe('a folder that is renamed stays in its place', () => {
  it('where the account does not include the folder above', async () => {
    const engine = await start({ folders: { Projects: [], 'Projects/A': [] } });
    await choose(engine, { include: ['INBOX', 'Projects/*'] });
    await syncOnce(engine.ctx, {});
    const { id, parentId } = await engine.folder('Projects/A');
    expect(parentId).toBeNull();
    await changeFolder(engine.ctx, id, { name: 'B' });
    expect(paths(engine)).toEqual(['INBOX', 'Projects', 'Projects/B']);
    expect(await engine.folder('Projects/B')).toMatchObject({ id, name: 'B', parentId: null });
  });

  it('where the server does not list the folder above', async () => {
    const engine = await start({ folders: { 'Projects/A': [] } });
    const { id } = await engine.folder('Projects/A');
    await changeFolder(engine.ctx, id, { name: 'B', parentId: null });
    expect(paths(engine)).toEqual(['INBOX', 'Projects/B']);
    await expect(changeFolder(engine.ctx, id, { name: 'C/D' })).rejects.toMatchObject({ code: 'invalid_parameters' });
    await changeFolder(engine.ctx, id, { name: 'B' });
    expect(await engine.folder('Projects/B')).toMatchObject({ id, name: 'B', parentId: null });
  });
});

it('a folder is not renamed where the account would not include one in it', async () => {
  const engine = await start({ folders: { Work: [], 'Work/Old': [] } });
  const { server, ctx } = engine;
  await choose(engine, { exclude: ['Lists/Old'] });
  server.append('Work/Old', mailText());
  const { id } = await engine.folder('Work');
  await expect(changeFolder(ctx, id, { name: 'Lists' })).rejects.toMatchObject({ code: 'invalid_parameters' });
  expect(paths(engine)).toEqual(['INBOX', 'Work', 'Work/Old']);
  await changeFolder(ctx, id, { name: 'Play' });
  expect(paths(engine)).toEqual(['INBOX', 'Play', 'Play/Old']);
});
