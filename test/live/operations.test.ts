import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Email } from '../../src/contract/email.ts';
import { ApiFailure } from '../helpers/product/api.ts';
import {
  addUserWhoSends,
  DOVECOT_PROFILES,
  type DovecotProfile,
  startDovecotProfile,
} from '../helpers/servers/dovecot-profiles.ts';
import type { RunningDovecot } from '../helpers/servers/dovecot.ts';
import { brief, type Connected, connectLogin, type Live, joinLive, typesOf } from '../helpers/product/live.ts';
import { doveadm, kick, type MailUser, setPassword } from '../helpers/product/mail-user.ts';
import { emailOf, folderOf } from '../helpers/fakes/receiver.ts';
import { isLong } from '../helpers/runner/long.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** Email operations of the API: confirmed by the provider, immediately in the store, and in one event. */

/** All other kinds are part of the long form, which `.ci/run` runs too. */
const PROFILES: DovecotProfile[] = isLong() ? ['full', 'withoutMove', 'stripped', 'prefixed'] : ['full', 'stripped'];

let live: Live;

beforeAll(async () => {
  live = await joinLive({ SYNC_POLL_INTERVAL: '1s' });
}, 120_000);

afterAll(() => live?.close());

describe.each(PROFILES)('on a server that is %s', (profile) => {
  const { prefix = '' } = DOVECOT_PROFILES[profile] as { prefix?: string };
  let dovecot: RunningDovecot;
  let user: MailUser;
  let eve: Connected;

  beforeAll(async () => {
    dovecot = await startDovecotProfile(profile);
  }, 60_000);
  afterAll(() => dovecot?.stop());

  beforeEach(async () => {
    user = await addUserWhoSends(dovecot);
    eve = await connectLogin(live, user, {
      before: async (box) => {
        for (const name of ['Archive', 'Filed', 'Other']) {
          await box.createFolder(prefix + name).catch((error: Error) => {
            if (name !== 'Archive') throw error;
          });
        }
      },
    });
  });
  afterEach(async () => {
    await eve.box.close();
    await live.api.delete(`/accounts/${eve.account.id}`);
  });

  const path = (name: string) => (name === 'INBOX' ? name : prefix + name);
  const folderId = async (nameOrRole: string) => (await live.api.folder(eve.account.id, nameOrRole)).id;
  const get = ({ id }: { id: string }) => live.api.email(eve.account.id, id);
  const mark = ({ id }: { id: string }, as: 'read' | 'unread') =>
    live.api.post<Email>(`/${eve.account.id}/emails/${id}/${as}`);
  const move = async ({ id }: { id: string }, to: string) =>
    live.api.post<Email>(`/${eve.account.id}/emails/${id}/modify`, { folders_ids: [await folderId(to)] });
  const trash = ({ id }: { id: string }) => live.api.delete(`/${eve.account.id}/emails/${id}`);

  async function flagsOf(folder: string, uid: number): Promise<string[]> {
    const lock = await eve.box.client.getMailboxLock(path(folder));
    try {
      const message = await eve.box.client.fetchOne(String(uid), { flags: true }, { uid: true });
      return message ? [...(message.flags ?? [])] : [];
    } finally {
      lock.release();
    }
  }

  /** Subjects in a folder, as another mail program sees them. */
  async function subjectsIn(folder: string): Promise<(string | undefined)[]> {
    const lock = await eve.box.client.getMailboxLock(path(folder));
    try {
      const all = await eve.box.client.fetchAll('1:*', { envelope: true }).catch(() => []);
      return all.map(({ envelope }) => envelope?.subject).filter((subject) => subject !== 'a mark');
    } finally {
      lock.release();
    }
  }

  /** The events since the last settling, in any folder. */
  async function eventsSince(...folders: string[]): Promise<string[]> {
    const calls = [];
    for (const folder of ['INBOX', ...folders, 'INBOX']) calls.push(...(await eve.settle(path(folder))));
    return brief(calls);
  }

  test('modify moves the email under its id, and is one event', async () => {
    const { call } = await eve.receive('INBOX', 'to be moved');
    await eve.settle();
    const email = emailOf(call);
    const moved = await move(email, 'Filed');
    expect(moved).toEqual({ ...email, folders: [await folderId('Filed')] });
    expect(await get(email)).toEqual(moved);
    expect(await subjectsIn('INBOX')).toEqual([]);
    expect(await subjectsIn('Filed')).toEqual(['to be moved']);
    const filed = await live.api.folder(eve.account.id, 'Filed');
    expect(filed).toMatchObject({ total_count: 1, unread_count: 1 });
    expect(await eventsSince('Filed')).toEqual(['email.update to be moved']);
    expect(await move(email, 'Filed')).toEqual(moved);
    await mark(email, 'read');
    await move(email, 'INBOX');
    expect(await eventsSince('Filed')).toEqual(['email.update to be moved', 'email.update to be moved']);
    expect(await get(email)).toEqual({ ...email, is_unread: false });
    expect(await subjectsIn('INBOX')).toEqual(['to be moved']);
    expect(await subjectsIn('Filed')).toEqual([]);
  });

  test('an email in several folders ends in one', async () => {
    const { uid, call } = await eve.receive('INBOX', 'copied');
    const lock = await eve.box.client.getMailboxLock('INBOX');
    await eve.box.client.messageCopy(String(uid), path('Other'), { uid: true });
    lock.release();
    await waitFor(async () => (await get(emailOf(call))).folders.length === 2, { what: 'both folders' });
    await eventsSince('Other');
    const moved = await move(emailOf(call), 'Filed');
    expect(moved.folders).toEqual([await folderId('Filed')]);
    expect([await subjectsIn('INBOX'), await subjectsIn('Other'), await subjectsIn('Filed')]).toEqual([
      [],
      [],
      ['copied'],
    ]);
    expect(await eventsSince('Other', 'Filed')).toEqual(['email.update copied']);
  });

  test('a copy already in the target stays, the others are removed', async () => {
    const { uid, call } = await eve.receive('INBOX', 'copied');
    const lock = await eve.box.client.getMailboxLock('INBOX');
    await eve.box.client.messageCopy(String(uid), path('Filed'), { uid: true });
    lock.release();
    await waitFor(async () => (await get(emailOf(call))).folders.length === 2, { what: 'both folders' });
    await eventsSince('Filed');
    const moved = await move(emailOf(call), 'Filed');
    expect(moved.folders).toEqual([await folderId('Filed')]);
    expect([await subjectsIn('INBOX'), await subjectsIn('Filed')]).toEqual([[], ['copied']]);
    expect(await eventsSince('Filed')).toEqual(['email.update copied']);
  });

  test('trash moves to Trash, creating it if missing; the email stays readable there', async () => {
    const { call } = await eve.receive('INBOX', 'rubbish');
    await eve.settle();
    const email = emailOf(call);
    const existed = (await live.api.folders(eve.account.id)).some(({ role }) => role === 'TRASH');
    expect(await trash(email)).toEqual({ object: 'EmailDeleted', id: email.id });
    const bin = await live.api.folder(eve.account.id, 'TRASH');
    expect(bin).toMatchObject({ name: 'Trash', parent_id: null, total_count: 1 });
    expect(await get(email)).toEqual({ ...email, folders: [bin.id] });
    expect(await subjectsIn('INBOX')).toEqual([]);
    expect(await subjectsIn('Trash')).toEqual(['rubbish']);
    const created = existed ? [] : ['email.folder.create Trash'];
    expect(await eventsSince('Trash')).toEqual([...created, 'email.update rubbish'].sort());
    expect(await trash(email)).toEqual({ object: 'EmailDeleted', id: email.id });
    expect(await eventsSince('Trash')).toEqual([]);
  });

  test('read and unread change the flag and the email immediately, in one event', async () => {
    const { uid, call } = await eve.receive('INBOX', 'to be read');
    await eve.settle();
    const email = emailOf(call);
    const before = await live.api.folder(eve.account.id, 'INBOX');
    const read = await mark(email, 'read');
    expect(read).toEqual({ ...email, is_unread: false });
    expect(await get(email)).toEqual(read);
    expect(await flagsOf('INBOX', uid)).toContain('\\Seen');
    // Counters that the server gave just before may still come in; the next pass has them right.
    await waitFor(
      async () => (await live.api.folder(eve.account.id, 'INBOX')).unread_count === before.unread_count - 1,
      {
        what: 'the counter of unread mail',
      },
    );
    const unread = await mark(email, 'unread');
    expect(unread).toEqual(email);
    expect(await flagsOf('INBOX', uid)).not.toContain('\\Seen');
    const calls = await eve.settle();
    expect(typesOf(calls)).toEqual(['email.update', 'email.update']);
    expect(calls.map(emailOf)).toEqual([read, unread]);
    expect(await mark(email, 'unread')).toEqual(email);
    expect(await eventsSince()).toEqual([]);
  });

  test('earlier changes of another program are detected, and end in the state of the mailbox', async () => {
    const gone = await eve.receive('INBOX', 'gone');
    const moved = await eve.receive('INBOX', 'moved');
    const elsewhere = await eve.receive('INBOX', 'elsewhere');
    await eve.settle();
    await eve.box.expunge('INBOX', gone.uid);
    await expect(mark(emailOf(gone.call), 'read')).rejects.toMatchObject({ status: 404 });
    await expect(get(emailOf(gone.call))).rejects.toBeInstanceOf(ApiFailure);
    await eve.box.move('INBOX', moved.uid, path('Other'));
    expect(await mark(emailOf(moved.call), 'read')).toMatchObject({
      is_unread: false,
      folders: [await folderId('Other')],
    });
    await eve.box.move('INBOX', elsewhere.uid, path('Other'));
    expect(await move(emailOf(elsewhere.call), 'Filed')).toMatchObject({ folders: [await folderId('Filed')] });
    expect((await subjectsIn('Other')).sort()).toEqual(['moved']);
    expect(await subjectsIn('Filed')).toEqual(['elsewhere']);
    const events = await eventsSince('Other', 'Filed');
    expect(events.filter((line) => line.endsWith('gone'))).toEqual(['email.delete gone']);
    expect(new Set(events)).toEqual(new Set(['email.delete gone', 'email.update moved', 'email.update elsewhere']));
  });

  test('a UID is never used under another UIDVALIDITY', async () => {
    const { call } = await eve.receive('INBOX', 'numbered');
    await eve.receive('INBOX', 'beside it');
    await eve.settle();
    await doveadm(user, 'mailbox', 'update', '-u', user.user, '--uid-validity', '1234567', 'INBOX');
    await kick(user);
    expect(await mark(emailOf(call), 'read')).toMatchObject({ id: emailOf(call).id, is_unread: false });
    expect(await move(emailOf(call), 'Filed')).toMatchObject({ is_unread: false });
    const reader = await connectLogin(live, user).catch(() => undefined);
    if (reader) eve.box = reader.box;
    expect((await subjectsIn('INBOX')).sort()).toEqual(['beside it']);
  });

  test('a folder that another program deleted or renamed', async () => {
    const { call } = await eve.receive('INBOX', 'for a folder');
    await eve.settle();
    const id = await folderId('Filed');
    await eve.box.renameFolder(path('Filed'), path('Renamed'));
    const moved = await live.api.post<Email>(`/${eve.account.id}/emails/${emailOf(call).id}/modify`, {
      folders_ids: [id],
    });
    expect(moved.folders).toEqual([id]);
    expect(await subjectsIn('Renamed')).toEqual(['for a folder']);
    const other = await folderId('Other');
    await eve.box.deleteFolder(path('Other'));
    const refused = live.api.post(`/${eve.account.id}/emails/${emailOf(call).id}/modify`, { folders_ids: [other] });
    await expect(refused).rejects.toMatchObject({ status: 404 });
    const folders = (await eve.settle()).flatMap((one) => folderOf(one)?.name ?? []);
    expect(folders.sort()).toEqual(['Other', 'Renamed']);
  });

  test('many parallel changes, of one email and of several, all succeed', async () => {
    const mails = [];
    for (let n = 0; n < 4; n++) mails.push(emailOf((await eve.receive('INBOX', `mail ${n}`)).call));
    await eve.settle();
    const [first] = mails as [Email];
    await Promise.all([
      ...mails.map((mail) => mark(mail, 'read')),
      ...mails.slice(1).map((mail) => move(mail, 'Filed')),
      move(first, 'Filed'),
      move(first, 'Filed'),
    ]);
    const filed = await folderId('Filed');
    for (const mail of mails) expect(await get(mail)).toMatchObject({ folders: [filed], is_unread: false });
    expect((await subjectsIn('Filed')).sort()).toEqual(['mail 0', 'mail 1', 'mail 2', 'mail 3']);
    expect(await subjectsIn('INBOX')).toEqual([]);
    const events = (await eventsSince('Filed')).filter((line) => line.startsWith('email.update'));
    expect(events).toEqual(
      mails.flatMap(({ subject }) => [`email.update ${subject}`, `email.update ${subject}`]).sort(),
    );
  });
});

describe('a mailbox that refuses the login', () => {
  test('is disconnected by the first refused call, and refuses all others immediately', async () => {
    const dovecot = await startDovecotProfile('full');
    const user = await addUserWhoSends(dovecot);
    const eve = await connectLogin(live, user);
    const { call } = await eve.receive('INBOX', 'closed to us');
    await eve.settle();
    await setPassword(user, 'another-password');
    await kick(user);
    const read = () => live.api.request('POST', `/${eve.account.id}/emails/${emailOf(call).id}/read`);
    const answer = await read();
    expect(answer.status).toBe(401);
    expect(await answer.json()).toMatchObject({ type: 'errors/invalid_credentials' });
    await eve.event('account.status.disconnected');
    // the server is no longer contacted
    await dovecot.stop();
    expect((await read()).status).toBe(401);
    expect(eve.events('account.status.disconnected')).toHaveLength(1);
    expect((await live.api.get<{ status: string }>(`/accounts/${eve.account.id}`)).status).toBe('disconnected');
  });
});
