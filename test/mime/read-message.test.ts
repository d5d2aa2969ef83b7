import { describe, expect, test } from '@jest/globals';
import { pageValues } from '../../src/db/queries/mail/email-page.ts';
import { hasAttachments } from '../../src/mime/parser.ts';
import type { ParsedMail } from '../../src/mime/read/parsed-mail.ts';
import { message, read, readFixture } from './read-fixture.ts';

const files = (mail: ParsedMail) =>
  mail.attachments.map(({ name, extension, size, mime, cid, inline }) => ({
    name,
    extension,
    size,
    mime,
    cid,
    inline,
  }));

describe('a plain mail', () => {
  test('gives every field', async () => {
    const mail = await readFixture('plain');
    expect(mail).toMatchObject({
      messageId: '<plain-1@example.org>',
      date: new Date('2024-03-05T08:15:30Z'),
      subject: 'Lunch on Friday?',
      from: { identifier: 'anna@example.org', display_name: 'Anna Berg', identifier_type: 'EMAIL_ADDRESS' },
      replyTo: [{ identifier: 'anna+reply@example.org' }],
      cc: [],
      bcc: [],
      inReplyTo: [],
      references: [],
      attachments: [],
      bounce: null,
      isPartial: false,
      tempDir: null,
      autoSubmitted: false,
      searchSubject: ' lunch on friday? ',
    });
    expect(mail.to.map((who) => who.identifier)).toEqual(['bo@example.net', 'cy@example.net', 'who@example.net']);
    expect(mail.bodyPlain).toBe('Hello Bo,\n\nlunch on Friday? See https://example.org/menu?a=1&b=2.\n\n  Anna <3\n');
    expect(mail.body).toContain('<a href="https://example.org/menu?a=1&amp;b=2">');
    expect(mail.searchText).toMatch(
      /^ lunch on friday\? anna berg anna@ example\. org bo lind .* hello bo, lunch .* anna < 3 $/,
    );
  });

  test.each(['https://xn--bcher-kva.example/shop', 'https://bücher.example/shop', 'mail@xn--bcher-kva.example'])(
    'is found by both forms of a domain, whichever its text has: %s',
    async (inText) => {
      const subject = `Subject: =?utf-8?q?${encodeURIComponent(inText).replaceAll('%', '=')}?=`;
      const headers = [subject, 'Content-Type: text/plain; charset=utf-8'];
      const { searchText } = await read(message(headers, `Hello\r\nsee ${inText}, and more\r\nbye`));
      const other = inText.includes('xn--')
        ? inText.replace('xn--bcher-kva', 'bücher')
        : inText.replace('bücher', 'xn--bcher-kva');
      for (const form of [inText, other]) {
        for (const q of [form, `see ${form}, and`, form.replace(/^.*[/@](?=[xb])|\/shop/g, ''), 'hello see']) {
          const { q: wanted } = pageValues('', { q }, null);
          expect([q, searchText.includes(wanted as string)]).toEqual([q, true]);
        }
      }
      const { searchText: ofSubject } = await read(message(headers));
      const { q: wanted } = pageValues('', { q: other }, null);
      expect(ofSubject).toContain(wanted);
    },
  );

  test('keeps all headers in order, unfolded, including repeated ones', async () => {
    const { headers } = await readFixture('plain');
    expect(headers.map((header) => header.name)).toEqual([
      ...['Return-Path', 'Received', 'Received', 'From', 'To', 'Cc', 'Reply-To', 'Subject', 'Message-ID', 'Date'],
      ...['MIME-Version', 'Content-Type'],
    ]);
    expect(headers[1]?.value).toBe(
      'from mx.example.org (mx.example.org [192.0.2.1]) by mail.example.net with ESMTPS; Tue, 5 Mar 2024 09:15:31 +0100',
    );
  });
});

describe('bodies', () => {
  test.each([
    [
      'alternative',
      'Grüße aus München, eine sehr lange Zeile die weich umbrochen wurde.',
      '<html><body><p>Grüße aus <b>München</b></p></body></html>',
    ],
    ['html-only', 'News\n\nOne & two\nthree\n\nSum 12\n\nmore <https://example.org/x>', null],
    ['inline-image', 'Our offer', '<p>Our offer <img src="cid:logo@shop"></p>'],
    [
      'list-footer',
      'Text body\n_____\nunsubscribe at example.net',
      '<p>HTML body</p><br/>\n<p>_____<br/>\nunsubscribe at example.net</p>',
    ],
    ['apple-mail', 'Before\nAfter', '<p>Before</p><br/>\n<p>After</p>'],
    ['calendar', 'Plan at ten', '<p>Plan at ten</p>'],
    ['flowed', 'This paragraph was wrapped by the program.\n> quoted text\n-- \nAnna\n', null],
    ['iso-2022-jp', '会議は月曜日です。\n', '<p>会議は月曜日です。</p>'],
    ['gbk', '会议在星期一。\n', null],
    ['koi8-r', 'Встреча в понедельник\n', null],
    ['shift-jis', 'テスト①です', null],
    ['utf-7', 'Grüße + mehr\n', null],
    ['raw-8bit-headers', 'naïve text without any declaration\n', null],
    ['nul-and-surrogates', 'ab\ufffd', '<p>ab\ufffd</p>'],
    ['no-boundary-found', 'the text that would be lost', '<p>the text that would be lost</p>'],
    ['truncated-base64', 'Hi', '<p>Hi</p>'],
    ['no-headers', 'just a body\n', '<p>just a body</p>'],
    ['header-only', '', ''],
  ])('of %s', async (name, plain, html) => {
    const mail = await readFixture(name);
    expect(mail.bodyPlain.trimEnd()).toBe(plain.trimEnd());
    if (html !== null) expect(mail.body).toBe(html);
  });

  test.each([
    ['charset that does not exist', 'text/plain; charset=x-nonsense', 'caf\xe9', 'caf'],
    ['Latin-1 in truth Windows-1252', 'text/plain; charset=iso-8859-1', '\x93quoted\x94 \x80', '“quoted” €'],
    ['UTF-8 that is Windows-1252', 'text/plain; charset=utf-8', 'caf\xe9', 'café'],
    ['HTML that names its charset itself', 'text/html', '<meta charset="koi8-r">\xf0\xd2', 'Пр'],
    ['bogus media type', 'text', 'still text', 'still text'],
    ['unclosed quote', 'text/plain; charset="utf-8', 'text', 'text'],
    [
      'multipart without a boundary',
      'multipart/mixed',
      '--x\r\nContent-Type: text/plain\r\n\r\ninside\r\n--x--',
      'inside',
    ],
    ['multipart without parts', 'multipart/mixed; boundary=x', 'nothing but a preamble', 'nothing but a preamble'],
    [
      'delimiter with padding',
      'multipart/mixed; boundary=x',
      '--x  \r\nContent-Type: text/plain\r\n\r\ninside\r\n--x--',
      'inside',
    ],
  ])('%s', async (_, type, body, expected) => {
    const raw = Buffer.from(`Content-Type: ${type}\r\nContent-Transfer-Encoding: 8bit\r\n\r\n${body}`, 'latin1');
    expect((await read(raw)).bodyPlain).toContain(expected);
  });

  test('empty alternatives fall back to the one that is filled', async () => {
    const mail = await read(
      message(
        ['Content-Type: multipart/alternative; boundary=b'],
        '--b\r\nContent-Type: text/plain\r\n\r\n \r\n--b\r\nContent-Type: text/html\r\n\r\n<p>Filled</p>\r\n--b--\r\n',
      ),
    );
    expect(mail).toMatchObject({ body: '<p>Filled</p>', bodyPlain: 'Filled' });
  });
});

describe('headers', () => {
  test.each([
    ['alternative', 'Grüße aus München 🍺'],
    ['iso-2022-jp', '会議のお知らせ'],
    ['gbk', '会议通知'],
    ['koi8-r', 'Привет'],
    ['utf-7', 'Grüße'],
    ['raw-8bit-headers', 'Grüße in UTF-8'],
    ['nul-and-surrogates', '\ufffdAnulhere'],
    ['no-headers', ''],
  ])('subject of %s', async (name, subject) => {
    expect((await readFixture(name)).subject).toBe(subject);
  });

  test('In-Reply-To and References are lists of ids', async () => {
    const mail = await readFixture('alternative');
    expect(mail.inReplyTo).toEqual(['<plain-1@example.org>']);
    expect(mail.references).toEqual(['<root@example.net>', '<plain-1@example.org>']);
  });

  test('ids of threads may be encoded words, as Python writes long ones', async () => {
    const mail = await read(
      message([
        'In-Reply-To: =?utf-8?q?=3Cparent-0123456789=40mail=2Ee?=',
        ' =?utf-8?q?xample=2Eorg=3E?=',
        'References: <root@example.org> =?utf-8?q?=3Cfirst=40x=2Ey=3E?=',
        ' =?utf-8?q?=3Cparent-0123456789=40mail=2Eexample=2Eorg=3E?=',
      ]),
    );
    const parent = '<parent-0123456789@mail.example.org>';
    expect(mail.inReplyTo).toEqual([parent]);
    expect(mail.references).toEqual(['<root@example.org>', '<first@x.y>', parent]);
  });

  test('of several Subjects, Dates and Message-IDs the first counts, and all are listed', async () => {
    const mail = await read(
      message(['Subject: one', 'Subject: two', 'Message-ID: <1@x>', 'Message-ID: <2@x>', 'To: a@x.y', 'To: b@x.y']),
    );
    expect(mail).toMatchObject({ subject: 'one', messageId: '<1@x>' });
    expect(mail.to).toHaveLength(2);
    expect(mail.headers).toHaveLength(6);
  });

  test.each([
    [['Auto-Submitted: auto-replied'], true],
    [['Auto-Submitted: no'], false],
    [['Precedence: auto_reply'], true],
    [['X-Autoreply: yes'], true],
    [['Precedence: first-class'], false],
    [[], false],
  ])('%j is auto-submitted: %j', async (lines, expected) => {
    expect((await read(message(['From: a@x.y', ...lines]))).autoSubmitted).toBe(expected);
  });

  test('no string contains characters that Postgres refuses', async () => {
    for (const name of ['nul-and-surrogates', 'raw-8bit-headers', 'odd-names']) {
      const mail = await readFixture(name);
      const text = JSON.stringify({
        ...mail,
        attachments: mail.attachments.map((file) => ({ ...file, content: null })),
      });
      expect(text).not.toMatch(/\\u0000|\\ud[89a-f]/i);
    }
  });
});

describe('attachments', () => {
  test('names in every encoding, without paths, generated where missing', async () => {
    const mail = await readFixture('odd-names');
    expect(files(mail)).toEqual([
      { name: 'passwd', extension: '', size: 1, mime: 'application/octet-stream', cid: null, inline: false },
      {
        name: 'Übersicht.DOCX',
        extension: 'docx',
        size: 1,
        mime: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
        cid: null,
        inline: false,
      },
      { name: 'attachment-3.jpeg', extension: 'jpeg', size: 1, mime: 'image/jpeg', cid: null, inline: false },
      { name: 'winmail.dat', extension: 'dat', size: 1, mime: 'application/ms-tnef', cid: null, inline: false },
      {
        name: 'attachment-5.bin',
        extension: 'bin',
        size: 1,
        mime: 'application/octet-stream',
        cid: null,
        inline: false,
      },
    ]);
  });

  test('an image that the HTML shows is inline; a file with an RFC 2231 name is not', async () => {
    const mail = await readFixture('inline-image');
    expect(files(mail)).toEqual([
      { name: 'logo.png', extension: 'png', size: 70, mime: 'image/png', cid: 'logo@shop', inline: true },
      { name: 'Rechnung März 2024.PDF', extension: 'pdf', size: 13, mime: 'application/pdf', cid: null, inline: false },
    ]);
    expect(mail.attachments[1]?.content).toEqual(Buffer.from('%PDF-1.4 tiny'));
    expect(hasAttachments(mail.attachments)).toBe(true);
    expect(hasAttachments(mail.attachments.slice(0, 1))).toBe(false);
  });

  test('named files that Apple Mail marks inline count as attachments, a text file among them', async () => {
    const mail = await readFixture('apple-mail');
    expect(files(mail).map(({ name, inline }) => [name, inline])).toEqual([
      ['contract.pdf', true],
      ['notes.txt', true],
    ]);
    expect(hasAttachments(mail.attachments)).toBe(true);
  });

  test('an embedded message is a file with the bytes that were sent', async () => {
    const mail = await readFixture('embedded');
    expect(files(mail)).toEqual([
      { name: 'attachment-1.eml', extension: 'eml', size: 176, mime: 'message/rfc822', cid: null, inline: false },
    ]);
    const inner = await read(mail.attachments[0]?.content as Buffer);
    expect(inner).toMatchObject({ subject: 'Inner mail', bodyPlain: 'inner text', messageId: '<inner@example.org>' });
  });

  test('a calendar among the alternatives is inline, the invitation file is not', async () => {
    const mail = await readFixture('calendar');
    expect(files(mail).map(({ name, mime, inline }) => [name, mime, inline])).toEqual([
      ['attachment-1.ics', 'text/calendar', true],
      ['invite.ics', 'application/ics', false],
    ]);
  });

  test('machine-readable parts of reports are inline', async () => {
    const mail = await readFixture('read-receipt');
    expect(files(mail).map(({ mime, inline }) => [mime, inline])).toEqual([['message/disposition-notification', true]]);
    expect(hasAttachments(mail.attachments)).toBe(false);
  });
});
