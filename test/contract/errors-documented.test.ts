import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { ERRORS } from '../../src/contract/errors.ts';
import { projectRoot } from '../../src/runtime/project-root.ts';

/** docs/errors.md describes exactly the errors of the table in src/contract/errors.ts. */

const read = (path: string) => readFile(join(projectRoot(), path), 'utf8');

/** Every `errors/…` in the files below a folder. */
async function typesIn(folder: string, ending: RegExp): Promise<Set<string>> {
  const entries = await readdir(join(projectRoot(), folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && ending.test(entry.name));
  const texts = await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name), 'utf8')));
  // excludes paths of imports
  return new Set(
    texts.flatMap((text) =>
      [...text.matchAll(/(?<![./\w])errors\/([a-z_]+)(?!\.ts)\b/g)].map((match) => match[1] ?? ''),
    ),
  );
}

describe('docs/errors.md', () => {
  it.each(Object.entries(ERRORS))(
    'describes %s in a section with its status and title',
    async (code, { status, title }) => {
      const [, ...sections] = (await read('docs/errors.md')).split('\n## ');
      const section = sections.find((text) => text.startsWith(`errors/${code}\n`));
      expect(section?.trim().split('\n').length).toBeGreaterThan(2);
      expect(section).toContain(`\n\n${status}, "${title}". `);
    },
  );

  it('links every section from the table, and nothing else', async () => {
    const text = await read('docs/errors.md');
    const rows = [...text.matchAll(/^\| (\d+) \| \[`errors\/(\w+)`\]\(#errors(\w+)\)/gm)];
    expect(rows.map(([, status, code]) => [code, Number(status)])).toEqual(
      Object.entries(ERRORS).map(([code, { status }]) => [code, status]),
    );
    expect(rows.every(([, , code, anchor]) => code === anchor)).toBe(true);
    expect(text.match(/^## errors\//gm)).toHaveLength(rows.length);
  });

  it.each([
    ['src', /\.ts$/],
    ['web/src', /\.tsx?$/],
    ['docs', /\.md$/],
  ] as const)('covers every error type that %s mentions', async (folder, ending) => {
    const written = await typesIn(folder, ending);
    expect(written.size).toBeGreaterThan(0);
    expect([...written].filter((code) => !(code in ERRORS))).toEqual([]);
  });
});
