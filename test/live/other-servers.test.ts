import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Account } from '../../src/contract/account.ts';
import type { Email, EmailBatch, EmailBatchResult } from '../../src/contract/email.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DovecotOptions, OLD_CAPABILITIES, startDovecot } from '../helpers/servers/dovecot.ts';
import { brief, type Connected, connectLogin, type Live, joinLive, typesOf } from '../helpers/product/live.ts';
import { isLong } from '../helpers/runner/long.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { addUser, doveadm, type MailUser } from '../helpers/product/mail-user.ts';
import { openMailbox } from '../helpers/product/mailbox.ts';
import { mailServers } from '../helpers/servers/mail-servers.ts';
import { james } from '../helpers/servers/james.ts';
import { maddy } from '../helpers/servers/maddy.ts';
import { greenMail, type OtherServer, pymap } from '../helpers/servers/other-servers.ts';
import { emailOf, folderOf } from '../helpers/fakes/receiver.ts';

/** The same behaviour on servers that lack extensions: the fallbacks are not visible to callers. */

interface Server {
  name: string;
  /** between folders */
  separator: string;
  prefix: string;
  start: () => Promise<OtherServer>;
  /** false: its PERMANENTFLAGS lack `\*`, and it keeps no keywords */
  keeps?: boolean;
  readOnlyTrash?: boolean;
}

function dovecot(name: string, options: Omit<DovecotOptions, 'certificate'>): Server {
  const { prefix = '', separator = '/' } = options;
  return {
    name,
    prefix,
    separator,
    start: async () => {
      const dir = await mkdtemp(join(tmpdir(), 'dovecot-'));
      const { stop, ...info } = await startDovecot(dir, { certificate: mailServers().certificate, ...options });
      const end = async () => {
        await stop();
        await rm(dir, { recursive: true, force: true });
      };
      return { login: await addUserOfBoth(info), stop: end };
    },
  };
}

/** The second Dovecot has a separate user database; Postfix checks logins with the first. */
async function addUserOfBoth(info: MailUser['dovecot']): Promise<MailUser> {
  const user = await addUser({ dovecot: info });
  await addUser({ user: user.user, password: user.password });
  return user;
}

/** One of them, with Dovecot where it cannot be had; all are part of `npm run test:long`. */
const onlyLong = async <T>(find: () => Promise<T>) => (isLong() ? find() : undefined);
const [startGreenMail, startJames, startMaddy, startPymap] = await Promise.all([
  ...[greenMail, james, maddy].map(onlyLong),
  pymap(),
]);
const OLD = dovecot('a server without any extension', { capabilities: OLD_CAPABILITIES, bareFolders: true });
const SERVERS: Server[] = [
  ...(isLong() || !startPymap ? [OLD] : []),
  ...(isLong() ? [dovecot('a server with folders below INBOX.', { prefix: 'INBOX.', separator: '.' })] : []),
  ...(startGreenMail ? [{ name: 'GreenMail', prefix: '', separator: '.', start: startGreenMail }] : []),
  ...(startJames ? [{ name: 'Apache James', prefix: '', separator: '.', start: startJames }] : []),
  ...(startMaddy ? [{ name: 'maddy', prefix: '', separator: '.', start: startMaddy }] : []),
  ...(startPymap
    ? [{ name: 'pymap', prefix: '', separator: '/', start: startPymap, keeps: false, readOnlyTrash: true }]
    : []),
];

const UNKEPT = expect.stringMatching(/^the mail server does not store \w+ in this folder$/) as unknown as string;

let live: Live;

beforeAll(async () => {
  live = await joinLive({ SYNC_POLL_INTERVAL: '1s' });
}, 120_000);

afterAll(() => live?.close());

describe.each(SERVERS)('$name', ({ prefix, separator, start, keeps = true, readOnlyTrash }) => {
  let server: OtherServer;
  let pia: Connected;
  const path = (...names: string[]) => prefix + names.join(separator);
  const found = async (query: Record<string, string>) =>
    (await live.api.emails(pia.account.id, query)).data.map(({ id }) => id);
  const flagsAt = async (folder: string, uid: number) => {
    const lock = await pia.box.client.getMailboxLock(folder);
    const message = await pia.box.client.fetchOne(String(uid), { flags: true }, { uid: true }).finally(lock.release);
    const flags = [...((message && message.flags) || [])].filter((flag) => flag !== '\\Recent');
    return flags.map((flag) => (flag.startsWith('\\') ? flag : flag.toLowerCase())).sort();
  };
  /** Changes many emails; the results, or the details of failures. */
  const change = async (chosen: object, wanted: object): Promise<string[]> => {
    const ofAccount = `/${pia.account.id}`;
    const { id } = await live.api.post<EmailBatch>(`${ofAccount}/emails/batch`, { ...chosen, change: wanted });
    const isDone = async () => (await live.api.get<EmailBatch>(`${ofAccount}/batches/${id}`)).status === 'completed';
    await waitFor(isDone, { timeoutMs: 60_000, what: 'the batch' });
    const results = await live.api.get<{ data: EmailBatchResult[] }>(`${ofAccount}/batches/${id}/results`);
    return results.data.map(({ status, error }) => error?.detail ?? status);
  };

  beforeAll(async () => {
    server = await start();
    pia = await connectLogin(live, server.login, {
      before: async (box) => {
        await box.append('INBOX', { subject: 'old' });
        await box.createFolder(path('Filed'));
        await box.uids('INBOX');
        const { mailbox } = box.client;
        expect(mailbox && mailbox.permanentFlags?.has('\\*')).toBe(keeps);
      },
    });
  }, 240_000);

  afterAll(async () => {
    await pia?.box.close();
    if (pia) await live.api.delete(`/accounts/${pia.account.id}`);
    await server?.stop();
  });

  test('folders are listed by their names, without prefix', async () => {
    const all = await live.api.folders(pia.account.id);
    expect(all[0]).toMatchObject({ name: 'INBOX', role: 'INBOX', parent_id: null });
    expect(all.find(({ name }) => name === 'Filed')).toMatchObject({ role: 'UNKNOWN', parent_id: null });
  });

  test('new mail is reported in INBOX and in another folder', async () => {
    const first = await pia.receive('INBOX', 'in the inbox');
    expect(await live.api.email(pia.account.id, emailOf(first.call).id)).toEqual(emailOf(first.call));
    const second = await pia.receive(path('Filed'), 'filed');
    expect(emailOf(second.call).folders).toEqual([(await live.api.folder(pia.account.id, 'Filed')).id]);
    expect(typesOf(await pia.settle())).toEqual(['email.new', 'email.new']);
  });

  test('reading is reported', async () => {
    const { uid, call } = await pia.receive('INBOX', 'to be read');
    await pia.settle();
    await pia.box.addFlags('INBOX', uid, ['\\Seen']);
    await pia.event('email.update', (one) => emailOf(one).id === emailOf(call).id && !emailOf(one).is_unread);
    expect(typesOf(await pia.settle())).toEqual(['email.update']);
  });

  test('a move keeps the id, a permanent delete is reported', async () => {
    const { uid, call } = await pia.receive('INBOX', 'to be moved');
    await pia.settle();
    await pia.box.move('INBOX', uid, path('Filed'));
    const filed = await live.api.folder(pia.account.id, 'Filed');
    await pia.event(
      'email.update',
      (one) => emailOf(one).id === emailOf(call).id && emailOf(one).folders[0] === filed.id,
    );
    expect(typesOf([...(await pia.settle(path('Filed'))), ...(await pia.settle())])).toEqual(['email.update']);

    const lock = await pia.box.client.getMailboxLock(path('Filed'));
    const [uidThere] = (await pia.box.client.search({ subject: 'to be moved' }, { uid: true })) || [];
    lock.release();
    await pia.box.expunge(path('Filed'), uidThere ?? 0);
    await pia.event('email.delete', (one) => emailOf(one).id === emailOf(call).id);
    expect(typesOf([...(await pia.settle(path('Filed'))), ...(await pia.settle())])).toEqual(['email.delete']);
  });

  test('flags and keywords change both ways, and are found', async () => {
    const { uid, call } = await pia.receive('INBOX', 'labelled');
    const { id } = emailOf(call);
    await pia.settle();
    await pia.box.addFlags('INBOX', uid, ['\\Flagged', '\\Answered', ...(keeps ? ['Project-X'] : [])]);
    const here = keeps ? ['project-x'] : [];
    const isShown = ({ is_starred, is_answered, keywords }: Email) =>
      is_starred === true && is_answered === true && keywords?.join() === here.join();
    await pia.event('email.update', (one) => emailOf(one).id === id && isShown(emailOf(one)));
    await pia.settle();

    const path = `/${pia.account.id}/emails/${id}`;
    const change = { is_unread: false, is_starred: false, keywords: { add: ['Later'], remove: ['PROJECT-X'] } };
    const answer = await live.api.request('PATCH', path, change);
    if (keeps) {
      expect(await answer.json()).toMatchObject({ is_unread: false, is_starred: false, keywords: ['later'] });
      expect(await found({ keyword: 'LATER' })).toEqual([id]);
    } else {
      const { type, detail } = (await answer.json()) as { type: string; detail: string };
      expect([answer.status, type, detail]).toEqual([422, 'errors/provider_rejected', UNKEPT]);
      expect(await live.api.email(pia.account.id, id)).toMatchObject({ is_unread: true, is_starred: true });
      const { keywords: _, ...flags } = change;
      expect(await live.api.patch(path, flags)).toMatchObject({ is_unread: false, is_starred: false, keywords: [] });
    }
    expect(await found({ keyword: 'project-x' })).toEqual([]);
    expect(await found({ is_answered: 'true', is_starred: 'false' })).toEqual([id]);
    expect(typesOf(await pia.settle())).toEqual(['email.update']);
    expect(await flagsAt('INBOX', uid)).toEqual(['\\Answered', '\\Seen', ...(keeps ? ['later'] : [])].sort());
  }, 60_000);

  test('many emails change at once, by ids and by filter, each with one event', async () => {
    const ids: string[] = [];
    for (const n of [1, 2, 3]) ids.push(emailOf((await pia.receive('INBOX', `many ${n}`)).call).id);
    const elsewhere = emailOf((await pia.receive(path('Filed'), 'many 4')).call).id;
    await pia.settle();
    const all = [...ids, elsewhere];
    expect(await change({ ids: all }, { is_starred: true })).toEqual(all.map(() => 'changed'));
    const labelled = await change({ filter: { q: 'many', is_starred: true } }, { keywords: { add: ['Batch'] } });
    expect(labelled).toEqual(all.map(() => (keeps ? 'changed' : UNKEPT)));
    // each change makes the email pass the filter no more
    expect(await change({ filter: { q: 'many', is_starred: true } }, { is_starred: false })).toEqual(
      labelled.map(() => 'changed'),
    );
    const filed = (await live.api.folder(pia.account.id, 'Filed')).id;
    expect(await change({ ids: all }, { folders_ids: [filed] })).toEqual(all.map(() => 'changed'));
    const events = [...(await pia.settle()), ...(await pia.settle(path('Filed')))];
    const updates = Object.fromEntries(all.map((id) => [id, events.filter((one) => emailOf(one).id === id).length]));
    expect(updates).toEqual(Object.fromEntries(all.map((id) => [id, (keeps ? 3 : 2) + (id === elsewhere ? 0 : 1)])));
    const trashed = all.map(() => (readOnlyTrash ? (expect.stringContaining('read-only') as unknown) : 'changed'));
    expect(await change({ filter: { folder_id: filed, subject: 'many' } }, { trash: true })).toEqual(trashed);
    const { id: folder } = readOnlyTrash ? { id: filed } : await live.api.folder(pia.account.id, 'TRASH');
    for (const id of all) {
      const email = await live.api.email(pia.account.id, id);
      expect(email).toMatchObject({ folders: [folder], is_starred: false, keywords: keeps ? ['batch'] : [] });
    }
  }, 120_000);

  test('mail that leaves an empty folder before it is seen keeps nothing out of sync', async () => {
    await pia.box.createFolder(path('Brief'));
    await pia.event('email.folder.create', (call) => folderOf(call).name === 'Brief');
    const uid = await pia.box.append(path('Brief'), { subject: 'gone' });
    await pia.box.expunge(path('Brief'), uid);
    const left = new Date().toISOString();
    const { call } = await pia.receive('INBOX', 'after it');
    expect(emailOf(call).subject).toBe('after it');
    const syncedAt = async () => (await live.api.get<Account>(`/accounts/${pia.account.id}`)).last_synced_at ?? '';
    await waitFor(async () => (await syncedAt()) > left, { timeoutMs: 20_000, what: 'a sync pass to its end' });
    await pia.box.deleteFolder(path('Brief'));
    await pia.event('email.folder.delete', (one) => folderOf(one).name === 'Brief');
  });

  test('folders are created, renamed under the same id with their mail, and removed', async () => {
    await pia.box.createFolder(path('New'));
    const created = await pia.event('email.folder.create', (call) => folderOf(call).name === 'New');
    const { call } = await pia.receive(path('New'), 'inside');
    await pia.settle();
    await pia.box.renameFolder(path('New'), path('Newer'));
    const renamed = await pia.event('email.folder.update', (one) => folderOf(one).name === 'Newer');
    expect(folderOf(renamed).id).toBe(folderOf(created).id);
    const since = [...(await pia.settle(path('Newer'))), ...(await pia.settle())];
    expect(typesOf(since)).toEqual(['email.folder.update']);
    expect((await live.api.email(pia.account.id, emailOf(call).id)).folders).toEqual([folderOf(created).id]);
    await pia.box.deleteFolder(path('Newer'));
    await pia.event('email.folder.delete', (one) => folderOf(one).id === folderOf(created).id);
    await pia.event('email.delete', (one) => emailOf(one).id === emailOf(call).id);
  });
});

test('folders without special-use flags get their roles from well-known names', async () => {
  const server = await OLD.start();
  const quentin = await connectLogin(live, server.login, {
    before: async (box) => {
      for (const name of ['Gesendet', 'Papierkorb', 'Entwürfe', 'Corbeille']) await box.createFolder(name);
    },
  });
  const roles = (await live.api.folders(quentin.account.id)).map(({ name, role }) => [role, name]);
  expect(Object.fromEntries(roles)).toMatchObject({ SENT: 'Gesendet', DRAFTS: 'Entwürfe' });
  expect(roles.filter(([role]) => role === 'TRASH')).toHaveLength(1);
  await quentin.box.close();
  await live.api.delete(`/accounts/${quentin.account.id}`);
  await server.stop();
}, 60_000);

test('a change of UIDVALIDITY causes no events and keeps every id', async () => {
  const user = await addUser();
  const rita = await connectLogin(live, user, {
    before: async (box) => void (await box.append('INBOX', { subject: 'old' })),
  });
  const first = await rita.receive('INBOX', 'one');
  const second = await rita.receive('INBOX', 'two');
  await rita.settle();
  await rita.box.close();
  await doveadm(user, 'mailbox', 'update', '-u', user.user, '--uid-validity', '4242', 'INBOX');
  rita.box = await openMailbox(user);
  expect(brief(await rita.settle('INBOX', { timeoutMs: 60_000 }))).toEqual([]);
  for (const { call } of [first, second]) {
    expect(await live.api.email(rita.account.id, emailOf(call).id)).toEqual(emailOf(call));
  }
  const uids = await rita.box.uids('INBOX');
  await rita.box.addFlags('INBOX', uids[1] ?? 0, ['\\Seen']);
  const update = await rita.event('email.update', undefined, { timeoutMs: 30_000 });
  expect(emailOf(update).id).toBe(emailOf(first.call).id);
  await rita.box.close();
}, 120_000);
