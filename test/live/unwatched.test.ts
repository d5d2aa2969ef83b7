import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account, MailboxSync, MailboxVerification } from '../../src/contract/account.ts';
import type { Email } from '../../src/contract/email.ts';
import type { EmailSent } from '../../src/contract/sending.ts';
import { FakeGmail } from '../helpers/fakes/fake-gmail.ts';
import { startTcpProxy, type TcpProxy } from '../helpers/fakes/tcp-proxy.ts';
import { type Call, emailOf } from '../helpers/fakes/receiver.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { openMailbox } from '../helpers/product/mailbox.ts';
import { startOAuthServers } from '../helpers/servers/oauth-servers.ts';
import { addUser, setPassword } from '../helpers/product/mail-user.ts';
import {
  type Connected,
  connectLogin,
  type ConnectedUser,
  connectUser,
  type OwnLive,
  startLive,
  typesOf,
} from '../helpers/product/live.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/** Accounts with `watch` false: no connection is open between their syncs. */

/** More than the newest messages of a folder that a connect records. */
const OLD = 510;
const NEW = 300;

let live: OwnLive;
let proxy: TcpProxy;
let ana: Connected;

beforeAll(async () => {
  live = await startLive({ SYNC_POLL_INTERVAL: '1s' });
  const user = await addUser();
  proxy = await startTcpProxy(user.imapPort);
  ana = await connectLogin(live, user, {
    imapPort: proxy.port,
    before: async (box) => {
      const date = new Date('2024-03-04T05:06:07Z');
      for (let n = 0; n < OLD; n++) await box.append('INBOX', { subject: `old ${n}` }, { date });
    },
    config: { watch: false },
  });
}, 180_000);
afterAll(async () => {
  await live?.close();
  await proxy?.close();
});

const path = ({ account }: Connected, verb = '') => `/accounts/${account.id}${verb}`;
const read = (of: Connected) => live.api.get<Account>(path(of));
const sync = (of: Connected) => live.api.post<MailboxSync>(path(of, '/sync'));
const emailEvents = (of: Connected) => typesOf(of.events()).filter((type) => type.startsWith('email.'));
const arrival = (of: Connected, subject: string) => of.event('email.new', (call) => emailOf(call).subject === subject);
const closed = (what: string) =>
  waitFor(() => proxy.open() === 0, { timeoutMs: 20_000, what: `no connection ${what}` });

test('nothing is open until a sync, which finds what arrived, moved and left', async () => {
  expect(ana.account).toMatchObject({ status: 'running', watch: false, last_synced_at: null });
  await closed('after the connect');
  const uid = await ana.box.append('INBOX', { subject: 'unseen so far' });
  // the oldest, which the connect did not read
  await ana.box.move('INBOX', 1, 'Archive');
  const both = await Promise.all([sync(ana), sync(ana)]);
  for (const one of both) expect(one).toMatchObject({ status: 'completed', account_id: ana.account.id });
  await arrival(ana, 'unseen so far');
  await closed('after the sync');
  const { last_synced_at: first } = await read(ana);
  expect(first).not.toBeNull();

  await ana.box.expunge('INBOX', uid);
  await ana.box.append('INBOX', { subject: 'the second' });
  await ana.box.move('INBOX', 2, 'Archive');
  await sync(ana);
  await ana.event('email.delete');
  await arrival(ana, 'the second');
  // mail from before the connect has no event, wherever it moves
  expect(emailEvents(ana).sort()).toEqual(['email.delete', 'email.new', 'email.new']);
  expect(Date.parse((await read(ana)).last_synced_at!)).toBeGreaterThan(Date.parse(first!));
  await closed('after the second sync');
}, 120_000);

test('a choice of folders applies with the next sync', async () => {
  await live.api.patch(path(ana), { folders: { exclude: ['ARCHIVE'] } });
  await sync(ana);
  const names = (await live.api.folders(ana.account.id)).map(({ name }) => name);
  expect(names).toContain('INBOX');
  expect(names).not.toContain('Archive');
}, 60_000);

test('a watch begins and ends with a change of the account', async () => {
  expect(await live.api.patch<Account>(path(ana), { watch: true })).toMatchObject({ watch: true });
  await ana.receive('INBOX', 'followed');
  expect(proxy.open()).toBeGreaterThan(0);
  await live.api.patch(path(ana), { watch: false });
  await closed('after the watch');
  await ana.box.append('INBOX', { subject: 'not followed' });
  await sync(ana);
  await arrival(ana, 'not followed');
  const before = ana.events('email.new', 'email.delete').length;
  await ana.box.append('INBOX', { subject: 'between two watches' });
  await ana.box.expunge('INBOX', (await ana.box.uids('INBOX')).at(-2)!);
  await live.api.patch(path(ana), { watch: true });
  await arrival(ana, 'between two watches');
  await ana.event('email.delete', (call) => call.event.sequence > ana.events()[before - 1]!.event.sequence);
  await live.api.patch(path(ana), { watch: false });
  const subjects = ana.events('email.new').map((call) => emailOf(call).subject);
  expect(subjects.sort()).toEqual(['between two watches', 'followed', 'not followed', 'the second', 'unseen so far']);
  await closed('after the second watch');
  const verified = await live.api.post<MailboxVerification>(path(ana, '/verify'));
  expect(verified).toMatchObject({ status: 'completed', differences: 0, left: 0 });
  await closed('after the verification');
}, 120_000);

test('an email with two labels is one email, whose labels change with a sync', async () => {
  const gmail = new FakeGmail();
  await gmail.listen();
  const eve = await connectLogin(live, { ...(await addUser()), imapPort: gmail.port }, { config: { watch: false } });
  const folderOf = async (name: string) => (await live.api.folder(eve.account.id, name)).id;
  try {
    gmail.deliver(mailText({ subject: 'labelled' }));
    await sync(eve);
    const { id, folders } = emailOf(await arrival(eve, 'labelled'));
    expect(folders).toEqual([await folderOf('INBOX')]);
    await eve.box.move('INBOX', await eve.box.uids('INBOX'), 'Work');
    await sync(eve);
    const moved = emailOf(await eve.event('email.update'));
    expect([moved.id, moved.folders]).toEqual([id, [await folderOf('Work')]]);
    expect(emailEvents(eve)).toEqual(['email.new', 'email.update']);
    await waitFor(() => gmail.sessions.size === 1, { timeoutMs: 20_000, what: "no connection but the test's own" });
  } finally {
    await eve.box.close();
    await live.api.delete(path(eve));
    await gmail.close();
  }
}, 90_000);

test('each sync gets the access token that it needs, and a sign-in that is revoked disconnects the account', async () => {
  const { auth, dovecot, postfix, stop } = await startOAuthServers({ tokenSeconds: 4 });
  const user = await addUser({ dovecot });
  const box = await openMailbox(user);
  live.boxes.add(box);
  try {
    const side = (port: number) => ({ host: '127.0.0.1', port, encryption: 'none' });
    const { clientId: client_id, clientSecret: client_secret, tokenUrl: token_url } = auth;
    const oauth2 = { refresh_token: await auth.signIn(user.user), client_id, client_secret, token_url };
    const sides = { imap: side(dovecot.imapPort), smtp: side(postfix.submissionPort) };
    const credentials = { user: user.user, oauth2, ...sides };
    const body = { provider: 'imap', credentials, config: { watch: false } };
    const { id } = await live.api.post<Account>('/auth/intent', body);
    const arrived = (subject: string) =>
      live.receiver.waitFor(({ event }) => event.account_id === id && event.type === 'email.new', {
        what: () => subject,
      });
    await box.append('INBOX', { subject: 'with a token' });
    expect(await live.api.post<MailboxSync>(`/accounts/${id}/sync`)).toMatchObject({ status: 'completed' });
    await arrived('with a token');
    const issued = auth.requests.length;
    await waitFor(() => Date.now() > (auth.requests.at(-1)?.at ?? 0) + 4_000, { what: 'the token to expire' });
    expect(await live.api.post<MailboxSync>(`/accounts/${id}/sync`)).toMatchObject({ status: 'completed' });
    expect(auth.requests.length).toBeGreaterThan(issued);
    await auth.revoke(user.user);
    await waitFor(() => Date.now() > (auth.requests.at(-1)?.at ?? 0) + 4_000, { what: 'the token to expire' });
    expect((await live.api.request('POST', `/accounts/${id}/sync`)).status).toBe(401);
    const isDisconnected = async () => (await live.api.get<Account>(`/accounts/${id}`)).status === 'disconnected';
    await waitFor(isDisconnected, { what: 'the account to be disconnected' });
    await live.api.delete(`/accounts/${id}`);
  } finally {
    await box.close();
    await stop();
  }
}, 120_000);

test('mail is sent, marked and moved, and older mail is imported, without a watch', async () => {
  const ben = await connectUser(live, {
    before: async (box) => {
      await box.append('INBOX', { subject: 'from before' });
    },
    config: { watch: false, history: 'all' },
  });
  await ben.event('import.completed', undefined, { timeoutMs: 60_000 });
  const own = `/${ben.account.id}`;
  const [older] = (await live.api.emails(ben.account.id)).data;
  expect(older?.subject).toBe('from before');
  const archive = await live.api.folder(ben.account.id, 'Archive');
  const marked = await live.api.patch<Email>(`${own}/emails/${older?.id}`, {
    is_starred: true,
    folders_ids: [archive.id],
  });
  expect(marked).toMatchObject({ is_starred: true, folders: [archive.id] });
  const sent = await live.api.post<EmailSent>(`${own}/emails/send`, {
    to: [{ email: ben.user.user }],
    subject: 'to myself',
    plain_text: 'a text',
  });
  await waitFor(async () => (await ben.box.uids('INBOX')).length === 1, { what: 'the mail to be delivered' });
  await sync(ben);
  const inInbox = (call: Call) => emailOf(call).subject === 'to myself' && emailOf(call).id !== sent.id;
  await ben.event('email.new', inInbox);
  expect((await live.api.email(ben.account.id, sent.id)).subject).toBe('to myself');
}, 120_000);

test('a refused login disconnects the account at a sync, and a sync that is accepted connects it', async () => {
  const cleo = await connectUser(live, { config: { watch: false } });
  const { password } = cleo.user;
  await setPassword(cleo.user, 'another one');
  const refused = await live.api.request('POST', path(cleo, '/sync'));
  expect([refused.status, await refused.json()]).toEqual([
    401,
    expect.objectContaining({ type: 'errors/invalid_credentials' }),
  ]);
  await cleo.event('account.status.disconnected');
  expect((await read(cleo)).status).toBe('disconnected');
  await setPassword(cleo.user, password);
  await sync(cleo);
  await cleo.event('account.status.running');
  expect((await read(cleo)).status).toBe('running');
}, 90_000);

test('a sync whose worker is killed is continued by another one, with one event for each mail', async () => {
  const dee: ConnectedUser = await connectUser(live, { config: { watch: false } });
  for (let n = 0; n < NEW; n++) await dee.box.append('INBOX', { subject: `new ${n}` });
  const first = sync(dee);
  await dee.event('email.new');
  await live.product.killWorker('SIGKILL');
  live.product.startWorker();
  await first;
  const ended = async () => (await sync(dee)).status === 'completed' && (await read(dee)).last_synced_at !== null;
  await waitFor(ended, { timeoutMs: 120_000, what: 'the sync to end' });
  // a delivery whose worker is killed may be repeated, under the same event id
  const events = () => new Set(dee.events('email.new').map(({ event }) => event.id));
  await waitFor(() => events().size >= NEW, { timeoutMs: 60_000, what: 'all events' });
  expect(events().size).toBe(NEW);
  expect(new Set(dee.events('email.new').map((call) => emailOf(call).id)).size).toBe(NEW);
}, 300_000);
