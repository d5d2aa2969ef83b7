import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { startTokenProxy, type TokenProxy } from '../../helpers/fakes/token-proxy.ts';
import { joinLive, type Live } from '../../helpers/product/live.ts';
import { newMessageId } from '../../helpers/product/mail-text.ts';
import { addUser, type MailUser } from '../../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { type OAuthServers, startOAuthServers } from '../../helpers/servers/oauth-servers.ts';

/**
 * A token ends in the middle of a command, and its session with it: the command is held back until then. No mail is lost, no
 * email is sent twice, and no status changes.
 */

const TOKEN_SECONDS = 10;
const HELD_MS = 1.2 * TOKEN_SECONDS * 1000;

let live: Live;
let servers: OAuthServers;
let imap: TokenProxy;
let smtp: TokenProxy;
let user: MailUser;
let box: Mailbox;
let account: Account;

beforeAll(async () => {
  [live, servers] = await Promise.all([joinLive(), startOAuthServers({ tokenSeconds: TOKEN_SECONDS })]);
  imap = await startTokenProxy(servers.dovecot.imapPort, servers.auth.expiryOf);
  smtp = await startTokenProxy(servers.postfix.submissionPort, servers.auth.expiryOf);
}, 180_000);
afterAll(async () => {
  await live?.close();
  await imap?.close();
  await smtp?.close();
  await servers?.stop();
}, 60_000);
beforeEach(async () => {
  user = await addUser({ dovecot: servers.dovecot });
  box = await openMailbox(user);
  live.boxes.add(box);
  account = await connect(user);
  await receive();
});
afterEach(async () => {
  imap.delay = smtp.delay = () => 0;
  servers.auth.script = () => undefined;
  await receive();
  expect(calls().filter(({ event }) => event.type.startsWith('account.status.'))).toEqual([]);
  await live.api.delete(`/accounts/${account.id}`);
}, 60_000);

async function connect({ user }: MailUser, more: object = {}): Promise<Account> {
  const { clientId: client_id, clientSecret: client_secret, tokenUrl: token_url } = servers.auth;
  const oauth2 = { refresh_token: await servers.auth.signIn(user), client_id, client_secret, token_url };
  const side = ({ port }: TokenProxy) => ({ host: '127.0.0.1', port, encryption: 'none' });
  const credentials = { user, oauth2, imap: side(imap), smtp: side(smtp) };
  return live.api.post<Account>('/auth/intent', { provider: 'imap', credentials, ...more });
}

const calls = () => live.receiver.accepted({ account: account.id });
const timesReceived = (messageId: string) =>
  calls().filter((call) => call.event.type === 'email.new' && emailOf(call).message_id === messageId).length;

async function append(): Promise<string> {
  const messageId = newMessageId();
  await box.append('INBOX', { subject: 'a mail', messageId, to: user.user });
  return messageId;
}

/** A mail arrives and is reported once. */
async function receive(): Promise<void> {
  const messageId = await append();
  await waitFor(() => timesReceived(messageId) > 0, { timeoutMs: 40_000, what: 'the mail' });
  expect(timesReceived(messageId)).toBe(1);
}

/** Holds back the next bytes of a client that fit until after the end of their session's token; when that has happened. */
function heldUntilEnd(proxy: TokenProxy, fits: RegExp): () => Promise<void> {
  let isHeld = false;
  let endedBefore = Infinity;
  proxy.delay = (data) => {
    if (isHeld || !fits.test(data.toString('latin1'))) return 0;
    isHeld = true;
    endedBefore = proxy.ended;
    return HELD_MS;
  };
  return async () => {
    await waitFor(() => proxy.ended > endedBefore, { timeoutMs: 60_000, what: 'a session to end in the middle' });
  };
}

const send = () =>
  live.api.post<{ message_id: string }>(`/${account.id}/emails/send`, {
    to: [{ email: user.user }],
    subject: 'sent',
    plain_text: 'sent while a token ends',
  });

/** Sends until no token ends during the login. */
async function sendUntilAccepted(): Promise<{ message_id: string }> {
  return waitFor(
    () =>
      send().catch((error: unknown) => {
        if (!String(error).includes('the SMTP login failed: connection closed')) throw error;
        return undefined;
      }),
    { timeoutMs: 30_000, what: 'a send' },
  );
}

async function copiesIn(folder: string, messageId: string): Promise<number> {
  const lock = await box.client.getMailboxLock(folder);
  try {
    const found = await box.client.search({ header: { 'message-id': messageId } }, { uid: true });
    return found ? found.length : 0;
  } finally {
    lock.release();
  }
}

/** The email is in the mailbox of its recipient and in Sent, once each. */
async function expectSentOnce(messageId: string): Promise<void> {
  for (const folder of ['INBOX', 'Sent']) {
    await waitFor(async () => (await copiesIn(folder, messageId)) > 0, { timeoutMs: 60_000, what: `it in ${folder}` });
  }
  await receive();
  expect([await copiesIn('INBOX', messageId), await copiesIn('Sent', messageId)]).toEqual([1, 1]);
}

test('of IDLE, before the next connection has logged in', async () => {
  const ended = heldUntilEnd(imap, /AUTHENTICATE/);
  await ended();
  await receive();
}, 120_000);

test('of the FETCH of a new mail', async () => {
  const ended = heldUntilEnd(imap, /UID FETCH/);
  const messageId = await append();
  await ended();
  await waitFor(() => timesReceived(messageId) > 0, { timeoutMs: 40_000, what: 'the mail' });
  await receive();
  expect(timesReceived(messageId)).toBe(1);
}, 120_000);

test('of the FETCH of an import', async () => {
  const other = await addUser({ dovecot: servers.dovecot });
  const box = await openMailbox(other);
  live.boxes.add(box);
  for (let count = 0; count < 30; count++) await box.append('INBOX', { subject: `old ${count}`, to: other.user });
  const ended = heldUntilEnd(imap, /UID FETCH .*BODY/);
  const importing = await connect(other, { config: { initial_sync_enable: true, initial_sync_days: 30 } });
  await ended();
  const importOf = async () => (await live.api.get<Account>(`/accounts/${importing.id}`)).initial_sync;
  await waitFor(async () => (await importOf())?.status === 'completed', { timeoutMs: 60_000, what: 'the import' });
  expect(await importOf()).toMatchObject({ imported: 30 });
  const events = live.receiver.accepted({ account: importing.id }).map(({ event }) => event.type);
  expect(events.filter((type) => /^account\.status|failed$/.test(type))).toEqual([]);
  await live.api.delete(`/accounts/${importing.id}`);
}, 150_000);

test('of the APPEND of a sent email', async () => {
  const ended = heldUntilEnd(imap, /APPEND/);
  const { message_id } = await send();
  await ended();
  await expectSentOnce(message_id);
}, 150_000);

test.each<[string, RegExp]>([
  ['the command DATA', /DATA\r\n/],
  ['the message', /sent while a token ends/],
])(
  'of SMTP: %s',
  async (_, fits) => {
    const ended = heldUntilEnd(smtp, fits);
    const first = await send().catch((error: unknown) => error as Error);
    await ended();
    // nothing of it had arrived at the server, which the answer says: it is safe to send again
    const { message_id } = first instanceof Error ? await sendUntilAccepted() : first;
    await expectSentOnce(message_id);
  },
  150_000,
);

test('of a refresh, whose response comes later', async () => {
  let asked = 0;
  servers.auth.script = async () => {
    asked += 1;
    if (asked === 1) await new Promise((resolve) => setTimeout(resolve, TOKEN_SECONDS * 500));
    return undefined;
  };
  // sessions of earlier tests may end before
  await waitFor(() => asked > 0, { timeoutMs: 60_000, what: 'the refresh' });
  const before = imap.ended;
  await waitFor(() => imap.ended > before, { timeoutMs: 60_000, what: 'the session to end' });
  expect(asked).toBe(1);
  await receive();
}, 120_000);

test('of a refresh, whose response comes after the token has expired: its refresh token is not used again', async () => {
  let asked = 0;
  servers.auth.script = async () => {
    asked += 1;
    if (asked === 1) await new Promise((resolve) => setTimeout(resolve, HELD_MS));
    return undefined;
  };
  const before = imap.ended;
  await waitFor(() => imap.ended > before, { timeoutMs: 60_000, what: 'the session to end' });
  await receive();
  await waitFor(() => asked > 2, { timeoutMs: 60_000, what: 'two further tokens' });
  expect(await servers.auth.isValid(user.user)).toBe(true);
}, 120_000);
