import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ImapFlow } from 'imapflow';
import { listenForChanges } from '../../src/imap/idle.ts';
import { internalsOf, patchClient, uidRanges, type VanishedEvent } from '../../src/imap/imapflow-patches.ts';
import { selectFolder } from '../../src/imap/select.ts';
import type { ImapSession } from '../../src/imap/session.ts';
import { FakeImap, PLAIN } from '../helpers/fakes/fake-imap.ts';
import { openTestSession } from '../helpers/product/mail-session.ts';
import { mailText } from '../helpers/product/mail-text.ts';

/*
 * The private parts of imapflow that this product relies on. A test that fails here after an upgrade of imapflow names the
 * part that changed: read how imapflow does it now before changing src/imap/imapflow-patches.ts.
 */

const newClient = () =>
  new ImapFlow({ host: '127.0.0.1', port: 1, auth: { user: 'u', pass: 'p' }, logger: false, secure: false });

describe('this version of imapflow has', () => {
  test.each(['exec', 'run', 'untaggedVanished', 'untaggedHandlers'])('%s, and without it no client is used', (path) => {
    expect(() => internalsOf(newClient())).not.toThrow();
    const client = newClient();
    Object.defineProperty(client, path, { value: undefined });
    expect(() => patchClient(client)).toThrow(`this version of imapflow has no ${path}`);
  });
});

describe('imapflow calls', () => {
  let server: FakeImap;
  let session: ImapSession;
  const login = () => ({ user: 'paula@example.test', password: 'secret', imapPort: server.port });

  beforeEach(async () => {
    server = await new FakeImap({ capabilities: `${PLAIN} NOTIFY` }).listen();
    server.add('INBOX', mailText());
    session = await openTestSession(login());
  });
  afterEach(async () => {
    await session.end();
    await server.close();
  });

  /** Sends text before the response to a command. */
  const before = (name: string, text: string | Buffer) => {
    server.script.command = (command, fake) => {
      if (command.name === name) fake.write(text);
    };
  };

  test('its transport for every byte: one command gets no more responses than allowed', async () => {
    before('NOOP', '* 1 EXISTS\r\n'.repeat(30));
    await session.run('NOOP', () => session.client.noop(), { maxResponses: 40 });
    await expect(session.run('NOOP', () => session.client.noop(), { maxResponses: 20 })).rejects.toMatchObject({
      detail: 'NOOP failed: the response was too large',
    });
    expect(session.client.usable).toBe(false);
  });

  const tooLarge = { code: 'provider_error', detail: 'NOOP failed: the response was too large' };
  const noop = () => session.run('NOOP', () => session.client.noop());

  test('its transport for every literal: one response has no more than 200', async () => {
    const literals = (count: number) => `* XLIST (${'{1}\r\nx '.repeat(count)}y)\r\n`;
    before('NOOP', literals(150).repeat(3));
    await noop();
    before('NOOP', literals(300));
    await expect(noop()).rejects.toMatchObject(tooLarge);
  });

  test('its parser for no response of more than 20,000 tokens', async () => {
    before('NOOP', `* X (${'a '.repeat(15_000)}a)\r\n`);
    await noop();
    before('NOOP', `* X (${'a '.repeat(25_000)}a)\r\n`);
    await expect(noop()).rejects.toMatchObject(tooLarge);
  });

  test.each([
    ['a sequence set', '* 1 X 1:2', ',1:2', ''],
    ['a set of vanished messages', '* VANISHED (EARLIER) 1:2', ',1:2', ''],
    ['a COPYUID', '* OK [COPYUID 1 1:2', ',1:2', ' 3:4] done'],
    ['an atom', '* X a', '[[', ''],
    ['a quoted string', '* X "', 'aa', '"'],
  ])('its parser, which reads %s of 800 KB in linear time', async (_, start, more, end) => {
    before('NOOP', `${start}${more.repeat(800_000 / more.length)}${end}\r\n`);
    const cpu = process.cpuUsage();
    await noop();
    const { user, system } = process.cpuUsage(cpu);
    expect((user + system) / 1000).toBeLessThan(5_000);
  });

  test('untaggedVanished with the set as it was sent, while selecting and later', async () => {
    const events: VanishedEvent[] = [];
    (session.client as NodeJS.EventEmitter).on('vanished', (event: VanishedEvent) => events.push(event));
    await selectFolder(session, 'INBOX');
    before('NOOP', '* VANISHED 1:4294967295\r\n* VANISHED (EARLIER) 7,3:2\r\n');
    await session.run('NOOP', () => session.client.noop());
    expect(events).toEqual([
      { path: 'INBOX', earlier: false, ranges: [{ from: 1, to: 4_294_967_295 }] },
      {
        path: 'INBOX',
        earlier: true,
        ranges: [
          { from: 7, to: 7 },
          { from: 2, to: 3 },
        ],
      },
    ]);
  });

  test('untaggedVanished, which lowers the number of messages by those that go, and by none that went earlier', async () => {
    for (let number = 0; number < 4; number++) server.add('INBOX', mailText());
    await selectFolder(session, 'INBOX');
    const exists = () => (session.client.mailbox ? session.client.mailbox.exists : Number.NaN);
    for (const [text, left] of [
      ['* VANISHED 2,4:5\r\n', 2],
      ['* VANISHED (EARLIER) 1\r\n', 2],
      ['* VANISHED 1:4294967295\r\n', 0],
    ] as const) {
      before('NOOP', text);
      await session.run('NOOP', () => session.client.noop());
      expect(exists()).toBe(left);
    }
  });

  test('untaggedHandlers for STATUS and LIST that no command asked for', async () => {
    server.script.command = ({ name, tag }, fake) => {
      if (name === 'NOOP') fake.write('* STATUS "Work &- Life" (MESSAGES 3)\r\n* LIST () "/" New\r\n');
      if (name !== 'NOTIFY') return false;
      fake.write(`${tag} OK done\r\n`);
      return true;
    };
    const listener = await listenForChanges(session);
    await session.run('NOOP', () => session.client.noop());
    expect(listener.take()).toEqual({ folders: new Set(['Work & Life']), list: true });
    expect(listener.take()).toEqual({ folders: new Set(), list: false });
  });
});

test.each([
  ['1', [{ from: 1, to: 1 }]],
  [
    '5:3,9',
    [
      { from: 3, to: 5 },
      { from: 9, to: 9 },
    ],
  ],
  ['1:*,x,,12345678901,7', [{ from: 7, to: 7 }]],
  ['', []],
])('a set is read as ranges: %j', (set, ranges) => {
  expect(uidRanges(set)).toEqual(ranges);
});
