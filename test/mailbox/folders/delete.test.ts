import { describe, expect, it } from '@jest/globals';
import { deleteFolder } from '../../../src/mailbox/folders/delete.ts';
import { loadFolders } from '../../../src/mailbox/store/folders.ts';
import { syncMailbox } from '../../../src/mailbox/sync-pass.ts';
import { type FakeImapOptions, PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { choose, type Engine, engineTests } from '../../helpers/product/engine.ts';
import { mailText } from '../../helpers/product/mail-text.ts';

/** What a deleted folder leaves: its mail in Trash, and the folders in it one level up. */

const { start: startOn } = engineTests();

const start = (folders: FakeImapOptions['folders']) =>
  startOn({ capabilities: `${PLAIN} MOVE`, folders: { Trash: ['\\Trash'], ...folders } });

/** Path and parent of the stored folders, by their ids. */
async function stored({ ctx }: Engine): Promise<Record<string, [string, string | null]>> {
  const folders = await loadFolders(ctx.db, ctx.account.id);
  return Object.fromEntries(folders.map(({ id, path, parentId }) => [id, [path, parentId]]));
}

const paths = ({ server }: Engine) => [...server.folders.keys()].sort();

describe('the folder is not deleted, and nothing is changed', () => {
  /** Deletes a folder that holds mail, with mail in the folder in it; nothing may change. */
  async function expectRefused(engine: Engine, [path, inner]: [string, string]): Promise<void> {
    const { server, ctx } = engine;
    for (const each of [path, inner]) server.append(each, mailText());
    await syncMailbox(ctx, { freshSession: true });
    const before = { paths: paths(engine), stored: await stored(engine), events: await engine.events() };
    const error = { code: 'provider_rejected', detail: expect.stringContaining((await engine.folder(inner)).id) };
    await expect(deleteFolder(ctx, (await engine.folder(path)).id)).rejects.toMatchObject(error);
    await syncMailbox(ctx, { freshSession: true });
    expect({ paths: paths(engine), stored: await stored(engine), events: await engine.events() }).toEqual(before);
    expect(server.folder(path).messages).toHaveLength(1);
  }

  it('where the account would not include a folder that moves up', async () => {
    const engine = await start({ Projects: [], 'Projects/X': [] });
    await choose(engine, { include: ['INBOX', 'TRASH', 'Projects'] });
    await expectRefused(engine, ['Projects', 'Projects/X']);
  });

  it('where the account would not include a folder in one that moves up', async () => {
    const engine = await start({ Projects: [], 'Projects/X': [], 'Projects/X/Y': [] });
    await choose(engine, { exclude: ['X/Y'] });
    await expectRefused(engine, ['Projects', 'Projects/X']);
    expect((await engine.folder('Projects/X/Y')).path).toBe('Projects/X/Y');
  });

  it('where a folder with a role would move up', async () => {
    const engine = await start({ Mail: [], 'Mail/Sent': ['\\Sent'] });
    await expectRefused(engine, ['Mail', 'Mail/Sent']);
  });
});

describe('the folders in it move up', () => {
  it('into the folder above, which is not stored', async () => {
    const engine = await start({ 'Projects/A': [], 'Projects/A/B': [] });
    const { ctx } = engine;
    const { id } = await engine.folder('Projects/A/B');
    await deleteFolder(ctx, (await engine.folder('Projects/A')).id);
    expect(paths(engine)).toEqual(['INBOX', 'Projects/B', 'Trash']);
    expect((await stored(engine))[id]).toEqual(['Projects/B', null]);
  });

  it('also one that another program has just put into it', async () => {
    const engine = await start({ Old: [] });
    const { server, ctx } = engine;
    server.createFolder('Old/New');
    await deleteFolder(ctx, (await engine.folder('Old')).id);
    expect(paths(engine)).toEqual(['INBOX', 'New', 'Trash']);
    expect((await engine.folder('New')).parentId).toBeNull();
    expect(await engine.events()).toEqual(['email.folder.create', 'email.folder.update', 'email.folder.delete']);
  });

  it('once, where the connection was lost before the response to their RENAME', async () => {
    const engine = await start({ Old: [], 'Old/New': [] });
    const { server, ctx } = engine;
    const [old, inner] = [await engine.folder('Old'), await engine.folder('Old/New')];
    server.script.command = ({ name }, session) => {
      if (name !== 'RENAME') return false;
      server.renameFolder('Old/New', 'New');
      session.socket.destroy();
      return true;
    };
    await expect(deleteFolder(ctx, old.id)).rejects.toMatchObject({ code: 'provider_error' });
    server.script = {};
    await deleteFolder({ ...ctx, session: await ctx.reopen() }, old.id);
    expect(paths(engine)).toEqual(['INBOX', 'New', 'Trash']);
    expect((await stored(engine))[inner.id]).toEqual(['New', null]);
    expect(await engine.events()).toEqual(['email.folder.update', 'email.folder.delete']);
  });

  it('while mail arrives, which is moved to Trash, too', async () => {
    const engine = await start({ Old: [], 'Old/New': [] });
    const { server, ctx } = engine;
    server.script.command = ({ name }) => {
      if (name === 'RENAME') server.append('Old', mailText({ subject: 'late' }));
    };
    await deleteFolder(ctx, (await engine.folder('Old')).id);
    expect(paths(engine)).toEqual(['INBOX', 'New', 'Trash']);
    expect(server.folder('Trash').messages).toHaveLength(1);
  });
});
