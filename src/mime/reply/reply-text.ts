import { isCostly } from './reply-cost.ts';
import { mayIntroduceQuote, ReplyParser } from './reply-parser.ts';

/** A person does not write longer replies (in characters); the library needs time for each line. */
const MAX_LENGTH = 64 * 1024;
const MAX_LINE = 2000;
const MAX_LINES = 2000;
/** Its expressions scan blank lines from each of them. */
const MAX_BLANK_LINES = 20;
/** A line of dashes and the like: the library treats it and the text below as a signature. */
const RULE = /^[ \t]*(-{3,4}|_{2,4}|\+{2,4}|={2,4})[ \t]*$/;

/**
 * The author's part of a plain text: without the quoted mail and the signature. Null when unknown: the text is empty, too
 * long, too odd, or only a quote.
 */
export function readReplyText(bodyPlain: string): string | null {
  if (bodyPlain.trim() === '' || bodyPlain.length > MAX_LENGTH) return null;
  const lines = bodyPlain.split('\n');
  if (lines.length > MAX_LINES || hasGap(lines)) return null;
  if (lines.some((line) => line.length > MAX_LINE || RULE.test(line))) return null;
  if (isCostly(bodyPlain, mayIntroduceQuote)) return null;
  try {
    return withoutQuote(new ReplyParser().parse(bodyPlain).getVisibleText()) || null;
  } catch {
    return null;
  }
}

function hasGap(lines: readonly string[]): boolean {
  let blank = 0;
  return lines.some((line) => (blank = line.trim() === '' ? blank + 1 : 0) > MAX_BLANK_LINES);
}

/** Removes a quote at the end that no line introduces. */
function withoutQuote(text: string): string {
  const lines = text.trim().split('\n');
  while (lines.length > 0 && /^(>|[ \t]*$)/.test(lines.at(-1) ?? '')) lines.pop();
  return lines.join('\n').trim();
}
