/*
 * Several expressions of email-reply-parser match a chain of items with anything between them: if the last is missing, the
 * engine tries each combination of the others. This file counts the combinations beforehand, in linear time.
 */

/** The items of an expression, in order: with the flag g, and as look-ahead where they may overlap. */
interface Chain {
  /** number of lines that it may span; 0: the whole text */
  lines: number;
  /** start of its first line; undefined: any */
  begin?: RegExp;
  of: readonly RegExp[];
}

const CHAINS: readonly Chain[] = [
  { lines: 0, of: [/^(?=>*\s*Op\s)/gm, /schreef/g] },
  { lines: 0, of: [/^(?=>*\s*(?:W\sdniu|Dnia)\s)/gm] },
  { lines: 0, of: [/^(?=>*在)/gm] },
  { lines: 0, of: [/^(?=>*\s*[a-z]{3,4}\.\s)/gm, /\sskrev\s/g] },
  { lines: 1, begin: /^>*-*\s*(?:On|Le|El|Il|Em|In|Am|Den|pe|Von|Gesendet)\s/, of: [/\s/g] },
  { lines: 1, begin: /^Gesendet von\s/, of: [/\s/g, /(?=\sfür\s)/g] },
  { lines: 1, begin: /^>*\s*(?:From|Von|De|Van|Da)\s?:/, of: [/[[|<]/g] },
  { lines: 3, begin: /^>*\s*Am\s/, of: [/schrieb/g, /[[<]/g] },
  { lines: 3, begin: /^>*\s*Am\s/, of: [/\sum\s/g, /schrieb/g] },
  { lines: 5, begin: /^>*\s*ср,\s/, of: [/г\. в\s/g, /,\s/g, /[[|<]/g] },
  { lines: 1, begin: /^>*\d\d.\d\d.20\d\d/, of: [/(?=\d\d.\d\d)/g, /" *</g] },
  { lines: 1, of: [/\son/g, /at/g] },
  { lines: 1, of: [/\s</g] },
  { lines: 1, of: [/[>~]/g] },
];

/** Matched only against lines that may introduce a quote. */
const CHAINS_OF_ANSWERS: readonly Chain[] = [
  { lines: 1, of: [/(?=\d{4})/g, /from/g, /</g] },
  { lines: 1, of: [/(?=\d{4})/g, /" *</g] },
];

/** Steps at most; most texts need less than a thousandth. */
const MAX_STEPS = 20_000_000;
/** Expressions scan white space and quote signs from each position in them. */
const TOO_BLANK = /(?:^|\S)\s{401}/;
const TOO_QUOTED = /^>{101}/m;

/** The start of signatures whose expressions scan blanks; others are cheap. */
const COSTLY_SIGNATURE = /^(?:Gesendet )?von\s/im;

/**
 * Whether the library would take long for a text; `isAnswer` returns whether it matches the expressions of a quote against
 * a line or a text.
 */
export function isCostly(text: string, isAnswer: (line: string) => boolean): boolean {
  if (TOO_BLANK.test(text) || TOO_QUOTED.test(text)) return true;
  if (!isAnswer(text) && !COSTLY_SIGNATURE.test(text)) return false;
  const lines = text.split('\n');
  let steps = 0;
  const add = (chain: Chain, all: readonly string[]): boolean => {
    for (const { unit, times } of unitsOf(chain, all)) {
      steps += times * stepsOf(chain, unit);
      if (steps > MAX_STEPS) return true;
    }
    return false;
  };
  if (CHAINS.some((chain) => add(chain, lines))) return true;
  const answers = lines.filter(isAnswer);
  return CHAINS_OF_ANSWERS.some((chain) => add(chain, answers));
}

const quotesOf = (line: string) => /^>*/.exec(line)?.[0].length ?? 0;

/** The texts that an expression is matched against, and how often. */
function* unitsOf({ lines: span, begin }: Chain, lines: readonly string[]): Generator<{ unit: string; times: number }> {
  if (span === 0) yield { unit: lines.join('\n'), times: 1 };
  let blank = 0;
  for (const [index, line] of span === 0 ? [] : lines.entries()) {
    // a chain without a start begins after each sign; others begin on each blank line before their start too
    if (!begin) yield { unit: line, times: quotesOf(line) + 1 };
    else if (begin.test(line)) yield { unit: lines.slice(index, index + span).join('\n'), times: blank + 1 };
    blank = line.trim() === '' ? blank + 1 : 0;
  }
}

/** The steps of an expression: from each match of the first items of the chain to the end. */
function stepsOf({ of }: Chain, text: string): number {
  const [first] = of;
  if (!first || text.search(first) < 0) return 0;
  const found = of.flatMap((each, place) => [...text.matchAll(each)].map(({ index }) => ({ index, place })));
  // the same item does not follow itself
  found.sort((a, b) => a.index - b.index || b.place - a.place);
  const ways = of.map(() => 0);
  let steps = 0;
  for (const { index, place } of found) {
    const more = place === 0 ? 1 : (ways[place - 1] ?? 0);
    ways[place] = (ways[place] ?? 0) + more;
    steps += more * (text.length - index);
  }
  return steps;
}
