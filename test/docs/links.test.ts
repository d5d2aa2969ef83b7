import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { anchorsOf, codeBlocks, markdownFiles, ownLinks, read } from '../helpers/assert/markdown.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const FILES = markdownFiles(ROOT);

it.each(FILES)('%s links only files and headings that exist', (path) => {
  const broken = ownLinks(path, read(ROOT, path)).filter(({ target, anchor }) => {
    if (!existsSync(join(ROOT, target))) return true;
    return anchor !== '' && target.endsWith('.md') && !anchorsOf(read(ROOT, target)).has(anchor);
  });
  expect(broken.map(({ link }) => link)).toEqual([]);
});

/** The tests that run the shell lines of a page. */
const RUN_BY: Record<string, string> = {
  'README.md': 'test/live/front/first-webhook.test.ts',
  'docs/quick-start.md': 'test/live/front/quick-start.test.ts',
  // of npm start, and with tools of Postgres
  'docs/operating.md': 'test/live/front/backup.test.ts',
  'docs/sizing.md': 'test/scripts/sizing.test.ts',
};
/** Blocks without a language: programs and servers that the tests do not have, or what other tests start. */
const SHOWN: Record<string, string[]> = {
  'docs/quick-start.md': ['npm start'],
  'docs/operating.md': ['npm ci', 'docker compose', 'cp .env.example'],
};
const COMMAND = /^(?:npm|npx|node|git|docker|curl|cp|rm|tar|mkdir|export|pg_\w+|cd|sudo|apt-get)\b/;

it.each(FILES.filter((path) => /^(?:docs\/|README)/.test(path)))('the tests run every shell line of %s', (path) => {
  const blocks = codeBlocks(read(ROOT, path));
  const shell = blocks.filter(({ language }) => /^(?:sh|bash|shell|console)\b/.test(language));
  const runBy = path.startsWith('docs/recipes/') ? 'test/live/front/recipes.test.ts' : RUN_BY[path];
  if (shell.length > 0) expect(read(ROOT, runBy ?? 'no test runs it')).toContain(path.split('/').at(-1));
  const other = blocks.filter(({ language, text }) => language === '' && COMMAND.test(text));
  const known = SHOWN[path] ?? [];
  expect(other.map(({ text }) => text).filter((text) => !known.some((start) => text.startsWith(start)))).toEqual([]);
});

it('docs/README.md, or the list of a folder, has every page', () => {
  const indexOf = (path: string) => path.replace(/[^/]*$/, 'README.md');
  const pages = FILES.filter((path) => path.startsWith('docs/') && path !== 'docs/README.md');
  const missing = pages.filter((path) => {
    const index = path.endsWith('/README.md') ? 'docs/README.md' : indexOf(path);
    return !ownLinks(index, read(ROOT, index)).some(({ target }) => target === path);
  });
  expect(missing).toEqual([]);
});
