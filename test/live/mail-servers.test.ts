import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createConnection } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { once } from 'node:events';
import { addUser, doveadm, kick, type MailUser, setPassword } from '../helpers/product/mail-user.ts';
import { deliver, type Mailbox, openMailbox, submit } from '../helpers/product/mailbox.ts';
import { mailServers } from '../helpers/servers/mail-servers.ts';
import { newMessageId } from '../helpers/product/mail-text.ts';
import { startTcpProxy } from '../helpers/fakes/tcp-proxy.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** The servers and helpers that the other live tests lean on do what is said of them. */

let user: MailUser;
let box: Mailbox;

beforeAll(async () => {
  user = await addUser({ password: 'pass: wörd "\\%' });
  box = await openMailbox(user);
});

afterAll(() => box.close());

async function subjects(folder: string): Promise<string[]> {
  const uids = await box.uids(folder);
  const lock = await box.client.getMailboxLock(folder);
  const found = uids.length === 0 ? [] : await box.client.fetchAll(uids, { envelope: true }, { uid: true });
  lock.release();
  return found.map(({ envelope }) => envelope?.subject ?? '');
}

test('a new mailbox has the usual folders with their roles', async () => {
  const roles = Object.fromEntries((await box.client.list()).map(({ path, specialUse }) => [path, specialUse]));
  expect(roles).toEqual({
    INBOX: '\\Inbox',
    Drafts: '\\Drafts',
    Sent: '\\Sent',
    Trash: '\\Trash',
    Junk: '\\Junk',
    Archive: '\\Archive',
  });
});

test('the server has the extensions that sync relies on', () => {
  for (const name of ['MOVE', 'UIDPLUS', 'CONDSTORE', 'QRESYNC', 'NOTIFY', 'LIST-STATUS', 'IDLE', 'SPECIAL-USE']) {
    expect(box.client.capabilities.has(name)).toBe(true);
  }
});

test('mail is appended, moved, flagged, deleted; folders are created, renamed, removed', async () => {
  await box.createFolder('Work');
  const uid = await box.append('Work', { subject: 'Grüße' });
  expect(uid).toBe(1);
  expect(await subjects('Work')).toEqual(['Grüße']);
  await box.addFlags('Work', uid, ['\\Seen']);
  await box.renameFolder('Work', 'Play & Rest');
  await box.move('Play & Rest', uid, 'Archive');
  expect(await box.uids('Play & Rest')).toEqual([]);
  await box.expunge('Archive', await box.uids('Archive'));
  expect(await box.uids('Archive')).toEqual([]);
  await box.deleteFolder('Play & Rest');
  expect((await box.client.list()).map(({ path }) => path)).not.toContain('Play & Rest');
});

test('Postfix accepts mail from outside and by submission, and sends a real bounce', async () => {
  const messageId = newMessageId();
  await deliver(user.user, { subject: 'from outside', messageId });
  await submit(user, ['missing.user@example.test', user.user], { subject: 'from myself' });
  const here = await waitFor(async () => {
    const all = await subjects('INBOX');
    return all.length >= 3 && all;
  });
  expect(here.sort()).toEqual(['Undelivered Mail Returned to Sender', 'from myself', 'from outside']);
});

test('Postfix requires a login for submission and enforces a size limit', async () => {
  const { postfix } = mailServers();
  await expect(submit({ ...user, password: 'wrong' }, user.user, {})).rejects.toThrow(/535/);
  const big = { name: 'big.bin', type: 'application/octet-stream', content: Buffer.alloc(postfix.messageSizeLimit) };
  await expect(submit(user, user.user, { attachments: [big] })).rejects.toThrow(/552/);
  await expect(submit(user, 'refused@example.test', {})).rejects.toThrow(/550/);
  await expect(submit(user, 'tempfail@example.test', {})).rejects.toThrow(/451/);
});

test('a changed password applies immediately, and sessions are ended on demand', async () => {
  const other = await addUser();
  const old = { ...other };
  const session = await openMailbox(other);
  for (let round = 1; round <= 3; round++) {
    await setPassword(other, `changed${round}`);
    await expect(openMailbox(old)).rejects.toThrow();
    await (await openMailbox(other)).close();
  }
  const closed = once(session.client, 'close');
  await kick(other);
  await closed;
  await kick(other);
});

test('TLS works with the certificate of the test CA', async () => {
  const { dovecot, postfix } = mailServers();
  for (const port of [dovecot.imapsPort, postfix.smtpsPort]) {
    const socket = connectTls({ host: '127.0.0.1', port, servername: 'localhost' });
    await once(socket, 'secureConnect');
    expect(socket.authorized).toBe(true);
    socket.destroy();
  }
});

test('UIDVALIDITY of a folder can be changed under its mail', async () => {
  const other = await addUser();
  const session = await openMailbox(other);
  await session.append('INBOX', { subject: 'stays' });
  const before = await session.client.status('INBOX', { uidValidity: true });
  await doveadm(other, 'mailbox', 'update', '-u', other.user, '--uid-validity', '77777', 'INBOX');
  await session.close();
  const again = await openMailbox(other);
  const after = await again.client.status('INBOX', { uidValidity: true, messages: true });
  expect(before && before.uidValidity).not.toBe(77777n);
  expect(after).toMatchObject({ uidValidity: 77777n, messages: 1 });
  await again.close();
});

test('a proxy passes bytes on, is cut and works again', async () => {
  const proxy = await startTcpProxy(user.dovecot.imapPort);
  const greeting = async () => {
    const socket = createConnection({ port: proxy.port, host: '127.0.0.1' });
    const [first] = (await once(socket, 'data')) as [Buffer];
    return { socket, first: first.toString() };
  };
  const open = await greeting();
  expect(open.first).toMatch(/^\* OK/);
  const gone = new Promise((resolve) => open.socket.on('error', () => {}).on('close', resolve));
  proxy.cut();
  await gone;
  await expect(greeting()).rejects.toThrow();
  proxy.restore();
  const second = await greeting();
  second.socket.destroy();
  await proxy.close();
});
