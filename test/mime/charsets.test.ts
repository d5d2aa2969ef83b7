import { describe, expect, test } from '@jest/globals';
import { decodeBytes } from '../../src/mime/read/charsets.ts';
import { message, read } from './read-fixture.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';

const bytes = (latin1: string): Buffer => Buffer.from(latin1, 'latin1');
const GERMAN = 'Gr\xfc\xdfe aus K\xf6ln, sch\xf6ne Gr\xfc\xdfe, \xc4pfel und \xd6l';
const KOI8 = Buffer.from('f0d2c9d7c5d42c20cbc1cb20c4c5ccc13f20f1207ed4d520cec5c4c5ccc020d220cdcfd3cbd7c5', 'hex');

describe('bytes without a charset, or in a wrong one', () => {
  test.each(['', 'us-ascii', 'utf-8', 'UTF8', 'x-unknown', 'no-such-charset', '8bit', 'unicode-1-1-utf-8'])(
    'labelled %j: one accidental pair of bytes does not make them UTF-8',
    (label) => {
      expect(decodeBytes(bytes(`${GERMAN} \xc3\xa4`), label)).toBe('Grüße aus Köln, schöne Grüße, Äpfel und Öl Ã¤');
    },
  );

  test.each(['', 'us-ascii', 'utf-8'])('labelled %j: UTF-8 with broken bytes keeps both', (label) => {
    const mixed = Buffer.concat([Buffer.from('Grüße aus Köln, schöne Grüße '), bytes('\xfc und \x93\x94')]);
    expect(decodeBytes(mixed, label)).toBe('Grüße aus Köln, schöne Grüße ü und “”');
  });

  test('UTF-8 that is cut off within a character stays UTF-8', () => {
    expect(decodeBytes(Buffer.from('Grüße 🍺').subarray(0, -2), null)).toBe('Grüße ');
  });

  test('a charset that the mail names elsewhere decides', () => {
    expect(decodeBytes(bytes('\xf0\xd2\xc9\xd7\xc5\xd4'), null, 'utf-8', 'koi8-r')).toBe('Привет');
    expect(decodeBytes(bytes('\xf0\xd2\xc9\xd7\xc5\xd4'), 'utf-8', 'koi8-r')).toBe('Привет');
    expect(decodeBytes(bytes('caf\xe9'), null, 'no-such-charset', 'utf-8')).toBe('café');
  });

  test.each<[string, Buffer, string]>([
    ['KOI8-R', KOI8, 'Привет, как дела?'],
    [
      'Shift_JIS',
      Buffer.from('82b182f182c982bf82cd90a28a4581418da193fa82cd82a28ca293f682cd82c882c882c882c5', 'hex'),
      'こんにちは世界',
    ],
    [
      'EUC-KR',
      Buffer.from('bec8b3e7c7cfbcbcbfe420b9ddb0a9bdc0b4cfb4d92e20bfc0b4c320b3afbebeb0a120c1c1bdc0b4cfb4d9', 'hex'),
      '안녕하세요',
    ],
    ['Windows-1252', bytes(`${GERMAN} \x96 \x80 5`), 'Grüße aus Köln'],
  ])('are detected: %s', (_, source, start) => {
    expect(decodeBytes(source, null).startsWith(start)).toBe(true);
  });
});

describe('charsets that are seldom supported', () => {
  test.each<[string, Buffer, string]>([
    ['hz-gb-2312', bytes('This is ~{<:Ky2;NpP#~} ~~ x'), 'This is 己所不勿校 ~ x'],
    ['iso-2022-kr', bytes('\x1b$)C\r\n\x0e>H3g\x0f hi'), '안녕 hi'],
    ['johab', Buffer.from('b4659177d061ad41b66120f7d3f1ae208841d932', 'hex'), '안녕하세요 漢字 ㄱ、'],
    ['x-mac-cyrillic', Buffer.from('8ff0e8e2e5f2', 'hex'), 'Привет'],
    ['ks_c_5601-1987', Buffer.from('b0a1', 'hex'), '가'],
    ['uhc', Buffer.from('8c63b0a1', 'hex'), '똠가'],
    ['cn-gb', Buffer.from('c4e3bac3', 'hex'), '你好'],
    ['unicode', Buffer.from('480061006c006c006f002000ac20', 'hex'), 'Hallo €'],
    ['unicode', Buffer.from('feff4f60597d', 'hex'), '你好'],
    ['unicode', Buffer.from('Grüße'), 'Grüße'],
    ['x-unicode-2-0-utf-7', bytes('Gr+APwA3w-e'), 'Grüße'],
    ['macintosh', Buffer.from('db208a', 'hex'), '€ ä'],
    ['x-mac-roman', Buffer.from('db208a', 'hex'), '€ ä'],
    ['cp65001', Buffer.from('ä'), 'ä'],
    ['"iso-8859-2"', Buffer.from('b3f3', 'hex'), 'łó'],
  ])('%s', (label, source, expected) => {
    expect(decodeBytes(source, label)).toBe(expected);
  });
});

test.each([
  ['line breaks', 'hz-gb-2312', `~{${'\n'.repeat(200_000)}x`],
  ['quotes in the name of a charset', `x${'"'.repeat(200_000)}y`, 'x'],
])('%s take no time', (_, label, text) => {
  expectCpuBelow(2_000, () => decodeBytes(bytes(text), label));
});

describe('headers in raw 8 bits', () => {
  const subjectOf = async (lines: string[], body = '') =>
    (await read(Buffer.concat(lines.map((line) => bytes(`${line}\r\n`)).concat(bytes(`\r\n${body}`))))).subject;

  test.each<[string, string[], string, string]>([
    [
      'take the charset of the body',
      ['Subject: \xf0\xd2\xc9\xd7\xc5\xd4', 'Content-Type: text/plain; charset=koi8-r'],
      '',
      'Привет',
    ],
    [
      'take the charset of a part',
      ['Subject: \xf0\xd2\xc9\xd7\xc5\xd4', 'Content-Type: multipart/mixed; boundary=b'],
      '--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nx\r\n--b\r\nContent-Type: text/plain; charset=koi8-r\r\n\r\nx\r\n--b--',
      'Привет',
    ],
    [
      'take the charset of the HTML',
      ['Subject: \xf0\xd2\xc9\xd7\xc5\xd4', 'Content-Type: text/html'],
      '<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">',
      'Привет',
    ],
    [
      'are not lost for one pair of bytes',
      ['Subject: \xfc\xf6\xe4 \xc3\xa4 \xdf', 'Content-Type: text/plain'],
      '',
      'üöä Ã¤ ß',
    ],
    ['keep their encoded words apart', ['Subject: =?koi8-r?B?8NLJ18XU?= \xe4'], '', 'Привет ä'],
    ['may be inside of an encoded word', ['Subject: =?iso-8859-1?Q?Gr\xfc\xdfe_aus_K=F6ln?='], '', 'Grüße aus Köln'],
    ['may be inside of an encoded word in UTF-8', ['Subject: =?utf-8?Q?Gr\xc3\xbc\xc3\x9fe?='], '', 'Grüße'],
  ])('%s', async (_, lines, body, expected) => {
    expect(await subjectOf(lines, body)).toBe(expected);
  });

  test('names of people too', async () => {
    const mail = await read(
      bytes('From: =?iso-8859-1?Q?Gr\xfc\xdfe?= <a@x.y>\r\nTo: "=?hz-gb-2312?Q?~{<:Ky~}?=" <b@x.y>\r\n\r\n'),
    );
    expect([mail.from.display_name, mail.to[0]?.display_name]).toEqual(['Grüße', '己所']);
  });

  test('a character cut between two encoded words is restored', async () => {
    const mail = await read(
      message([
        'Subject: =?utf-8?B?w4Q=?= =?utf-8?B?w4Q=?=',
        'X-A: =?utf-8?Q?=C3?= =?utf-8?Q?=84?=\r\n =?utf-8?B?w4Q=?= =?iso-8859-1?Q?=E4_?= end',
      ]),
    );
    expect([mail.subject, mail.headers[1]?.value]).toEqual(['ÄÄ', 'ÄÄä  end']);
  });
});

describe('text of 8 bits under the name of a charset of 16 or 32', () => {
  test.each(['utf-16', 'UTF-16LE', 'utf16be', 'utf-32', 'ucs-2'])('%s', (label) => {
    expect(decodeBytes(Buffer.from('Hello there, Grüße'), label)).toBe('Hello there, Grüße');
  });

  test('the bytes of such a charset are read by it', () => {
    expect(decodeBytes(Buffer.from('Grüße, 你好', 'utf16le'), 'utf-16le')).toBe('Grüße, 你好');
  });

  test.each(['utf-16', 'unicode'])('the name %s in HTML says nothing', async (name) => {
    const html = `<html><head><META http-equiv="Content-Type" content="text/html; charset=${name}"></head>caf\xe9 and more</html>`;
    const mail = await read(bytes(`Subject: caf\xe9 and more\r\nContent-Type: text/html\r\n\r\n${html}`));
    expect(mail.subject).toBe('café and more');
    expect(mail.body).toContain('café and more');
  });
});
