import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { markdownFiles, read } from '../helpers/assert/markdown.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const PAGES = markdownFiles(ROOT).filter((path) => /^docs\/|^(?:AGENTS|CONTRIBUTING)\.md$/.test(path));

/** A path is from the root or, where it is short, from `src`. */
const exists = (path: string) => [ROOT, join(ROOT, 'src')].some((from) => existsSync(join(from, path)));

it.each(PAGES)('%s names only files that exist', (page) => {
  const named = read(ROOT, page).matchAll(
    /`((?:src|test|docs|scripts|deploy|bench)\/[\w./-]+|(?:[\w-]+\/)+[\w-]+\.ts)`/g,
  );
  expect([...named].map(([, path = '']) => path).filter((path) => !exists(path))).toEqual([]);
});
