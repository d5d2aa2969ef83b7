import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from '@jest/globals';

const ROOT = join(import.meta.dirname, '..', '..');
const DECISIONS = readdirSync(join(ROOT, 'docs/decisions'));
const PAGES = [
  'docs/architecture.md',
  'docs/mail-servers.md',
  'docs/states.md',
  ...DECISIONS.map((name) => `docs/decisions/${name}`),
];

it.each(PAGES)('%s names and links only files that exist', (page) => {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const named = [...text.matchAll(/`((?:src|test|docs)\/[\w./-]+)`/g)].map(([, path = '']) => path);
  const linked = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, path = '']) => join(dirname(page), path));
  expect([...named, ...linked].filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

it('lists every decision', () => {
  const index = readFileSync(join(ROOT, 'docs/decisions/README.md'), 'utf8');
  expect(DECISIONS.filter((name) => name !== 'README.md' && !index.includes(`](${name})`))).toEqual([]);
});
