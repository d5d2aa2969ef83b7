import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { markdownFiles, read } from '../helpers/assert/markdown.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const PAGES = markdownFiles(ROOT).filter((path) => /^docs\/|^AGENTS\.md$/.test(path));

it.each(PAGES)('%s names only files that exist', (page) => {
  const named = [...read(ROOT, page).matchAll(/`((?:src|test|docs|scripts|deploy|bench)\/[\w./-]+)`/g)];
  expect(named.map(([, path = '']) => path).filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});
