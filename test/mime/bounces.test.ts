import { describe, expect, test } from '@jest/globals';
import { type BounceFacts, readBounce } from '../../src/mime/bounces.ts';
import { message, read, readFixture } from './read-fixture.ts';
import { expectCpuBelow } from '../helpers/cpu.ts';

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

describe('what a bounce reports', () => {
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
    expect(bounce).toEqual({ recipient, action, status, diagnostic, messageIds: ['<orig-1@example.net>'] });
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

  test('the answered message stands in for a missing original', () => {
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

  test('is found in time, whatever the text', () => {
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
      'Sendmail: what was tried for hours is delayed',
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
    expect((await read(source)).bounce).toEqual({ ...expected, messageIds: ['<orig-2@example.net>'] });
  });

  test('an empty or broken report is a bounce of which nothing is known', () => {
    for (const text of ['', '\0\xff', ':::\n\n:', 'Action:\nStatus:\nFinal-Recipient:']) {
      expect(readBounce(facts({ parts: [{ mime: 'message/delivery-status', text }] }))).toEqual({
        recipient: null,
        action: null,
        status: null,
        diagnostic: null,
        messageIds: [],
      });
    }
  });
});

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
    ['a failure subject', { subject: 'Undeliverable: Your order' }],
    ["qmail's subject", { subject: 'failure notice' }],
    ['a German failure subject', { subject: 'Unzustellbar: Rechnung' }],
  ])('%s', (_, known) => {
    expect(readBounce(facts(known))).not.toBeNull();
  });
});

describe('no bounce is', () => {
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
    ['somebody whose name begins so', { from: 'postmaster-general@example.org' }],
    ['a read receipt', { contentType: 'multipart/report; report-type=disposition-notification' }],
    ['a null return path alone', { returnPath: '<>' }],
  ])('%s', (_, known) => {
    expect(readBounce(facts(known))).toBeNull();
  });

  test.each(['feedback-report', 'auto-reply', 'read-receipt', 'plain'])('%s.eml', async (name) => {
    expect((await readFixture(name)).bounce).toBeNull();
  });
});
