import { describe, expect, test } from '@jest/globals';
import { likePattern, normalise } from '../../src/contract/search-text.ts';

/** LIKE with `%` and `\` escapes, as Postgres reads it. */
function matches(text: string, pattern: string): boolean {
  const parts = pattern.split(/(\\.|%|_)/).map((part) => {
    if (part === '%') return '[^]*';
    if (part === '_') return '[^]';
    return (part.startsWith('\\') && part.length === 2 ? part.slice(1) : part).replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('')}$`, 'u').test(text);
}

const finds = (text: string, q: string): boolean => matches(normalise(text), likePattern(q));

describe('normalised text', () => {
  test.each([
    ['', ' '],
    [' \t\r\n\0 ', ' '],
    ['Hello  World', ' hello world '],
    ['Crème BRÛLÉE', ' creme brulee '],
    ['Straße, Łódź, Ørsted, Æsop', ' strasse, lodz, orsted, aesop '],
    ['ΣΊΣΥΦΟΣ', ' σισυφοσ '],
    ['Ёлка й', ' елка и '],
    ['İstanbul ılık', ' istanbul ilik '],
    ['ﬁne Ｆｕｌｌｗｉｄｔｈ ½', ' fine fullwidth 1⁄ 2 '],
    ['“quoted” – it’s', ' "quoted" - it\'s '.replace('"quoted', '" quoted').replace("it's", "it' s")],
    ['soft\u00adhyphen zero\u200bwidth', ' softhyphen zerowidth '],
    ['non\u00a0breaking\u3000space\u2028line', ' non breaking space line '],
    ['ann@example.com', ' ann@ example. com '],
    ['東京タワー', ' 東 京 タ ワ ー '],
    ['がｶﾞ', ' が ガ '],
    ['한국어 메일', ' 한국어 메일 '],
    ['हिन्दी', ' हिन्दी '],
    ['lone \ud800 surrogate', ' lone surrogate '],
  ])('%j gives %j', (text, expected) => {
    expect(normalise(text)).toBe(expected);
  });

  test('normalising twice changes nothing', () => {
    for (const text of ['a.b@c', '東京 a京b', 'ß“x”', '[list] Re: x']) {
      expect(normalise(normalise(text))).toBe(normalise(text));
    }
  });
});

describe('a query finds', () => {
  test.each([
    ['Meeting in Zürich tomorrow', 'zurich'],
    ['Meeting in Zurich tomorrow', 'ZÜRICH'],
    ['unbelievable', 'believ'],
    ['write to ann.lee@example.com today', 'lee@example.c'],
    ['write to ann.lee@example.com today', '@example'],
    ['line one\r\n  line two', 'one line'],
    ['(hello)', 'he'],
    ['bob@example.com', 'ex'],
    ['100% sure_thing \\o/', '100%'],
    ['100% sure_thing \\o/', 'sure_t'],
    ['100% sure_thing \\o/', '\\o/'],
    ['新しい東京の会議', '東京'],
    ['新しい東京の会議', '議'],
    ['東京\n会議', '京会'],
    ['Встреча завтра', 'стреч'],
    ['naïve', 'naive'],
    ['C++ and C#', 'c++'],
    ['party 🎉 time', '🎉'],
    ['what? yes', '?'],
    ['anything', ''],
    ['anything', '   '],
  ])('in %j: %j', (text, q) => {
    expect(finds(text, q)).toBe(true);
  });

  test.each([
    ['100 percent', '100%'],
    ['sure thing', 'sure_t'],
    ['unrelated', 'zurich'],
    ['table', 'ab'],
    ['back\\slash', 'k/s'],
  ])('not in %j: %j', (text, q) => {
    expect(finds(text, q)).toBe(false);
  });

  test('any part of three or more characters of any text', () => {
    const texts = ['Grüße: (foo.bar@baz.de) – 東京tower, “ok”', 'a-b_c/d\\e%f [x] É́é', 'mixed한국 текст がぎ 12.5€'];
    for (const text of texts) {
      const characters = [...text];
      for (let start = 0; start < characters.length; start++) {
        for (let end = start + 3; end <= characters.length; end++) {
          const q = characters.slice(start, end).join('');
          // People do not type text that begins with a combining mark.
          if (/^\p{M}/u.test(q) || [...normalise(q).trim()].length < 3) continue;
          expect([q, finds(text, q)]).toEqual([q, true]);
        }
      }
    }
  });
});
