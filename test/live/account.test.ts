import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account } from '../../src/contract/account.ts';
import { ApiFailure, intentFor } from '../helpers/product/api.ts';
import { freePort } from '../helpers/servers/free-port.ts';
import { connectLogin, connectUser, type Live, joinLive, typesOf } from '../helpers/product/live.ts';
import { addUser, doveadm, kick, setPassword } from '../helpers/product/mail-user.ts';
import { openMailbox } from '../helpers/product/mailbox.ts';
import { mailServers } from '../helpers/servers/mail-servers.ts';
import { emailOf } from '../helpers/fakes/receiver.ts';
import { startTcpProxy } from '../helpers/fakes/tcp-proxy.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** The life of an account: connecting and its refusals, statuses, reconnecting, removal. */

let live: Live;
/** these run while the other tests do: what they wait for takes the product long */
let deadPeer: Promise<void>;
let lateRefusal: Promise<void>;

beforeAll(async () => {
  // a separate login checks the password of an idle mailbox
  live = await joinLive({ SYNC_LOGIN_CHECK: '20s' });
  deadPeer = untilDeadPeerIsFound();
  lateRefusal = untilChangedPasswordIsFound();
  // each is awaited by its test
  for (const running of [deadPeer, lateRefusal]) running.catch(() => {});
}, 120_000);

async function untilDeadPeerIsFound(): Promise<void> {
  const user = await addUser();
  const proxy = await startTcpProxy(user.imapPort);
  const fay = await connectLogin(live, user, { imapPort: proxy.port });
  await fay.settle();
  proxy.freeze();
  await fay.box.append('INBOX', { subject: 'unnoticed' });
  await fay.event('email.new', (one) => emailOf(one).subject === 'unnoticed', { timeoutMs: 120_000 });
  await live.api.delete(`/accounts/${fay.account.id}`);
  await proxy.close();
}

async function untilChangedPasswordIsFound(): Promise<void> {
  const gus = await connectUser(live);
  const { call, uid } = await gus.receive('INBOX', 'before');
  await gus.settle();
  await setPassword(gus.user, 'a new one');
  const disconnected = await gus.event('account.status.disconnected', undefined, { timeoutMs: 90_000 });
  expect(disconnected.event.data).toMatchObject({ status: 'disconnected', previous_status: 'running' });
  expect(disconnected.event.data['status_detail']).not.toBe('');
  expect(await accountNow(gus.account.id)).toMatchObject({ status: 'disconnected' });
  expect(await live.api.email(gus.account.id, emailOf(call).id)).toEqual(emailOf(call));

  await gus.box.append('INBOX', { subject: 'while disconnected' });
  await gus.box.move('INBOX', uid, 'Archive');
  const again = await live.api.connect(gus.user, { account_id: gus.account.id, state: 'second time' });
  expect(again).toMatchObject({ id: gus.account.id, status: 'running' });
  const reconnected = await gus.event('account.reconnect');
  expect(reconnected.event.data).toMatchObject({ state: 'second time', account: { id: gus.account.id } });
  await gus.event('email.new', (one) => emailOf(one).subject === 'while disconnected');
  await gus.event('email.update', (one) => emailOf(one).id === emailOf(call).id);
  expect(typesOf(await gus.settle()).sort()).toEqual(['email.new', 'email.update']);
  expect(gus.events('account.status.running')).toHaveLength(1);
  await gus.box.close();
}

afterAll(() => live?.close());

async function failure(call: Promise<unknown>): Promise<ApiFailure> {
  const error = await call.then(
    (answer) => new Error(`was answered: ${JSON.stringify(answer)}`),
    (reason: unknown) => reason,
  );
  if (error instanceof ApiFailure) return error;
  throw error;
}

const accountNow = (id: string) => live.api.get<Account>(`/accounts/${id}`);

test('a refused login is 401, an unreachable or silent server 502, a wrong body 400; nothing is saved', async () => {
  const user = await addUser();
  const wrong = intentFor({ ...user, password: 'not this' });
  expect((await failure(live.api.post('/auth/intent', wrong))).body).toMatchObject({
    status: 401,
    type: 'errors/invalid_credentials',
    title: 'Invalid credentials',
  });
  const unreachable = await failure(live.api.connect(user, { imapPort: await freePort() }));
  expect(unreachable.body).toMatchObject({ status: 502, type: 'errors/provider_error' });
  expect(unreachable.body.detail).toMatch(/imap/i);
  const noSmtp = await failure(live.api.connect(user, { smtpPort: await freePort() }));
  expect(noSmtp.body.status).toBe(502);
  expect(noSmtp.body.detail).toMatch(/smtp/i);
  expect((await failure(live.api.post('/auth/intent', { provider: 'imap' }))).body).toMatchObject({
    status: 400,
    type: 'errors/invalid_parameters',
    detail: expect.stringContaining('credentials'),
  });
  expect((await failure(live.api.connect(user, { config: { initial_sync_days: 31 } }))).status).toBe(400);
  const listed = await live.api.get<{ data: Account[] }>(`/accounts?search=${encodeURIComponent(user.user)}`);
  expect(listed.data).toEqual([]);
});

test('untrusted TLS is 502 with that reason', async () => {
  const { dovecot, postfix } = mailServers();
  const user = await addUser();
  const refused = await failure(
    live.api.post('/auth/intent', {
      provider: 'imap',
      credentials: {
        user: user.user,
        password: user.password,
        // the certificate names localhost and 127.0.0.1 only
        imap: { host: '127.0.0.2', port: dovecot.imapPort, encryption: 'STARTTLS' },
        smtp: { host: '127.0.0.1', port: postfix.submissionPort, encryption: 'none' },
      },
    }),
  );
  expect(refused.status).toBe(502);
});

test('a changed password and ended sessions at the provider disconnect immediately', async () => {
  const hal = await connectUser(live);
  await hal.settle();
  await setPassword(hal.user, 'other');
  await kick(hal.user);
  await hal.event('account.status.disconnected', undefined, { timeoutMs: 20_000 });
  const wrong = await failure(live.api.connect({ ...hal.user, password: 'guess' }, { account_id: hal.account.id }));
  expect(wrong.status).toBe(401);
  expect((await accountNow(hal.account.id)).status).toBe('disconnected');
  // the same mailbox without account_id is the same account
  expect((await live.api.connect(hal.user)).id).toBe(hal.account.id);
  await hal.event('account.reconnect');
  expect(hal.events('account.add')).toHaveLength(1);
}, 60_000);

test('account_id of another mailbox is 400, an unknown one 404, malformed 404', async () => {
  const ida = await connectUser(live);
  const other = await addUser();
  expect((await failure(live.api.connect(other, { account_id: ida.account.id }))).status).toBe(400);
  const unknown = 'acc_01hzzzzzzzzzzzzzzzzzzzzzzz';
  expect((await failure(live.api.connect(other, { account_id: unknown }))).status).toBe(404);
  expect((await failure(live.api.connect(other, { account_id: 'acc_1' }))).status).toBe(404);
  await ida.box.close();
});

test('metadata is replaced as a whole; accounts are found by name, id and status', async () => {
  const jon = await connectUser(live, { name: 'Jon Uncommonname' });
  await live.api.patch(`/accounts/${jon.account.id}`, { metadata: { a: '1', b: '2' } });
  const patched = await live.api.patch<Account>(`/accounts/${jon.account.id}`, { metadata: { c: '3' } });
  expect(patched.metadata).toEqual({ c: '3' });
  for (const query of ['search=uncommonname', `search=${jon.account.id}`]) {
    const found = await live.api.get<{ object: string; data: Account[] }>(`/accounts?${query}&status=running`);
    expect(found).toMatchObject({ object: 'Accounts', data: [{ id: jon.account.id }] });
  }
  await waitFor(async () => (await accountNow(jon.account.id)).last_synced_at);
  await jon.box.close();
});

test('a deleted account ends its session, deletes everything and emits account.remove', async () => {
  const kim = await connectUser(live);
  const { call } = await kim.receive('INBOX', 'will be forgotten');
  await kim.box.close();
  const sessions = async () => (await doveadm(kim.user, 'who', '-1', kim.user.user)).trim().split('\n').length - 1;
  await waitFor(async () => (await sessions()) > 0);
  expect(await live.api.delete(`/accounts/${kim.account.id}`)).toEqual({
    object: 'AccountDeleted',
    id: kim.account.id,
    success: true,
  });
  const removed = await kim.event('account.remove');
  expect(removed.event.data).toEqual({
    account: { id: kim.account.id, user_id: kim.user.user, name: kim.account.name, provider: 'imap' },
  });
  for (const path of [
    `/accounts/${kim.account.id}`,
    `/${kim.account.id}/emails/${emailOf(call).id}`,
    `/${kim.account.id}/folders`,
  ]) {
    expect((await failure(live.api.get(path))).status).toBe(404);
  }
  await waitFor(async () => (await sessions()) === 0, { what: 'the session at the provider to end' });
  await expectNoRows(kim.account.id);

  // the mailbox can be connected again, as a new account
  const again = await live.api.connect(kim.user);
  expect(again.id).not.toBe(kim.account.id);
});

test('a delete in the middle of an initial sync does not hang', async () => {
  const user = await addUser();
  const box = await openMailbox(user);
  for (let index = 0; index < 300; index++) await box.append('INBOX', { subject: `old ${index}` });
  await box.close();
  const account = await live.api.connect(user, { config: { initial_sync_enable: true } });
  await live.api.delete(`/accounts/${account.id}`);
  await expectNoRows(account.id);
});

test('a password changed at the provider disconnects; reads still work; reconnecting loses nothing', async () => {
  await lateRefusal;
}, 150_000);

test('a silently lost connection is detected, and nothing is lost', async () => {
  await deadPeer;
}, 150_000);

async function expectNoRows(accountId: string): Promise<void> {
  const { pool } = live;
  const tables = await pool.query<{ table_name: string }>(
    `SELECT table_name FROM information_schema.columns
     WHERE table_schema = 'public' AND column_name = 'account_id' AND table_name NOT IN ('events', 'deliveries')`,
  );
  expect(tables.rows.length).toBeGreaterThan(3);
  for (const { table_name: table } of tables.rows) {
    const { rows } = await pool.query(`SELECT count(*)::int AS n FROM ${table} WHERE account_id = $1`, [accountId]);
    expect([table, rows[0]]).toEqual([table, { n: 0 }]);
  }
}
