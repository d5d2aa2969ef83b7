/*
 * Searches match normalised text by LIKE with trigram indexes (pg_trgm). The same function normalises text and query.
 * Each of its rules depends on one character or two neighbours only; the normalised form of any part of a text is
 * therefore a part of the normalised text.
 */

/** Letters that look like an accented or ligated form, though Unicode does not decompose them. */
const FOLDS: Record<string, string> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ð: 'd',
  ħ: 'h',
  ı: 'i',
  þ: 'th',
  ς: 'σ',
  '‘': "'",
  '’': "'",
  '‚': "'",
  '‛': "'",
  '“': '"',
  '”': '"',
  '„': '"',
  '‟': '"',
  '‐': '-',
  '‑': '-',
  '‒': '-',
  '–': '-',
  '—': '-',
  '―': '-',
  '−': '-',
};
const FOLDED = new RegExp(`[${Object.keys(FOLDS).join('')}]`, 'gu');

/** Scripts written without spaces, where each character counts as a word. */
const UNSPACED = '\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}ー';
const WORD = '\\p{L}\\p{N}';

const NON_ASCII = /[^\0-\x7f]/;
const NON_ASCII_RUNS = /[^\0-\x7f]+/g;
const GAPS = /[\0-\x20\x7f]+/g;
const OTHER_GAPS = /[\s\u0080-\u009f\p{Zs}\p{Zl}\p{Zp}]+/gu;
/** Soft hyphens, zero-width characters, direction marks, variation selectors, lone surrogates: people do not type them. */
const INVISIBLE = /[\u00ad\p{Cf}\ufe00-\ufe0f\p{Cs}]+/gu;
const BEFORE_WORD = /([!-/:-@[-`{-~])(?=[a-z0-9])/g;
const BEFORE_ANY_WORD = new RegExp(`([\\p{P}\\p{S}${UNSPACED}])(?=[${WORD}])`, 'gu');
const BEFORE_UNSPACED = new RegExp(`(\\S)(?=[${UNSPACED}])`, 'gu');
const STARTS_UNSPACED = new RegExp(`^[${UNSPACED}]`, 'u');
const HAS_WORD = new RegExp(`[${WORD}]`, 'u');

/**
 * Normalises text for searches: lower case, accents folded (NFKD without U+0300–036F, then NFC; marks of other scripts
 * remain), typographic quotes and dashes replaced, white space collapsed, and a space before each word, also after
 * punctuation and between characters of scripts written without spaces. The result begins and ends with a space; text
 * without a visible character gives one space.
 */
export function normalise(text: string): string {
  const folded = text.toLowerCase().replace(NON_ASCII_RUNS, foldRun).replace(GAPS, ' ').trim();
  return folded === '' ? ' ' : ` ${separateWords(folded)} `;
}

/**
 * The LIKE pattern (escape character `\`) that finds `q` in normalised text. One or two characters match only the
 * beginnings of words, since such short patterns have no trigram. A `q` without a visible character gives `%`.
 */
export function likePattern(q: string): string {
  const wanted = normalise(q).trim();
  if (wanted === '') return '%';
  const wordStart = STARTS_UNSPACED.test(wanted) || ([...wanted].length <= 2 && HAS_WORD.test(wanted));
  return `%${wordStart ? ' ' : ''}${wanted.replace(/[\\%_]/g, '\\$&')}%`;
}

const WORDS = new RegExp(`[${WORD}]+`, 'gu');

/**
 * Whether pg_trgm finds a pattern of `likePattern` by its index. It takes the trigrams of each word, with two spaces before
 * and one after it where no wildcard is; a pattern without any, such as `%c++%`, would read the whole index.
 */
export function hasTrigram(pattern: string): boolean {
  const text = pattern.slice(1, -1);
  return [...text.matchAll(WORDS)].some(({ 0: word, index }) => {
    const [before, after] = [index > 0 ? 2 : 0, index + word.length < text.length ? 1 : 0];
    return before + [...word].length + after >= 3;
  });
}

/** Folds a run of non-ASCII characters. Runs are independent: no ASCII letter composes with a mark that remains. */
function foldRun(run: string): string {
  return run
    .replace(INVISIBLE, '')
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f]+/g, '')
    .replace(FOLDED, (character) => FOLDS[character] ?? character)
    .normalize('NFC')
    .replace(OTHER_GAPS, ' ');
}

function separateWords(text: string): string {
  if (!NON_ASCII.test(text)) return text.replace(BEFORE_WORD, '$1 ');
  return text.replace(BEFORE_UNSPACED, '$1 ').replace(BEFORE_ANY_WORD, '$1 ');
}
