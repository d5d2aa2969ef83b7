import { LEAD_IN, LEAD_IN_OTHER, WROTE } from './words.ts';

/*
 * The line above a quote that says who wrote it and when. Programs write it in the language of their user, and wrap it.
 * Every expression is linear, and is matched against a few short lines.
 */

const MAX_LINES = 4;
const MAX_LENGTH = 500;

const VERB = new RegExp(WROTE, 'iu');
const ENDS = new RegExp(String.raw`(?:[:：]|(?:${WROTE})[.,]?)[\s*_>"'»\-–)]{0,12}$`, 'iu');
/** The part of a line that decides whether an attribution can end in it. */
const END_LENGTH = 60;
const LEAD = new RegExp(String.raw`^(?:${LEAD_IN}|${LEAD_IN_OTHER})`, 'iu');
/** A line that begins with a date: `2026-03-03 …`, `ср, 3 мар. …`, `lun. 3 mars …`. */
const DATED = /^(?:\d{1,4}[./\-年년 :]|\p{L}{1,12}[.,]{0,2} {1,2}\d{1,2}[\p{P} ]|\p{L}{2,15}, \p{L}{3,12} \d)/u;
const DATE = /(?<!\d)(?:19|20|25)\d\d(?!\d)|(?<!\d)\d{1,2}[./-] ?\d{1,2}[./-] ?\d{2}|(?<!\d)\d{1,2}[:.h]\d{2}(?!\d)/u;
const YEAR_OR_DAY = /(?<!\d)(?:19|20|25)\d\d(?!\d)|(?<!\d)\d{1,2}[./-] ?\d{1,2}[./-] ?\d{2}/u;
const CLOCK = /(?<!\d)\d{1,2}[:h]\d{2}(?!\d)|(?<!\d)\d{1,2} ?(?:[ap]\.?m|uhr)(?!\p{L})/iu;
/** A time such as `9.00`; without a year beside it, it may be a date. */
const DOTTED = /(?<![\d.])\d{1,2}\.\d{2}(?![\d.])/u;
const ADDRESS = /[^\s<>@(),;:]@[^\s<>@(),;:]/u;
/** An address in brackets at the end, where a program writes no verb. */
const ADDRESS_AT_END = /[<([][^<>()[\]]{0,80}@[^<>()[\]]{1,250}[>)\]]{1,2}[*_]{0,2}\s?[:：]?$/u;
const NAME_AND_ADDRESS = /^[^@:.]{0,60}[<(["'\s]?[^\s<>@]{1,80}@[^\s@]{1,200}\s/u;

/** The lines of an attribution; `isCertain`: also where no quoted line follows. */
export interface Attribution {
  first: number;
  isCertain: boolean;
}

/**
 * The attribution that ends in a line, if any. `isOpen` tests whether a line above may belong to it: it is not blank, and
 * not quoted.
 */
export function attributionEndingAt(
  lines: readonly string[],
  last: number,
  isOpen: (index: number) => boolean,
): Attribution | null {
  const tail = (lines[last] ?? '').slice(-END_LENGTH);
  if (!ENDS.test(tail) && !tail.includes('@') && !/^\W{0,3}20\d\d-\d\d-\d\d /.test(lines[last] ?? '')) return null;
  let text = '';
  let weak: Attribution | null = null;
  for (let first = last; first > last - MAX_LINES && isOpen(first); first--) {
    text = `${lines[first]?.trim()} ${text}`.trim();
    if (text.length > MAX_LENGTH) break;
    if (isCertainly(text)) return { first: withLeadIn(lines, { first, last }, isOpen), isCertain: true };
    if (weak === null && isProbably(text))
      weak = { first: withLeadIn(lines, { first, last }, isOpen), isCertain: false };
  }
  return weak;
}

/** The first line of an attribution whose date was wrapped: a line above with the lead-in belongs to it. */
function withLeadIn(
  lines: readonly string[],
  { first, last }: { first: number; last: number },
  isOpen: (index: number) => boolean,
): number {
  if (begins(lines[first] ?? '') && !/^\W*20\d\d /.test(lines[first] ?? '')) return first;
  let found = first;
  for (let above = first - 1; above > last - MAX_LINES && isOpen(above); above--) {
    const line = (lines[above] ?? '').trim();
    if (/[.!?:]$/.test(line) && !/\p{L}{1,4}\.$/u.test(line)) break;
    if (begins(line)) found = above;
  }
  return found;
}

const begins = (line: string): boolean => LEAD.test(line.trim()) || DATED.test(line.trim());

function isCertainly(text: string): boolean {
  const bare = text.replace(/^[\s>*_<\-–—=]{1,12}/, '');
  const hasDate = DATE.test(bare);
  const hasAddress = ADDRESS.test(bare);
  if (!ENDS.test(bare.slice(-END_LENGTH))) return hasDate && isOldForm(bare);
  const hasVerb = VERB.test(bare);
  if (hasVerb && hasDate) return isDatedAttribution(bare, hasAddress);
  if (hasVerb && hasAddress) return bare.length <= 200 && NAME_AND_ADDRESS.test(bare);
  return hasDate && hasAddress && ADDRESS_AT_END.test(bare.slice(-340)) && begins(bare);
}

function isDatedAttribution(text: string, hasAddress: boolean): boolean {
  // people write `On 12.05.2025 our lawyer wrote:` themselves
  if (!hasAddress && !isTimed(text)) return false;
  return begins(text) || (hasAddress && NAME_AND_ADDRESS.test(text)) || isNamed(text);
}

const isTimed = (text: string): boolean => CLOCK.test(text) || (YEAR_OR_DAY.test(text) && DOTTED.test(text));

/** A name before the verb: `Ada Lovelace schrieb am 3. März 2026 um 09:00:`. */
const isNamed = (text: string): boolean => {
  const verb = text.search(VERB);
  return (
    verb > 0 && verb < 60 && /^[\p{Lu}\p{Lo}"'][^.:;!?]*$/u.test(text.slice(0, verb)) && text.split(' ').length < 16
  );
};

/** Forms without a colon: `2026/3/3 Ada <ada@b.example>`, `2026-03-03 17:21 GMT+01:00 Ada Lovelace`. */
const isOldForm = (text: string): boolean =>
  /^20\d\d[-/]\d{1,2}[-/]\d{1,2}\s[^<>]{1,120}<[^<>@\s]{1,80}@[^<>@\s]{1,200}>$/.test(text) ||
  /^20\d\d-\d\d-\d\d \d\d:\d\d GMT[+-]\d\d:\d\d [\p{L} .'-]{1,80}$/u.test(text);

/** Above a quoted line, less is needed: `Ada wrote:`, `Ada <ada@b.example>:`. */
function isProbably(text: string): boolean {
  if (text.length > 250 || !ENDS.test(text.slice(-END_LENGTH))) return false;
  return VERB.test(text) || (ADDRESS.test(text) && (DATE.test(text) || ADDRESS_AT_END.test(text.slice(-340))));
}
