import { expect, test } from '@jest/globals';
import type { FolderChoice } from '../../../src/contract/mailbox-config.ts';
import { chosenOf, surelyExcluded } from '../../../src/mailbox/folders/choice.ts';

const folder = (path: string, role = 'UNKNOWN', delimiter: string | null = '/') => ({ path, role, delimiter });

const MAILBOX = [
  folder('INBOX', 'INBOX'),
  folder('INBOX/Sub'),
  folder('Gesendet', 'SENT'),
  folder('Trash', 'TRASH'),
  folder('Trash/Old'),
  folder('Lists'),
  folder('Lists/rust'),
  folder('Lists/rust/2024'),
  folder('Listserv'),
];

const ALL = MAILBOX.map(({ path }) => path);
const without = (...paths: string[]) => ALL.filter((path) => !paths.includes(path));

test.each<[string, FolderChoice | null, string[]]>([
  ['nothing is chosen: all', null, ALL],
  ['an empty choice', {}, ALL],
  ['a role covers the subfolders', { exclude: ['TRASH'] }, without('Trash', 'Trash/Old')],
  ['a role has its folder under any name', { exclude: ['SENT'] }, without('Gesendet')],
  ['INBOX stands for itself only', { include: ['INBOX'] }, ['INBOX']],
  ['the name INBOX, too', { include: ['inbox'] }, ['INBOX']],
  ['a path covers the subfolders', { exclude: ['Lists'] }, without('Lists', 'Lists/rust', 'Lists/rust/2024')],
  ['a subfolder without the folder above it', { include: ['Lists/rust'] }, ['Lists/rust', 'Lists/rust/2024']],
  ['case does not matter', { include: ['lISTSERV'] }, ['Listserv']],
  ['* stands for any characters', { include: ['List*'] }, ['Lists', 'Lists/rust', 'Lists/rust/2024', 'Listserv']],
  ['* in the middle', { include: ['L*/2*4'] }, ['Lists/rust/2024']],
  ['a leading INBOX/ may be omitted', { include: ['Sub'] }, ['INBOX/Sub']],
  [
    'exclude goes before include',
    { include: ['INBOX', 'Lists'], exclude: ['*/2024'] },
    ['INBOX', 'Lists', 'Lists/rust'],
  ],
  ['an entry that names nothing', { exclude: ['List', 'ust', 'ARCHIVE'] }, ALL],
])('%s', (_what, choice, expected) => {
  expect(chosenOf(choice, MAILBOX).map(({ path }) => path)).toEqual(expected);
});

test.each<[string, FolderChoice | null, string[]]>([
  ['nothing is chosen', null, []],
  ['what an entry names', { exclude: ['Lists'] }, ['Lists', 'Lists/rust', 'Lists/rust/2024']],
  ['all but INBOX', { include: ['inbox'] }, without('INBOX')],
  [
    'a path may name a folder that was renamed',
    { include: ['INBOX', 'Work'], exclude: ['TRASH'] },
    ['Trash', 'Trash/Old'],
  ],
  ['a role may be that of a folder above, which is not stored', { include: ['ARCHIVE'] }, []],
])('surely excluded without the list of the server: %s', (_what, choice, expected) => {
  expect(surelyExcluded(choice, MAILBOX).map(({ path }) => path)).toEqual(expected);
});

test('another separator, and a namespace within INBOX', () => {
  const dotted = [
    folder('INBOX', 'INBOX', '.'),
    folder('INBOX.Sent', 'SENT', '.'),
    folder('INBOX.A.B', 'UNKNOWN', '.'),
  ];
  const paths = (choice: FolderChoice) => chosenOf(choice, dotted).map(({ path }) => path);
  expect(paths({ include: ['INBOX'] })).toEqual(['INBOX']);
  expect(paths({ include: ['A'] })).toEqual(['INBOX.A.B']);
  expect(paths({ exclude: ['A/B', 'SENT'] })).toEqual(['INBOX']);
});

test('a pattern with many * takes no time', () => {
  const began = performance.now();
  chosenOf({ include: ['*a'.repeat(128)] }, [folder(`${'a'.repeat(5_000)}b`)]);
  expect(performance.now() - began).toBeLessThan(1_000);
});
