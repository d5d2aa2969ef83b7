import { decodeBytes } from './charsets.ts';

/*
 * Encoded words (RFC 2047) in header values given as one character a byte. They are decoded before the bytes around them:
 * programs write raw bytes into words, cut a character between two words, and name charsets that need the same care as
 * those of a body.
 */

const WORD = /=\?([^?\s]{1,100})\?([QqBb])\?([^?]*)\?=/g;
/** Longer values stay encoded: they are more likely an attack than a header. */
const MAX_DECODED = 512 * 1024;

interface Run {
  charset: string;
  bytes: Buffer[];
}

/**
 * Replaces each run of adjacent words by `write` of its text, and the text between runs by `between`. White space between
 * two words is part of neither (RFC 2047 6.2). The language that a charset may name (RFC 2231 5) is dropped.
 */
export function replaceEncodedWords(
  value: string,
  write: (text: string) => string,
  between: (text: string) => string = (text) => text,
): string {
  if (!value.includes('=?') || value.length > MAX_DECODED) return between(value);
  const pieces: string[] = [];
  let runs: Run[] = [];
  let end = 0;
  const finish = (): void => {
    if (runs.length > 0) pieces.push(write(runs.map(textOf).join('')));
    runs = [];
  };
  for (const match of value.matchAll(WORD)) {
    const [word, name = '', encoding = '', content = ''] = match;
    const gap = value.slice(end, match.index);
    if (runs.length === 0 || /\S/.test(gap)) {
      finish();
      if (gap !== '') pieces.push(between(gap));
    }
    addWord(runs, name, /^b$/i.test(encoding) ? fromBase64(content) : fromQ(content));
    end = match.index + word.length;
  }
  finish();
  const rest = value.slice(end);
  if (rest !== '') pieces.push(between(rest));
  return pieces.join('');
}

/** Rewrites each run of encoded words in UTF-8 and base64, which every reader decodes alike. */
export function unifyEncodedWords(value: string): string {
  return replaceEncodedWords(value, (text) => `=?UTF-8?B?${Buffer.from(text).toString('base64')}?=`);
}

/** Joins words in the same charset: a character may be cut between them. */
function addWord(runs: Run[], name: string, bytes: Buffer): void {
  const charset = (name.split('*')[0] ?? '').toLowerCase();
  const last = runs.at(-1);
  if (last?.charset === charset) last.bytes.push(bytes);
  else runs.push({ charset, bytes: [bytes] });
}

function textOf({ charset, bytes }: Run): string {
  return decodeBytes(Buffer.concat(bytes), charset);
}

function fromBase64(content: string): Buffer {
  return Buffer.concat(content.split(/=+/).map((run) => Buffer.from(run, 'base64')));
}

/** `=` followed by white space comes from lines that were cut within an escape. */
function fromQ(content: string): Buffer {
  const text = content.replace(/=\s+([0-9a-fA-F])/g, '=$1').replace(/[_\s]/g, ' ');
  const decoded = text.replace(/=([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(decoded, 'latin1');
}
