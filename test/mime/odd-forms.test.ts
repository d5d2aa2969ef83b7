import { describe, expect, test } from '@jest/globals';
import { readDate } from '../../src/mime/read/dates.ts';
import { read } from './read-fixture.ts';

/** Forms that other programs read, and that were not read here; each was found in public mail. */

const mail = (...lines: string[]) => read(Buffer.from(lines.join('\r\n'), 'latin1'));

describe('the header', () => {
  test.each([
    ['blanks in the first line', ['   ', '\t', 'From: Ann <ann@x.test>', 'Subject: one', '', 'text']],
    ['an indented first field', ['   From: Ann <ann@x.test>', 'Subject: one', '', 'text']],
    ['an empty and a blank line', ['', '  ', 'From: Ann <ann@x.test>', 'Subject: one', '', 'text']],
    ['a blank before the first colon', ['From  : Ann <ann@x.test>', 'Subject: one', '', 'text']],
  ])('%s', async (_, lines) => {
    expect(await mail(...lines)).toMatchObject({
      from: { identifier: 'ann@x.test', display_name: 'Ann' },
      subject: 'one',
      bodyPlain: 'text',
    });
  });

  test('a text without a header stays a text', async () => {
    expect(await mail('  ', 'just a text', 'of two lines')).toMatchObject({
      subject: '',
      bodyPlain: 'just a text\nof two lines',
    });
    expect(await mail('From ann@x.test Tue Mar  5 09:15:30 2024', 'Subject: one', '', 'text')).toMatchObject({
      subject: 'one',
    });
  });

  test.each([
    ['Wed, 20 Sep 1995 00:19:00 (EDT) -0400', '1995-09-20T04:19:00.000Z'],
    ['Fri, 21 Nov 1997 09(comment):   55  :  06 -0600', '1997-11-21T15:55:06.000Z'],
    ['Fri (a day (of a week)), 21 Nov 1997 09:55:06 -0600', '1997-11-21T15:55:06.000Z'],
  ])('the date %s', (value, expected) => {
    expect(readDate(value)?.toISOString()).toBe(expected);
  });

  test.each([
    ['Pete <pete(his account)@silly.test(his host)>', 'pete@silly.test'],
    ['Mary <@machine.tld,@other.tld:mary@example.net>', 'mary@example.net'],
    ['John <jdoe @ test . example>', 'jdoe@test.example'],
    ['<"odd (name)"@x.test>', '"odd (name)"@x.test'],
  ])('the address %s', async (value, expected) => {
    expect((await mail(`From: ${value}`, '', 'x')).from.identifier.replace(/\\/g, '')).toBe(expected);
  });

  test('a group in angle brackets is not an address', async () => {
    const { to } = await mail('From: a@x.test', 'To: <Undisclosed-Recipient:@mail.x.test;>', '', 'x');
    expect(to).toEqual([]);
  });
});

const part = (head: string[], body: string[]) => ['--b', ...head, '', ...body];
const mixed = (...parts: string[][]) =>
  mail('From: a@x.test', 'Content-Type: multipart/mixed; boundary=b', '', ...parts.flat(), '--b--', '');
const FILE = ['Content-Type: application/pdf; name=a.pdf', 'Content-Disposition: attachment'];

describe('files', () => {
  test.each([['7bit'], ['quoted-printable'], ['base64']])('an empty one before another, %s', async (encoding) => {
    const head = [...FILE, `Content-Transfer-Encoding: ${encoding}`];
    const content = encoding === 'base64' ? 'eA==' : 'x';
    const { attachments } = await mixed(part(head, []), part(head, [content]), part(head, []), part(head, [content]));
    expect(attachments.map(({ size }) => size)).toEqual([0, 1, 0, 1]);
  });

  test('a type without a subtype is replaced by that of the file name', async () => {
    const head = ['Content-Type: application-x-gzip; name="document.xml.gz"', 'Content-Transfer-Encoding: base64'];
    const { attachments, bodyPlain } = await mixed(part([], ['text']), part(head, ['H4sIAAAA']));
    expect(attachments.map(({ name, size }) => [name, size])).toEqual([['document.xml.gz', 6]]);
    expect(bodyPlain).toBe('text');
  });

  test('a disposition that is not a token is ignored', async () => {
    const { body } = await mail(
      'Content-Type: text/html',
      'Content-Disposition: =?utf-8?Q?invalid?=',
      '',
      '<b>foo</b>',
    );
    expect(body).toBe('<b>foo</b>');
  });
});

describe('ISO-2022-JP with bytes of 8 bits', () => {
  test('is decoded', async () => {
    const eucJp = '\xbc\xa1\xa4\xce\xb0\xb8\xc0\xe8\xa4\xd8\xa4\xce\xc5\xc1\xa4\xa8\xa4\xeb\xa4\xb3\xa4\xc8';
    const { bodyPlain } = await mail('Content-Type: text/plain; charset=iso-2022-jp', '', eucJp);
    expect(bodyPlain).toBe('次の宛先への伝えること');
  });

  test('has no invented characters', async () => {
    const { bodyPlain } = await mail('Content-Type: text/plain; charset=iso-2022-jp', '', '\x1b$B<!\x1b(B abc\x8adef');
    expect(bodyPlain).toBe('次 abc?def');
  });
});
