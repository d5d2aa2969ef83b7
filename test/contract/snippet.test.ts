import { describe, expect, it } from '@jest/globals';
import { snippetOf } from '../../src/contract/snippet.ts';

describe('a snippet', () => {
  it.each([
    ['what the author wrote', 'Yes, at nine.\n', 'Yes, at nine.\n> Shall we?', 'Yes, at nine.'],
    ['the whole text where the author wrote nothing', ' \n', '> Shall we?\r\n> Ada', '> Shall we? > Ada'],
    ['the whole text where the author is not known', null, 'a\u00a0b\t\tc\u2028d', 'a b c d'],
    ['without the filling of newsletters', null, `Sale${' \u034f\u200c\u00ad'.repeat(50)} today`, 'Sale today'],
    ['with a joiner inside of a word', null, 'می\u200cخواهم', 'می\u200cخواهم'],
    ['nothing of nothing', '', '', ''],
  ])('is %s', (_, bodyNew, bodyPlain, snippet) => {
    expect(snippetOf(bodyNew, bodyPlain)).toBe(snippet);
  });

  it('has up to 200 characters, none of them cut', () => {
    expect(snippetOf(null, '😀'.repeat(200))).toBe('😀'.repeat(200));
    expect(snippetOf(null, '😀'.repeat(5_000))).toBe('😀'.repeat(200));
    expect(snippetOf(null, ` ${'a '.repeat(300)}`)).toBe('a '.repeat(100).trimEnd());
  });
});
