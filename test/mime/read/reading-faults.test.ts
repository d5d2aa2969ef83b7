import { describe, expect, test } from '@jest/globals';
import { htmlToPlain } from '../../../src/mime/html.ts';
import { message, read } from '../read-fixture.ts';

/* Forms that programs write against the RFCs, or that few write. */

const multipart = (type: string, body: string) =>
  message(['From: a@b.example', `Content-Type: multipart/${type}; boundary=b`], body);
const TEXT = 'Content-Type: text/plain\r\n\r\nhello';
const PDF = 'Content-Type: application/pdf; name=a.pdf\r\n\r\n%PDF-1';
const seen = async (source: Buffer) => {
  const mail = await read(source);
  const files = mail.attachments.map(({ name, content }) => [name, (content as Buffer).toString('latin1')]);
  return { plain: mail.bodyPlain.trim(), files };
};
const BOTH = { plain: 'hello', files: [['a.pdf', '%PDF-1']] };

describe('text behind a delimiter in its line (RFC 2046 5.1.1)', () => {
  test.each([
    ['after the closing one', `--b\r\n${TEXT}\r\n--b\r\n${PDF}\r\n--b-- footer of a list\r\nmore`],
    ['right after it', `--b\r\n${TEXT}\r\n--b\r\n${PDF}\r\n--b--footer`],
    ['after another', `--b\r\n${TEXT}\r\n--b (2 of 2)\r\n${PDF}\r\n--b--`],
    ['of great length', `--b\r\n${TEXT}\r\n--b\r\n${PDF}\r\n--b-- ${'x'.repeat(1500)}\r\n`],
  ])('%s adds nothing to a part', async (_, body) => {
    expect(await seen(multipart('mixed', body))).toEqual(BOTH);
  });

  test('a line that only begins like a delimiter is content', async () => {
    const { plain } = await seen(multipart('mixed', `--b\r\n${TEXT}\r\n--bold\r\n--\r\n-- b\r\n--b--\r\n`));
    expect(plain).toBe('hello\n--bold\n--\n-- b');
  });

  test('of two boundaries, the longer one counts', async () => {
    const inner = `Content-Type: multipart/alternative; boundary="b--i"\r\n\r\n--b--i\r\n${TEXT}\r\n--b--i-- x`;
    expect(await seen(multipart('mixed', `--b\r\n${inner}\r\n--b\r\n${PDF}\r\n--b--`))).toEqual(BOTH);
  });
});

test.each(['quoted-printable', 'base64', '7bit', '8BIT'])(
  'Content-Disposition: %s does not make a file of a body',
  async (word) => {
    expect(
      await seen(message(['From: a@b.example', 'Content-Type: text/plain', `Content-Disposition: ${word}`], 'hello')),
    ).toEqual({
      plain: 'hello',
      files: [],
    });
  },
);

describe('the hint above the first part', () => {
  test.each([
    ['names MIME', `You need a program for MIME.\r\n--b\r\n${PDF}\r\n--b--`],
    [
      'stands before another kind of text',
      `Ein Hinweis.\r\n--b\r\nContent-Type: text/richtext\r\n\r\n<bold>x</bold>\r\n--b--`,
    ],
    [
      'stands before an encrypted message',
      `A hint.\r\n--b\r\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\r\n\r\nx\r\n--b--`,
    ],
  ])('that %s is not the text', async (_, body) => {
    expect((await read(multipart('mixed', body))).bodyPlain).toBe('');
  });
});

describe('UTF-8 under the name of a charset for Chinese', () => {
  const TEXT_ZH = '你好，我们明天在车站见面吧。';
  test.each(['gb2312', 'GBK', 'gb18030', 'big5'])('%s', async (charset) => {
    const mail = await read(message(['From: a@b.example', `Content-Type: text/plain; charset=${charset}`], TEXT_ZH));
    expect(mail.bodyPlain).toBe(TEXT_ZH);
  });

  test('GB2312 stays GB2312', async () => {
    const body = Buffer.from('c4e3bac3a3acced2c3c7c3f7ccecd4dab3b5d5bebcfbc3e6b0c9a1a3', 'hex');
    const head = message(['From: a@b.example', 'Content-Type: text/plain; charset=gb2312']);
    expect((await read(Buffer.concat([head, body]))).bodyPlain).toBe(TEXT_ZH);
  });
});

test.each([
  ['<pre>see <a href="https://a.test">https://a.test</a> now</pre>', 'see https://a.test now'],
  ['<pre><a href="https://a.test/x">the page</a></pre>', 'the page <https://a.test/x>'],
  ['<p><a href="https://a.test">https://a.test</a></p>', 'https://a.test'],
  [
    '<p><a href="https://a.test"><b>the</b> page</a> <a href="mailto:ada@b.example">ada@b.example</a></p>',
    'the page <https://a.test> ada@b.example',
  ],
  ['<a href="https://a.test"><img src="x.png"></a>', 'https://a.test'],
  ['<a href="#top">up</a> <a name="x">here</a>', 'up here'],
])('the link in %s is written once', (html, plain) => {
  expect(htmlToPlain(html)).toBe(plain);
});

test('an image that the HTML shows by its Content-Location is no file for the reader', async () => {
  const html = 'Content-Type: text/html\r\n\r\n<img src="https://b.example/i/a.gif?x=1&amp;y=2">';
  const image = (location: string, name: string) =>
    `Content-Type: image/gif; name=${name}\r\nContent-Location: ${location}\r\n\r\nGIF`;
  const body = `--b\r\n${html}\r\n--b\r\n${image('https://b.example/i/a.gif?x=1&y=2', 'a.gif')}\r\n--b\r\n${image('c.gif', 'c.gif')}\r\n--b--`;
  const { attachments } = await read(multipart('related', body));
  expect(attachments.map(({ name, inline, embedded }) => [name, inline, embedded])).toEqual([
    ['a.gif', true, true],
    ['c.gif', false, false],
  ]);
});

test('an image that the HTML shows is found by a reference beyond ASCII (RFC 6532)', async () => {
  const image = (field: string) => `--b\r\nContent-Type: image/gif; name=a.gif\r\n${field}\r\n\r\nGIF`;
  const html = '--b\r\nContent-Type: text/html\r\n\r\n<img src="cid:grün@b.example"><img src="grün.gif">';
  const body = [html, image('Content-ID: <grün@b.example>'), image('Content-Location: grün.gif'), '--b--'].join('\r\n');
  const { attachments } = await read(multipart('mixed', body));
  expect(attachments.map(({ cid, inline }) => [cid, inline])).toEqual([
    ['grün@b.example', true],
    [null, true],
  ]);
});

test('the sender in the text of a bounce is not the recipient', async () => {
  const { bounce } = await read(
    message(
      ['From: MAILER-DAEMON@isp.example', 'To: me@own.example', 'Return-Path: <>', 'Subject: failure notice'],
      'me@own.example sent a message that could not be delivered: 550 5.1.1 no mailbox\r\nDelivery failed to gone@far.example\r\n',
    ),
  );
  expect(bounce).toMatchObject({ recipient: 'gone@far.example', recipients: [{ address: 'gone@far.example' }] });
});

describe('a named file that the mail does not show is a file for the reader', () => {
  const INLINE = 'Content-Disposition: inline; filename=a.pdf\r\nContent-ID: <1@a.example>';
  const part = (type: string, ...fields: string[]) =>
    `--b\r\nContent-Type: ${[type, ...fields].join('\r\n')}\r\n\r\nx\r\n`;
  const embedded = async (type: string, ...parts: string[]) =>
    (await read(multipart(type, `${parts.join('')}--b--`))).attachments.map((file) => file.embedded);

  test.each([
    ['a PDF marked inline beside plain text', 'mixed', [part('text/plain'), part('application/pdf', INLINE)], false],
    ['a PDF marked inline beside HTML', 'mixed', [part('text/html'), part('application/pdf', INLINE)], false],
    [
      'a PDF in multipart/related',
      'related',
      [part('text/html'), part('application/pdf; name=a.pdf', 'Content-ID: <1@a>')],
      false,
    ],
    ['an image marked inline beside plain text', 'mixed', [part('text/plain'), part('image/jpeg', INLINE)], false],
    [
      'but no image with a Content-ID in a mail with HTML',
      'mixed',
      [part('text/html'), part('image/jpeg', INLINE)],
      true,
    ],
    ['and no unnamed part', 'related', [part('text/html'), part('application/pdf', 'Content-ID: <1@a>')], true],
  ])('%s', async (_, type, parts, expected) => {
    expect(await embedded(type, ...parts)).toEqual([expected]);
  });
});

test('a line break in encoded words is a blank', async () => {
  const mail = await read(
    message(['From: a@b.example', 'Subject: =?utf-8?Q?one=0D=0A_two=0A?=', 'X-A: =?utf-8?B?YQ1i?=']),
  );
  expect(mail.subject).toBe('one two');
  expect(mail.headers.at(-1)?.value).toBe('a b');
});

describe('a text is left out only where an alternative of it is shown', () => {
  const part = (type: string, content: string) => `Content-Type: ${type}\r\n\r\n${content}`;
  const plain = (content: string) => part('text/plain', content);
  const html = (content: string) => part('text/html', content);
  const group = (type: string, boundary: string, ...parts: string[]) =>
    part(
      `multipart/${type}; boundary=${boundary}`,
      `${parts.map((each) => `--${boundary}\r\n${each}\r\n`).join('')}--${boundary}--`,
    );
  const PDF_PART = part('application/pdf; name=a.pdf', 'x');

  test.each([
    [
      'HTML whose alternative is missing, above the footer of a list',
      group('mixed', 'a', group('alternative', 'b', html('The message')), plain('footer')),
      { body: 'The message<br/>\n<p>footer</p>', bodyPlain: 'The message\nfooter' },
    ],
    [
      'plain text beside an invitation, above a footer in HTML',
      group('mixed', 'a', group('alternative', 'b', plain('The message'), part('text/calendar', 'x')), html('footer')),
      { body: '<p>The message</p><br/>\nfooter', bodyPlain: 'The message\nfooter' },
    ],
    [
      'two groups of alternatives',
      group(
        'mixed',
        'a',
        group('alternative', 'b', plain('one')),
        group('alternative', 'c', plain('two'), html('<b>two</b>')),
      ),
      { body: '<p>one</p><br/>\n<b>two</b>', bodyPlain: 'one\ntwo' },
    ],
    [
      'HTML with its images',
      group('alternative', 'a', plain('text'), group('related', 'b', html('<b>text</b>'), PDF_PART)),
      { body: '<b>text</b>', bodyPlain: 'text' },
    ],
    [
      'HTML around a file, as Apple Mail writes it',
      group('alternative', 'a', plain('text'), group('mixed', 'b', html('<b>te</b>'), PDF_PART, html('<b>xt</b>'))),
      { body: '<b>te</b><br/>\n<b>xt</b>', bodyPlain: 'text' },
    ],
    [
      'a footer in the only alternative',
      group('alternative', 'a', group('mixed', 'b', html('The message'), plain('footer')), part('text/calendar', 'x')),
      { body: 'The message<br/>\n<p>footer</p>', bodyPlain: 'The message\nfooter' },
    ],
    [
      'alternatives around alternatives',
      group('alternative', 'a', plain('text'), group('alternative', 'b', html('<b>text</b>'))),
      { body: '<b>text</b>', bodyPlain: 'text' },
    ],
  ])('%s', async (_, source, expected) => {
    expect(await read(Buffer.from(`From: a@b.example\r\n${source}`))).toMatchObject(expected);
  });
});
