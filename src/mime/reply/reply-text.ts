import { isCostly } from './reply-cost.ts';
import { mayIntroduceQuote, ReplyParser } from './reply-parser.ts';

/** Longer texts are no replies that a person wrote; the library needs time for each line. */
const MAX_LENGTH = 64 * 1024;
const MAX_LINE = 2000;
const MAX_LINES = 2000;
/** Its expressions look over blank lines, from each of them. */
const MAX_BLANK_LINES = 20;
/** A rule that the library takes for a signature's, with all that follows. */
const RULE = /^[ \t]*(-{3,4}|_{2,4}|\+{2,4}|={2,4})[ \t]*$/;

/**
 * The part of a plain text that its author wrote: without the mail that it answers, and without the signature. Null where
 * that is not known: in a text that is empty, too long or too odd, or a quote altogether.
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

/** Without a quote at the end that no line introduces. */
function withoutQuote(text: string): string {
  const lines = text.trim().split('\n');
  while (lines.length > 0 && /^(>|[ \t]*$)/.test(lines.at(-1) ?? '')) lines.pop();
  return lines.join('\n').trim();
}
