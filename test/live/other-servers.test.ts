import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Account } from '../../src/contract/account.ts';
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
  ...(startPymap ? [{ name: 'pymap', prefix: '', separator: '/', start: startPymap }] : []),
];

let live: Live;

beforeAll(async () => {
  live = await joinLive({ SYNC_POLL_INTERVAL: '1s' });
}, 120_000);

afterAll(() => live?.close());

describe.each(SERVERS)('$name', ({ prefix, separator, start }) => {
  let server: OtherServer;
  let pia: Connected;
  const path = (...names: string[]) => prefix + names.join(separator);

  beforeAll(async () => {
    server = await start();
    pia = await connectLogin(live, server.login, {
      before: async (box) => {
        await box.append('INBOX', { subject: 'old' });
        await box.createFolder(path('Filed'));
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
