import { isIntroduced, quoteBegins } from './new-lines.ts';

/*
 * Blocks (`blockquote`) of HTML without a mark of a program: a quote of the mail that is answered, or a passage that the
 * author cites or indents. A line above them or at their start decides.
 */

/** Lines around a block; no text has these characters. */
export const BLOCK_BEGINS = '\ue000';
export const BLOCK_ENDS = '\ue001';

/** Where in a block the line is looked for that introduces a quote. */
const MAX_START = 8;

/** Lines of text from HTML in which blocks are settled: quoted ones have the sign of a quote, others none. */
export function settledBlocks(given: readonly string[]): string[] {
  const lines: string[] = [];
  let block: string[] = [];
  let depth = 0;
  for (const line of given) {
    const mark = line.trim();
    const isMark = mark === BLOCK_BEGINS || mark === BLOCK_ENDS;
    if (mark === BLOCK_BEGINS) depth += 1;
    else if (mark === BLOCK_ENDS) depth = Math.max(0, depth - 1);
    else (depth > 0 ? block : lines).push(line);
    if (isMark && depth === 0) {
      addBlock(lines, block);
      block = [];
    }
  }
  addBlock(lines, block);
  return lines;
}

function addBlock(lines: string[], block: readonly string[]): void {
  if (block.length === 0) return;
  const isQuote =
    isIntroduced(lines) || block.slice(0, MAX_START).some((_, index) => quoteBegins(block, index) !== null);
  for (const line of block) lines.push(isQuote ? `> ${line}` : line);
}
