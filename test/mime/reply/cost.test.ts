import { describe, test } from '@jest/globals';
import { readReplyText } from '../../../src/mime/reply/reply-text.ts';
import { expectCpuBelow } from '../../helpers/assert/cpu.ts';

/* Texts and HTML that are made to cost much time to find the new text in. */

describe('no text takes long', () => {
  const fill = (piece: string, length: number) => piece.repeat(Math.ceil(length / piece.length)).slice(0, length);
  const lines = (line: string) => fill(`${line}\n`, Math.min(256 * 1024, 29_000 * (line.length + 1)));
  test.each([
    ['attributions', lines('On Tue, Mar 3, 2026 at 9:00 Ada <a@b.example> wrot:')],
    ['ends of attributions', lines('wrote:')],
    ['colons', lines(':')],
    ['addresses', lines(`${fill('a@b <', 480)}:`)],
    ['dates', lines(`${fill('3.3.2026 10:30 ', 480)}:`)],
    ['fields of headers', lines('From: a@b')],
    ['fields with blank lines', lines('From: a\n\nTo: b\n')],
    ['words of fields', lines(`${fill('Sent ', 900)}:`)],
    ['blanks', lines(`From${fill(' ', 900)}x`)],
    ['blank lines', `${'\n'.repeat(20_000)}x`],
    ['dashes', lines(fill('-', 900))],
    ['dashes around words', lines(`--${fill('Original Message ', 900)}`)],
    ['signs of quotes', lines(fill('>', 900))],
    ['brackets', lines(`Sent from my ${fill('<', 400)}${fill('(https:', 400)}`)],
    ['lines of phones', lines(`Sent from ${fill('my phone ', 80)}x`)],
    ['closings', lines('Kind regards,')],
    ['two dashes', lines('--')],
    ['lists', lines('________________________________')],
    ['one line', fill('On wrote: ', 512 * 1024)],
    ['numbers', lines(fill('12:30 2026 ', 490))],
    ['capitals', lines(fill('Aa. ', 490))],
    ['a last line of blanks', `x\n${' '.repeat(200_000)}x`],
    ['a last line of brackets', `x\nx${fill(')* ', 200_000)}x`],
  ])('%s', (_, text) => {
    expectCpuBelow(1_000, () => readReplyText(text));
  });

  test.each([
    ['nested quotes', fill('<blockquote>', 512 * 1024)],
    ['nested quotes that close', `${'<blockquote>'.repeat(20_000)}${'</blockquote>'.repeat(20_000)}`],
    ['quotes of Gmail in one another', `${'<div class="gmail_quote">'.repeat(1_900)}${'</div>'.repeat(1_900)}`],
    [
      'blocks beside each other',
      fill('<div class="gmail_quote"><blockquote class="gmail_quote">x</blockquote>y</div>', 512 * 1024),
    ],
    ['indented blocks', fill('<blockquote style="margin:1px">x</blockquote>', 512 * 1024)],
    ['styles', fill(`<div style="border-top:solid #aaa 1pt;${fill('padding', 70)}">`, 256 * 1024)],
    ['ends without a start', `<blockquote>${'<b>'.repeat(1_900)}${'</i>'.repeat(90_000)}`],
    ['a class', `<div class="${fill('x_', 100 * 1024)}!">gmail_`],
    ['an id', `<div id="${fill('yahoo_quoted', 100 * 1024)}!">gmail_`],
    ['attributes', `<blockquote ${fill('a=b ', 512 * 1024)}>`],
  ])('%s', (_, html) => {
    expectCpuBelow(1_500, () => readReplyText('x', html));
  });
});
