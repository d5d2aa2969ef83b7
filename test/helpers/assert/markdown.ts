import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The Markdown files of the repository, as paths from its root. */
export function markdownFiles(root: string): string[] {
  const named = (path: string) => path.endsWith('.md');
  const inFolder = (folder: string) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path));
  return [...readdirSync(root), ...inFolder('docs'), ...inFolder('.github')].filter(named).sort();
}

export interface CodeBlock {
  /** as after the fence; empty: none */
  language: string;
  text: string;
}

/** The fenced code of a file. */
export function codeBlocks(text: string): CodeBlock[] {
  return [...text.matchAll(/^```(.*)\n([^]*?)^```$/gm)].map(([, language = '', code = '']) => ({
    language,
    text: code,
  }));
}

/** A file without its code, fenced and inline. */
export function withoutCode(text: string): string {
  return text.replace(/^```[^]*?^```$/gm, '').replace(/`[^`\n]*`/g, '');
}

/** The anchors of the headings of a file, as GitHub and the site name them. */
export function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of text.replace(/^```[^]*?^```$/gm, '').matchAll(/^#{1,6} (.*)$/gm)) {
    const anchor = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-');
    let unique = anchor;
    for (let number = 1; anchors.has(unique); number += 1) unique = `${anchor}-${number}`;
    anchors.add(unique);
  }
  return anchors;
}

/** Links of a file within the repository: paths from its root, with their anchors. */
export function ownLinks(path: string, text: string): { link: string; target: string; anchor: string }[] {
  return [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)|\b(?:href|src)="([^"]+)"/g)]
    .map(([, linked, named]) => linked ?? named ?? '')
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => {
      const [to = '', anchor = ''] = link.split('#');
      return { link, target: to === '' ? path : join(dirname(path), to), anchor };
    });
}

export const read = (root: string, path: string): string => readFileSync(join(root, path), 'utf8');
