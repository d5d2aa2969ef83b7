import { expect, it } from '@jest/globals';
import { changeFolder } from '../../../src/mailbox/folders/change.ts';
import { choose, type Engine, engineTests } from '../../helpers/product/engine.ts';
import { mailText } from '../../helpers/product/mail-text.ts';

/** Where folders are after they are created, renamed or moved. */

const { start } = engineTests();

const paths = ({ server }: Engine) => [...server.folders.keys()].sort();

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
