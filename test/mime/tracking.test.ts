import { describe, expect, test } from '@jest/globals';
import { trackingUrls, trackMessage, untrackHtml } from '../../src/mime/tracking.ts';
import { outgoingMessage } from './outgoing-messages.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';

const OPTIONS = { trackingId: 'trk_1', opens: false, links: true, baseUrl: 'https://t.example' };
const PIXEL =
  '<img src="https://t.example/t/o/trk_1.gif" width="1" height="1" alt="" style="display:block;width:1px;height:1px;border:0">';
const at = (n: number): string => `https://t.example/t/c/trk_1/${n}`;

const tracked = (
  html: string,
  options: Partial<typeof OPTIONS> = {},
  headers: { name: string; value: string }[] = [],
) => {
  const { message: result, links } = trackMessage(outgoingMessage({ html, custom_headers: headers }), {
    ...OPTIONS,
    ...options,
  });
  return { html: result.html, links, plainText: result.plainText };
};

describe('links lead past us, and the rest of the HTML stays byte for byte', () => {
  test.each([
    ['<a href="https://x.example/a">x</a>', [`<a href="${at(0)}">x</a>`, ['https://x.example/a']]],
    ["<A class=b HREF = 'http://x.example/'>x</A>", [`<A class=b HREF = '${at(0)}'>x</A>`, ['http://x.example/']]],
    ['<a href=https://x.example/a>x</a>', [`<a href=${at(0)}>x</a>`, ['https://x.example/a']]],
    ['<a href=https://x.example/a/>x</a>', [`<a href=${at(0)}>x</a>`, ['https://x.example/a/']]],
    ['<a\n\thref\n=\n"https://x.example/"\n>x</a>', [`<a\n\thref\n=\n"${at(0)}"\n>x</a>`, ['https://x.example/']]],
    [
      '<a href="https://x.example/?a=1&amp;b=2&copy=3&#38;c">x</a>',
      [`<a href="${at(0)}">x</a>`, ['https://x.example/?a=1&b=2&copy=3&c']],
    ],
    ['<a href="&#104;ttps://x.example/">x</a>', [`<a href="${at(0)}">x</a>`, ['https://x.example/']]],
    ['<a href=" https://x.exa\nmple/ ">x</a>', [`<a href="${at(0)}">x</a>`, ['https://x.example/']]],
    ['<a href="HTTPS://x.example/ü?q=ä b">x</a>', [`<a href="${at(0)}">x</a>`, ['HTTPS://x.example/ü?q=ä b']]],
    ['<map><area href="https://x.example/1"></map>', [`<map><area href="${at(0)}"></map>`, ['https://x.example/1']]],
    [
      '<a href="https://x.example/1" href="https://x.example/2">x</a>',
      [`<a href="${at(0)}" href="https://x.example/2">x</a>`, ['https://x.example/1']],
    ],
    [
      '<a href="https://x.example/1">1</a><a href="https://x.example/1">2</a>',
      [`<a href="${at(0)}">1</a><a href="${at(1)}">2</a>`, ['https://x.example/1', 'https://x.example/1']],
    ],
    [
      '<p>5 < 6 & 7 > 3 <a href="https://x.example/">x',
      [`<p>5 < 6 & 7 > 3 <a href="${at(0)}">x`, ['https://x.example/']],
    ],
  ])('%s', (html, [expected, links]) => {
    expect(tracked(html)).toMatchObject({ html: expected, links });
  });
});

describe('never rewritten', () => {
  test.each([
    '<a href="mailto:a@x.example">x</a>',
    '<a href="tel:123">x</a>',
    '<a href="#top">x</a>',
    '<a href="cid:logo">x</a>',
    '<a href="/relative">x</a>',
    '<a href="//x.example/">x</a>',
    '<a href="javascript:alert(1)">x</a>',
    '<a href="">x</a>',
    '<a href>x</a>',
    '<a name="https://x.example/">x</a>',
    '<a href="https://">x</a>',
    '<link href="https://x.example/style.css"><img src="https://x.example/a.png"><base href="https://x.example/">',
    '<abbr href="https://x.example/">x</abbr>',
    '<!-- <a href="https://x.example/">x</a> -->',
    '<style>a[href="https://x.example/"]{}</style><title><a href="https://x.example/">x</a></title>',
    '<textarea><a href="https://x.example/">x</a></textarea>',
    'https://x.example/ as text',
    '<a href="https://x.example/unsubscribe?u=1">x</a>',
    '<a href="https://x.example/UnSubscribe">x</a>',
    '<a href="https://x.example/un%73ubscribe">x</a>',
    '<a href="https://x.example/opt-out">x</a>',
    '<a href="https://x.example/1"><b>Un</b>subscribe</a>',
    '<a href="https://x.example/1">Hier abmelden</a>',
    '<a href="https://x.example/1">Newsletter abbestellen</a>',
    '<a href="https://x.example/1">Se d&eacute;sabonner</a>',
    '<a href="https://x.example/1">Darse de baja</a>',
    '<a href="https://x.example/1">Uitschrijven</a>',
    '<a href="https://x.example/1">Отписаться</a>',
    '<a href="https://x.example/1">配信停止はこちら</a>',
    '<a href="https://x.example/1">退订</a>',
    '<a href="https://x.example/1">수신거부</a>',
  ])('%s', (html) => {
    expect(tracked(html)).toMatchObject({ html, links: [] });
  });

  test('the links of List-Unsubscribe', () => {
    const html = '<a href="https://x.example/leave?a=1&amp;b=2">x</a><a href="https://x.example/stay">y</a>';
    const header = { name: 'list-unsubscribe', value: '<mailto:leave@x.example>, <https://x.example/leave?a=1&b=2>' };
    expect(tracked(html, {}, [header]).links).toEqual(['https://x.example/stay']);
  });
});

describe('the pixel', () => {
  test.each([
    ['<html><body>x</body></html>', `<html><body>x${PIXEL}</body></html>`],
    ['<body>x</BODY >', `<body>x${PIXEL}</BODY >`],
    ['<p>x</p>', `<p>x</p>${PIXEL}`],
    ['<body>a</body><body>b</body>', `<body>a</body><body>b${PIXEL}</body>`],
    ['<body>a</body><!-- </body> -->', `<body>a${PIXEL}</body><!-- </body> -->`],
  ])('%s', (html, expected) => {
    expect(tracked(html, { opens: true, links: false }).html).toBe(expected);
  });
});

test('the plain text is made from the original HTML', () => {
  expect(tracked('<a href="https://x.example/a">more</a>', { opens: true }).plainText).toBe(
    'more <https://x.example/a>',
  );
  const one = outgoingMessage({ html: '<a href="https://x.example/a">more</a>', plain_text: 'mine' });
  expect(trackMessage(one, OPTIONS).message.plainText).toBe('mine');
});

test('a message without HTML, or with nothing to track, stays unchanged', () => {
  const plain = outgoingMessage({ plain_text: 'https://x.example/' });
  expect(trackMessage(plain, { ...OPTIONS, opens: true })).toEqual({ message: plain, links: [] });
  const html = outgoingMessage({ html: '<a href="https://x.example/">x</a>' });
  expect(trackMessage(html, { ...OPTIONS, links: false })).toEqual({ message: html, links: [] });
});

test('a base URL may end in a slash', () => {
  const urls = trackingUrls('https://t.example/base/', 'trk_1');
  expect([urls.open, urls.click(3)]).toEqual([
    'https://t.example/base/t/o/trk_1.gif',
    'https://t.example/base/t/c/trk_1/3',
  ]);
});

test.each([
  ['many links', '<a href="https://x.example/?a=1&amp;b=2">x</a>\n'.repeat(20_000)],
  ['tags that never end', '<a href="https://x.example/'.repeat(20_000)],
  ['a link that never ends', `<a href="https://x.example/">${'unsub '.repeat(200_000)}`],
  ['white space', `<a href${' '.repeat(500_000)}="https://x.example/">x</a>`],
  ['open brackets', '<'.repeat(500_000)],
  ['white space in a link', `<a href="https://x.example/${' '.repeat(250_000)}x">x</a>`],
])('time stays bounded: %s', (_name, html) => {
  expectCpuBelow(5_000, () => tracked(html, { opens: true }));
});

test('the original HTML of a tracked mail is restored soon, also with a picture of many characters', () => {
  const picture = `<img src="data:image/png;base64,${'A'.repeat(250_000)}">`;
  const { html = '', links } = tracked(`${picture}<a href="https://x.example/">x</a>`, { opens: true });
  expectCpuBelow(2_000, () => untrackHtml(html ?? '', 'trk_1', links));
});

test('the original HTML of a tracked mail can be restored', () => {
  const html =
    '<body><p><a class=x href="https://x.example/?a=1&amp;b=2">x</a> <a href=https://y.example/ü>y</a></p><a href="#a">z</a></body>';
  const { html: changed, links } = tracked(html, { opens: true });
  expect(changed).not.toBe(html);
  expect(untrackHtml(changed ?? '', 'trk_1', links)).toBe(html);
  expect(untrackHtml(`<a href="${at(9)}">x</a>`, 'trk_1', links)).toContain(at(9));
});
