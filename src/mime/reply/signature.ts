import { CLOSING, isSentFromLine } from './words.ts';

/*
 * The signature below a text. What may be the author's stays: a signature in the text harms less than a sentence that is
 * lost.
 */

/** Only dashes and the like: a rule above a quote or a signature. */
const RULE = /^(?:[\s\-_=*~#–—]{2,}|\s*ᐧ)$/;
const DELIMITER = /^-- ?$/;
const FOOTER = /mailing list|unsubscribe|listinfo|abmelden|austragen|désabonner|darse de baja|google groups/i;
const MAX_SIGNATURE_LINES = 15;
const MAX_CLOSING_LINES = 8;
const MAX_FOOTER_LINES = 10;

/** The lines without a signature at their end, and without blank lines and rules there. */
export function withoutSignature(lines: readonly string[]): string[] {
  const kept = withoutRules(lines);
  for (const starts of [isDelimiter, isFooter]) {
    const at = kept.findIndex((_, index) => starts(kept, index));
    if (at >= 0) kept.splice(at);
  }
  dropSentFrom(kept);
  const closing = kept.findLastIndex((line) => CLOSING.test(line));
  if (closing >= 0 && isNameOnly(kept.slice(closing + 1))) kept.splice(closing);
  dropSentFrom(kept);
  return kept;
}

/** The lines without blank lines and rules at their end. */
export function withoutRules(lines: readonly string[]): string[] {
  const kept = [...lines];
  trim(kept);
  return kept;
}

function trim(lines: string[]): void {
  while (lines.length > 0 && (/^\s*$/.test(lines.at(-1) ?? '') || RULE.test(lines.at(-1) ?? ''))) lines.pop();
}

function dropSentFrom(lines: string[]): void {
  while (lines.length > 0 && isSentFromLine(lines.at(-1) ?? '')) {
    lines.pop();
    trim(lines);
  }
}

/** `-- ` (RFC 3676 4.3). Without its space, only above a few short lines. */
function isDelimiter(lines: readonly string[], index: number): boolean {
  const line = lines[index] ?? '';
  if (!DELIMITER.test(line)) return false;
  if (line === '-- ') return true;
  let below = 0;
  for (const each of lines.slice(index + 1, index + 1 + 2 * MAX_SIGNATURE_LINES)) {
    if (each.length > 100 || (each.trim() !== '' && ++below > MAX_SIGNATURE_LINES)) return false;
  }
  return lines.length <= index + 1 + 2 * MAX_SIGNATURE_LINES;
}

/** The footer of a mailing list. */
function isFooter(lines: readonly string[], index: number): boolean {
  if (!/^[-_=]{2,}\s*$/.test(lines[index] ?? '') || lines.length - index > MAX_FOOTER_LINES) return false;
  return lines.slice(index + 1).some((line) => FOOTER.test(line));
}

/** Whether lines below a closing hold a name, and how its owner is reached, but no sentence. */
function isNameOnly(lines: readonly string[]): boolean {
  const below = filled(lines);
  if (below.length > MAX_CLOSING_LINES) return false;
  return below.every(
    (line) =>
      line.length <= 80 &&
      !/^\W*p\.? ?s\b/i.test(line) &&
      !(/[.?!:]$/.test(line.trim()) && line.trim().split(/\s+/).length > 4),
  );
}

const filled = (lines: readonly string[]): string[] => lines.filter((line) => line.trim() !== '');
