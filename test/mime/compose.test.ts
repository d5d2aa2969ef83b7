import { afterAll, describe, expect, test } from '@jest/globals';
import { newMessageId } from '../../src/mime/message-ids.ts';
import { readMessage } from '../../src/mime/read/read-message.ts';
import { trackMessage } from '../../src/mime/tracking.ts';
import { compose, envelopeOf } from '../../src/mime/write/compose.ts';
import type { OutgoingMessage } from '../../src/mime/write/outgoing-message.ts';
import { type PythonMail, startPython } from '../helpers/servers/python-mail.ts';
import { file, GIVEN, outgoingMessage, longestLine } from './outgoing-messages.ts';

const python = startPython();
afterAll(() => python.close());

/** Composes a message, and has Python read it; Python finds no defect in any. */
async function composed(one: OutgoingMessage, keepBcc = false): Promise<PythonMail & { source: Buffer }> {
  const source = await compose(one, { keepBcc });
  expect(longestLine(source)).toBeLessThanOrEqual(998);
  expect(source.toString('latin1')).not.toMatch(/[^\r]\n|\r[^\n]/);
  const mail = await python.read(source);
  expect(mail.defects).toEqual([]);
  return { ...mail, source };
}

const values = (mail: PythonMail, name: string): string[] =>
  mail.headers.filter(([key]) => key === name).map(([, value]) => value);
const tree = (mail: PythonMail): string[] =>
  mail.parts.map(({ type, parent }) => (parent ? `${parent} > ${type}` : type));
const bytes = (mail: PythonMail, type: string): Buffer | null => {
  const content = mail.parts.find((part) => part.type === type)?.content;
  return typeof content === 'string' ? Buffer.from(content, 'base64') : null;
};
const text = (mail: PythonMail, type: string): string | null | undefined =>
  mail.parts.find((part) => part.type === type)?.text;

test('HTML mail with two attachments, an inline image, non-ASCII names, a reply and tracking: every part is equal', async () => {
  const png = Buffer.from('89504e470d0a1a0a0000000d4948445200000001', 'hex');
  const pdf = Buffer.from(Array.from({ length: 5000 }, (_, index) => (index * 7) % 256));
  const html =
    '<html><body><p>Grüße aus <a href="https://shop.example/?a=1&amp;b=2">Köln</a></p>\n<img src="cid:logo@x"></body></html>';
  const original = outgoingMessage(
    {
      to: [{ email: 'leser@example.test', display_name: 'Jörg "der Leser", Müller' }],
      cc: [{ email: 'cc@example.test', display_name: '山田太郎' }],
      bcc: [{ email: 'hidden@example.test', display_name: 'Hidden' }],
      reply_to: [{ email: 'antwort@example.test', display_name: 'Antwört' }],
      subject: 'Re: Übersicht – 概要 📎',
      html,
      custom_headers: [
        { name: 'X-Project', value: 'Größe' },
        { name: 'List-Unsubscribe', value: '<https://shop.example/leave>' },
      ],
      attachments: [
        file(png, { filename: 'lögo.png', cid: 'logo@x' }),
        file(pdf, { filename: 'Übersicht für März 2026 – endgültige Fassung 概要.pdf' }),
        file('a;b\nü;2\n', { filename: 'data.csv', content_type: 'text/csv; charset=utf-8' }),
      ],
    },
    { messageId: '<parent@example.test>', references: ['<root@example.test>', '<second@example.test>'] },
  );
  const tracked = trackMessage(original, {
    trackingId: 'trk_1',
    opens: true,
    links: true,
    baseUrl: 'https://t.example',
  });
  const delivered = await composed(tracked.message);
  const sentCopy = await composed(original, true);

  for (const [mail, body] of [
    [delivered, tracked.message.html],
    [sentCopy, html],
  ] as const) {
    expect(mail.addresses).toEqual({
      from: [['The Owner', 'owner@example.test']],
      to: [['Jörg "der Leser", Müller', 'leser@example.test']],
      cc: [['山田太郎', 'cc@example.test']],
      'reply-to': [['Antwört', 'antwort@example.test']],
      ...(mail === sentCopy ? { bcc: [['Hidden', 'hidden@example.test']] } : {}),
    });
    expect(values(mail, 'subject')).toEqual(['Re: Übersicht – 概要 📎']);
    expect(values(mail, 'message-id')).toEqual([GIVEN.messageId]);
    expect(values(mail, 'date')).toEqual(['Wed, 04 Mar 2026 05:06:07 +0000']);
    expect(values(mail, 'in-reply-to')).toEqual(['<parent@example.test>']);
    expect(values(mail, 'references')).toEqual(['<root@example.test> <second@example.test> <parent@example.test>']);
    expect(values(mail, 'x-project')).toEqual(['Größe']);
    expect(values(mail, 'list-unsubscribe')).toEqual(['<https://shop.example/leave>']);
    expect(tree(mail)).toEqual([
      'multipart/mixed',
      'multipart/mixed > multipart/alternative',
      'multipart/alternative > text/plain',
      'multipart/alternative > multipart/related',
      'multipart/related > text/html',
      'multipart/related > image/png',
      'multipart/mixed > application/pdf',
      'multipart/mixed > text/csv',
    ]);
    expect(text(mail, 'text/html')).toBe(body);
    expect(text(mail, 'text/plain')).toBe('Grüße aus Köln <https://shop.example/?a=1&b=2>');
    const files = mail.parts
      .slice(5)
      .map(({ filename, disposition, cid, charset }) => [filename, disposition, cid, charset]);
    expect(files).toEqual([
      ['lögo.png', 'inline', '<logo@x>', null],
      ['Übersicht für März 2026 – endgültige Fassung 概要.pdf', 'attachment', null, null],
      ['data.csv', 'attachment', null, 'utf-8'],
    ]);
    expect(bytes(mail, 'image/png')).toEqual(png);
    expect(bytes(mail, 'application/pdf')).toEqual(pdf);
    expect(bytes(mail, 'text/csv')?.toString()).toBe('a;b\nü;2\n');
  }
  expect(tracked.message.html).toContain('https://t.example/t/o/trk_1.gif');
  expect(delivered.source.toString('latin1')).not.toMatch(/hidden@/i);
  expect(sentCopy.source.toString('latin1')).not.toContain('t.example');
});

describe('the content decides the structure', () => {
  const png = file('x', { filename: 'a.png' });
  const shown = file('x', { filename: 'a.png', cid: 'a' });
  test.each([
    ['a text', { plain_text: 'hello' }, ['text/plain']],
    [
      'HTML',
      { html: '<p>hello</p>' },
      ['multipart/alternative', 'multipart/alternative > text/plain', 'multipart/alternative > text/html'],
    ],
    ['HTML without any text', { html: '<img src="https://x.example/a.png">' }, ['text/html']],
    ['a subject', { subject: 'hello' }, ['text/plain']],
    ['nothing', {}, ['text/plain']],
    [
      'a file',
      { attachments: [png] },
      ['multipart/mixed', 'multipart/mixed > text/plain', 'multipart/mixed > image/png'],
    ],
    [
      'files',
      { attachments: [png, png] },
      ['multipart/mixed', 'multipart/mixed > text/plain', 'multipart/mixed > image/png', 'multipart/mixed > image/png'],
    ],
    [
      'a file with a cid, and no HTML',
      { plain_text: 'x', attachments: [shown] },
      ['multipart/mixed', 'multipart/mixed > text/plain', 'multipart/mixed > image/png'],
    ],
    [
      'HTML without text, and its image',
      { html: '<img src="cid:a">', attachments: [shown] },
      ['multipart/related', 'multipart/related > text/html', 'multipart/related > image/png'],
    ],
  ])('%s', async (_name, input, expected) => {
    expect(tree(await composed(outgoingMessage(input)))).toEqual(expected);
  });
});

describe('texts arrive as they were written', () => {
  test.each([
    ['non-ASCII', 'Grüße, 世界 📎\n'],
    ['a long line', `${'word '.repeat(1000)}end\n`],
    ['a word of 100,000 characters', `${'x'.repeat(100_000)}\n`],
    ['300,000 characters of ASCII', 'All work and no play.\n'.repeat(14_000)],
    ['600,000 characters', 'Grüße\n'.repeat(100_000)],
    ['dots and From', '.\n..\nFrom here\n'],
    ['trailing spaces', 'a  \n\n--  \nme \t\n'],
    ['equal signs', 'a=3D=\nb=\n'],
  ])('%s', async (_name, plain) => {
    const mail = await composed(outgoingMessage({ plain_text: plain, html: `<pre>${plain}</pre>` }));
    // toBe would take minutes to tell how texts of that length differ
    expect(text(mail, 'text/plain') === plain).toBe(true);
    expect(text(mail, 'text/html') === `<pre>${plain}</pre>`).toBe(true);
  });

  test('CR and LF on their own become line ends', async () => {
    expect(text(await composed(outgoingMessage({ plain_text: 'a\rb\nc\r\nd' })), 'text/plain')).toBe('a\nb\nc\nd\n');
  });
});

describe('subjects are read as they were written', () => {
  test.each([
    'Plain words',
    'Grüße',
    'x'.repeat(998),
    'ü'.repeat(998),
    `${'long '.repeat(199)}end`,
    '=?utf-8?Q?not=20encoded?=',
    'quotes "and" (brackets) <a@b.test>, and: colons; too',
    'emoji 👩‍👩‍👧‍👦 at the end 🎉',
  ])('%#', async (subject) => {
    expect(values(await composed(outgoingMessage({ subject })), 'subject')).toEqual([subject]);
  });

  test('long runs of blanks stay, in lines that can be sent', async () => {
    const [subject, value] = [`a${' '.repeat(990)}b`, `${'x'.repeat(700)}${' '.repeat(600)}y`];
    const { source } = await composed(outgoingMessage({ subject, custom_headers: [{ name: 'X-A', value }] }));
    const { headers } = await readMessage(source, { isTimeUp: () => false, spillDir: '' });
    expect(headers.filter(({ name }) => /^(subject|x-a)$/i.test(name)).map((one) => one.value)).toEqual([
      subject,
      value,
    ]);
  });

  test('surrounding white space and double spaces stay', async () => {
    const source = await compose(outgoingMessage({ subject: ' a  b ' }), { keepBcc: false });
    expect(source.toString()).toMatch(/^Subject: =\?UTF-8\?Q\?_a__b=20\?=\r$/m);
  });
});

describe('display names of any shape survive', () => {
  test.each([
    'Ada Lovelace',
    'Lovelace, Ada',
    'Ada "the Countess" Lovelace',
    'back\\slash',
    'a@b.test <c@d.test>, e@f.test',
    'Jörg',
    '(comment) :;',
    '=?utf-8?Q?x?=',
    'x'.repeat(900),
    'ü'.repeat(2000),
    `${'x'.repeat(10_000)}`,
    'many words '.repeat(300).trim(),
  ])('%#', async (name) => {
    const mail = await composed(outgoingMessage({ to: [{ email: 'reader@example.test', display_name: name }] }));
    const read = await readMessage(mail.source, { isTimeUp: () => false, spillDir: '' });
    expect(read.to).toMatchObject([{ display_name: name, identifier: 'reader@example.test' }]);
    // Python keeps the white space between encoded words of a name (RFC 2047 6.2 says that it is not there)
    const words = (text = ''): string => (name.length > 70 ? text.replaceAll(' ', '') : text);
    const [[found, address] = []] = mail.addresses['to'] ?? [];
    expect([words(found), address]).toEqual([words(name), 'reader@example.test']);
  });
});

describe('headers', () => {
  test('a Reply-To among the custom headers wins over reply_to', async () => {
    const mail = await composed(
      outgoingMessage({
        reply_to: [{ email: 'loser@example.test' }],
        custom_headers: [{ name: 'reply-to', value: 'Wínner <winner@example.test>, second@example.test' }],
      }),
    );
    expect(values(mail, 'reply-to')).toHaveLength(1);
    expect(mail.addresses['reply-to']).toEqual([
      ['Wínner', 'winner@example.test'],
      ['', 'second@example.test'],
    ]);
  });

  test('custom headers, including long ones, arrive in order and unchanged', async () => {
    const headers = [
      { name: 'X-One', value: 'first' },
      { name: 'X-One', value: 'second' },
      { name: 'X-Long', value: 'y'.repeat(3000) },
      { name: 'X-Words', value: 'word '.repeat(500).trim() },
      { name: 'Auto-Submitted', value: 'auto-generated' },
      { name: 'List-Unsubscribe-Post', value: 'List-Unsubscribe=One-Click' },
    ];
    const mail = await composed(outgoingMessage({ custom_headers: headers }));
    const found = mail.headers.filter(([key]) => /^(x-|auto|list)/.test(key));
    expect(found).toEqual(headers.map(({ name, value }) => [name.toLowerCase(), value]));
  });

  test('headers that a message has fields for are not written twice, and invalid ones not at all', async () => {
    const bad = ['Bcc', 'to', 'Content-Type', 'MIME-Version', 'Date', 'X Y', 'X:', 'X-A\r\nBcc'];
    const mail = await composed({ ...outgoingMessage({}), headers: bad.map((name) => ({ name, value: 'a@b.test' })) });
    expect(mail.headers.map(([name]) => name)).toEqual([
      'date',
      'from',
      'to',
      'message-id',
      'mime-version',
      'content-type',
    ]);
  });

  test('line breaks in header values add no header', async () => {
    const evil = 'a\r\nBcc: evil@example.test\r\n\r\nbody';
    const source = await compose(
      {
        ...outgoingMessage({
          subject: evil,
          attachments: [file('x', { filename: evil, content_type: 'text/plain', cid: evil })],
        }),
        to: [{ email: `"${evil}"@example.test`, display_name: evil }],
        headers: [{ name: 'X-A', value: evil }],
        messageId: `<${evil}>`,
        inReplyTo: `<${evil}>`,
        references: [`<${evil}>`],
      },
      { keepBcc: false },
    );
    expect(source.toString('latin1')).not.toMatch(/^bcc/im);
    expect(source.toString('latin1').split('\r\n\r\n')[0]).not.toContain('\r\nbody');
  });

  test('a References chain is folded, and an overlong one keeps its first and last ids', async () => {
    const ids = Array.from({ length: 5000 }, (_, index) => `<${index}.${'x'.repeat(40)}@example.test>`);
    const mail = await composed(outgoingMessage({}, { messageId: '<parent@example.test>', references: ids }));
    const found = values(mail, 'references')[0]?.split(' ') ?? [];
    expect(found.length).toBeLessThanOrEqual(101);
    expect(found[0]).toBe(ids[0]);
    expect(found.slice(-3)).toEqual([ids[4998], ids[4999], '<parent@example.test>']);
  });

  test.each([
    [
      'in the chain',
      '<parent@example.test>',
      ['<root@example.test>', '<münchen@example.test>'],
      '<parent@example.test>',
    ],
    ['of the parent', '<münchen@example.test>', ['<root@example.test>', '<parent@example.test>'], undefined],
  ])('a Message-ID beyond ASCII %s leaves the others as they are', async (_what, messageId, references, parent) => {
    const mail = await composed(outgoingMessage({}, { messageId, references }));
    expect(values(mail, 'references')).toEqual(['<root@example.test> <parent@example.test>']);
    expect(values(mail, 'in-reply-to')[0]).toBe(parent);
  });

  test('domains beyond ASCII become punycode, in the envelope too', async () => {
    const one = outgoingMessage({ to: [{ email: 'leser@müller.example' }] });
    expect((await composed(one)).addresses['to']).toEqual([['', 'leser@xn--mller-kva.example']]);
    expect(envelopeOf(one).to).toEqual(['leser@xn--mller-kva.example']);
  });
});

describe('attachments', () => {
  const long = `${'ü'.repeat(251)}.pdf`;
  test.each([
    [{ filename: 'a.PDF' }, 'application/pdf', 'a.PDF'],
    [{ filename: 'a.unknown-ending' }, 'application/octet-stream', 'a.unknown-ending'],
    [{ filename: 'noending' }, 'application/octet-stream', 'noending'],
    [{}, 'application/octet-stream', 'attachment-1.bin'],
    [{ content_type: 'image/png' }, 'image/png', 'attachment-1.png'],
    [{ filename: 'a.pdf', content_type: 'image/x-odd' }, 'image/x-odd', 'a.pdf'],
    [{ filename: 'a.pdf', content_type: 'multipart/mixed' }, 'application/pdf', 'a.pdf'],
    [{ filename: 'quo"te\\s; and=more.txt' }, 'text/plain', 'quo"te\\s; and=more.txt'],
    [{ filename: long }, 'application/pdf', long],
    [{ filename: `${'x'.repeat(251)}.pdf` }, 'application/pdf', `${'x'.repeat(251)}.pdf`],
  ])('%#', async (given, type, filename) => {
    const mail = await composed(outgoingMessage({ plain_text: 'x', attachments: [file('bytes', given)] }));
    expect(mail.parts[2]).toMatchObject({ type, filename, disposition: 'attachment' });
    expect(Buffer.from(mail.parts[2]?.content ?? '', 'base64').toString()).toBe('bytes');
  });

  test('an embedded message is not encoded: ASCII and 8-bit ones stay messages', async () => {
    for (const body of ['ascii\n', 'grün\n']) {
      const inner = `From: a@b.test\nSubject: inner\n\n${body}`;
      const mail = await composed(
        outgoingMessage({ attachments: [file(inner, { content_type: 'message/rfc822', filename: 'a.eml' })] }),
      );
      expect(mail.parts[2]).toMatchObject({ type: 'message/rfc822', filename: 'a.eml' });
      expect(bytes(mail, 'message/rfc822')?.toString().trimEnd()).toBe(inner.replaceAll('\n', '\r\n').trimEnd());
    }
  });

  test('an embedded message with lines too long for SMTP is sent as bytes', async () => {
    const inner = `From: a@b.test\n\n${'x'.repeat(2000)}\n`;
    const mail = await composed(
      outgoingMessage({ attachments: [file(inner, { content_type: 'message/rfc822', filename: 'a.eml' })] }),
    );
    expect(mail.parts[2]).toMatchObject({ type: 'application/octet-stream', filename: 'a.eml' });
  });

  test('a calendar part without a name is an alternative of the text', async () => {
    const one = outgoingMessage({
      plain_text: 'come',
      attachments: [file('BEGIN:VCALENDAR', { content_type: 'text/calendar; method=REQUEST' })],
    });
    expect(tree(await composed(one))).toEqual([
      'multipart/alternative',
      'multipart/alternative > text/plain',
      'multipart/alternative > text/calendar',
    ]);
  });

  test('25 MB of them do not block other work', async () => {
    const content = Buffer.alloc(25 * 1024 * 1024, 'attachment');
    const one = {
      ...outgoingMessage({ html: '<p>x</p>' }),
      attachments: [{ filename: 'a.bin', contentType: null, cid: null, inline: false, content }],
    };
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    const source = await compose(one, { keepBcc: true });
    clearInterval(timer);
    expect(turns).toBeGreaterThan(10);
    expect(source.length).toBeGreaterThan(content.length * 1.3);
    expect(longestLine(source.subarray(-10_000))).toBeLessThanOrEqual(76);
  });
});

test('equal messages give equal bytes, and no boundary occurs in an embedded message', async () => {
  const first = outgoingMessage({ html: '<p>one</p>', attachments: [file('x', { filename: 'a.txt' })] });
  const source = await compose(first, { keepBcc: true });
  expect(await compose(first, { keepBcc: true })).toEqual(source);
  const forwarded = outgoingMessage({
    html: '<p>one</p>',
    attachments: [file(source, { content_type: 'message/rfc822' })],
  });
  const mail = await composed(forwarded);
  expect(bytes(mail, 'message/rfc822')?.toString().trimEnd()).toBe(source.toString().trimEnd());
});

describe('envelope', () => {
  test('names each address of To, Cc and Bcc once, regardless of case', () => {
    const one = outgoingMessage({
      to: [{ email: 'A@example.test' }, { email: 'b@example.test', display_name: 'B' }],
      cc: [{ email: 'a@EXAMPLE.test' }, { email: 'c@example.test' }],
      bcc: [{ email: 'b@example.test' }, { email: 'd@example.test' }],
    });
    expect(envelopeOf(one)).toEqual({
      from: 'owner@example.test',
      to: ['A@example.test', 'b@example.test', 'c@example.test', 'd@example.test'],
    });
  });
});

describe('new Message-IDs', () => {
  test.each([
    ['owner@Example.test', 'example.test'],
    ['owner@Bücher.example', 'xn--bcher-kva.example'],
    ['owner@xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['owner@bücher.example/x', 'localhost.invalid'],
    [`owner@${'ü'.repeat(300)}.example`, 'localhost.invalid'],
    ['broken', 'broken'],
    ['', 'localhost.invalid'],
    ['a@b c', 'localhost.invalid'],
    ['a@[192.0.2.1]', 'localhost.invalid'],
  ])('%s', (address, domain) => {
    const id = newMessageId(address);
    expect(id).toMatch(/^<[0-9a-f]{32}@[a-z0-9.-]+>$/);
    expect(id.endsWith(`@${domain}>`)).toBe(true);
    expect(newMessageId(address)).not.toBe(id);
  });
});
