import { htmlToPlain } from '../html.ts';
import { settledBlocks } from './blocks.ts';
import { newLinesOf } from './new-lines.ts';
import { cutQuotes } from './quoted-html.ts';
import { withoutRules, withoutSignature } from './signature.ts';

/** Longer texts (in characters) are not searched. */
const MAX_LENGTH = 1024 * 1024;
const MAX_LINES = 30_000;

/**
 * The text that the author of a mail has written: without the quoted mail and the signature. `html` is its HTML body, whose
 * marks of quotes are surer than the text. `mayQuote` false: the mail neither answers nor forwards another, and a header or an
 * attribution in its text is the author's, as in the message of a contact form. Null when unknown: the text is empty, too
 * long, or only a quote.
 */
export function readReplyText(plain: string, html = '', mayQuote = true): string | null {
  const cut = cutQuotes(html);
  const ofPlain = () => newTextOf(plain, mayQuote);
  if (cut === null) return ofPlain();
  const unsigned = cut.unsigned === null ? null : newTextOf(htmlToPlain(cut.unsigned), mayQuote, settledBlocks);
  return unsigned ?? newTextOf(htmlToPlain(cut.html), mayQuote, settledBlocks) ?? ofPlain();
}

function newTextOf(plain: string, mayQuote: boolean, settle = (lines: string[]) => lines): string | null {
  if (plain.length > MAX_LENGTH) return null;
  const lines = plain.split('\n', MAX_LINES + 1);
  if (lines.length > MAX_LINES) return null;
  const runs = newLinesOf(settle(lines), mayQuote);
  return joined(runs.map(withoutSignature)) ?? joined(runs.map(withoutRules));
}

function joined(runs: readonly (readonly string[])[]): string | null {
  const texts = runs
    .map((lines) =>
      lines
        .join('\n')
        .replace(/^(?:[^\S\n]*\n)+/, '')
        .trimEnd(),
    )
    .filter((text) => /\S/.test(text));
  return texts.length === 0 ? null : texts.join('\n\n').trim();
}
