import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';

/** The commands that documents name, which no other test runs: benches, long tests, scripts. */

const ROOT = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const PAGES = [
  ...readdirSync(ROOT).filter((name) => name.endsWith('.md')),
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
const BENCHES = [...read('bench/run.ts').matchAll(/^ {2}'?([\w-]+)'?: (?:measured|\(rounds\))/gm)].map(
  ([, name]) => name,
);

/** What the pages write after `npm run NAME`: words up to the end of the code or line. */
function argumentsOf(pattern: RegExp): string[] {
  return PAGES.flatMap((page) => [...read(page).matchAll(pattern)].flatMap(([, words = '']) => words.split(/\s+/)));
}

it('scripts of package.json exist', () => {
  const named = argumentsOf(/npm run (?:--silent )?([\w:-]+)/g);
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
});

it('benches exist', () => {
  const named = argumentsOf(/npm run bench -- ([a-z][a-z -]*)/g);
  expect(named.length).toBeGreaterThan(3);
  expect(named.filter((name) => name !== 'all' && !name.startsWith('-') && !BENCHES.includes(name))).toEqual([]);
});

it('paths of tests exist', () => {
  const named = argumentsOf(/npm test -- (test\/[\w./-]+(?: test\/[\w./-]+)*)/g);
  expect(named.length).toBeGreaterThan(3);
  expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});
