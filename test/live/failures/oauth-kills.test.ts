import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import { sleep } from '../../../src/async.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { type OwnLive, startLive } from '../../helpers/product/live.ts';
import { newMessageId } from '../../helpers/product/mail-text.ts';
import { addUser } from '../../helpers/product/mail-user.ts';
import { type Mailbox, openMailbox } from '../../helpers/product/mailbox.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { type OAuthServers, startOAuthServers } from '../../helpers/servers/oauth-servers.ts';

/**
 * A provider that replaces a refresh token at each use, and revokes a sign-in whose refresh token comes twice; three workers, one
 * of which is killed again and again. No sign-in is ever revoked.
 */

const TOKEN_SECONDS = 6;
const MAILBOXES = 4;
const KILLS = isLong() ? 40 : 5;

let live: OwnLive;
let servers: OAuthServers;
const owners: { user: string; box: Mailbox; account: Account }[] = [];

beforeAll(async () => {
  [live, servers] = await Promise.all([startLive(), startOAuthServers({ tokenSeconds: TOKEN_SECONDS })]);
}, 180_000);
afterAll(async () => {
  await live?.close();
  await servers?.stop();
}, 60_000);

async function connect(): Promise<void> {
  const mailUser = await addUser({ dovecot: servers.dovecot });
  const { user } = mailUser;
  const box = await openMailbox(mailUser);
  live.boxes.add(box);
  const { clientId: client_id, clientSecret: client_secret, tokenUrl: token_url } = servers.auth;
  const oauth2 = { refresh_token: await servers.auth.signIn(user), client_id, client_secret, token_url };
  const side = (port: number) => ({ host: '127.0.0.1', port, encryption: 'none' });
  const sides = { imap: side(servers.dovecot.imapPort), smtp: side(servers.postfix.submissionPort) };
  const body = { provider: 'imap', credentials: { user, oauth2, ...sides } };
  owners.push({ user, box, account: await live.api.post<Account>('/auth/intent', body) });
}

test('three workers, killed at random, never have a sign-in revoked', async () => {
  for (let count = 0; count < MAILBOXES; count++) await connect();
  const { product } = live;
  const { auth } = servers;
  const workers = [
    { kill: () => product.killWorker(), start: () => product.startWorker() },
    ...[product.addWorker(), product.addWorker()].map((kill) => {
      const worker = { kill, start: () => void (worker.kill = product.addWorker()) };
      return worker;
    }),
  ];
  // The gap between the response of the provider and our commit cannot be closed: no worker is killed in it.
  let isKilling = false;
  let issued = 0;
  auth.script = () => {
    if (isKilling) return { status: 503, headers: { 'retry-after': '1' }, body: 'about to kill a worker' };
    issued += 1;
    return undefined;
  };
  // sends need tokens on all workers at the same time as the watches do
  const over = new AbortController();
  const sending = owners.map(async ({ user, account }) => {
    const email = { to: [{ email: user }], subject: 'sent', plain_text: 'sent' };
    while (!over.signal.aborted) {
      const response = await live.api.request('POST', `/${account.id}/emails/send`, email);
      await response.arrayBuffer();
      await sleep(500, over.signal);
    }
  });
  const allLive = async () => {
    const seen = `select count(*)::int as live from workers where seen_at > now() - interval '2 seconds'`;
    return (await live.pool.query<{ live: number }>(seen)).rows[0]?.live === workers.length;
  };
  for (let count = 0; count < KILLS; count++) {
    await waitFor(allLive, { timeoutMs: 60_000, what: 'three workers' });
    await sleep(500 + 4_000 * Math.random());
    isKilling = true;
    await waitFor(() => Date.now() - (auth.requests.at(-1)?.at ?? 0) > 400, { timeoutMs: 20_000, what: 'a pause' });
    const worker = workers[Math.floor(Math.random() * workers.length)];
    await worker?.kill();
    isKilling = false;
    worker?.start();
  }
  over.abort();
  await Promise.all(sending);
  for (const { user } of owners) expect(await auth.isValid(user)).toBe(true);
  expect(issued).toBeGreaterThan(KILLS);
  for (const { user, box, account } of owners) {
    const messageId = newMessageId();
    await box.append('INBOX', { subject: 'after all kills', messageId, to: user });
    const received = () =>
      live.receiver
        .accepted({ account: account.id })
        .some((call) => call.event.type === 'email.new' && emailOf(call).message_id === messageId);
    await waitFor(received, { timeoutMs: 60_000, what: 'the mail' });
    const types = live.receiver.accepted({ account: account.id }).map(({ event }) => event.type);
    expect(types).not.toContain('account.status.disconnected');
  }
}, 300_000);
