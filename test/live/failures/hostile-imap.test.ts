import { describe, expect, it } from '@jest/globals';
import type { Script } from '../../helpers/fakes/fake-imap.ts';
import { at, forever } from '../../helpers/fakes/flood-scripts.ts';
import { HostileGround } from '../../helpers/fakes/hostile-ground.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { mailText } from '../../helpers/product/mail-text.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Servers that send what none should: the connection ends, in time and with little memory, and nothing else does. */

const MiB = 1024 * 1024;
const here = new HostileGround();

/** Each of these is much like another one, and is part of `npm run test:long`. */
const LONG = new Set([
  'a literal of 4 GB while idling',
  'a line that never ends at LIST',
  'literals without end',
  'folders without end',
  'untagged answers without end',
  'nested lists',
]);

describe('a server that sends too much', () => {
  const line = Buffer.alloc(64 * 1024, 'a');
  const cases: [string, Script][] = [
    ['a literal of 4 GB', { command: at('UID FETCH', (s) => s.write('* 1 FETCH (UID 1 BODY[] {4294967296}\r\nabc')) }],
    [
      'a literal of 4 GB while idling',
      { command: at('IDLE', (s) => s.write('+ idling\r\n* 1 FETCH (BODY[] {4294967296}\r\n')) },
    ],
    ['a line that never ends', { command: at('UID FETCH', (s) => forever(s, () => line)) }],
    ['a line that never ends at LIST', { command: at('LIST', (s) => forever(s, () => line)) }],
    [
      'literals without end',
      { command: at('UID FETCH', (s) => forever(s, (n) => (n === 0 ? '* 1 FETCH (' : '{0}\r\n '.repeat(999)))) },
    ],
    [
      'messages without end',
      { command: at('UID FETCH', (s) => forever(s, (n) => `* 1 FETCH (UID ${n + 9} FLAGS ())\r\n`)) },
    ],
    ['folders without end', { command: at('LIST', (s) => forever(s, (n) => `* LIST () "/" f${n}\r\n`)) }],
    ['untagged answers without end', { command: at('SELECT', (s) => forever(s, () => '* OK still here\r\n')) }],
    [
      'untagged answers without end while idling',
      { command: at('IDLE', (s) => forever(s, () => '* OK still here\r\n')) },
    ],
    ['EXISTS of 4 billion', { answer: (text) => text.replace(/\* \d+ EXISTS/, '* 4294967295 EXISTS') }],
    [
      'nested lists',
      { command: at('UID FETCH', (s) => forever(s, () => `* 1 FETCH (UID 1 BODYSTRUCTURE ${'('.repeat(9_000)}\r\n`)) },
    ],
    [
      'garbage',
      { command: at('UID FETCH', (s) => forever(s, () => Buffer.from('\0\xff\xfe* 1 FETCH\r\n}{)(\r\n', 'latin1'))) },
    ],
  ];
  it.each(cases.filter(([name]) => isLong() || !LONG.has(name)))('%s', async (_, script) => {
    await here.failureOf(script);
  });

  it('bodies larger than announced are not held in memory', async () => {
    here.newAccount({ pollMs: 300 });
    await here.account.connect();
    const sizes = (isLong() ? [3, 5, 7] : [1, 2, 3]).map((size) => size * MiB);
    for (const size of sizes)
      here.server.add('INBOX', Buffer.concat([mailText({ subject: `${size}` }), Buffer.alloc(size, 'x')]));
    here.server.script = { answer: (text) => text.replace(/RFC822\.SIZE \d+/, 'RFC822.SIZE 100') };
    here.server.tell();
    await waitFor(async () => (await here.account.summary()).length === 3, {
      timeoutMs: 90_000,
      what: 'the large mails',
    });
    const events = await here.account.events();
    expect(events.map(({ email }) => email.subject)).toEqual(sizes.map(String));
    expect(events.every(({ email }) => email.body_plain.length > 0)).toBe(true);
  });

  it('an endless mail', async () => {
    const endless: Script['answer'] = (text, { name, args }) =>
      name === 'UID FETCH' && JSON.stringify(args).includes('BODY.PEEK[]<')
        ? `* 2 FETCH (UID 2 BODY[] {65536}\r\n${'x'.repeat(65_536)})\r\n${text.includes('FETCH (') ? '' : text}`
        : text.replace(/RFC822\.SIZE \d+/, 'RFC822.SIZE 5000000');
    here.newAccount({ pollMs: 300 });
    const error = await here.failureOf({ answer: endless });
    expect(error.detail).toContain('too large');
  });
});
