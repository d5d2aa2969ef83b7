import { describe, expect, test } from '@jest/globals';
import { type BounceFacts, readBounce } from '../../src/mime/bounces.ts';
import { message, read, readFixture } from './read-fixture.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';

const facts = (known: Partial<BounceFacts>): BounceFacts => ({
  from: 'ann@example.org',
  returnPath: '',
  subject: 'Hello',
  contentType: 'text/plain',
  failedRecipients: '',
  autoReplied: false,
  inReplyTo: [],
  references: [],
  bodyPlain: '',
  parts: [],
  ...known,
});

/** A report about several recipients that returns a mail as `returned` says. */
function report(status: string, returned: string, recipients: string[][]): Buffer {
  const original = ['From: bo@example.net', 'Subject: Hello', 'Message-ID: <orig-2@example.net>'].join('\r\n');
  const groups = [['Reporting-MTA: dns; mx.example.net'], ...recipients].map((group) => group.join('\r\n'));
  const part = (type: string, content: string) => `--d\r\nContent-Type: ${type}\r\n\r\n${content}\r\n`;
  const head = ['From: Mail <noreply@mx.example.net>', 'To: bo@example.net', 'Subject: Your mail'];
  const body = [
    part('text/plain', 'Sorry.'),
    part(status, groups.join('\r\n\r\n')),
    part(returned, `${original}\r\n\r\n`),
  ];
  return message([...head, 'Content-Type: multipart/report; boundary="d"'], `${body.join('')}--d--\r\n`);
}

describe('the report of a bounce', () => {
  test.each([
    [
      'postfix',
      'gone@example.org',
      'failed',
      '5.1.1',
      '550 5.1.1 <gone@example.org>: Recipient address rejected: User unknown',
    ],
    [
      'exchange',
      'gone@example.org',
      'failed',
      '5.1.10',
      '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup',
    ],
    [
      'gmail',
      'gone@example.org',
      'failed',
      '5.1.1',
      '550-5.1.1 The email account that you tried to reach does not exist.',
    ],
    ['delayed', 'info@example.org', 'delayed', '4.4.1', 'connect to mx.example.org: Connection timed out'],
    ['exim', 'gone@example.org', 'failed', '5.1.1', expect.stringContaining('550 5.1.1 User unknown')],
    ['qmail', 'gone@example.org', 'failed', '5.1.1', expect.stringContaining('550 5.1.1 unknown user')],
  ])('%s', async (name, recipient, action, status, diagnostic) => {
    const { bounce } = await readFixture(`bounce-${name}`);
    const recipients = [{ address: recipient, action, status, diagnostic }];
    expect(bounce).toEqual({ recipient, action, status, diagnostic, recipients, messageIds: ['<orig-1@example.net>'] });
  });

  test.each([
    ['rfc822; gone@x.y (Bob)', 'gone@x.y'],
    ['rfc822; (the (old) list) <gone@x.y>', 'gone@x.y'],
    ['rfc822; "a (b)"@x.y', '"a (b)"@x.y'],
    ['utf-8; j\\x{F6}rg\\x{1F37A}@b\\x{FC}cher.example (J\\x{F6}rg)', 'jörg🍺@bücher.example'],
    ['utf-8; a\\x{110000}@x.y', 'a\\x{110000}@x.y'],
    ['rfc822; a\\x{F6}@x.y', 'a\\x{F6}@x.y'],
  ])('the recipient of %s', (field, recipient) => {
    const text = `Reporting-MTA: dns; mx\r\n\r\nFinal-Recipient: ${field}\r\nAction: failed\r\nStatus: 5.1.1`;
    expect(readBounce(facts({ parts: [{ mime: 'message/delivery-status', text }] }))?.recipient).toBe(recipient);
  });

  test('of several recipients the one that failed', () => {
    const text = [
      'Reporting-MTA: dns; mx',
      '',
      'Final-Recipient: rfc822; fine@x.y',
      'Action: delivered',
      'Status: 2.0.0',
      '',
      'Final-Recipient: rfc822; gone@x.y',
      'Action: failed (mailbox unknown)',
      'Status: 5.1.1 (bad)',
    ].join('\r\n');
    expect(readBounce(facts({ parts: [{ mime: 'message/delivery-status', text }] }))).toMatchObject({
      recipient: 'gone@x.y',
      action: 'failed',
      status: '5.1.1',
      diagnostic: null,
      messageIds: [],
    });
  });

  test('the answered message replaces a missing original', () => {
    const bounce = readBounce(facts({ from: 'postmaster@x.y', inReplyTo: ['<o@x>'], references: ['<r@x>', '<o@x>'] }));
    expect(bounce?.messageIds).toEqual(['<o@x>']);
    expect(readBounce(facts({ from: 'postmaster@x.y', references: ['<r@x>', '<o@x>'] }))?.messageIds).toEqual([
      '<o@x>',
    ]);
  });

  test('all that may be its Message-ID, the likeliest first', () => {
    const headers = [
      'Received: by relay.example; Tue, 5 Mar 2024 09:00:00 +0100',
      'Message-ID: <given-by-the-relay@relay.example>',
      'X-Google-Original-Message-ID: <ours@example.net>',
      'References: <thread@example.net>',
      '',
      'Message-ID: <in-its-text@example.net>',
    ].join('\r\n');
    const bounce = readBounce(
      facts({
        inReplyTo: ['<answered@example.net>', '<further@example.net>'],
        bodyPlain: 'Below is the header:\n\n  > Message-Id:\n <quoted@example.net>\n',
        parts: [
          {
            mime: 'message/delivery-status',
            text: 'X-Original-Message-ID: <reported@example.net>\r\n\r\nAction: failed',
          },
          { mime: 'text/rfc822-headers', text: headers },
        ],
      }),
    );
    expect(bounce?.messageIds).toEqual([
      '<given-by-the-relay@relay.example>',
      '<ours@example.net>',
      '<reported@example.net>',
      '<quoted@example.net>',
      '<answered@example.net>',
    ]);
  });

  test('is found in time in any text', () => {
    const texts = ['Message-ID:' + ' '.repeat(200_000), 'X-' + 'a-'.repeat(100_000), '<'.repeat(200_000)];
    const read = (text: string) =>
      readBounce(facts({ from: 'postmaster@x.y', bodyPlain: text, parts: [{ mime: 'message/rfc822', text }] }));
    const all = texts.flatMap((one) => [one, `Message-ID: ${one}`, `> ${one}\n`.repeat(2)]);
    expectCpuBelow(2_000, () => all.map(read));
  });

  test.each([
    [
      'Postfix: the headers alone, one of several recipients',
      report('message/delivery-status', 'text/rfc822-headers', [
        ['Final-Recipient: rfc822; fine@example.org', 'Action: relayed', 'Status: 2.0.0'],
        [
          'Final-Recipient: rfc822; forwarded@example.com',
          'Original-Recipient: rfc822;gone@example.org',
          'Action: failed',
          'Status: 5.0.0',
          'Diagnostic-Code: x-unix; user',
          '    unknown',
        ],
        ['Final-Recipient: rfc822; full@example.org', 'Action: failed', 'Status: 5.2.2'],
      ]),
      { recipient: 'gone@example.org', action: 'failed', status: '5.0.0', diagnostic: 'user unknown' },
    ],
    [
      'Exim: a status part without a status',
      report('message/delivery-status', 'message/rfc822', [
        [
          'Action: failed',
          'Final-Recipient: rfc822;gone@example.org',
          'Status: 5.0.0',
          'Remote-MTA: dns; mx.example.org',
          'Diagnostic-Code: smtp; 550 No such person here',
        ],
      ]),
      { recipient: 'gone@example.org', action: 'failed', status: '5.0.0', diagnostic: '550 No such person here' },
    ],
    [
      'Exchange: an internationalised report',
      report('message/global-delivery-status', 'message/global-headers', [
        [
          'Original-Recipient: utf-8;gone@example.org',
          'Final-Recipient: utf-8;gone@example.org',
          'Action: failed',
          'Status: 5.1.10',
          'Diagnostic-Code: smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound',
        ],
      ]),
      {
        recipient: 'gone@example.org',
        action: 'failed',
        status: '5.1.10',
        diagnostic: '550 5.1.10 RESOLVER.ADR.RecipientNotFound',
      },
    ],
    [
      'Sendmail: hours of attempts are a delay',
      report('message/delivery-status', 'text/rfc822-headers', [
        [
          'Final-Recipient: RFC822; slow@example.org',
          'Action: delayed',
          'Status: 4.2.0',
          'Diagnostic-Code: SMTP; 450 4.2.0 Greylisted',
          'Will-Retry-Until: Sun, 10 Mar 2024 09:00:00 +0100',
        ],
      ]),
      { recipient: 'slow@example.org', action: 'delayed', status: '4.2.0', diagnostic: '450 4.2.0 Greylisted' },
    ],
  ])('%s', async (_, source, expected) => {
    const { bounce } = await read(source);
    expect(bounce).toEqual({ ...expected, recipients: expect.any(Array), messageIds: ['<orig-2@example.net>'] });
    const { recipient: address, ...rest } = expected;
    expect(bounce?.recipients[0]).toEqual({ address, ...rest });
  });

  test('an empty or broken report is a bounce without details', () => {
    for (const text of ['', '\0\xff', ':::\n\n:', 'Action:\nStatus:\nFinal-Recipient:']) {
      expect(readBounce(facts({ parts: [{ mime: 'message/delivery-status', text }] }))).toEqual({
        recipient: null,
        action: null,
        status: null,
        diagnostic: null,
        recipients: [],
        messageIds: [],
      });
    }
  });
});

describe('every recipient', () => {
  const status = [
    'Reporting-MTA: dns; mx',
    ['Final-Recipient: rfc822; fine@x.y', 'Action: relayed', 'Status: 2.0.0'].join('\r\n'),
    ['Final-Recipient: rfc822; slow@x.y', 'Action: delayed', 'Status: 4.4.1'].join('\r\n'),
    ['Final-Recipient: rfc822; gone@x.y', 'Action: failed', 'Status: 5.1.1', 'Diagnostic-Code: smtp; 550 no'].join(
      '\r\n',
    ),
  ].join('\r\n\r\n');

  test('of a delivery report is listed, failed ones first', () => {
    expect(readBounce(facts({ parts: [{ mime: 'message/delivery-status', text: status }] }))?.recipients).toEqual([
      { address: 'gone@x.y', action: 'failed', status: '5.1.1', diagnostic: '550 no' },
      { address: 'slow@x.y', action: 'delayed', status: '4.4.1', diagnostic: null },
      { address: 'fine@x.y', action: 'relayed', status: '2.0.0', diagnostic: null },
    ]);
  });

  test('a report of successful delivery is not a bounce', () => {
    const text =
      'Reporting-MTA: dns; mx\r\n\r\nFinal-Recipient: rfc822; fine@x.y\r\nAction: delivered\r\nStatus: 2.0.0';
    expect(
      readBounce(facts({ from: 'mailer-daemon@x.y', parts: [{ mime: 'message/delivery-status', text }] })),
    ).toBeNull();
  });

  test.each<[string, string, string[]]>([
    [
      'qmail',
      '<a@x.y>:\n550 5.1.1 no\n\n<b@x.y>:\nuser over quota\n\n--- Below this line is a copy of the message.\n\nTo: c@x.y',
      ['a@x.y', 'b@x.y'],
    ],
    [
      'Exim',
      'The following addresses failed:\n\n  a@x.y\n    unknown user\n  b@x.y\n    mailbox full',
      ['a@x.y', 'b@x.y'],
    ],
    [
      'OpenSMTPD',
      '    the following list of recipients:\n\na@x.y: 550 5.1.1 no\nb@x.y: Envelope expired\n\n    Below is a copy of the original message:\n\nc@x.y: z',
      ['a@x.y', 'b@x.y'],
    ],
    [
      'DragonFly',
      'There was an error delivering your mail to <a@x.y>.\n\nmx.x.y did not like our RCPT TO:\n550 5.1.1 no',
      ['a@x.y'],
    ],
    [
      'Exchange',
      'Your message\n\n  To:      c@x.y\n\ndid not reach the following recipient(s):\n\na@x.y on Thu, 29 Apr 2010\n    The recipient name is not recognized',
      ['a@x.y'],
    ],
    [
      'Office 365',
      'Delivery has failed to these recipients or groups:\n\na@x.y<mailto:a@x.y>\nThe address was not found.',
      ['a@x.y'],
    ],
    ['Gmail', "Your message wasn't delivered to a@x.y because the address couldn't be found.", ['a@x.y']],
    [
      'Yahoo',
      'Sorry, we were unable to deliver your message to the following address.\n\n<a@x.y>:\n550: 5.1.1 no',
      ['a@x.y'],
    ],
    [
      'Domino',
      'Your message\n\n  Subject: Test\n\nwas not delivered to:\n\n  a@x.y\n\nbecause:\n\n  User unknown',
      ['a@x.y'],
    ],
    [
      'Sendmail',
      '   ----- The following addresses had permanent fatal errors -----\n<a@x.y>\n    (reason: 550 no)\n\n   ----- Transcript of session follows -----\n>>> RCPT To:<a@x.y>\n<<< 550 no',
      ['a@x.y'],
    ],
    [
      'X-mailer with bullets',
      'Delivery to the following recipients failed permanently:\n\n   * a@x.y\n   * b@x.y',
      ['a@x.y', 'b@x.y'],
    ],
    ['a transcript alone', 'Mail failed.\n>>> RCPT TO:<a@x.y>\n<<< 550 <a@x.y>: User unknown', ['a@x.y']],
    [
      'only the copy of the mail',
      'It did not work.\n\n--- Original message follows ---\n\nFrom: me@x.y\nTo: a@x.y\nSubject: s',
      ['a@x.y'],
    ],
    [
      'the copy of a mail for two',
      'It did not work.\n\n--- Original message follows ---\n\nFrom: me@x.y\nTo: a@x.y, b@x.y\nSubject: s',
      [],
    ],
  ])('of the text of %s is given', (_, bodyPlain, expected) => {
    const bounce = readBounce(facts({ from: 'mailer-daemon@x.y', bodyPlain, to: ['me@x.y'] }));
    expect(bounce?.recipients.map(({ address }) => address)).toEqual(expected);
  });

  test('of X-Failed-Recipients is listed', () => {
    const bounce = readBounce(facts({ failedRecipients: 'a@b.c, <d@e.f>' }));
    expect(bounce?.recipients.map(({ address, action }) => [address, action])).toEqual([
      ['a@b.c', 'failed'],
      ['d@e.f', 'failed'],
    ]);
  });

  test('with further attempts is delayed, not failed', () => {
    const bodyPlain =
      'THIS IS A WARNING MESSAGE ONLY.\n\nDelivery to the following recipient has been delayed:\n\n     a@x.y\n\nMessage will be retried for 2 more day(s)';
    const subject = 'Delivery Status Notification (Delay)';
    expect(readBounce(facts({ from: 'mailer-daemon@x.y', subject, bodyPlain }))).toMatchObject({
      recipient: 'a@x.y',
      action: 'delayed',
    });
  });
});

const REPORT = 'Your message could not be delivered to:\n\n<gone@example.org>: 550 5.1.1 User unknown';

describe('a bounce is', () => {
  test.each<[string, Partial<BounceFacts>]>([
    ['a delivery-status part', { parts: [{ mime: 'message/delivery-status', text: '' }] }],
    ['an internationalised one', { parts: [{ mime: 'message/global-delivery-status', text: '' }] }],
    ['a report type', { contentType: 'multipart/report; boundary=x; report-type="delivery-status"' }],
    ['from mailer-daemon', { from: 'MAILER-DAEMON@mx.example.org' }],
    ['from a bare mailer-daemon', { from: 'Mailer-Daemon' }],
    ['from postmaster', { from: 'postmaster@example.org' }],
    ['returned to mailer-daemon', { returnPath: '<MAILER-DAEMON>' }],
    ['X-Failed-Recipients', { failedRecipients: 'a@b.c, d@e.f' }],
    ['a failure subject over a report', { subject: 'Undeliverable: Your order', bodyPlain: REPORT }],
    ["qmail's subject over a report", { subject: 'failure notice', bodyPlain: REPORT }],
    ['a German failure subject over a report', { subject: 'Unzustellbar: Rechnung', bodyPlain: REPORT }],
    [
      'a failure subject with the mail attached, from a null sender',
      { subject: 'Undeliverable: x', returnPath: '<>', parts: [{ mime: 'message/rfc822', text: 'To: a@x.y' }] },
    ],
    ['a report from a null sender, with any subject', { subject: 'Hello', returnPath: '<>', bodyPlain: REPORT }],
    [
      'an automatic reply that is a delivery report',
      { autoReplied: true, parts: [{ mime: 'message/delivery-status', text: '' }] },
    ],
    ['an automatic reply from mailer-daemon, as Exim sends it', { autoReplied: true, from: 'mailer-daemon@x.y' }],
  ])('%s', (_, known) => {
    expect(readBounce(facts(known))).not.toBeNull();
  });
});

describe('not a bounce:', () => {
  test.each<[string, Partial<BounceFacts>]>([
    ['an ordinary mail', {}],
    ['a feedback report', { from: 'postmaster@isp.example', parts: [{ mime: 'message/feedback-report', text: '' }] }],
    [
      'a feedback report by type',
      { from: 'mailer-daemon@x.y', contentType: 'multipart/report; report-type=feedback-report' },
    ],
    ['an auto-reply with such a subject', { subject: 'Undeliverable: Hello', autoReplied: true }],
    ['a reply to a failure notice', { subject: 'Re: Undelivered Mail Returned to Sender' }],
    ['a mail about failures', { subject: 'Our failure notices and you' }],
    ['a sender whose name begins so', { from: 'postmaster-general@example.org' }],
    ['a read receipt', { contentType: 'multipart/report; report-type=disposition-notification' }],
    ['a null return path alone', { returnPath: '<>' }],
    [
      'a parcel that was not delivered',
      { subject: 'Delivery failed: your parcel 123', bodyPlain: 'Our driver could not deliver your parcel.' },
    ],
    ['a failure subject alone', { subject: 'Undeliverable: Your order' }],
    [
      'an automatic reply with Return-Path: <MAILER-DAEMON>',
      { returnPath: '<MAILER-DAEMON>', autoReplied: true, autoSubmitted: true },
    ],
    [
      'a read receipt with Return-Path: <MAILER-DAEMON>',
      { returnPath: '<MAILER-DAEMON>', parts: [{ mime: 'message/disposition-notification', text: '' }] },
    ],
    [
      'an out-of-office notice of a postmaster',
      { from: 'postmaster@x.y', autoReplied: true, bodyPlain: 'I am away until Monday.' },
    ],
    [
      'a forwarded bounce',
      { subject: 'Fwd: Undelivered Mail', bodyPlain: REPORT, parts: [{ mime: 'message/rfc822', text: '' }] },
    ],
  ])('%s', (_, known) => {
    expect(readBounce(facts(known))).toBeNull();
  });

  test.each(['feedback-report', 'auto-reply', 'read-receipt', 'plain'])('%s.eml', async (name) => {
    expect((await readFixture(name)).bounce).toBeNull();
  });
});
