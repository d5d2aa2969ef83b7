import { tmpdir } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { MailError } from '../../src/mail-wire/mail-error.ts';
import { compose } from '../../src/mime/write/compose.ts';
import { readTnef } from '../../src/mime/tnef/index.ts';
import type { OutgoingMessage } from '../../src/mime/write/outgoing-message.ts';
import {
  draftForSending,
  prepareDraft,
  readDraftMessage,
  withoutDraftHeaders,
} from '../../src/mime/write/stored-draft.ts';
import { file, GIVEN, outgoingMessage, longestLine } from './outgoing-messages.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';

const lines = (...all: string[]): Buffer => Buffer.from(all.join('\r\n'));
const head = (source: Buffer): string[] =>
  source.toString('latin1', 0, source.indexOf('\r\n\r\n')).split(/\r\n(?![ \t])/);
const bodyOf = (source: Buffer): string => source.toString('latin1', source.indexOf('\r\n\r\n') + 4);
const parts = ({ attachments }: OutgoingMessage) =>
  attachments.map(({ content, ...rest }) => ({ ...rest, content: content.toString() }));

/** A draft as Thunderbird saves it. */
const THUNDERBIRD = lines(
  'Message-ID: <draft@example.test>',
  'Date: Mon, 2 Feb 2026 10:00:00 +0100',
  'MIME-Version: 1.0',
  'User-Agent: Mozilla Thunderbird',
  'Content-Language: en-US',
  'To: =?UTF-8?Q?J=C3=B6rg?= <joerg@example.test>, Team: a@example.test,',
  ' B <b@example.test>;',
  'Cc: A@example.test',
  'Bcc: hidden@example.test',
  'Subject: =?UTF-8?B?w5xiZXJzaWNodA==?=',
  'From: The Alias <alias@example.test>',
  'X-Mozilla-Draft-Info: internal/draft; vcard=0; receipt=0',
  'X-Identity-Key: id1',
  'Fcc: imap://me/Sent',
  'Disposition-Notification-To: =?UTF-8?Q?J=C3=B6?= <alias@example.test>',
  'In-Reply-To: <parent@example.test>',
  'References: <root@example.test>',
  ' <parent@example.test>',
  'Content-Type: multipart/mixed; boundary="b1"',
  '',
  '--b1',
  'Content-Type: multipart/alternative; boundary="b2"',
  '',
  '--b2',
  'Content-Type: text/plain; charset=ISO-8859-1',
  'Content-Transfer-Encoding: quoted-printable',
  '',
  'Gr=FC=DFe',
  '--b2',
  'Content-Type: multipart/related; boundary="b3"',
  '',
  '--b3',
  'Content-Type: text/html; charset=UTF-8',
  '',
  '<p>Grüße</p><img src="cid:part1">',
  '--b3',
  'Content-Type: image/png; name="logo.png"',
  'Content-Disposition: inline; filename="logo.png"',
  'Content-Id: <part1>',
  'Content-Transfer-Encoding: base64',
  '',
  Buffer.from('PNG').toString('base64'),
  '--b3--',
  '--b2--',
  '--b1',
  'Content-Type: text/calendar; charset=UTF-8; method=REQUEST; name="=?UTF-8?Q?=C3=BC.ics?="',
  "Content-Disposition: attachment; filename*=UTF-8''%C3%BC.ics",
  '',
  'BEGIN:VCALENDAR',
  '--b1',
  'Content-Type: message/rfc822; name="mail.eml"',
  'Content-Disposition: attachment; filename="mail.eml"',
  '',
  'From: x@example.test',
  'Subject: inner',
  '',
  'inner text',
  '--b1--',
  '',
);

describe('a draft read as a message', () => {
  test('of another program: everything that it has', async () => {
    const read = await readDraftMessage(THUNDERBIRD, GIVEN, tmpdir());
    expect(read).toMatchObject({
      from: { email: 'alias@example.test', display_name: 'The Alias' },
      to: [
        { email: 'joerg@example.test', display_name: 'Jörg' },
        { email: 'a@example.test' },
        { email: 'b@example.test', display_name: 'B' },
      ],
      cc: [{ email: 'A@example.test' }],
      bcc: [{ email: 'hidden@example.test' }],
      replyTo: [],
      subject: 'Übersicht',
      html: '<p>Grüße</p><img src="cid:part1">',
      plainText: 'Grüße',
      messageId: '<draft@example.test>',
      date: new Date('2026-02-02T09:00:00Z'),
      inReplyTo: '<parent@example.test>',
      references: ['<root@example.test>', '<parent@example.test>'],
    });
    expect(read.headers.map(({ name }) => name)).toEqual([
      ...['User-Agent', 'X-Mozilla-Draft-Info', 'X-Identity-Key', 'Fcc', 'Disposition-Notification-To'],
    ]);
    expect(parts(read)).toEqual([
      { filename: 'logo.png', contentType: 'image/png', cid: 'part1', inline: true, content: 'PNG' },
      {
        ...{ filename: 'ü.ics', contentType: 'text/calendar; charset=UTF-8; method=REQUEST' },
        ...{ cid: null, inline: false, content: 'BEGIN:VCALENDAR' },
      },
      {
        ...{ filename: 'mail.eml', contentType: 'message/rfc822', cid: null, inline: false },
        content: 'From: x@example.test\r\nSubject: inner\r\n\r\ninner text',
      },
    ]);
    expect(withoutDraftHeaders(read).headers).toEqual([
      { name: 'User-Agent', value: 'Mozilla Thunderbird' },
      { name: 'Disposition-Notification-To', value: '=?UTF-8?Q?J=C3=B6?= <alias@example.test>' },
    ]);
  });

  test('is unchanged after composing and reading it again', async () => {
    const read = await readDraftMessage(THUNDERBIRD, GIVEN, tmpdir());
    expect(await readDraftMessage(await compose(read, { keepBcc: true }), GIVEN, tmpdir())).toEqual(read);
  });

  test.each<[string, Buffer, Pick<OutgoingMessage, 'html' | 'plainText'>]>([
    ['text', lines('Subject: x', '', 'hello'), { html: null, plainText: 'hello' }],
    ['HTML', lines('Content-Type: text/html', '', '<p>hi</p>'), { html: '<p>hi</p>', plainText: null }],
    ['nothing', lines('Subject: x', '', ''), { html: null, plainText: null }],
    ['no header', lines('', 'hello'), { html: null, plainText: 'hello' }],
    ['not a byte', Buffer.alloc(0), { html: null, plainText: null }],
    [
      'a blank text beside HTML',
      lines(
        'Content-Type: multipart/alternative; boundary=b',
        ...['', '--b', 'Content-Type: text/plain', '', ' ', '--b', 'Content-Type: text/html', '', '<p>hi</p>', '--b--'],
      ),
      { html: '<p>hi</p>', plainText: null },
    ],
  ])('with %s: HTML and text as they are there', async (_name, source, expected) => {
    const read = await readDraftMessage(source, GIVEN, tmpdir());
    expect(read).toMatchObject({ ...expected, from: GIVEN.from, messageId: GIVEN.messageId });
    expect(read.attachments).toEqual([]);
  });

  test('of ours: every field comes back', async () => {
    const one = outgoingMessage(
      {
        cc: [{ email: 'cc@example.test', display_name: 'Müller, "M"' }],
        bcc: [{ email: 'bcc@example.test' }],
        reply_to: [{ email: 'r@example.test' }],
        subject: 'Grüße 📎',
        html: '<p>Grüße</p>\n<img src="cid:a">',
        plain_text: 'Grüße\n\n-- \nme\n',
        custom_headers: [{ name: 'X-A', value: 'Größe' }],
        attachments: [
          file('png', { filename: 'ü.png', cid: 'a' }),
          file('BEGIN', { content_type: 'text/calendar; method=REQUEST' }),
          file(Buffer.alloc(300_000, 'large'), { filename: 'large.bin' }),
        ],
      },
      { messageId: '<p@example.test>', references: ['<r@example.test>'] },
    );
    const read = await readDraftMessage(
      await compose(one, { keepBcc: true }),
      { ...GIVEN, messageId: '<other@example.test>' },
      tmpdir(),
    );
    const [png, large, calendar] = ['ü.png', 'large.bin', null].map((name) =>
      read.attachments.find(({ filename }) => filename === name),
    );
    expect(read).toMatchObject({ ...one, headers: [{ name: 'X-A' }], attachments: expect.any(Array) });
    expect(png).toMatchObject({ contentType: 'image/png', cid: 'a', inline: true });
    expect(calendar).toMatchObject({ contentType: 'text/calendar; method=REQUEST' });
    expect(large?.content.equals(Buffer.alloc(300_000, 'large'))).toBe(true);
    expect(await readDraftMessage(await compose(read, { keepBcc: true }), GIVEN, tmpdir())).toEqual(read);
  });

  test('trace headers are omitted', async () => {
    const traces = [
      'Received: from x',
      'Return-Path: <a@b>',
      'DKIM-Signature: v=1',
      'Authentication-Results: x',
      'X-UID: 3',
    ];
    const read = await readDraftMessage(lines(...traces, 'X-Kept: 1', 'Importance: high', '', 'x'), GIVEN, tmpdir());
    expect(read.headers).toEqual([
      { name: 'X-Kept', value: '1' },
      { name: 'Importance', value: 'high' },
    ]);
  });

  test('ids may be encoded words', async () => {
    const ids = ['In-Reply-To: =?utf-8?q?=3Cp=40x=2Ey=3E?=', 'References: <r@x.y>', ' =?utf-8?q?=3Cp=40x=2Ey=3E?='];
    const read = await readDraftMessage(lines(...ids, '', 'x'), GIVEN, tmpdir());
    expect(read).toMatchObject({ inReplyTo: '<p@x.y>', references: ['<r@x.y>', '<p@x.y>'] });
  });

  test('a winmail.dat is written back unchanged', async () => {
    // a TNEF of one file, a.txt
    const content = Buffer.from(
      `789f3e220100${'0202900600'}0e000000${'00'.repeat(14)}0000${'020f80060003000000616263'}2601`,
      'hex',
    );
    const attachments = [file(content, { filename: 'winmail.dat', content_type: 'application/ms-tnef' })];
    const draft = await compose(outgoingMessage({ attachments }), { keepBcc: true });
    const found = await readDraftMessage(draft, GIVEN, tmpdir());
    expect(found.attachments).toMatchObject([{ filename: 'winmail.dat', contentType: 'application/ms-tnef', content }]);
    expect(readTnef({ size: content.length, read: (at, length) => content.subarray(at, at + length) })).toMatchObject({
      files: [{ size: 3 }],
    });
  });

  test('one that cannot be parsed completely is refused: some of it would be lost', async () => {
    const source = lines(
      'Content-Type: multipart/mixed; boundary=b',
      '',
      ...Array.from({ length: 2000 }, () => '--b\r\n\r\nx'),
      '--b--',
    );
    await expect(readDraftMessage(source, GIVEN, tmpdir())).rejects.toThrow(MailError);
  });

  test('one of 36 MB does not block other work', async () => {
    const content = Buffer.alloc(25 * 1024 * 1024, 'attachment');
    const one = {
      ...outgoingMessage({ html: '<p>x</p>' }),
      attachments: [{ filename: 'a.bin', contentType: null, cid: null, inline: false, content }],
    };
    const source = await compose(one, { keepBcc: true });
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    const read = await readDraftMessage(source, GIVEN, tmpdir());
    clearInterval(timer);
    expect(turns).toBeGreaterThan(20);
    expect(read.attachments[0]?.content.equals(content)).toBe(true);
  });
});

describe('a draft prepared to be sent', () => {
  const given = { ...GIVEN, messageId: null };

  test('keeps an address with an angle bracket, which the SMTP library then refuses', async () => {
    const source = lines('From: o@x.test', 'To: Bo <"a<b"@c.test>', '', 'x');
    expect(prepareDraft(source, given).envelope.to).toEqual(['"a<b"@c.test']);
    const composed = await compose(await readDraftMessage(source, GIVEN, tmpdir()), { keepBcc: false });
    expect(head(composed)).toContain('To: Bo <"a<b"@c.test>');
  });

  test('has a complete header and an unchanged body', () => {
    const { sentCopy, delivered, envelope, messageId, hasLongLine } = prepareDraft(THUNDERBIRD, given);
    expect(bodyOf(sentCopy)).toBe(bodyOf(THUNDERBIRD));
    expect(bodyOf(delivered)).toBe(bodyOf(THUNDERBIRD));
    expect(head(sentCopy)).toEqual(
      head(THUNDERBIRD)
        .filter((line) => !/^(X-Mozilla|X-Identity|Fcc)/.test(line))
        .map((line) => line.replace(/^Date:.*/, 'Date: Wed, 04 Mar 2026 05:06:07 +0000')),
    );
    expect(head(delivered)).toEqual(head(sentCopy).filter((line) => !line.startsWith('Bcc:')));
    expect(envelope).toEqual({
      from: 'alias@example.test',
      to: ['joerg@example.test', 'a@example.test', 'b@example.test', 'hidden@example.test'],
    });
    expect([messageId, hasLongLine]).toEqual(['<draft@example.test>', false]);
  });

  test.each<[string, string[], string[]]>([
    ['nothing', [], ['From: The Owner <owner@example.test>', 'Message-ID: <new@x>', 'MIME-Version: 1.0']],
    [
      'a From without an address',
      ['From: "A Name"'],
      ['From: The Owner <owner@example.test>', 'Message-ID: <new@x>', 'MIME-Version: 1.0'],
    ],
    [
      'two of what stands once',
      ['From: a@x.test', 'From: b@x.test', 'Message-ID: <1@x>', 'Message-Id: <2@x>', 'Date: x', 'Date: y'],
      ['From: a@x.test', 'Message-ID: <new@x>', 'MIME-Version: 1.0'],
    ],
    [
      'a line of an mbox, and lines that are none',
      ['From me Mon', 'no header', 'X Y: z', 'X-A: 1'],
      ['From: The Owner <owner@example.test>', 'Message-ID: <new@x>', 'MIME-Version: 1.0', 'X-A: 1'],
    ],
    [
      'notes to itself',
      ['X-Unsent: 1', 'X-Apple-Auto-Saved: 1', 'Return-Path: <a@x>', 'From: a@x.test'],
      ['From: a@x.test', 'Message-ID: <new@x>', 'MIME-Version: 1.0'],
    ],
    [
      'raw bytes',
      ['From: J\u00f6rg <j@x.test>', 'Subject: \u00fc', 'X-A: \u00fc'],
      [
        'From: =?UTF-8?Q?J=C3=B6rg?= <j@x.test>',
        'Message-ID: <new@x>',
        'MIME-Version: 1.0',
        'Subject: =?UTF-8?B?w7w=?=',
        'X-A: =?UTF-8?B?w7w=?=',
      ],
    ],
    [
      'raw bytes in the structure of its body',
      ['From: j@x.test', 'Content-Type: text/plain; charset=utf-8; name="\u00fc.txt"', 'Content-Description: \u00fc'],
      [
        'From: j@x.test',
        'Message-ID: <new@x>',
        'MIME-Version: 1.0',
        "Content-Type: text/plain; charset=utf-8; name*0*=utf-8''%C3%BC.txt",
        'Content-Description: =?UTF-8?B?w7w=?=',
      ],
    ],
  ])('with %s', (_name, header, expected) => {
    const source = Buffer.from(`${header.map((line) => `${line}\r\n`).join('')}\r\nbody`);
    const { sentCopy, delivered } = prepareDraft(source, { ...GIVEN, messageId: '<new@x>' });
    expect(delivered).toBe(sentCopy);
    const found = head(sentCopy).filter((line) => !line.startsWith('Date: '));
    expect([...found].sort()).toEqual([...expected].sort());
    expect(head(sentCopy)).toContain('Date: Wed, 04 Mar 2026 05:06:07 +0000');
    expect(bodyOf(sentCopy)).toBe('body');
  });

  test('gets a Message-ID if it has none', () => {
    const { messageId, sentCopy } = prepareDraft(lines('From: a@x.test', '', 'x'), given);
    expect(messageId).toMatch(/^<[0-9a-f]{32}@x\.test>$/);
    expect(head(sentCopy)).toContain(`Message-ID: ${messageId}`);
  });

  test('keeps the Message-IDs of its thread that headers can have', () => {
    const { messageId, sentCopy } = prepareDraft(
      lines(
        'Message-ID: <mü@x>',
        'In-Reply-To: <mü@x>',
        'References: <1@x>',
        ' <mü@x> <2@x>',
        'From: a@x.test',
        '',
        'x',
      ),
      given,
    );
    expect(messageId).toMatch(/^<[0-9a-f]{32}@x\.test>$/);
    expect(head(sentCopy).slice(2, -1)).toEqual([`Message-ID: ${messageId}`, 'References: <1@x> <2@x>']);
  });

  test('has ids that were encoded words as ids', () => {
    const { messageId, sentCopy } = prepareDraft(
      lines(
        ...['Message-ID: =?utf-8?q?=3Cown=40x=2Ey=3E?=', 'In-Reply-To: =?utf-8?q?=3Cp=40x=2Ey=3E?='],
        ...['References: <r@x.y>', ' =?utf-8?q?=3Cp=40x=2Ey=3E?=', 'From: a@x.test', '', 'x'],
      ),
      given,
    );
    expect(messageId).toBe('<own@x.y>');
    expect(head(sentCopy).slice(2, -1)).toEqual([
      ...['Message-ID: <own@x.y>', 'In-Reply-To: <p@x.y>', 'References: <r@x.y> <p@x.y>'],
    ]);
  });

  test('has addresses beyond ASCII in UTF-8, and says that they need SMTPUTF8', () => {
    const { sentCopy, envelope } = prepareDraft(
      lines('From: a@x.test', 'To: b@x.test', 'Reply-To: łukasz@x.test', '', 'x'),
      given,
    );
    expect(sentCopy.toString()).toContain('\r\nReply-To: łukasz@x.test\r\n');
    expect(envelope.needsUtf8).toBe('reply_to.0.email');
  });

  test('bare line ends become CRLF', () => {
    const { sentCopy } = prepareDraft(
      Buffer.from('From: a@x.test\nTo: b@x.test,\n c@x.test\nMessage-ID: <1@x>\n\none\rtwo\nthree\r\n'),
      given,
    );
    expect(head(sentCopy)).toContain('To: b@x.test,\r\n c@x.test');
    expect(bodyOf(sentCopy)).toBe('one\r\ntwo\r\nthree\r\n');
  });

  test('header lines beyond the limit are folded', () => {
    const to = Array.from({ length: 100 }, (_, index) => `reader${index}@example.test`);
    const { sentCopy, envelope } = prepareDraft(
      lines(`To: ${to.join(', ')}`, `X-A: ${'x'.repeat(2000)}`, '', 'x'),
      given,
    );
    expect(longestLine(sentCopy)).toBeLessThanOrEqual(998);
    expect(envelope.to).toEqual(to);
  });

  test('the envelope accepts names with commas, comments, encoded words and groups', () => {
    const { envelope } = prepareDraft(
      lines(
        'To: "Doe, John" <john@x.test>, =?UTF-8?Q?a=2C_b?= <ab@x.test> (x@y.test)',
        'Cc: undisclosed-recipients:;',
        'Bcc: G: JOHN@x.test;',
        '',
        'x',
      ),
      given,
    );
    expect(envelope.to).toEqual(['john@x.test', 'ab@x.test']);
  });

  test.each([
    ['a body that can be sent', 'short\r\n', false],
    ['a line over 998 octets', `${'long '.repeat(300)}\r\n`, true],
  ])('%s', async (_name, body, isComposed) => {
    const source = lines(
      'From: a@x.test',
      'To: b@x.test',
      'Bcc: c@x.test',
      'X-Unsent: 1',
      'Message-ID: <1@x>',
      '',
      body,
    );
    expect(prepareDraft(source, given).hasLongLine).toBe(isComposed);
    const { sentCopy, delivered, envelope, messageId } = await draftForSending(source, given, tmpdir());
    expect(longestLine(sentCopy)).toBeLessThanOrEqual(998);
    expect([envelope.to, messageId]).toEqual([['b@x.test', 'c@x.test'], '<1@x>']);
    expect(
      head(sentCopy)
        .filter((line) => /^(bcc|x-unsent|date)/i.test(line))
        .sort(),
    ).toEqual(['Bcc: c@x.test', 'Date: Wed, 04 Mar 2026 05:06:07 +0000']);
    expect(delivered.toString()).not.toContain('c@x.test');
    expect((await readDraftMessage(delivered, GIVEN, tmpdir())).plainText?.trim()).toBe(body.trim());
  });

  test('40 MiB take less than a few seconds, without a copy for the recipients if it has no Bcc', () => {
    const source = Buffer.concat([
      lines('From: a@x.test', '', ''),
      Buffer.alloc(40 * 1024 * 1024, `${'x'.repeat(76)}\n`),
    ]);
    let prepared!: ReturnType<typeof prepareDraft>;
    expectCpuBelow(5_000, () => (prepared = prepareDraft(source, given)));
    expect(prepared.delivered).toBe(prepared.sentCopy);
  });
});

describe('a draft of another program', () => {
  const unfinished = lines(
    'From: a@x.test',
    'To: ann@x.test, Bob Miller',
    'Cc: "Sales, East"',
    'Subject: s',
    '',
    'text',
  );

  test('keeps recipients that are a name alone when it is changed, and cannot be sent with them', async () => {
    const draft = await readDraftMessage(unfinished, GIVEN, tmpdir());
    const written = head(await compose({ ...draft, subject: 'changed' }, { keepBcc: true }));
    expect(written).toEqual(
      expect.arrayContaining(['To: ann@x.test, Bob Miller', 'Cc: "Sales, East"', 'Subject: changed']),
    );
    expect(prepareDraft(unfinished, GIVEN).envelope).toMatchObject({
      to: ['ann@x.test'],
      withoutAddress: 'to: "Bob Miller" has no address',
    });
    expect(prepareDraft(lines('To: a@x.test, Team:;', '', ''), GIVEN).envelope).toEqual({
      from: expect.any(String),
      to: ['a@x.test'],
    });
  });

  test.each([
    'multipart/encrypted; protocol="application/pgp-encrypted"',
    'multipart/signed',
    'application/pkcs7-mime',
  ])('that is %s is not taken apart', async (type) => {
    const source = lines(
      'From: a@x.test',
      'To: b@x.test',
      `Content-Type: ${type}; boundary=b`,
      '',
      '--b',
      '',
      'x',
      '--b--',
    );
    await expect(readDraftMessage(source, GIVEN, tmpdir())).rejects.toMatchObject({ code: 'provider_rejected' });
    expect(bodyOf((await draftForSending(source, GIVEN, tmpdir())).delivered)).toBe(bodyOf(source));
  });
});
