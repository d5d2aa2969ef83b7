import { describe, expect, test } from '@jest/globals';
import type { ParsedMail } from '../../src/mime/read/parsed-mail.ts';
import { message, read } from './read-fixture.ts';

/* Structures that break RFC 2046: no text and no file of them may be lost, and no delimiter may become text. */

const seen = (mail: ParsedMail) => ({
  plain: mail.bodyPlain.trim(),
  files: mail.attachments.map(({ name, content }) => [name, (content as Buffer).toString('latin1')]),
});
const mixed = (body: string, boundary = 'boundary=b') =>
  message(['Subject: s', `Content-Type: multipart/mixed; ${boundary}`], body);
const text = (content: string) => `Content-Type: text/plain\r\n\r\n${content}`;
const file = (name: string, content = 'bytes') =>
  `Content-Type: application/zip; name=${name}\r\nContent-Disposition: attachment\r\n\r\n${content}`;
const TEXT_AND_FILE = { plain: 'hello', files: [['a.zip', 'bytes']] };

describe('delimiters', () => {
  test.each<[string, Buffer]>([
    ['end in blanks', mixed(`--b \r\n${text('hello')}\r\n--b\t\r\n${file('a.zip')}\r\n--b-- \r\n`)],
    [
      'of the message end a multipart that was left open',
      mixed(
        `--b\r\nContent-Type: multipart/alternative; boundary=i\r\n\r\n--i\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`,
      ),
    ],
    [
      'of the message end three multiparts that were left open',
      mixed(
        `--b\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\nContent-Type: multipart/related; boundary=j\r\n\r\n--j\r\nContent-Type: multipart/alternative; boundary=k\r\n\r\n--k\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`,
      ),
    ],
    [
      'are not those that an inner multipart names',
      mixed(
        `--b\r\nContent-Type: multipart/alternative; boundary=other\r\n\r\n--used\r\n${text('hello')}\r\n--used--\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`,
      ),
    ],
    [
      'have no name in an inner multipart',
      mixed(
        `--b\r\nContent-Type: multipart/alternative\r\n\r\n--used\r\n${text('hello')}\r\n--used--\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`,
      ),
    ],
    ['have no name at all', mixed(`--used\r\n${text('hello')}\r\n--used\r\n${file('a.zip')}\r\n--used--\r\n`, 'x=y')],
    [
      'are other ones than the message says',
      mixed(`--used\r\n${text('hello')}\r\n--used\r\n${file('a.zip')}\r\n--used--\r\n`),
    ],
    [
      'close the message, and parts follow',
      mixed(`--b\r\n${text('hello')}\r\n--b--\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`),
    ],
    [
      'are the same in two levels',
      mixed(
        `--b\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n${text('hello')}\r\n--b--\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`,
      ),
    ],
    [
      'have one quote in their name',
      mixed(`--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`, 'boundary="b'),
    ],
    [
      'have a comment in their name',
      mixed(`--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`, '(a comment) boundary=b (another)'),
    ],
    ['are doubled', mixed(`--b\r\n--b\r\n${text('hello')}\r\n--b\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n--b--\r\n`)],
    ['never close', mixed(`--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}`)],
    [
      'have LF alone',
      Buffer.from(
        mixed(`--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`)
          .toString()
          .replaceAll('\r\n', '\n'),
      ),
    ],
    [
      'have CR alone',
      Buffer.from(
        mixed(`--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`)
          .toString()
          .replaceAll('\r\n', '\r'),
      ),
    ],
    [
      'have CR CR LF',
      Buffer.from(
        mixed(`--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`)
          .toString()
          .replaceAll('\r\n', '\r\r\n'),
      ),
    ],
    [
      'follow a type in quotes',
      message(
        ['Subject: s', 'Content-Type: "multipart/mixed" (two parts); boundary=b'],
        `--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`,
      ),
    ],
    [
      'follow a byte order mark',
      Buffer.concat([
        Buffer.from([0xef, 0xbb, 0xbf]),
        mixed(`--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`),
      ]),
    ],
    [
      'follow empty lines before the header',
      Buffer.concat([
        Buffer.from('\r\n\r\n'),
        mixed(`--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`),
      ]),
    ],
  ])('%s', async (_, source) => {
    const mail = await read(source);
    expect(seen(mail)).toEqual(TEXT_AND_FILE);
    expect(mail).toMatchObject({ subject: 's', isPartial: false });
  });

  test('are found wherever the message is cut into pieces', async () => {
    const source = mixed(
      `preamble\r\n--b \r\n${text('hello')}\r\n--b\r\n${file('a.zip', `${'x'.repeat(50)}\r\n\r\n-`)}\r\n--b--\r\n`,
    );
    for (let size = 262_100; size < 262_500; size += 7) {
      const padded = Buffer.concat([Buffer.from(`X: ${'y'.repeat(size - 3)}\r\n`), source]);
      expect(seen(await read(padded))).toEqual({ plain: 'hello', files: [['a.zip', `${'x'.repeat(50)}\r\n\r\n-`]] });
    }
  });

  test('at a depth of 1,000 and more are not text', async () => {
    const open = Array.from(
      { length: 3000 },
      (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\r\n\r\n--b${i}\r\n`,
    );
    const mail = await read(
      Buffer.from(`Subject: s\r\n${open.join('')}${text('hello')}\r\n--b0\r\n${file('a.zip')}\r\n--b0--\r\n`),
    );
    expect(seen(mail)).toEqual(TEXT_AND_FILE);
  });

  test('a line of dashes in a text is not a delimiter', async () => {
    const body = `hello\r\n--\r\n-- \r\n--x\r\n--bb\r\n---b\r\n --b`;
    expect((await read(mixed(`--b\r\n${text(body)}\r\n--b--\r\n`))).bodyPlain).toBe(body.replaceAll('\r\n', '\n'));
  });
});

describe('text outside of parts', () => {
  test.each<[string, string, string]>([
    ['is the text of a mail whose only part is a file', `hello\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`, 'hello'],
    ['counts after the last part too', `--b\r\n${file('a.zip')}\r\n--b--\r\nhello\r\n`, 'hello'],
    [
      'is not a text when it explains MIME',
      `This is a multi-part message in MIME format.\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`,
      '',
    ],
    [
      'is left out where there is a text',
      `before\r\n--b\r\n${text('hello')}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\nafter`,
      'hello',
    ],
  ])('%s', async (_, body, plain) => {
    expect(seen(await read(mixed(body)))).toEqual({ plain, files: [['a.zip', 'bytes']] });
  });

  test('is the text of an inner multipart without parts', async () => {
    const inner = 'Content-Type: multipart/alternative; boundary=i\r\n\r\nhello';
    expect(seen(await read(mixed(`--b\r\n${inner}\r\n--b\r\n${file('a.zip')}\r\n--b--\r\n`)))).toEqual(TEXT_AND_FILE);
  });
});

describe('headers', () => {
  test.each<[string, string, string, string]>([
    ['without an empty line before the text', 'Subject: s\r\nhello there\r\nyou', 's', 'hello there\nyou'],
    ['with a stray line', 'From: a@x.y\r\nthis is no field\r\nSubject: s\r\n\r\nhello', 's', 'hello'],
    ['after the line of an mbox', 'From a@x.y Tue Mar  5 09:15:30 2024\r\nSubject: s\r\n\r\nhello', 's', 'hello'],
    ['in CR alone', 'Subject: s\rFrom: a@x.y\r\rhello\ryou', 's', 'hello\nyou'],
    ['in CR CR LF', 'Subject: s\r\r\nFrom: a@x.y\r\r\n\r\r\nhello\r\r\nyou', 's', 'hello\nyou'],
    ['after a byte order mark', '\ufeffSubject: s\r\n\r\nhello', 's', 'hello'],
  ])('%s', async (_, source, subject, plain) => {
    expect(await read(Buffer.from(source))).toMatchObject({ subject, bodyPlain: plain });
  });

  test('a part without an empty line keeps its text', async () => {
    expect((await read(mixed('--b\r\nContent-Type: text/plain\r\nhello\r\n--b--\r\n'))).bodyPlain).toBe('hello');
    expect((await read(mixed('--b\r\nhello\r\n--b--\r\n'))).bodyPlain).toBe('hello');
  });

  test('a part without an empty line keeps its content before another part', async () => {
    const bare = (type: string, content: string) => `Content-Type: ${type}\r\n${content}`;
    const body = [
      bare('text/plain', 'hello'),
      bare('application/zip; name=a.zip\r\nContent-Transfer-Encoding: base64', 'Ynl0ZXM='),
      file('b.zip'),
    ];
    expect(seen(await read(mixed(`${body.map((part) => `--b\r\n${part}\r\n`).join('')}--b--`)))).toEqual({
      plain: 'hello',
      files: [
        ['a.zip', 'bytes'],
        ['b.zip', 'bytes'],
      ],
    });
  });

  test('a stray line in the header of a part does not end it', async () => {
    const part =
      'Content-Type: application/zip; name=a.zip\r\nno field\r\nContent-Transfer-Encoding: base64\r\n\r\nYnl0ZXM=';
    expect(seen(await read(mixed(`--b\r\n${text('hello')}\r\n--b\r\n${part}\r\n--b--`)))).toEqual(TEXT_AND_FILE);
  });
});

describe('named texts', () => {
  const names = (mail: ParsedMail) => mail.attachments.map(({ name }) => name);
  const html = 'Content-Type: text/html\r\n\r\n<p>hello</p>';
  const notes = 'Content-Type: text/plain; name=notes.txt\r\n\r\nnotes';
  const inner = (type: string, ...parts: string[]) =>
    `Content-Type: multipart/${type}; boundary=${type}\r\n\r\n${parts.map((part) => `--${type}\r\n${part}\r\n`).join('')}--${type}--`;

  test.each<[string, string]>([
    ['among alternatives that have a text', inner('alternative', text('hello'), html, notes)],
    ['in multipart/related', inner('related', html, notes)],
    ['in multipart/related among alternatives', inner('alternative', text('hello'), inner('related', html, notes))],
    ['next to a body', inner('mixed', text('hello'), notes)],
    ['before the body', inner('mixed', notes, text('hello'))],
  ])('%s are files', async (_, source) => {
    const mail = await read(Buffer.from(`Subject: s\r\n${source}\r\n`));
    expect([mail.bodyPlain, names(mail)]).toEqual(['hello', ['notes.txt']]);
  });

  test.each<[string, string]>([
    ['as the only text', 'Content-Type: text/plain; name=mail.txt\r\n\r\nhello'],
    [
      'as alternatives',
      inner(
        'alternative',
        'Content-Type: text/plain; name=mail.txt\r\n\r\nhello',
        'Content-Type: text/html; name=mail.html\r\n\r\n<p>hello</p>',
      ),
    ],
  ])('%s are the body', async (_, source) => {
    const mail = await read(Buffer.from(`Subject: s\r\n${source}\r\n`));
    expect([mail.bodyPlain.trim(), names(mail)]).toEqual(['hello', []]);
  });

  test('Markdown is a text where it is the mail, and has its ending where it is a file', async () => {
    expect((await read(message(['Content-Type: text/markdown'], '# hello'))).bodyPlain).toBe('# hello');
    const mail = await read(
      mixed(`--b\r\n${text('hello')}\r\n--b\r\nContent-Type: text/markdown\r\n\r\n# more\r\n--b--\r\n`),
    );
    expect(names(mail)).toEqual(['attachment-1.md']);
  });
});
