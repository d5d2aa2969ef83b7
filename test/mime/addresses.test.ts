import { describe, expect, test } from '@jest/globals';
import { readMessageIds } from '../../src/mime/message-ids.ts';
import { read as readMail } from './read-fixture.ts';

/** A message with these fields, given as one character a byte. */
const mailOf = (name: string, raw: string[], charset = 'us-ascii') => {
  const lines = [...raw.map((value) => `${name}: ${value}`), `Content-Type: text/plain; charset=${charset}`];
  return readMail(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'));
};
const read = async (...raw: string[]) => (await mailOf('To', raw)).to.map((who) => [who.identifier, who.display_name]);
const readFrom = async (raw: string[], charset?: string) => (await mailOf('From', raw, charset)).from;
const binary = (text: string, encoding: BufferEncoding = 'utf8') => Buffer.from(text, encoding).toString('latin1');

describe('address headers', () => {
  test.each([
    ['ann@Example.org', [['ann@Example.org', '']]],
    ['Ann Lee <ann@example.org>', [['ann@example.org', 'Ann Lee']]],
    [
      '"Lee, Ann" <ann@example.org>, bo@example.net',
      [
        ['ann@example.org', 'Lee, Ann'],
        ['bo@example.net', ''],
      ],
    ],
    ['ann@example.org (Ann Lee)', [['ann@example.org', 'Ann Lee']]],
    ['=?utf-8?B?TGVlLCBBbm4=?= <ann@example.org>', [['ann@example.org', 'Lee, Ann']]],
    ['=?utf-8?Q?J=C3=BCrgen?= =?utf-8?Q?_M=C3=BCller?= <j@example.org>', [['j@example.org', 'Jürgen Müller']]],
    // Jane <jane@x.y>: an address is never within an encoded word (RFC 2047 5)
    ['=?utf-8?B?SmFuZSA8amFuZUB4Lnk+?=', []],
    ['=?utf-8?B?SmFuZSA8amFuZUB4Lnk+?= <eve@x.y>', [['eve@x.y', 'Jane <jane@x.y>']]],
    [
      'Team: ann@example.org, Bo <bo@example.net>;, cy@example.com',
      [
        ['ann@example.org', ''],
        ['bo@example.net', 'Bo'],
        ['cy@example.com', ''],
      ],
    ],
    ['undisclosed-recipients:;', []],
    ['<>', []],
    ['', []],
    ['root', [['root', '']]],
    ['Just A Name', []],
    ['"ann@example.org" <ann@example.org>', [['ann@example.org', '']]],
    [
      'ann@example.org; bo@example.net',
      [
        ['ann@example.org', ''],
        ['bo@example.net', ''],
      ],
    ],
    [`${'x'.repeat(400)}@example.org`, []],
  ])('%s', async (raw, expected) => {
    expect(await read(raw)).toEqual(expected);
  });

  test('headers with the same name are combined', async () => {
    expect(await read('a@x.y', 'b@x.y')).toEqual([
      ['a@x.y', ''],
      ['b@x.y', ''],
    ]);
  });

  test('raw 8-bit names are read as UTF-8, else as the charset of the mail, else as Windows-1252', async () => {
    expect(await read(binary('Jörg <j@x.y>'))).toEqual([['j@x.y', 'Jörg']]);
    expect(await read(binary('Jörg <j@x.y>', 'latin1'))).toEqual([['j@x.y', 'Jörg']]);
    expect((await readFrom(['\xf0\xd2\xc9\xd7\xc5\xd4 <p@x.y>'], 'koi8-r')).display_name).toBe('Привет');
  });

  test('the author is the first address; without one, the name is kept', async () => {
    expect((await readFrom([])).identifier).toBe('');
    expect((await readFrom(['', 'Ann <ann@x.y>'])).identifier).toBe('ann@x.y');
    expect(await readFrom(['No Address Here'])).toMatchObject({ identifier: '', display_name: 'No Address Here' });
  });
});

describe('message ids', () => {
  test.each([
    ['<a@b>', ['<a@b>']],
    [' <a@b> (comment) <c@d>\t<a@b>', ['<a@b>', '<c@d>']],
    ['<a\r\n b@c>', ['<ab@c>']],
    ['a@b', ['<a@b>']],
    ['a@b c@d', ['<a@b>', '<c@d>']],
    ['Your message of Tuesday', []],
    ['mail from ann@example.org of Tuesday', []],
    ['Your message of Tuesday <a@b>', ['<a@b>']],
    ['no-at-sign', ['<no-at-sign>']],
    ['<>', []],
    ['<', []],
    ['', []],
  ])('%j', (value, expected) => {
    expect(readMessageIds(value)).toEqual(expected);
  });

  test('an endless id is always cut in the same way', () => {
    const [id] = readMessageIds(`<${'x'.repeat(100_000)}@y>`);
    expect(id).toHaveLength(602);
    expect(readMessageIds(`<${'x'.repeat(200_000)}@z>`)).toEqual([id]);
  });
});

test('are bounded in number', async () => {
  const mail = await mailOf('To', Array<string>(60).fill(`${'a@b.c,'.repeat(2_500)}d@e.f`));
  expect(mail.to).toHaveLength(2_000);
  expect(JSON.stringify(mail.to).length).toBeLessThan(300_000);
});
