import { describe, expect, test } from '@jest/globals';
import { readMailingList } from '../../src/mime/read/mailing-list.ts';
import { readReplyText } from '../../src/mime/reply/reply-text.ts';
import { message, read, readFixture } from './read-fixture.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';

/* Readings of a mail beyond its text and files: none of them may fail a mail. */

describe('the reply text', () => {
  test.each<[string, string, string | null]>([
    [
      'without a quote below',
      'Yes, fine.\n\nOn Tue, Mar 5, 2024 at 9:00 AM Ann <ann@x.y> wrote:\n> Lunch?\n> Ann',
      'Yes, fine.',
    ],
    [
      'without an attribution that is folded',
      'Yes, fine.\n\nOn Tue, Mar 5, 2024 at 9:00 AM Ann Berg\n<ann@x.y> wrote:\n\n> Lunch?',
      'Yes, fine.',
    ],
    ['without a German attribution', 'Ja, gern.\n\nAm 05.03.2024 um 09:00 schrieb Ann:\n> Mittagessen?', 'Ja, gern.'],
    ['without a signature', 'Hello,\n\nsee you.\n\n-- \nAnn Berg\nExample Ltd', 'Hello,\n\nsee you.'],
    ['with answers between the quotes', '> Lunch?\nYes.\n> Where?\nHere.', 'Yes.\n\nHere.'],
    ['that is the whole mail', 'Hello,\n\nnothing is quoted here.', 'Hello,\n\nnothing is quoted here.'],
    ['of an empty mail', ' \n', null],
  ])('%s', (_, plain, expected) => {
    expect(readReplyText(plain)).toBe(expected);
  });

  test.each([
    'New contact form submission\n\nFrom: Ada <ada@example.com>\nSubject: Question\nDate: 3 March 2026\n\nHow much is it?',
    'Hi,\n\nThe customer said at 10:30 on 3 March 2026:\nthe server is down.\n\nCan you look at it?',
  ])('of a mail that answers none is all of it: %j', async (text) => {
    const bodyNew = async (...fields: string[]) => (await read(message(['From: a@x.y', ...fields], text))).bodyNew;
    expect(await bodyNew('Subject: [Shop] Contact')).toBe(text);
    const first = text.split('\n')[0];
    expect(await bodyNew('Subject: Re: Contact')).toBe(first);
    expect(await bodyNew('Subject: WG: Contact')).toBe(first);
    expect(await bodyNew('Subject: Contact', 'In-Reply-To: <1@x.y>')).toBe(first);
  });

  test.each(['> Lunch?', '-----Original Message-----\nFrom: Bo <bo@x.y>\n\nLunch?', 'Bo <bo@x.y> wrote:\n> Lunch?'])(
    'of a mail that answers none ends above %j',
    async (quote) => {
      expect((await read(message(['From: a@x.y', 'Subject: Lunch'], `Yes.\n\n${quote}`))).bodyNew).toBe('Yes.');
    },
  );

  test('takes no time for any text', () => {
    const texts = [
      'On '.repeat(20_000),
      '> '.repeat(30_000),
      '-'.repeat(60_000),
      'a\n'.repeat(30_000),
      'On x\n'.repeat(12_000),
      '_\n'.repeat(30_000),
    ];
    expectCpuBelow(1_500, () => texts.map((text) => readReplyText(text)));
  });
});

describe('an invitation', () => {
  const calendar = (...lines: string[]) =>
    message(
      ['Content-Type: text/calendar; charset=utf-8; method=REQUEST'],
      ['BEGIN:VCALENDAR', 'METHOD:REQUEST', 'BEGIN:VEVENT', ...lines, 'END:VEVENT', 'END:VCALENDAR', ''].join('\r\n'),
    );

  test('gives its event', async () => {
    const source = calendar(
      'UID:1@x.y',
      'DTSTART:20240705T100000Z',
      'DURATION:PT90M',
      'ORGANIZER;CN=Ann:mailto:ann@x.y',
      'ATTENDEE;CN=Bo;PARTSTAT=accepted:MAILTO:bo@x.y',
      'ATTENDEE:mailto:cy@x.y',
    );
    expect((await read(source)).calendar).toEqual({
      method: 'REQUEST',
      uid: '1@x.y',
      summary: null,
      location: null,
      status: null,
      start: '2024-07-05T10:00:00.000Z',
      end: '2024-07-05T11:30:00.000Z',
      time_zone: 'UTC',
      recurrence: [],
      organizer: 'ann@x.y',
      attendees: [
        { address: 'bo@x.y', status: 'ACCEPTED' },
        { address: 'cy@x.y', status: null },
      ],
    });
  });

  test('of a day has no time', async () => {
    const { calendar: event } = await read(
      calendar('UID:1', 'DTSTART;VALUE=DATE:20240705', 'DTEND;VALUE=DATE:20240706'),
    );
    expect(event).toMatchObject({ start: '2024-07-05', end: '2024-07-06', organizer: null, attendees: [] });
  });

  test('in the alternatives of a fixture is found', async () => {
    expect((await readFixture('calendar')).calendar).not.toBeNull();
    expect((await readFixture('plain')).calendar).toBeNull();
  });

  test.each(['', 'no calendar', 'BEGIN:VCALENDAR', 'BEGIN:VCALENDAR\r\nEND:VCALENDAR', '\0\xff'])(
    '%j fails no mail',
    async (body) => {
      expect((await read(message(['Content-Type: text/calendar'], body))).calendar).toBeNull();
    },
  );
});

describe('the mailing list of a mail', () => {
  const HTTPS = '<https://x.test/u?a=(1)>';
  test.each<[string[], unknown]>([
    [[], null],
    [
      ['List-Id: News of <X> <News.Example.test>'],
      { id: 'news.example.test', unsubscribe: [], unsubscribe_post: false },
    ],
    [
      ['List-Id: =?utf-8?Q?Gr=C3=BC=C3=9Fe?= (all) <', ' a.b >'],
      { id: 'a.b', unsubscribe: [], unsubscribe_post: false },
    ],
    [['List-Id: a.b'], { id: 'a.b', unsubscribe: [], unsubscribe_post: false }],
    [['List-Id: our news'], null],
    [[`List-Id: <${'x'.repeat(300)}>`], null],
    [
      [`List-Unsubscribe: (or <a>) <mailto:u@x.test?subject=u>,`, ` ${HTTPS}`],
      { id: null, unsubscribe: ['mailto:u@x.test?subject=u', 'https://x.test/u?a=(1)'], unsubscribe_post: false },
    ],
    [
      ['List-Unsubscribe: <https://x.test/a', '\tb>', 'List-Unsubscribe-Post: list-unsubscribe=one-click'],
      { id: null, unsubscribe: ['https://x.test/ab'], unsubscribe_post: true },
    ],
    [
      ['List-Unsubscribe: <http://x.test/>', 'List-Unsubscribe-Post: List-Unsubscribe=One-Click'],
      { id: null, unsubscribe: ['http://x.test/'], unsubscribe_post: false },
    ],
    [
      [`List-Unsubscribe: ${HTTPS}`, 'List-Unsubscribe-Post: yes'],
      { id: null, unsubscribe: ['https://x.test/u?a=(1)'], unsubscribe_post: false },
    ],
    [['List-Unsubscribe: <javascript:alert(1)>, <data:x>, <https:>, https://bare.test/'], null],
    [['List-Unsubscribe-Post: List-Unsubscribe=One-Click'], null],
    [
      [
        'List-Unsubscribe: =?utf-8?q?=3Chttps=3A//x=2Etest/u=3Fa=3D?=',
        ' =?utf-8?q?b=3E=2C_=3Cmailto=3Au=40x=2Etest=3E?=',
      ],
      { id: null, unsubscribe: ['https://x.test/u?a=b', 'mailto:u@x.test'], unsubscribe_post: false },
    ],
    [['List-Id: =?utf-8?q?News_=3CA=2Eb=3E?='], { id: 'a.b', unsubscribe: [], unsubscribe_post: false }],
  ])('%j is %j', async (lines, expected) => {
    expect((await read(message(['From: a@x.y', ...lines]))).list).toEqual(expected);
  });

  test('takes no time for any header', () =>
    expectCpuBelow(2_000, () =>
      ['(', '<', '"', '<(', '"(', '\\"(', '"(\\'].map((piece) =>
        readMailingList([
          { name: 'List-Id', key: 'list-id', raw: piece.repeat(100_000) },
          { name: 'List-Unsubscribe', key: 'list-unsubscribe', raw: piece.repeat(100_000) },
        ]),
      ),
    ));
});

const EXCHANGE = ['auto-submitted: auto-generated', 'In-Reply-To: <sent@x.y>'];
const SOURCE = 'x-ms-exchange-generated-message-source';

describe('what programs send', () => {
  test.each<[string[], string | null]>([
    [['Auto-Submitted: auto-replied'], 'auto_reply'],
    [['X-Autoreply: yes'], 'auto_reply'],
    [['Precedence: auto_reply'], 'auto_reply'],
    [['Auto-Submitted: auto-generated'], null],
    [[...EXCHANGE, 'X-Auto-Response-Suppress: All', `${SOURCE}: Mailbox Rules Agent`], 'auto_reply'],
    [
      [...EXCHANGE, 'X-Auto-Response-Suppress: DR, OOF, AutoReply', 'X-MS-Exchange-Inbox-Rules-Loop: a@x.y'],
      'auto_reply',
    ],
    [[...EXCHANGE, 'X-Auto-Response-Suppress: All', 'X-MS-Exchange-Parent-Message-Id: <sent@x.y>'], 'auto_reply'],
    // a rule that forwards mail
    [[...EXCHANGE, `${SOURCE}: Mailbox Rules Agent`, 'X-MS-Exchange-Inbox-Rules-Loop: a@x.y'], null],
    // notifications of GitLab, and agents' answers that ticket systems send
    [[...EXCHANGE, 'X-Auto-Response-Suppress: All'], null],
    [['X-Auto-Response-Suppress: All', `${SOURCE}: Mailbox Rules Agent`], null],
    [['Precedence: bulk'], null],
    [[], null],
  ])('%j is marked %j', async (lines, expected) => {
    expect((await read(message(['From: a@x.y', ...lines]))).autoReply).toBe(expected);
  });

  test('a read receipt is marked', async () => {
    expect((await readFixture('read-receipt')).autoReply).toBe('read_receipt');
  });

  test('a report of failed authentication (RFC 6591) is not a complaint', async () => {
    const report = 'Feedback-Type: auth-failure\r\nUser-Agent: Loop/1.0\r\nVersion: 1\r\nAuth-Failure: dkim';
    const mail = await read(
      message(
        ['From: reports@isp.example', 'Content-Type: multipart/report; report-type=feedback-report; boundary=b'],
        `--b\r\nContent-Type: text/plain\r\n\r\nA report.\r\n--b\r\nContent-Type: message/feedback-report\r\n\r\n${report}\r\n--b--`,
      ),
    );
    expect([mail.complaint, mail.bounce]).toEqual([null, null]);
  });

  test('a complaint names the mail and the recipient', async () => {
    const part = (type: string, content: string) => `--b\r\nContent-Type: ${type}\r\n\r\n${content}\r\n`;
    const report =
      'Feedback-Type: abuse\r\nUser-Agent: Loop/1.0\r\nVersion: 1\r\nOriginal-Rcpt-To: <gone@example.org>\r\nSource-IP: 192.0.2.1';
    const mail = await read(
      message(
        ['From: fbl@isp.example', 'Content-Type: multipart/report; report-type=feedback-report; boundary=b'],
        `${part('text/plain', 'An abuse report.')}${part('message/feedback-report', report)}${part('message/rfc822', 'Message-ID: <ours@x.y>\r\n\r\nx')}--b--`,
      ),
    );
    expect(mail.bounce).toBeNull();
    expect(mail.complaint).toEqual({
      feedbackType: 'abuse',
      recipient: 'gone@example.org',
      sourceIp: '192.0.2.1',
      userAgent: 'Loop/1.0',
      messageIds: ['<ours@x.y>'],
    });
  });
});
