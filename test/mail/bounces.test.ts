import { describe, expect, test } from '@jest/globals';
import { type BounceFacts, readBounce } from '../../src/mail/bounces.ts';
import { readFixture } from './read-fixture.ts';

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
    expect(bounce).toEqual({ recipient, action, status, diagnostic, messageId: '<orig-1@example.net>' });
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
      messageId: null,
    });
  });

  test('the answered message stands in for a missing original', () => {
    const bounce = readBounce(facts({ from: 'postmaster@x.y', inReplyTo: ['<o@x>'], references: ['<r@x>', '<o@x>'] }));
    expect(bounce?.messageId).toBe('<o@x>');
    expect(readBounce(facts({ from: 'postmaster@x.y', references: ['<r@x>', '<o@x>'] }))?.messageId).toBe('<o@x>');
  });

  test('an empty or broken report is a bounce of which nothing is known', () => {
    for (const text of ['', '\0\xff', ':::\n\n:', 'Action:\nStatus:\nFinal-Recipient:']) {
      expect(readBounce(facts({ parts: [{ mime: 'message/delivery-status', text }] }))).toEqual({
        recipient: null,
        action: null,
        status: null,
        diagnostic: null,
        messageId: null,
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
