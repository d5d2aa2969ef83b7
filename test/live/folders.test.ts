import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { brief, type Connected, connectUser, type Live, joinLive, typesOf } from '../helpers/product/live.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { emailOf, folderOf } from '../helpers/fakes/receiver.ts';

/** Folders made, renamed and removed in other mail programs. */

let live: Live;
let finn: Connected;

beforeAll(async () => {
  // a server may keep a rename of folders to itself, and one folder that is gone is certain after one more pass
  live = await joinLive({ SYNC_POLL_INTERVAL: '1s' });
}, 120_000);

afterAll(() => live?.close());

beforeEach(async () => {
  finn = await connectUser(live, {
    before: async (box) => {
      await box.createFolder('Projects');
      await box.createFolder('Projects/One');
    },
  });
});

afterEach(async () => {
  await finn.box.close();
  await live.api.delete(`/accounts/${finn.account.id}`);
});

test('folders of the first sync are listed, INBOX first, and cause no events', async () => {
  const all = await live.api.folders(finn.account.id);
  expect(all.map(({ name, role }) => [name, role])).toEqual([
    ['INBOX', 'INBOX'],
    ['Sent', 'SENT'],
    ['Drafts', 'DRAFTS'],
    ['Trash', 'TRASH'],
    ['Junk', 'SPAM'],
    ['Archive', 'ARCHIVE'],
    ['One', 'UNKNOWN'],
    ['Projects', 'UNKNOWN'],
  ]);
  const parent = all.find(({ name }) => name === 'Projects');
  expect(all.find(({ name }) => name === 'One')?.parent_id).toBe(parent?.id);
  for (const folder of all) expect(await live.api.get(`/${finn.account.id}/folders/${folder.id}`)).toEqual(folder);
  expect(brief(await finn.settle())).toEqual([]);
});

test('a new folder is reported, with a name of any script; a removed one too, and its mail', async () => {
  for (const name of ['Rechnungen & Belege', 'Über "Ähren" 🌾', '受信箱']) {
    await finn.box.createFolder(name);
    const created = await finn.event('email.folder.create', (call) => folderOf(call).name === name);
    expect(folderOf(created)).toMatchObject({
      object: 'Folder',
      account_id: finn.account.id,
      role: 'UNKNOWN',
      total_count: 0,
    });
    const { call } = await finn.receive(name, `in ${name}`);
    expect(emailOf(call).folders).toEqual([folderOf(created).id]);
    await finn.box.deleteFolder(name);
    const deleted = await finn.event('email.folder.delete', (one) => folderOf(one).id === folderOf(created).id);
    expect(folderOf(deleted).name).toBe(name);
    await finn.event('email.delete', (one) => emailOf(one).id === emailOf(call).id);
  }
  const types = typesOf(await finn.settle());
  expect(types.filter((type) => type === 'email.folder.create')).toHaveLength(3);
  expect(types).toHaveLength(12);
});

test('the rename of a folder with 100 mails is one email.folder.update and nothing else', async () => {
  await finn.box.createFolder('Big');
  await finn.event('email.folder.create');
  for (let index = 0; index < 100; index++) await finn.box.append('Big', mailText({ subject: `in Big ${index}` }));
  await finn.settle('Big', { timeoutMs: 30_000 });
  const big = await live.api.folder(finn.account.id, 'Big');
  expect(big.total_count).toBe(101);
  const before = await live.api.get<{ data: { id: string }[] }>(
    `/${finn.account.id}/folders/${big.id}/emails?limit=250`,
  );

  await finn.box.renameFolder('Big', 'Bigger');
  const renamed = await finn.event('email.folder.update');
  expect(folderOf(renamed)).toMatchObject({ id: big.id, name: 'Bigger', total_count: 101 });
  const since = [...(await finn.settle('Bigger')), ...(await finn.settle())];
  expect(typesOf(since)).toEqual(['email.folder.update']);
  const after = await live.api.get<{ data: { id: string }[] }>(
    `/${finn.account.id}/folders/${big.id}/emails?limit=250`,
  );
  expect(after.data.map(({ id }) => id)).toEqual(expect.arrayContaining(before.data.map(({ id }) => id)));
  expect(after.data).toHaveLength(102);
}, 90_000);

test('children follow a renamed parent under their ids and cause no event', async () => {
  const one = await live.api.folder(finn.account.id, 'One');
  const { call } = await finn.receive('Projects/One', 'inside');
  await finn.settle();
  await finn.box.renameFolder('Projects', 'Plans');
  const renamed = await finn.event('email.folder.update');
  expect(folderOf(renamed)).toMatchObject({ id: one.parent_id, name: 'Plans' });
  expect(typesOf([...(await finn.settle('Plans/One')), ...(await finn.settle())])).toEqual(['email.folder.update']);
  expect(await live.api.folder(finn.account.id, 'One')).toMatchObject({ id: one.id, parent_id: one.parent_id });
  expect((await live.api.email(finn.account.id, emailOf(call).id)).folders).toEqual([one.id]);
}, 90_000);

test('a folder that gets another parent is one event, its mail keeps its ids', async () => {
  const { call } = await finn.receive('Projects/One', 'inside');
  const one = await live.api.folder(finn.account.id, 'One');
  await finn.settle();
  await finn.box.renameFolder('Projects/One', 'Archive/One');
  const moved = await finn.event('email.folder.update');
  const archive = await live.api.folder(finn.account.id, 'ARCHIVE');
  expect(folderOf(moved)).toMatchObject({ id: one.id, name: 'One', parent_id: archive.id });
  expect(typesOf([...(await finn.settle('Archive/One')), ...(await finn.settle())])).toEqual(['email.folder.update']);
  expect((await live.api.email(finn.account.id, emailOf(call).id)).folders).toEqual([one.id]);
}, 90_000);

test('mail in a folder other than INBOX is reported on a server with NOTIFY, without waiting for the next pass', async () => {
  const patient = await joinLive();
  const fred = await connectUser(patient, { before: (box) => box.createFolder('Projects') });
  // each is waited for 10 s, and there is a pass every 25 s
  for (const subject of ['first', 'second', 'third']) await fred.receive('Projects', subject);
  await patient.close();
});
