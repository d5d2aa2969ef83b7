import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ParsedMail } from '../../src/mime/read/parsed-mail.ts';
import { minimalMail, readMessage } from '../../src/mime/read/read-message.ts';

/** Mails that make what is read of them costly, or what cannot be stored. */

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'hostile-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const read = (text: string): Promise<ParsedMail> =>
  readMessage(Buffer.from(text), { isTimeUp: () => false, spillDir: join(dir, 'spill') });
const mail = (head: string, body: string) => `From: a@x.test\r\nSubject: s\r\n${head}\r\n${body}`;
const calendar = (lines: string[]) =>
  mail(
    'Content-Type: text/calendar; charset=utf-8\r\n',
    ['BEGIN:VCALENDAR', 'VERSION:2.0', ...lines, 'END:VCALENDAR', ''].join('\r\n'),
  );

/** Whether every text of it can be stored as JSON. */
function isStorable(value: unknown): boolean {
  // a lone surrogate is escaped in JSON
  return !/\\ud[89a-f]|\\u0000/i.test(JSON.stringify(value));
}

describe('texts are cut between characters', () => {
  it.each([
    ['a message id', mail(`Message-ID: <${'a'.repeat(599)}😀@x>\r\n`, 'x')],
    [
      'the uid of an invitation',
      calendar(['BEGIN:VEVENT', `UID:${'a'.repeat(999)}😀`, 'DTSTART:20240101T100000Z', 'END:VEVENT']),
    ],
    [
      'the diagnostic of a report',
      mail(
        'MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\r\n',
        `--b\r\nContent-Type: text/plain\r\n\r\nfailed\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x\r\n\r\nFinal-Recipient: rfc822; n@x.test\r\nAction: failed\r\nStatus: 5.1.1\r\nDiagnostic-Code: smtp; ${'a'.repeat(1999)}😀\r\n--b--\r\n`,
      ),
    ],
  ])('%s', async (_, text) => {
    const { bounce, calendar: event, messageId, complaint } = await read(text);
    expect([bounce, event, messageId, complaint].map(isStorable)).toEqual([true, true, true, true]);
  });
});

describe('characters that cannot be stored are replaced', () => {
  const html = (text: string) => mail('Content-Type: text/html\r\n', text);
  it.each([
    ['in HTML that is only stripped', html(`${'<div>'.repeat(3_000)}&#xDC00;&#0; end`)],
    ['in a subject', mail('Subject: x\r\n', '').replace('Subject: s', `Subject: ${'a'.repeat(9_999)}😀`)],
    [
      'in the Content-ID of a file',
      mail(
        'Content-Type: multipart/mixed; boundary=b\r\n',
        `--b\r\nContent-Type: image/png\r\nContent-ID: <${'a'.repeat(997)}😀>\r\n\r\nx\r\n--b--\r\n`,
      ),
    ],
  ])('%s', async (_, text) => {
    const found = await read(text);
    expect(isStorable({ ...found, attachments: found.attachments.map(({ cid, name }) => [cid, name]) })).toBe(true);
  });

  it('and the text around them is kept', async () => {
    const { bodyPlain } = await read(html(`${'<div>'.repeat(3_000)}before &#xDC00;&#128512; after`));
    expect(bodyPlain).toContain('before \ufffd\u{1f600} after');
  });

  it('in a mail of which the header alone is read', () => {
    const found = minimalMail(Buffer.from(`Subject: ${'a'.repeat(999)}😀\r\nX-Y: ${'\0'}\r\n\r\n`));
    expect([isStorable(found), found.subject.length]).toEqual([true, 1000]);
  });
});

describe('a costly invitation is ignored', () => {
  const event = ['BEGIN:VEVENT', 'UID:1', 'DTSTART;TZID=X:20240101T100000', 'END:VEVENT'];
  it.each([
    [
      'a zone that changes every second',
      [
        ...['BEGIN:VTIMEZONE', 'TZID:X', 'BEGIN:STANDARD', 'DTSTART:19700101T000000', 'TZOFFSETFROM:+0100'],
        ...['TZOFFSETTO:+0100', 'RRULE:FREQ=SECONDLY', 'END:STANDARD', 'END:VTIMEZONE', ...event],
      ],
    ],
    [
      'a duration of ages',
      ['BEGIN:VEVENT', 'UID:1', 'DTSTART:20240101T100000Z', 'DURATION:P9999999999W', 'END:VEVENT'],
    ],
  ])('%s', async (_, lines) => {
    expect((await read(calendar(lines))).calendar).toBeNull();
  });

  it('an ordinary time zone is read', async () => {
    const zone = [
      ...['BEGIN:VTIMEZONE', 'TZID:X', 'BEGIN:STANDARD', 'DTSTART:19961027T030000', 'TZOFFSETFROM:+0200'],
      ...['TZOFFSETTO:+0100', 'RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU', 'END:STANDARD', 'END:VTIMEZONE'],
    ];
    expect((await read(calendar([...zone, ...event]))).calendar).toMatchObject({ start: '2024-01-01T09:00:00.000Z' });
  });
});

describe('the text that its author wrote', () => {
  const newOf = async (text: string) => (await read(mail('Content-Type: text/plain\r\n', text))).bodyNew;
  it('is found behind thousands of blank lines', async () => {
    expect(await newOf(`${'\n'.repeat(20_000)}x`)).toBe('x');
  });
  it('is not cut at a rule', async () => {
    const text = 'Hi,\n\nagenda for today\n---\nPlease pay invoice 4711 by Friday.';
    expect(await newOf(text)).toBe(text);
  });
  it('has no quote at its end', async () => {
    expect(await newOf('Yes, agreed.\n\n> old text\n')).toBe('Yes, agreed.');
  });
});

describe('not a bounce', () => {
  it.each([
    [
      'a parcel that could not be delivered',
      'From: info@dhl.test\r\nTo: me@example.com\r\nSubject: Delivery failed: your parcel 123\r\n\r\nYour parcel could not be delivered today.\r\nThis email was sent to me@example.com\r\n',
    ],
    [
      'a price',
      'Return-Path: <>\r\nFrom: shop@x.test\r\nTo: me@example.com\r\nSubject: Receipt\r\n\r\nYour account me@example.com was charged.\r\nYou paid 450 EUR.\r\n',
    ],
    [
      'an aggregate report of DMARC',
      'From: postmaster@x.test\r\nSubject: Dmarc Aggregate Report Domain: {example.com}  Submitter: {x.test}\r\n\r\nsee the file\r\n',
    ],
  ])('%s', async (_, text) => {
    expect((await read(text)).bounce).toBeNull();
  });
});

it('a large text in base64 keeps the footer of a list behind it, and what follows', async () => {
  const text = 'a line of a log\n'.repeat(700_000);
  const encoded = Buffer.from(text).toString('base64').replace(/.{76}/g, '$&\r\n');
  const { bodyPlain, attachments } = await read(
    mail(
      'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n',
      `--b\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n${encoded}\r\n_____\r\nlist footer!\r\n--b\r\nContent-Type: application/pdf; name=a.pdf\r\n\r\nx\r\n--b--\r\n`,
    ),
  );
  expect(bodyPlain).toContain('a line of a log');
  expect(attachments.map(({ name }) => name)).toEqual(['a.pdf']);
});
