import { describe, expect, it } from '@jest/globals';
import { DoubtfulList } from '../../../src/mailbox/folders/list-pass.ts';
import { reservePath } from '../../../src/mailbox/folders/reservations.ts';
import { syncMailbox, syncOnce } from '../../../src/mailbox/sync-pass.ts';
import { PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { type Engine, engineTests } from '../../helpers/product/engine.ts';

/** Lists of folders that do not show what the mailbox holds. */

const { start } = engineTests();

const DATE = new Date('2024-05-06T07:08:09Z');

describe.each([
  ['with IMAP4rev1 alone', 'IMAP4rev1'],
  ['with LIST-STATUS', PLAIN],
])('a list without INBOX, of a server %s', (_, capabilities) => {
  it.each([
    ['is empty', /^\* (LIST|LSUB|STATUS) .*\r\n/],
    ['has other folders', /^\* (LIST|LSUB|STATUS) .*"INBOX".*\r\n/],
    ['has INBOX as a mere name', undefined],
  ])('and that %s deletes nothing, on a new connection either', async (_, hidden) => {
    const engine = await start({ capabilities, folders: { Work: [], Later: [] } });
    engine.server.append('INBOX', mailText());
    engine.server.append('Work', mailText());
    await syncMailbox(engine.ctx, { freshSession: true });
    const before = await engine.folder('Work');
    if (hidden) {
      engine.server.script.answer = (text, { name }) =>
        /^(LIST|LSUB|STATUS)$/.test(name) ? text.replace(hidden, '') : text;
    } else engine.server.folder('INBOX').attributes.push('\\Noselect');
    await expect(syncMailbox(engine.ctx, {})).rejects.toThrow(DoubtfulList);
    await expect(syncOnce(engine.ctx, {})).rejects.toMatchObject({
      ...{ code: 'provider_error', temporary: true },
      detail: 'the IMAP server does not list INBOX; retry later',
    });
    engine.server.script = {};
    engine.server.folder('INBOX').attributes.splice(0);
    await syncOnce(engine.ctx, {});
    expect(await engine.events()).toEqual(['email.new', 'email.new']);
    expect((await engine.folder('Work')).id).toBe(before.id);
  });
});

describe('a folder that is listed as a mere name', () => {
  async function withSubfolder(): Promise<Engine> {
    const engine = await start({ folders: { A: [], 'A/x': [] } });
    engine.server.append('A', mailText({ subject: 'in A' }), { date: DATE });
    engine.server.append('A/x', mailText({ subject: 'in A/x' }), { date: DATE });
    await syncMailbox(engine.ctx, { freshSession: true });
    return engine;
  }

  /** Renames A alone, as a server of Maildir++ does before it renames what is in it. */
  function renameAlone({ server }: Engine): void {
    const folder = server.folder('A');
    server.folders.delete('A');
    server.folders.set('B', Object.assign(folder, { path: 'B' }));
    server.createFolder('A', ['\\Noselect']);
  }

  function renameRest({ server }: Engine): void {
    server.deleteFolder('A');
    server.renameFolder('A/x', 'B/x');
  }

  it('is emptied by the list of a new connection only', async () => {
    const engine = await withSubfolder();
    Object.assign(engine.server.folder('A'), { attributes: ['\\Noselect'], messages: [] });
    await expect(syncMailbox(engine.ctx, {})).rejects.toThrow(DoubtfulList);
    expect(await engine.events()).toEqual(['email.new', 'email.new']);
    await syncOnce(engine.ctx, {});
    expect(await engine.events()).toEqual(['email.new', 'email.new', 'email.delete']);
  });

  it('while another program renames it with the folders in it keeps its id and its mail', async () => {
    const engine = await withSubfolder();
    const [a, x] = [await engine.folder('A'), await engine.folder('A/x')];
    renameAlone(engine);
    await syncMailbox(engine.ctx, { freshSession: true });
    renameRest(engine);
    await syncMailbox(engine.ctx, { freshSession: true });
    expect(await engine.folder('B')).toMatchObject({ id: a.id, totalCount: 1 });
    expect(await engine.folder('B/x')).toMatchObject({ id: x.id, parentId: a.id, totalCount: 1 });
    expect((await engine.events()).filter((type) => /^email\.(new|delete)/.test(type))).toEqual([
      ...['email.new', 'email.new'],
    ]);
  });

  it('while this API renames it keeps its id, and what is left of it is not reported', async () => {
    const engine = await withSubfolder();
    const { ctx } = engine;
    const [a, x] = [await engine.folder('A'), await engine.folder('A/x')];
    await reservePath(ctx.db, ctx.lease, { path: 'B', folderId: a.id });
    Object.assign(engine.server.folder('A'), { attributes: ['\\Noselect'] });
    await syncMailbox(ctx, { freshSession: true });
    expect(await engine.folder('A')).toMatchObject({ id: a.id, selectable: true });
    renameAlone(engine);
    engine.server.folder('B').attributes = [];
    await syncMailbox(ctx, { freshSession: true });
    expect(await engine.folder('B')).toMatchObject({ id: a.id, totalCount: 1 });
    renameRest(engine);
    await syncMailbox(ctx, { freshSession: true });
    expect(await engine.folder('B/x')).toMatchObject({ id: x.id, parentId: a.id });
    expect(await engine.events()).toEqual(['email.new', 'email.new', 'email.folder.update']);
  });
});
