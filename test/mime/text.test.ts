import { describe, expect, test } from '@jest/globals';
import { htmlToPlain, stripTags, textToHtml } from '../../src/mime/html.ts';
import { decodeFlowed } from '../../src/mime/read/body.ts';
import { createLineEndRepair } from '../../src/mime/read/line-ends.ts';
import { read } from './read-fixture.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';

describe('HTML from text', () => {
  test.each([
    ['', ''],
    ['\n \n', ''],
    ['one\ntwo\n\nthree', '<p>one<br/>\ntwo</p>\n<p>three</p>'],
    ['<script>alert("x")</script> & \'', '<p>&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#39;</p>'],
    [
      'go to https://a.example/b?c=1&d=2.',
      '<p>go to <a href="https://a.example/b?c=1&amp;d=2">https://a.example/b?c=1&amp;d=2</a>.</p>',
    ],
    ['(http://a.example)', '<p>(<a href="http://a.example">http://a.example</a>)</p>'],
    ['javascript:alert(1)', '<p>javascript:alert(1)</p>'],
    ['a  b', '<p>a&nbsp; b</p>'],
  ])('%j', (text, html) => {
    expect(textToHtml(text)).toBe(html);
  });
});

test('links with long runs of punctuation take no time', () => {
  expectCpuBelow(1_000, () => textToHtml(`http://x.test/${')'.repeat(1_900)}x `.repeat(1_000)));
});

test('line ends of many CR take no time, and stay one line end', () => {
  const repaired = (text: string) => createLineEndRepair()(Buffer.from(text), true).toString();
  expect(repaired('a: b\r\r\nc\r\r\r\n')).toBe('a: b\r\nc\r\n');
  expectCpuBelow(2_000, () => repaired(`a: b\r\r\n${'\r'.repeat(200_000)}x`));
});

describe('text from HTML', () => {
  test.each([
    ['<p>One &amp; two<br>three</p>', 'One & two\nthree'],
    ['<h1>Title</h1><p>Body</p>', 'Title\n\nBody'],
    ['<head><title>T</title></head><style>p{}</style><script>x()</script><p>Seen</p>', 'Seen'],
    ['<a href="https://a.example/x">more</a>', 'more <https://a.example/x>'],
    ['<a href="https://a.example">https://a.example</a>', 'https://a.example'],
    ['<table><tr><td>Sum</td><td>12</td></tr><tr><td>Tax</td><td>3</td></tr></table>', 'Sum 12\nTax 3'],
    ['<img src="cid:x" alt="logo">text', 'text'],
    ['<div>my reply</div><html><head><title>T</title></head><body><p>quoted</p></body></html>', 'my reply\n\nquoted'],
    ['<html><body><p>quoted</p></body></html><p>my reply</p>', 'quoted\n\nmy reply'],
    ['my reply<html><body>quoted</body></html>and more<body>again</body>', 'my replyquotedand moreagain'],
    ['<html><head><style>p{}</style><body>in an open head</body></html>', 'in an open head'],
    ['<p>unclosed <b>tags <i>everywhere', 'unclosed tags everywhere'],
    ['', ''],
  ])('%j', (html, text) => {
    expect(htmlToPlain(html)).toBe(text);
  });

  test('stripping only tags keeps text outside of the body', () => {
    const html = '<p>my reply</p><html><head><title>T</title><style>p{}</style></head><body>quoted</body></html>below';
    expect(stripTags(html)).toBe('my reply\nquotedbelow');
  });

  test('HTML too large to convert is only stripped of its tags', () => {
    const html = `<style>p{}</style><p>first &lt;&#33;&gt;</p>${'<p>word &amp; more</p>'.repeat(40_000)}<!-- no > comment -->last`;
    const text = htmlToPlain(html);
    expect(text.startsWith('first <!>\n\nword & more')).toBe(true);
    expect(text.endsWith('last')).toBe(true);
    expect(stripTags('<p')).toBe('');
  });

  test.each([
    ['<div>'.repeat(100_000)],
    ['<ul><li>'.repeat(60_000)],
    ['<table><tr><td>'.repeat(30_000)],
    ['<'.repeat(500_000)],
    ['<!--'.repeat(500_000)],
    ['<p '.repeat(300_000)],
    ['&#'.repeat(500_000)],
    [`<p>${' '.repeat(900_000)}</p>`],
    ['<script>'.repeat(100_000)],
  ])('hostile HTML takes no time', (html) => {
    expectCpuBelow(1_500, () => [htmlToPlain(html), textToHtml(html)]);
  });
});

describe('elements are known by their names', () => {
  test('even invented names', () => {
    const names = Array.from({ length: 300 }, (_, n) => `x-${n}`);
    const inlines = names.map((name) => `<${name}>a</${name}>`).join('');
    expect(htmlToPlain(`${inlines}<p>b</p><x-first>c</x-first><td>e</td><p>f</p>`)).toBe(
      `${'a'.repeat(300)}\n\nb\n\nce\n\nf`,
    );
  });
});

describe('format=flowed', () => {
  test.each([
    ['soft \nbreak', false, 'soft break'],
    ['soft \nbreak', true, 'softbreak'],
    ['hard\nbreak', false, 'hard\nbreak'],
    ['> a \n> b\n>> c \n>> d\ne', false, '> a b\n>> c d\ne'],
    ['> a \nb', false, '> a \nb'],
    [' stuffed\n From here', false, 'stuffed\nFrom here'],
    ['text \n-- \nAnn', false, 'text \n-- \nAnn'],
    ['', false, ''],
  ])('%j (DelSp %j)', (text, deleteSpace, expected) => {
    expect(decodeFlowed(text, deleteSpace)).toBe(expected);
  });
});

describe('transfer encodings', () => {
  async function decode(encoding: string, text: string): Promise<string> {
    const head = `Content-Type: application/zip\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`;
    const mail = await read(Buffer.from(head + text, 'latin1'));
    return (mail.attachments[0]?.content as Buffer).toString('latin1');
  }

  test.each([
    ['base64', 'SGVsbG8=', 'Hello'],
    ['base64', 'SGVs\r\nbG8', 'Hello'],
    ['base64', 'SGVs!!bG8 =', 'Hello'],
    ['base64', 'SGk=SGk=', 'HiHi'],
    ['base64', 'S', ''],
    ['base64', '=', ''],
    ['quoted-printable', 'a=3Db', 'a=b'],
    ['quoted-printable', 'soft=\r\nbreak=  \r\nagain', 'softbreakagain'],
    ['quoted-printable', 'trailing  \t\r\nspace', 'trailing\r\nspace'],
    ['quoted-printable', 'bad =ZZ = =4 end=', 'bad =ZZ = =4 end'],
    ['quoted-printable', 'low=c3=A9', 'low\xc3\xa9'],
    ['quoted-printable', 'unix\nlines=\nx', 'unix\nlinesx'],
    ['"Quoted-Printable"', 'a=3Db', 'a=b'],
    ['(how) quoted-printable (RFC 2045)', 'a=3Db', 'a=b'],
    ['base64;', 'SGVsbG8=', 'Hello'],
    ['x-uuencode', 'begin 644 a.txt\r\n%2&5L;&\\\r\n`\r\nend\r\n', 'Hello'],
    ['X-UUE', 'note\nbegin 644 a.txt\n#0V%T\n`\nend\nafter', 'Cat'],
    ['x-uuencode', 'begin-base64 644 a.txt\nSGVsbG8s\nIHlvdQ==\n====\nafter', 'Hello, you'],
    ['7bit', 'as = it is', 'as = it is'],
    ['x-unknown', 'as it is', 'as it is'],
  ])('%s of %j', async (encoding, text, expected) => {
    expect(await decode(encoding, text)).toBe(expected);
  });

  test('random bytes survive base64 and quoted-printable', async () => {
    const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, i) => (i * 7919 + (i >> 3)) & 0xff));
    const quoted = [...bytes].map(
      (byte, i) => `=${byte.toString(16).toUpperCase().padStart(2, '0')}${i % 25 === 24 ? '=\r\n' : ''}`,
    );
    const wrapped = bytes.toString('base64').replace(/.{76}/g, '$&\r\n');
    expect(await decode('base64', wrapped)).toBe(bytes.toString('latin1'));
    expect(await decode('quoted-printable', quoted.join(''))).toBe(bytes.toString('latin1'));
  });

  test('a long run of white space takes no time, and megabytes of quoted-printable are read completely', async () => {
    const started = process.cpuUsage();
    expect(await decode('quoted-printable', `a${' '.repeat(200_000)}b`)).toMatch(/^a +b$/);
    expect(process.cpuUsage(started).user / 1000).toBeLessThan(1500);
    const head = 'Content-Transfer-Encoding: quoted-printable\r\n\r\n';
    const mail = await read(Buffer.from(head + 'words and words\r\n'.repeat(600_000)));
    expect(mail.isPartial).toBe(false);
    expect(mail.bodyPlain).toHaveLength(600_000 * 16);
  });
});
