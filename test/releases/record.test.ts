import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Account } from '../../src/contract/account.ts';
import type { Email, EmailBatch } from '../../src/contract/email.ts';
import type { OAuthApp } from '../../src/contract/oauth.ts';
import type { Import } from '../../src/contract/runs/import.ts';
import type { DraftResult } from '../../src/contract/sending.ts';
import { VERSION } from '../../src/runtime/version.ts';
import { waitFor } from '../helpers/assert/wait.ts';
import { type Receiver, startReceiver } from '../helpers/fakes/receiver.ts';
import { startTcpProxy, type TcpProxy } from '../helpers/fakes/tcp-proxy.ts';
import type { Api } from '../helpers/product/api.ts';
import { addUser, type MailUser } from '../helpers/product/mail-user.ts';
import { openMailbox } from '../helpers/product/mailbox.ts';
import { type OAuthServers, startOAuthServers } from '../helpers/servers/oauth-servers.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { readDatabase } from './database.ts';
import { beginInstallation, type Installation } from './installation.ts';
import { type Recorded, type Sent, writeStore } from './store.ts';

/** Records a store with open work of every kind: where RECORD_STORE says, for later versions (scripts/record-release.mjs). */

const MESSAGES = 300;
const MAX_BYTES = 1_000_000;

let dir: string;
let servers: OAuthServers;
let database: TestDatabase;
let proxies: { imap: TcpProxy; smtp: TcpProxy };
let working: Receiver;
let failing: Receiver;
let installation: Installation;
let api: Api;
const users: MailUser[] = [];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'record-'));
  await chmod(dir, 0o711);
  await mkdir(join(dir, 'data'));
  await writeFile(join(dir, 'data', 'encryption-key'), randomBytes(32).toString('base64'), { mode: 0o600 });
  [servers, database] = [await startOAuthServers(), await testDatabase({ max: 2, empty: true })];
  proxies = {
    imap: await startTcpProxy(servers.dovecot.imapPort),
    smtp: await startTcpProxy(servers.postfix.submissionPort),
  };
  [working, failing] = [await startReceiver(), await startReceiver()];
  failing.answer = () => 500;
  installation = await beginInstallation(join(dir, 'data'), database.url);
  api = installation.api;
}, 180_000);

afterAll(async () => {
  await installation?.kill();
  await Promise.all([working?.close(), failing?.close(), proxies?.imap.close(), proxies?.smtp.close()]);
  await servers?.stop();
  await database?.drop();
  await rm(dir, { recursive: true, force: true });
}, 60_000);

async function newUser(name: string): Promise<MailUser> {
  const user = await addUser({ user: `${name}@example.test`, dovecot: servers.dovecot });
  users.push(user);
  return user;
}

const sides = () => {
  const side = ({ port }: TcpProxy) => ({ host: '127.0.0.1', port, encryption: 'none' });
  return { imap: side(proxies.imap), smtp: side(proxies.smtp) };
};
const connect = (user: MailUser) => api.connect(user, { imapPort: proxies.imap.port, smtpPort: proxies.smtp.port });

async function connectByOAuth(user: MailUser): Promise<Account> {
  const { clientId: client_id, clientSecret: client_secret, issuer } = servers.auth;
  servers.auth.appMailbox = user.user;
  const common = { provider: 'custom', name: 'Test provider', scope: 'mail', hosts: ['127.0.0.1'] };
  const app = await api.post<OAuthApp>('/oauth/apps', { ...common, client_id, client_secret, issuer });
  const oauth2 = { app_id: app.id, grant: 'client_credentials' };
  const credentials = { user: user.user, oauth2, ...sides() };
  return api.post<Account>('/auth/intent', { provider: 'imap', credentials });
}

/** Mail of several kinds, stored after the connect. */
async function fill(user: MailUser, account: Account): Promise<void> {
  const box = await openMailbox(user);
  const first = '<first@example.test>';
  await box.append('INBOX', { subject: 'mail 0', messageId: first, html: '<p>Hello Zoë</p>' });
  await box.append('INBOX', { subject: 'Re: mail 0', inReplyTo: first, references: first });
  const attachments = [{ name: 'figures.bin', type: 'application/octet-stream', content: randomBytes(500) }];
  await box.append('INBOX', { subject: 'with a file', attachments });
  for (let n = 1; n <= 8; n++) await box.append(n > 6 ? 'Archive' : 'INBOX', { subject: `mail ${n}` });
  await box.close();
  const isNew = () => working.accepted({ account: account.id, types: ['email.new'] }).length;
  await waitFor(() => isNew() === 11, { timeoutMs: 60_000, what: () => `11 emails; came: ${isNew()}` });
}

/** A mailbox with old mail, whose import has begun. */
async function beginImport(name: string): Promise<Import> {
  const user = await newUser(name);
  const box = await openMailbox(user);
  const date = new Date(Date.now() - 400 * 86_400_000);
  for (let n = 0; n < MESSAGES; n++) await box.append('INBOX', { subject: `old ${n}` }, { date });
  await box.close();
  const { id } = await connect(user);
  const { id: importId } = await api.post<Import>(`/accounts/${id}/imports`, {});
  const read = () => api.get<Import>(`/accounts/${id}/imports/${importId}`);
  await waitFor(async () => (await read()).imported > 0, { timeoutMs: 60_000, everyMs: 5, what: 'an imported email' });
  return read();
}

const send = (account: Account, { body }: Sent) =>
  api.request('POST', `/${account.id}/emails/send`, body, { 'Idempotency-Key': body.subject });

async function sha256(path: string): Promise<string> {
  const response = await api.request('GET', path);
  expect(response.status).toBe(200);
  return createHash('sha256')
    .update(Buffer.from(await response.arrayBuffer()))
    .digest('hex');
}

/** What the API returns of these accounts. */
async function readEmails(accounts: Account[]): Promise<Pick<Recorded, 'emails' | 'files'>> {
  const emails: Email[] = [];
  const files: Recorded['files'] = {};
  for (const { id } of accounts) emails.push(...(await api.emails(id, { limit: '100' })).data);
  for (const { id, account_id: account, attachments } of emails) {
    const path = `/${account}/emails/${id}`;
    const paths = [`${path}/source`, ...attachments.map((one) => `${path}/attachments/${one.id}`)];
    for (const one of paths) files[one] = await sha256(one);
  }
  return { emails, files };
}

const ids = async (query: string, values: string[]) =>
  (await database.database.pool.query<{ id: string }>(query, values)).rows.map(({ id }) => id);
const pendingOf = (endpoint: string) =>
  ids('select event_id as id from deliveries where endpoint_id = $1 and status = $2', [endpoint, 'pending']);

interface Open extends Pick<Recorded, 'emails' | 'files' | 'draft' | 'imports' | 'batch' | 'sends' | 'pending'> {
  interrupted: Promise<Response | string>;
}

/** Begins work that cannot end: the failing endpoint, and from some moment on the mail servers, see to it. */
async function beginWork(account: Account, oauth: Account): Promise<Open> {
  const good = working.accepted()[0]?.event.endpoint_id ?? '';
  const { user } = await newUser('recipient');
  const subject = 'A draft';
  const { id } = await api.post<DraftResult>(`/${account.id}/drafts`, { subject, to: [{ email: user }] });
  const bad = await api.listen(failing, { types: ['email.update'] });
  const { data } = await api.emails(account.id, { limit: '100', is_unread: 'true' });
  for (const { id } of data.slice(0, 8)) await api.post(`/${account.id}/emails/${id}/read`);
  await waitFor(() => failing.calls.length >= 3, { timeoutMs: 30_000, what: 'refused deliveries' });
  const begun = await beginImport('paused');
  const paused = await api.post<Import>(`/accounts/${begun.account_id}/imports/${begun.id}/pause`);
  const read = await readEmails([account, oauth]);

  const running = await beginImport('importing');
  // from here on no IMAP command ends
  proxies.imap.silence();
  const sent = (subject: string): Sent => ({ body: { to: [{ email: user }], subject, plain_text: 'One, please' } });
  const sends = { accepted: sent('Order 1'), waiting: sent('Order 2') };
  expect((await send(account, sends.accepted)).status).toBe(200);
  proxies.smtp.silence();
  const interrupted = send(account, sends.waiting).catch(() => 'interrupted');
  const queued = () => ids(`select id from sends where state = 'queued' and account_id = $1`, [account.id]);
  await waitFor(async () => (await queued()).length === 1, { what: 'the second send' });
  const change = { is_starred: true };
  const batch = await api.post<EmailBatch>(`/${account.id}/emails/batch`, { filter: { q: 'mail' }, change });
  await waitFor(async () => (await pendingOf(good)).length === 0, { timeoutMs: 30_000, what: 'all deliveries' });
  const pending = await pendingOf(bad.id);
  return { ...read, draft: { id, subject }, imports: { paused, running }, batch, sends, pending, interrupted };
}

const portOf = (url: string) => Number(new URL(url).port);

it('a store with open work of every kind', async () => {
  await api.listen(working);
  const [owner, second] = [await newUser('password'), await newUser('oauth')];
  const [account, oauth] = [await connect(owner), await connectByOAuth(second)];
  await fill(owner, account);
  await fill(second, oauth);
  const { interrupted, ...work } = await beginWork(account, oauth);
  await installation.kill();

  expect(await interrupted).toBe('interrupted');
  expect(work.pending).not.toEqual([]);
  expect(work.batch).toMatchObject({ status: 'running', changed: 0 });
  expect(work.imports.paused.status).toBe('paused');
  const unfinished = `select id from imports where status in ('paused', 'running') and imported between 1 and ${MESSAGES - 1}`;
  expect((await ids(unfinished, [])).sort()).toEqual([work.imports.paused.id, work.imports.running.id].sort());
  const recorded: Recorded = {
    version: VERSION,
    ports: {
      imap: proxies.imap.port,
      smtp: proxies.smtp.port,
      auth: portOf(servers.auth.issuer),
      working: portOf(working.url),
      failing: portOf(failing.url),
    },
    users: users.map(({ user, password }) => ({ user, password })),
    secrets: Object.fromEntries([...working.secrets, ...failing.secrets]),
    accounts: { password: account, oauth },
    ...work,
    messages: MESSAGES,
    reported: working.accepted().map(({ event }) => event.id),
  };
  const file = process.env['RECORD_STORE'] ?? join(dir, 'store.tar.xz');
  const places = { dataDir: join(dir, 'data'), mailDir: servers.dovecot.mailDir };
  await writeStore(file, places, recorded, await readDatabase(database.url));
  expect((await stat(file)).size).toBeLessThan(MAX_BYTES);
}, 240_000);
