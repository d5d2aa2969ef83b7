import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { FakeImap, PLAIN, type Script } from '../../helpers/fakes/fake-imap.ts';
import type { FakeSession } from '../../helpers/fakes/fake-imap-session.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { openSyncGround, type SyncGround, WatchedAccount } from '../../helpers/product/watched-account.ts';

/** Servers that break the protocol in ways that can be lived with: mail comes, once, and none is lost. */

const QRESYNC = `${PLAIN} CONDSTORE QRESYNC`;

let ground: SyncGround;
let server: FakeImap;
let account: WatchedAccount;

beforeAll(async () => {
  ground = await openSyncGround();
});
afterAll(() => ground.close());
beforeEach(async () => {
  server = await new FakeImap({ capabilities: QRESYNC, folders: { Work: [] } }).listen();
  server.add('INBOX', mailText({ subject: 'old' }));
  server.add('Work', mailText({ subject: 'old' }));
  account = new WatchedAccount(ground, server.port, { pollMs: 100 });
});
afterEach(async () => {
  await account.stop();
  await server.close();
  expect(account.failure).toBeUndefined();
});

async function waitForEvents(...events: string[]) {
  await waitFor(async () => (await account.summary()).length >= events.length, {
    what: () =>
      `${events.join('; ')}; commands: ${server.log
        .slice(-12)
        .map(({ name }) => name)
        .join(', ')}`,
  });
  expect(await account.summary()).toEqual(events);
}

/** Waits for the events, and for two more passes over all folders, in case of one too many. */
async function expectEvents(...events: string[]) {
  await waitForEvents(...events);
  const passes = server.count('LIST');
  await waitFor(() => server.count('LIST') >= passes + 2, { what: 'further passes over the folders' });
  expect(await account.summary()).toEqual(events);
}

/** The life of two mails while the server answers as the script says. */
async function expectMailLife(script: Script, read = true) {
  await account.connect();
  server.script = script;
  const uid = server.add('INBOX', mailText({ subject: 'one' }));
  server.tell();
  await waitForEvents('email.new: INBOX');
  server.add('Work', mailText({ subject: 'two' }));
  await (read ? waitForEvents : expectEvents)('email.new: INBOX', 'email.new: Work');
  if (!read) return;
  server.setFlag('INBOX', uid, '\\Seen');
  server.tell();
  await waitForEvents('email.new: INBOX', 'email.new: Work', 'email.update: INBOX');
  server.remove('INBOX', uid);
  server.tell();
  await expectEvents('email.new: INBOX', 'email.new: Work', 'email.update: INBOX', 'email.delete: INBOX');
}

const flagsOfTwo = ({ selected }: FakeSession) =>
  (selected?.messages ?? [])
    .filter(({ uid }) => uid === 2)
    .map(({ flags }) => `* 2 FETCH (UID 2 FLAGS (${[...flags].join(' ')}))\r\n`)
    .join('');
const isFetch = (name: string) => name === 'UID FETCH';

/** Each of these is much like another one, and is part of `npm run test:long`. */
const LONG = new Set([
  'keeps to the protocol',
  'reports messages without a UID',
  'leaves out UIDNEXT at SELECT',
  'has dates that are none',
  'refuses SEARCH',
  'announces something else',
]);

describe('mail is reported once and followed although the server', () => {
  const cases: [string, Script][] = [
    ['keeps to the protocol', {}],
    [
      'reports each message twice',
      { answer: (text, { name }) => (isFetch(name) && text.startsWith('*') ? text + text : text) },
    ],
    [
      'reports messages without a UID',
      { answer: (t, { name }) => (isFetch(name) ? `* 1 FETCH (FLAGS (\\Seen))\r\n${t}` : t) },
    ],
    [
      'reports UIDs that were not requested',
      { answer: (t, { name }) => (isFetch(name) ? `* 9 FETCH (UID 1 FLAGS ())\r\n${t}` : t) },
    ],
    [
      'reports flags in between',
      { answer: (t, { name }, s) => (isFetch(name) && t[0] === '*' ? flagsOfTwo(s) + t : t) },
    ],
    ['leaves out UIDNEXT at SELECT', { answer: (text) => text.replace(/^\* OK \[UIDNEXT .*\r\n/, '') }],
    ['never counts up UIDNEXT', { answer: (text) => text.replace(/UIDNEXT \d+/, 'UIDNEXT 2') }],
    [
      'counts HIGHESTMODSEQ backwards',
      { answer: (t) => t.replace(/\[HIGHESTMODSEQ (\d+)\]/, (_, n) => `[HIGHESTMODSEQ ${99 - n}]`) },
    ],
    ['keeps no MODSEQ of a folder', { answer: (text) => text.replace(/\[HIGHESTMODSEQ \d+\]/, '[NOMODSEQ]') }],
    [
      'has dates that are none',
      { answer: (text) => text.replace(/INTERNALDATE "[^"]*"/, 'INTERNALDATE "32-Foo-0000 99:99:99"') },
    ],
    [
      'has dates in the year 275760',
      { answer: (t) => t.replace(/INTERNALDATE "[^"]*"/, 'INTERNALDATE "01-Jan-275760 00:00:00 +0000"') },
    ],
    ['refuses IDLE', { command: ({ name, tag }, s) => name === 'IDLE' && (s.write(`${tag} NO not now\r\n`), true) }],
    [
      'refuses SEARCH',
      { command: ({ name, tag }, s) => name === 'UID SEARCH' && (s.write(`${tag} NO not now\r\n`), true) },
    ],
    [
      'finds nothing at SEARCH',
      { answer: (text, { name }) => (name === 'UID SEARCH' ? text.replace(/^\* SEARCH.*\r\n/, '') : text) },
    ],
    [
      'vanishes UIDs that never were',
      { answer: (t, { name }) => (isFetch(name) ? `* VANISHED (EARLIER) 7:9,4000000000\r\n${t}` : t) },
    ],
    [
      'announces something else',
      { answer: (t, { name }) => (name === 'NOOP' || name === 'IDLE' ? `* CAPABILITY IMAP4rev1\r\n${t}` : t) },
    ],
  ];
  it.each(cases.filter(([name]) => isLong() || !LONG.has(name)))('%s', async (_, script) => {
    await expectMailLife(script);
  });

  it('has no IDLE', async () => {
    server.capabilities = QRESYNC.replace(' IDLE', '');
    await expectMailLife({});
  });

  it('repeatedly reports existing UIDs as vanished', async () => {
    const vanished = '* VANISHED (EARLIER) 1:4294967295\r\n';
    await account.connect();
    server.script = { answer: (text, { name }) => (isFetch(name) ? vanished.repeat(5) + text : text) };
    server.add('INBOX', mailText());
    server.tell();
    await waitFor(async () => (await account.summary()).length === 1, { what: 'the new mail' });
  });

  it('refuses to open one folder', async () => {
    await account.connect();
    server.script.command = ({ name, args, tag }, session) => {
      if (!/SELECT|EXAMINE/.test(name) || args[0] !== 'Work') return false;
      session.write(`${tag} NO out of order\r\n`);
      return true;
    };
    server.add('Work', mailText());
    server.add('INBOX', mailText());
    await expectEvents('email.new: INBOX');
    server.script = {};
    await expectEvents('email.new: INBOX', 'email.new: Work');
  });

  it('counts EXISTS down without an EXPUNGE', async () => {
    await account.connect();
    const uid = server.add('INBOX', mailText());
    server.tell();
    await expectEvents('email.new: INBOX');
    server.remove('INBOX', uid);
    server.script.answer = (text) => text.replace(/^\* (VANISHED 2|2 EXPUNGE)\r\n/, '* 1 EXISTS\r\n');
    server.tell();
    await expectEvents('email.new: INBOX', 'email.delete: INBOX');
  });

  it('loses a message between its metadata and its body', async () => {
    await account.connect();
    const lost = server.add('INBOX', mailText({ subject: 'lost' }));
    server.add('INBOX', mailText({ subject: 'kept' }));
    server.script.command = (command) => {
      if (JSON.stringify(command.args).includes('BODY.PEEK[]')) server.remove('INBOX', lost);
    };
    server.tell();
    await expectEvents('email.new: INBOX');
    expect((await account.events())[0]?.email.subject).toBe('kept');
  });

  it.each([1, 1_000_000_000])('announces messages of %s bytes', async (size) => {
    await expectMailLife({ answer: (text) => text.replace(/RFC822\.SIZE \d+/, `RFC822.SIZE ${size}`) }, false);
  });
});
