/*
 * Several expressions of email-reply-parser look for things one after another, with anything between them: where the last is
 * missing, each combination of the others is tried. How many there are is counted here in linear time, before they are.
 */

/** What an expression looks for, in that order: with the flag g, and looking ahead where they may overlap. */
interface Chain {
  /** how many lines it may look over; 0: the whole text */
  lines: number;
  /** what its first line begins with; left out: any */
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

/** Of these only the lines that pass the first look. */
const CHAINS_OF_ANSWERS: readonly Chain[] = [
  { lines: 1, of: [/(?=\d{4})/g, /from/g, /</g] },
  { lines: 1, of: [/(?=\d{4})/g, /" *</g] },
];

/** Most texts have less than a thousandth. */
const MAX_STEPS = 20_000_000;
/** Expressions look over white space from each of it, and over signs of a quote. */
const TOO_BLANK = /(?:^|\S)\s{401}/;
const TOO_QUOTED = /^>{101}/m;

/** What begins the signatures that look over blanks; the other ones cost nothing. */
const COSTLY_SIGNATURE = /^(?:Gesendet )?von\s/im;

/**
 * Whether the library would take long for a text; `isAnswer` says of a line or a text whether the expressions of a quote are
 * tried on it.
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

/** Where an expression is tried, and how many times over. */
function* unitsOf({ lines: span, begin }: Chain, lines: readonly string[]): Generator<{ unit: string; times: number }> {
  if (span === 0) yield { unit: lines.join('\n'), times: 1 };
  let blank = 0;
  for (const [index, line] of span === 0 ? [] : lines.entries()) {
    // what may begin with anything begins after each of the signs; the others begin on each blank line before theirs, too
    if (!begin) yield { unit: line, times: quotesOf(line) + 1 };
    else if (begin.test(line)) yield { unit: lines.slice(index, index + span).join('\n'), times: blank + 1 };
    blank = line.trim() === '' ? blank + 1 : 0;
  }
}

/** How far the expression looks in all: from each way to find the first things of the chain to the end. */
function stepsOf({ of }: Chain, text: string): number {
  const [first] = of;
  if (!first || text.search(first) < 0) return 0;
  const found = of.flatMap((each, place) => [...text.matchAll(each)].map(({ index }) => ({ index, place })));
  // not one after itself
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
