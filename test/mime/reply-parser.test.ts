import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { ReplyParser } from '../../src/mime/reply/reply-parser.ts';
import { readReplyText } from '../../src/mime/reply/reply-text.ts';
import { expectCpuBelow } from '../helpers/assert/cpu.ts';

const require = createRequire(import.meta.url);
const Library = require('email-reply-parser') as new () => { parseReply(text: string): string };
const ofLibrary = (text: string) => new Library().parseReply(text);
const ofOurs = (text: string) => new ReplyParser().parse(text).getVisibleText();

/** The expressions of the library, and a line that each of them finds. */
const LINES = [
  ...['On Mon, 3 Mar 2026, Ada <a@b.example> wrote:', 'Le lundi, Ada <a@b.example> a écrit :'],
  ...[
    'El lun, Ada <a@b.example> escribió:',
    'Il lun, Ada <a@b.example> ha scritto:',
    'Em seg, Ada <a@b.example> escreveu:',
  ],
  ...[
    'Am Montag schrieb Ada <a@b.example>:',
    'Op ma schreef Ada <a@b.example>:',
    'W dniu 3 marca Ada <a@b.example> pisze:',
  ],
  ...[
    'Dnia 3 marca Ada napisał(a):',
    'Den mandag skrev Ada <a@b.example>:',
    'pe 3. maaliskuuta Ada <a@b.example> kirjoitti:',
  ],
  ...[
    'Am 3.3.2026 um 9:00 schrieb Ada:',
    'ср, 3 мар. 2026\u202fг. в 09:00, Ада <a@b.example>:',
    '在 2026年3月3日，Ada 写道：',
  ],
  ...['2026. 3. 3. 오전 9:00, Ada 작성:', '2026/03/03、Ada <a@b.example>のメッセージ:', 'Ada <a@b.example> schrieb:'],
  ...[
    'Ada on Monday at nine wrote:',
    'From: Ada <a@b.example>',
    'From : Ada [mailto:a@b.example]',
    'Von: Ada <a@b.example>',
  ],
  ...[
    'De : Ada <a@b.example>',
    'Van: Ada <a@b.example>',
    'Da: Ada <a@b.example>',
    '2026-03-03 09:00 GMT+01:00 Ada <a@b.example>:',
  ],
  ...[
    'man. 3. mars 2026 skrev Ada:',
    '03.03.2026 09:00 "Ada" <a@b.example>:',
    '09:00, 3 mars 2026, "Ada" <a@b.example> :',
  ],
  ...[
    '3 March 2026 from Ada <a@b.example>:',
    '-----Original Message-----',
    '-- Oprindelig besked --',
    "--- Message d'origine ---",
  ],
  ...['--', '-- ', ' ---', '____', '++', '====', '________________________________', 'Sent from my phone'],
  ...['Get Outlook for iOS', 'Cheers,', 'Best wishes!', 'Kind regards,', 'KIND REGARDS', 'Von meinem Telefon gesendet'],
  ...['Gesendet von Mail für Windows', 'Sendt fra min telefon', 'Envoyé depuis mon téléphone', 'Envoyé de mon iPhone'],
  ...[
    'Envoyé à partir de Outlook',
    'Télécharger Outlook pour iOS',
    'Bien à vous,',
    'Bien cordialement,',
    'Bonne journée',
  ],
  ...['Bonne soirée!', 'Enviado desde mi teléfono', 'In data 3 marzo Ada ha scritto:', 'Verzonden vanaf mijn telefoon'],
  ...[
    'Verstuurd vanaf mijn iPad',
    '> a quoted line',
    '>> twice quoted',
    ' > nearly quoted',
    'plain words',
    'two  words  ',
  ],
  ...[
    '',
    '',
    '\t',
    'trailing~~~',
    'On\nMon, Ada\nwrote:',
    'end of line\r',
    '👩‍💻 a sign beyond the BMP',
    'a > b : c',
    'İ ı ſ K',
  ],
];

/** The same numbers in every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) / 2_147_483_648;
}

describe('replies are read as the library reads them', () => {
  test.each(LINES)('%j', (line) => {
    for (const text of [
      line,
      `my answer\n\n${line}\n> quoted\n\nbelow`,
      `${line}\nbelow\n`,
      `above\n${line}`,
      `> ${line}\n\nafter`,
    ]) {
      expect(ofOurs(text)).toBe(ofLibrary(text));
    }
  });

  test('in 1,500 random texts', () => {
    const next = numbers(7);
    const pick = () => LINES[Math.floor(next() * LINES.length)] ?? '';
    for (let index = 0; index < 1_500; index++) {
      const text = Array.from({ length: 1 + Math.floor(next() * 14) }, pick).join('\n');
      expect(ofOurs(text)).toBe(ofLibrary(text));
    }
  });

  test('every expression of the library matches one of the lines here', () => {
    const list = require('email-reply-parser/lib/regex.js') as {
      answerHeadersRegex: RegExp[];
      signatureRegex: RegExp[];
    };
    const all = [...list.answerHeadersRegex, ...list.signatureRegex];
    const unused = all.filter((expression) => !LINES.some((line) => expression.test(line)));
    expect(unused.map(String)).toEqual([]);
    // one that is added needs its words in ours, too
    expect(all).toHaveLength(55);
  });

  const fill = (piece: string, length: number) => piece.repeat(Math.ceil(length / piece.length)).slice(0, length);
  const lines = (line: string) => {
    const times = Math.min(1_900 / line.split('\n').length, 64_000 / (line.length + 1));
    return `${line}\n`.repeat(Math.floor(times));
  };
  test.each([
    ['lines that begin a quote in Dutch', lines('Op a schreef b')],
    ['lines that begin one in Danish', lines('man. a skrev b')],
    ['lines that begin one in Polish, after blank ones', lines(`${'\n'.repeat(19)}Dnia a`)],
    ['lines that begin one in Chinese', `${lines('在 a')}写道`],
    ['long lines of dates', `wrote\n${lines(` ${fill('on at ', 1_990)}`)}`],
    ['short lines of dates', `wrote\n${lines(` ${fill('on at ', 490)}`)}`],
    ['lines of "schrieb"', lines(`Am ${fill(' schrieb ', 900)}${fill('<a', 900)}`)],
    ['lines of "um"', lines(`Am a${fill(' um ', 900)}${fill(' schrieb ', 900)}`)],
    ['lines in Russian', lines(`ср, a${fill(' г. в ', 600)}${fill(', ', 600)}${fill('<', 600)}`)],
    ['lines of numbers', lines(`wrote ${fill('12345', 150)}${fill('from', 150)}${fill('<', 150)}`)],
    ['lines of a date with quotes', lines(`wrote\n03.03.2026 ${fill('1', 1_000)}${fill('"<', 900)}`)],
    ['lines of a time with quotes', lines(`12:30 wrote ${fill('1', 1_000)}${fill('"<', 900)}`)],
    ['signs of quotes', lines(`x${fill('>', 1_990)}x`)],
    ['signs of quotes before a date', `wrote\n${lines(`${fill('>', 300)} ${fill('on at ', 190)}`)}`],
    ['addresses', `wrote\n${lines(fill(' <', 1_990))}`],
    ['white space after a header', `${lines(`From:${fill(' ', 1_990)}x`)}`],
    ['white space in a signature', lines(`Von ${fill(' ', 1_990)}x gesendet x`)],
    ['signs at the end', lines(`${fill('~', 1_990)}x`)],
    ['signatures', `Gesendet von ${' '.repeat(390)}${' für '.repeat(315)}y\u2028x \n`.repeat(31)],
    ['signatures without a sender', `Von ${' '.repeat(390)}${'x gesendet '.repeat(100)}y\u2028x \n`.repeat(40)],
  ])('no text takes long: %s', (_, text) => {
    expect(text.length).toBeLessThanOrEqual(64 * 1024);
    expectCpuBelow(1_000, () => readReplyText(text));
  });

  test('a long reply in long paragraphs to a long mail is read', () => {
    const next = numbers(3);
    const words = [
      'on',
      'at',
      'the',
      'from',
      'station',
      'concert',
      'wrote',
      'Monday,',
      'Ada',
      'On',
      'a',
      '10:30',
      '2026',
    ];
    const paragraph = (length: number) => {
      let text = 'Well';
      while (text.length < length) text += ` ${words[Math.floor(next() * words.length)]}`;
      return `${text}.`;
    };
    const own = Array.from({ length: 20 }, () => paragraph(1_200)).join('\n\n');
    const quoted = Array.from({ length: 200 }, () => `> ${paragraph(80)}`).join('\n');
    const text = `${own}\n\nOn Mon, 3 Mar 2026, Ada <a@b.example> wrote:\n${quoted}\n`;
    expect(readReplyText(text)).toBe(own);
  });

  test('at little cost', () => {
    const text = Array.from({ length: 400 }, (_, n) => `How are you, and what is new over there? ${n}`).join('\n');
    expectCpuBelow(600, () => {
      for (let index = 0; index < 40; index++) ofOurs(text);
    });
  });

  test('a text without a quote in less than a quarter of the time of the library', () => {
    const program = fileURLToPath(new URL('../helpers/assert/reply-cpu.ts', import.meta.url));
    const output = execFileSync(process.execPath, ['--import', import.meta.resolve('tsx'), program], {
      encoding: 'utf8',
    });
    const { library, ours, isWhole } = JSON.parse(output) as { library: number; ours: number; isWhole: boolean };
    expect(ours).toBeLessThan(library);
    expect(isWhole).toBe(true);
  });
});
