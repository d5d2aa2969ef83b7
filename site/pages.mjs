// The pages of docs/, as the site has them.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Copies of the pages: VitePress resolves its packages from the folder of the pages. */
export const PAGES = fileURLToPath(new URL('.pages', import.meta.url));

const read = (path) => readFileSync(join(ROOT, path), 'utf8');
const write = (path, text) => {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
};

const ROW = /^(?:\| |- )\[([^\]]+)\]\(([^)]+\.md)\)(?: \||:|,)? *(.*?)(?: \|)?$/gm;

/** The pages that a list links, with what it says of them; paths are from docs/. */
function listed(list) {
  const rows = [...read(join('docs', list)).matchAll(ROW)];
  return rows.map(([, title, link, about]) => ({ title, path: join(dirname(list), link), about }));
}

/** The sections of docs/README.md; a page that is the list of a folder has `pages` itself. */
export function sections() {
  const pages = listed('README.md');
  const [, ...parts] = read('docs/README.md').split(/^## /m);
  return parts.map((part) => ({
    heading: part.slice(0, part.indexOf('\n')),
    pages: pages
      .filter(({ path }) => part.includes(`](${path})`))
      .map((page) => (page.path.endsWith('/README.md') ? { ...page, pages: listed(page.path) } : page)),
  }));
}

/**
 * Copies the pages. Files of the repository outside of docs/ that they link are copied to `files/`, and the links lead there.
 * `public/` has what the site serves as it is: the pages as Markdown, these files, and llms.txt.
 */
export function copyPages() {
  rmSync(PAGES, { recursive: true, force: true });
  const shared = join(PAGES, 'public');
  for (const page of readdirSync(join(ROOT, 'docs'), { recursive: true }).filter((name) => name.endsWith('.md'))) {
    const text = read(join('docs', page)).replace(/\]\(([^)\s#]+)/g, (all, link) => {
      const file = normalize(join('docs', dirname(page), link));
      if (/^[a-z]+:/.test(link) || file.startsWith('docs/') || !existsSync(join(ROOT, file))) return all;
      cpSync(join(ROOT, file), join(shared, 'files', file));
      return `](${'../'.repeat(page.split('/').length - 1)}files/${file}`;
    });
    write(join(PAGES, page), text);
    write(join(shared, page), text);
  }
  write(join(shared, 'llms.txt'), listForModels());
  cpSync(join(ROOT, 'web', 'src', 'icon.svg'), join(shared, 'icon.svg'));
}

/** https://llmstxt.org */
function listForModels() {
  const lineOf = ({ title, path, about, pages = [] }) => [
    `- [${title}](${path})${about ? `: ${about}` : ''}`,
    ...pages.flatMap(lineOf).map((line) => `  ${line}`),
  ];
  const [, intro = ''] = read('docs/README.md').split('\n\n');
  const parts = sections().map(({ heading, pages }) => `## ${heading}\n\n${pages.flatMap(lineOf).join('\n')}`);
  const api = '## Reference\n\n- [OpenAPI 3.1 document](../openapi.json): every call with its types';
  return `# Email API\n\n> ${intro.replaceAll('\n', ' ')}\n\n${[...parts, api].join('\n\n')}\n`;
}

/** The anchor of a heading, as GitHub makes it. */
export function anchorOf(heading) {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-');
}
