import { attributionEndingAt } from './attribution.ts';
import { fieldOf, type HeaderField, MESSAGE_LINE } from './words.ts';

/*
 * The lines of a mail that its author wrote: without quoted lines, the attributions above them, and messages that programs
 * copy below the text without a sign on each line.
 */

/** Longer lines are paragraphs: neither an attribution nor a field of a header. */
const MAX_LINE = 1000;
/** Marks of the direction of text, and characters without a width: programs write them around names and addresses. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;
/** A quoted line; some programs put the initials of its author before the sign. */
const QUOTED = /^\s{0,4}(?:[A-Z]{1,3}>(?:[\s>]|$)|>)/;
/** The end of an attribution whose address was wrapped before its bracket. */
const WRAPPED_BRACKET = /^> ?(?:\p{L}{3,15} ?)?[:：]\s*$/u;
const HEADER_LINES = 14;
const MAX_FIELDS = 8;

/**
 * Runs of the author's lines, from the first to the last. An empty array: all is quoted. `mayQuote` false: only quoted lines
 * and `-----Original Message-----` begin a quote, not an attribution or a header alone.
 */
export function newLinesOf(given: readonly string[], mayQuote: boolean): string[][] {
  const lines = given.map((line) =>
    line.length > MAX_LINE ? line.slice(0, 6) : line.replace(INVISIBLE, '').replace(/\u00a0/g, ' '),
  );
  const runs = new Runs(given);
  let isPastQuote = false;
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index] ?? '';
    if (isQuoted(lines, index)) {
      // a certain one was removed when its last line was read
      if (!isPastQuote) runs.dropFrom(attributionAbove(lines, index));
      isPastQuote = true;
      runs.end();
      continue;
    }
    if (line.trim() === '') {
      runs.add(index);
      continue;
    }
    const from = mayQuote || MESSAGE_LINE.test(line) ? quoteBegins(lines, index) : null;
    if (from === null) {
      isPastQuote = false;
      runs.add(index);
      continue;
    }
    runs.dropFrom(from);
    runs.end();
    isPastQuote = true;
    // Lines below are the author's only where quoted ones have signs.
    if (!isFollowedByQuote(lines, index)) break;
  }
  return runs.all();
}

/** The first line of what introduces a quote and ends in this line; null: it is the author's. */
export function quoteBegins(lines: readonly string[], index: number): number | null {
  const line = lines[index] ?? '';
  if (MESSAGE_LINE.test(line) || isHeaderBlock(lines, index)) return index;
  const attribution = attributionEndingAt(lines, index, (each) => isOpen(lines, each));
  if (!attribution?.isCertain) return null;
  // without a colon, it may be wrapped: it ends in the next line
  return /\p{L}\s*$/u.test(line) && isOpen(lines, index + 1) ? null : attribution.first;
}

/** Whether the last of these lines introduces a quote below it. */
export function isIntroduced(lines: readonly string[]): boolean {
  return attributionAbove(lines, lines.length) < lines.length;
}

/** The first line of the attribution above a quoted line; that line itself if it has no attribution. */
function attributionAbove(lines: readonly string[], quoted: number): number {
  let last = quoted - 1;
  while (last >= 0 && quoted - last <= 3 && lines[last]?.trim() === '') last -= 1;
  if (last < 0 || !isOpen(lines, last)) return quoted;
  const attribution = attributionEndingAt(lines, last, (each) => isOpen(lines, each));
  return attribution?.first ?? fieldsAbove(lines, last) ?? quoted;
}

/** The first of the fields of a header that end in this line, with the address of an author. */
function fieldsAbove(lines: readonly string[], last: number): number | null {
  let first = last + 1;
  while (last - first < MAX_FIELDS && fieldOf(lines[first - 1] ?? '') !== undefined) first -= 1;
  const fields = lines.slice(first, last + 1);
  return fields.some((line) => fieldOf(line) === 'from' && /\S@\S/.test(line)) ? first : null;
}

function isOpen(lines: readonly string[], index: number): boolean {
  const line = lines[index] ?? '';
  return index >= 0 && line.trim() !== '' && !isQuoted(lines, index);
}

function isFollowedByQuote(lines: readonly string[], index: number): boolean {
  let next = index + 1;
  while (next < lines.length && next - index <= 3 && lines[next]?.trim() === '') next += 1;
  return isQuoted(lines, next);
}

/** Whether a line is quoted, or the rest of a quoted line that was wrapped at its end. */
function isQuoted(lines: readonly string[], index: number): boolean {
  const line = lines[index] ?? '';
  const before = lines[index - 1] ?? '';
  if (QUOTED.test(line)) return !(WRAPPED_BRACKET.test(line) && /<[^<>]*$/.test(before) && !QUOTED.test(before));
  const isBetween = QUOTED.test(before) && QUOTED.test(lines[index + 1] ?? '');
  return isBetween && before.length >= 72 && !/[.?!:]\s*$/.test(before) && /^\p{Ll}/u.test(line);
}

/**
 * Whether a copied header begins in a line: who wrote the message, with an address or a subject, and two fields more or
 * one with an address. A form of an author ("From: Berlin, To: Paris, Date: …") has neither.
 */
function isHeaderBlock(lines: readonly string[], start: number): boolean {
  const first = fieldOf(lines[start] ?? '');
  if (first === undefined || first === 'other' || first === 'to') return false;
  const { found, hasAddress } = fieldsBelow(lines, start);
  if (!found.has('from')) return false;
  const isDated = found.has('date') || found.has('subject');
  return (found.has('subject') && found.size >= 3) || (hasAddress && found.size >= 2 && isDated);
}

/** The fields in the lines from this one on, and whether an author with an address is among them. */
function fieldsBelow(lines: readonly string[], start: number): { found: Set<HeaderField>; hasAddress: boolean } {
  const found = new Set<HeaderField>();
  let hasAddress = false;
  let blank = 0;
  for (let index = start; index < Math.min(lines.length, start + HEADER_LINES); index++) {
    const line = lines[index] ?? '';
    const field = fieldOf(line);
    if (field === undefined) {
      // a folded value, or the blank lines between paragraphs
      if (line.trim() === '' ? ++blank > 1 : !isFolded(lines, index)) break;
      continue;
    }
    blank = 0;
    if (field === 'from') hasAddress ||= /\S@\S/.test(`${line} ${lines[index + 1] ?? ''}`);
    if (field !== 'other') found.add(field);
  }
  return { found, hasAddress };
}

/** Whether a line continues the value of a field: it is indented or short, and a field follows. */
const isFolded = (lines: readonly string[], index: number): boolean =>
  /^[\s<]/.test(lines[index] ?? '') || fieldOf(lines[index + 1] ?? '') !== undefined;

/** The runs of lines kept so far. */
class Runs {
  private readonly lines: readonly string[];
  private readonly runs: number[][] = [[]];

  constructor(lines: readonly string[]) {
    this.lines = lines;
  }

  add(index: number): void {
    this.runs.at(-1)?.push(index);
  }

  /** Removes the lines from this one on from the last run. */
  dropFrom(index: number): void {
    const last = this.runs.at(-1);
    while (last && (last.at(-1) ?? -1) >= index) last.pop();
  }

  end(): void {
    if (this.runs.at(-1)?.length) this.runs.push([]);
  }

  all(): string[][] {
    return this.runs.map((run) => run.map((index) => this.lines[index] ?? ''));
  }
}
