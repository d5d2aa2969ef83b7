import { describe, expect, it } from '@jest/globals';
import { changeFolder, createFolder } from '../../../src/mailbox/folders/change.ts';
import { syncOnce } from '../../../src/mailbox/sync-pass.ts';
import { newId } from '../../../src/new-id.ts';
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

describe('the folder above has been renamed by another program', () => {
  async function renamedAbove(): Promise<{ engine: Engine; above: string }> {
    const engine = await start({ folders: { Old: [], Other: [] } });
    engine.server.append('Old', mailText(), { date: new Date('2024-05-06T07:08:09Z') });
    await syncOnce(engine.ctx, {});
    const { id } = await engine.folder('Old');
    engine.server.renameFolder('Old', 'Theirs');
    return { engine, above: id };
  }

  it('a new folder is created below its new name', async () => {
    const { engine, above } = await renamedAbove();
    const id = newId('folder');
    await createFolder(engine.ctx, id, { name: 'New', parentId: above });
    expect(paths(engine)).toEqual(['INBOX', 'Other', 'Theirs', 'Theirs/New']);
    expect(await engine.folder('Theirs/New')).toMatchObject({ id, parentId: above });
  });

  it('a folder is moved below its new name', async () => {
    const { engine, above } = await renamedAbove();
    const { id } = await engine.folder('Other');
    await changeFolder(engine.ctx, id, { parentId: above });
    expect(paths(engine)).toEqual(['INBOX', 'Theirs', 'Theirs/Other']);
    expect(await engine.folder('Theirs/Other')).toMatchObject({ id, parentId: above });
  });

  it('a new folder is refused when it was deleted', async () => {
    const { engine, above } = await renamedAbove();
    engine.server.deleteFolder('Theirs');
    const create = createFolder(engine.ctx, newId('folder'), { name: 'New', parentId: above });
    await expect(create).rejects.toMatchObject({ code: 'not_found' });
    expect(paths(engine)).toEqual(['INBOX', 'Other']);
  });
});
