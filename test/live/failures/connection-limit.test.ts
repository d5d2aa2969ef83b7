import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import type { Email } from '../../../src/contract/email.ts';
import { FakeImap, PLAIN } from '../../helpers/fakes/fake-imap.ts';
import { type Live, joinLive } from '../../helpers/product/live.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { addUser } from '../../helpers/product/mail-user.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Servers that allow few connections: callers wait, but see no error. */

let live: Live;
let server: FakeImap;

beforeAll(async () => {
  live = await joinLive({ SYNC_POLL_INTERVAL: '1s' });
}, 120_000);
afterAll(() => live?.close());
afterEach(() => server?.close());

/** Refuses a login beyond the limit in the way of some server. */
function limitTo(limit: number, how: 'hang up' | 'say so'): void {
  const loggedIn = new Set<unknown>();
  // those from before would not count
  for (const session of server.sessions) session.socket.destroy();
  server.script.command = (command, session) => {
    if (command.name !== 'LOGIN') return false;
    if (loggedIn.size < limit) {
      loggedIn.add(session);
      session.socket.on('close', () => loggedIn.delete(session));
      return false;
    }
    if (how === 'say so') session.write(`${command.tag} NO [LIMIT] too many connections\r\n`);
    session.socket.end();
    return true;
  };
}

const CASES: [number, 'hang up' | 'say so'][] = isLong()
  ? [1, 2, 3, 4].flatMap((limit): [number, 'hang up' | 'say so'][] => [
      [limit, 'hang up'],
      [limit, 'say so'],
    ])
  : [
      [1, 'hang up'],
      [2, 'say so'],
    ];

test.each(CASES)(
  '%i connections on a server that would %s',
  async (limit, how) => {
    const folders = { Filed: [], Sent: ['\\Sent'], Drafts: ['\\Drafts'], Trash: ['\\Trash'] };
    server = await new FakeImap({ capabilities: `${PLAIN} MOVE`, folders }).listen();
    for (let i = 0; i < 20; i++) server.append('INBOX', mailText({ subject: `old ${i}` }));
    const user = await addUser();
    const account = await live.api.connect(user, {
      imapPort: server.port,
      config: { initial_sync_enable: true, initial_sync_days: 5 },
    });
    const stored = () => live.api.get<Account>(`/accounts/${account.id}`);
    limitTo(limit, how);
    for (let i = 0; i < 8; i++) server.append('INBOX', mailText({ subject: `mail ${i}` }));
    server.tell();
    const mails: Email[] = [];
    for (let i = 0; i < 8; i++) {
      const call = await live.receiver.waitFor(
        (each) =>
          each.event.account_id === account.id &&
          each.event.type === 'email.new' &&
          emailOf(each).subject === `mail ${i}`,
        { timeoutMs: 60_000, what: () => `mail ${i}` },
      );
      mails.push(emailOf(call));
    }
    const filed = (await live.api.folder(account.id, 'Filed')).id;
    const results = await Promise.all(
      mails.map(async ({ id }, index) =>
        index % 2 === 0
          ? live.api.post<Email>(`/${account.id}/emails/${id}/modify`, { folders_ids: [filed] })
          : live.api.post<Email>(`/${account.id}/emails/${id}/read`),
      ),
    );
    expect(results.map(({ folders: [folder], is_unread: unread }) => [folder === filed, unread])).toEqual(
      mails.map((_, index) => (index % 2 === 0 ? [true, true] : [false, false])),
    );
    const sent = await live.api.post<{ id: string }>(`/${account.id}/emails/send`, {
      to: [{ email: user.user }],
      subject: 'sent',
      plain_text: 'with its copy',
    });
    await waitFor(() => server.folder('Sent').messages.length === 1, { timeoutMs: 30_000, what: 'the copy in Sent' });
    expect(sent.id).toMatch(/^email_/);
    await waitFor(async () => (await stored()).initial_sync?.status === 'completed', {
      timeoutMs: 60_000,
      what: 'the initial sync',
    });
    // the watch continues afterwards
    server.append('INBOX', mailText({ subject: 'afterwards' }));
    server.tell();
    await live.receiver.waitFor(
      (each) =>
        each.event.type === 'email.new' &&
        emailOf(each).subject === 'afterwards' &&
        each.event.account_id === account.id,
      { timeoutMs: 30_000, what: () => 'the mail afterwards' },
    );
    expect((await stored()).status).toBe('running');
  },
  180_000,
);
