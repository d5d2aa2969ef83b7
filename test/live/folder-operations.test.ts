import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Folder } from '../../src/contract/folder.ts';
import {
  addUserWhoSends,
  DOVECOT_PROFILES,
  type DovecotProfile,
  startDovecotProfile,
} from '../helpers/servers/dovecot-profiles.ts';
import type { RunningDovecot } from '../helpers/servers/dovecot.ts';
import { brief, type Connected, connectLogin, type Live, joinLive } from '../helpers/product/live.ts';
import { isLong } from '../helpers/runner/long.ts';
import { emailOf, folderOf } from '../helpers/fakes/receiver.ts';

/** Folder operations of the API: at the provider, immediately in the store, and in one event. */

/** The server with a prefix can do all that a full one can; the others are part of `npm run test:long`. */
const PROFILES: DovecotProfile[] = isLong() ? ['full', 'stripped', 'prefixed'] : ['prefixed'];

let live: Live;

beforeAll(async () => {
  live = await joinLive({ SYNC_POLL_INTERVAL: '1s' });
}, 120_000);

afterAll(() => live?.close());

describe.each(PROFILES)('on a server that is %s', (profile) => {
  const { prefix = '', separator = '/' } = DOVECOT_PROFILES[profile] as { prefix?: string; separator?: string };
  let dovecot: RunningDovecot;
  let eve: Connected;

  beforeAll(async () => {
    dovecot = await startDovecotProfile(profile);
  }, 60_000);
  afterAll(() => dovecot?.stop());

  beforeEach(async () => {
    eve = await connectLogin(live, await addUserWhoSends(dovecot), {
      before: async (box) => {
        await box.createFolder(path('Old'));
        await box.append(path('Old'), { subject: 'from before' });
      },
    });
    await eve.receive('INBOX', 'the first');
    await eve.settle();
  });
  afterEach(async () => {
    await eve.box.close();
    await live.api.delete(`/accounts/${eve.account.id}`);
  });

  const path = (...names: string[]) => prefix + names.join(separator);
  const url = (id = '') => `/${eve.account.id}/folders${id && `/${id}`}`;
  const create = (name: string, parent_id?: string | null) => live.api.post<Folder>(url(), { name, parent_id });
  const patch = (id: string, body: object) => live.api.patch<Folder>(url(id), body);
  const status = async (method: string, id: string, body?: unknown) =>
    (await live.api.request(method, url(id), body)).status;
  const paths = async () => (await eve.box.client.list()).map((entry) => entry.path).sort();
  /** The events since the last settling. */
  const eventsSince = async (...folders: string[]) => {
    const calls = [];
    for (const folder of ['INBOX', ...folders, 'INBOX']) calls.push(...(await eve.settle(folder)));
    return calls;
  };

  test('a folder with any name is created, at the top and in another', async () => {
    const answer = await live.api.request('POST', url(), { name: 'Entwürfe & "Ideen" 日本 🙂' });
    expect(answer.status).toBe(201);
    const top = (await answer.json()) as Folder;
    expect(top).toMatchObject({ object: 'Folder', role: 'UNKNOWN', parent_id: null, total_count: 0, unread_count: 0 });
    const child = await create('Inner', top.id);
    expect(child).toMatchObject({ name: 'Inner', parent_id: top.id });
    expect(await paths()).toEqual(expect.arrayContaining([path(top.name), path(top.name, 'Inner')]));
    expect((await eve.box.client.list()).find((entry) => entry.path === path(top.name))?.subscribed).toBe(true);
    expect(await live.api.folders(eve.account.id)).toEqual(expect.arrayContaining([top, child]));
    const calls = await eventsSince();
    expect(brief(calls)).toEqual(['email.folder.create Inner', `email.folder.create ${top.name}`].sort());
    expect(calls.map(folderOf)).toEqual(expect.arrayContaining([top, child]));
    const { call } = await eve.receive(path(top.name, 'Inner'), 'inside');
    expect(emailOf(call).folders).toEqual([child.id]);
  });

  test('a name that is taken, or none', async () => {
    await create('Taken');
    expect(await status('POST', '', { name: 'Taken' })).toBe(409);
    expect(await status('POST', '', { name: 'INBOX' })).toBe(409);
    await eve.box.createFolder(path('Theirs'));
    expect(await status('POST', '', { name: 'Theirs' })).toBe(409);
    expect(await status('POST', '', { name: `a${separator}b` })).toBe(400);
    const missing = (await create('Gone')).id;
    await live.api.delete(url(missing));
    expect(await status('POST', '', { name: 'x', parent_id: missing })).toBe(404);
    const since = brief(await eventsSince()).filter((line) => !line.endsWith('create Trash'));
    expect(since).toEqual([
      'email.folder.create Gone',
      'email.folder.create Taken',
      'email.folder.create Theirs',
      'email.folder.delete Gone',
    ]);
  });

  test('calls with the same Idempotency-Key create one folder', async () => {
    const call = () => live.api.request('POST', url(), { name: 'Once' }, { 'Idempotency-Key': `once ${profile}` });
    const answers = await Promise.all([call(), call()]);
    answers.push(await call());
    expect(answers.map((answer) => answer.status)).toEqual([201, 201, 201]);
    const ids = await Promise.all(answers.map(async (answer) => ((await answer.json()) as Folder).id));
    expect(new Set(ids).size).toBe(1);
    expect(brief(await eventsSince())).toEqual(['email.folder.create Once']);
  });

  test('a folder is renamed and moved under its id, with its subfolders and their mail', async () => {
    const old = await live.api.folder(eve.account.id, 'Old');
    const inner = await create('Inner', old.id);
    const { call } = await eve.receive(path('Old', 'Inner'), 'inside');
    await eventsSince();
    const renamed = await patch(old.id, { name: 'Älter' });
    expect(renamed).toEqual({ ...old, name: 'Älter' });
    expect(await paths()).toEqual(expect.arrayContaining([path('Älter'), path('Älter', 'Inner')]));
    const other = await create('Other');
    const moved = await patch(old.id, { parent_id: other.id });
    expect(moved).toEqual({ ...renamed, parent_id: other.id });
    expect(await paths()).toEqual(expect.arrayContaining([path('Other', 'Älter'), path('Other', 'Älter', 'Inner')]));
    expect(await patch(old.id, { parent_id: other.id, name: 'Älter' })).toEqual(moved);
    expect(brief(await eventsSince())).toEqual([
      'email.folder.create Other',
      'email.folder.update Älter',
      'email.folder.update Älter',
    ]);
    expect(await live.api.email(eve.account.id, emailOf(call).id)).toMatchObject({ folders: [inner.id] });
    const later = await eve.receive(path('Other', 'Älter', 'Inner'), 'later');
    expect(emailOf(later.call).folders).toEqual([inner.id]);
    expect(await status('PATCH', old.id, { parent_id: inner.id })).toBe(400);
    expect(await status('PATCH', old.id, { parent_id: old.id })).toBe(400);
    expect(await patch(old.id, { parent_id: null, name: 'Old' })).toEqual(old);
    expect(await paths()).toEqual(expect.arrayContaining([path('Old'), path('Old', 'Inner')]));
    expect(brief(await eventsSince())).toEqual(['email.folder.update Old', 'email.new later']);
  });

  test('folders with a role stay unchanged', async () => {
    for (const role of ['INBOX', 'DRAFTS', 'TRASH']) {
      const folder = (await live.api.folders(eve.account.id)).find((each) => each.role === role);
      if (!folder) continue;
      expect(await status('PATCH', folder.id, { name: 'Mine' })).toBe(422);
      expect(await status('DELETE', folder.id)).toBe(422);
    }
  });

  test('a deleted folder leaves its mail to Trash, and its subfolders move up', async () => {
    const old = await live.api.folder(eve.account.id, 'Old');
    const inner = await create('Inner', old.id);
    const { call } = await eve.receive(path('Old'), 'in Old');
    const kept = await eve.receive(path('Old', 'Inner'), 'in Inner');
    await eventsSince();
    const answer = await live.api.request('DELETE', url(old.id));
    expect([answer.status, await answer.text()]).toEqual([204, '']);
    expect(await paths()).not.toContain(path('Old'));
    expect(await paths()).toContain(path('Inner'));
    const trash = await live.api.folder(eve.account.id, 'TRASH');
    expect(await live.api.email(eve.account.id, emailOf(call).id)).toEqual({ ...emailOf(call), folders: [trash.id] });
    expect(await live.api.email(eve.account.id, emailOf(kept.call).id)).toMatchObject({ folders: [inner.id] });
    expect(await live.api.get(url(inner.id))).toMatchObject({ parent_id: null });
    expect(await status('GET', old.id)).toBe(404);
    expect(await status('DELETE', old.id)).toBe(404);
    expect((await eve.box.uids(path('Trash'))).length).toBe(2);
    const calls = brief(await eventsSince(path('Trash'), path('Inner'))).filter(
      (line) => !line.endsWith('create Trash'),
    );
    expect(calls).toEqual(['email.folder.delete Old', 'email.folder.update Inner', 'email.update in Old']);
  });

  test('a name that is taken above is refused before anything is changed', async () => {
    const old = await live.api.folder(eve.account.id, 'Old');
    await create('Same', old.id);
    await create('Same');
    await eventsSince();
    expect(await status('DELETE', old.id)).toBe(409);
    expect(await paths()).toContain(path('Old', 'Same'));
    expect((await eve.box.uids(path('Old'))).length).toBe(1);
    expect(brief(await eventsSince())).toEqual([]);
  });

  test('concurrent changes of another program end in the state of the mailbox', async () => {
    const old = await live.api.folder(eve.account.id, 'Old');
    await eve.box.renameFolder(path('Old'), path('Theirs'));
    expect(await patch(old.id, { name: 'Ours' })).toMatchObject({ id: old.id, name: 'Ours' });
    expect(await paths()).toContain(path('Ours'));
    const gone = await create('Gone');
    await eve.box.deleteFolder(path('Gone'));
    expect([204, 404]).toContain(await status('DELETE', gone.id));
    expect(await status('PATCH', gone.id, { name: 'Back' })).toBe(404);
    const names = (await eventsSince()).map((call) => `${call.event.type} ${folderOf(call).name}`);
    expect(names.filter((line) => line.endsWith('Gone'))).toEqual([
      'email.folder.create Gone',
      'email.folder.delete Gone',
    ]);
    expect(await status('GET', gone.id)).toBe(404);
  });
});
