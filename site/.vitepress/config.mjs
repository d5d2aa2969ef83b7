import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformerStyleToClass } from '@shikijs/transformers';
import { renderMermaidSVG } from 'beautiful-mermaid';
import { anchorOf, PAGES, sections } from '../pages.mjs';

/*
 * The site of docs/, which src/api/docs-site.ts serves below /docs. The policy of its pages allows scripts and styles from files
 * of the API alone: what VitePress writes into a page goes to files here.
 */

const BASE = '/docs/';
/** the colours of code as classes, not as attributes */
const colours = transformerStyleToClass({ classPrefix: 'code-' });
const assets = new Map();

/** The URL of a file with this text. */
function assetOf(extension, text) {
  const name = `page.${createHash('sha256').update(text).digest('hex').slice(0, 8)}.${extension}`;
  assets.set(name, text);
  return `${BASE}assets/${name}`;
}

function withoutInline(html) {
  return html
    .replace(/<script(?![^>]*\bsrc=)[^>]*>([^]*?)<\/script>/g, (_all, script) =>
      script.trim() === '' ? '' : `<script src="${assetOf('js', script)}"></script>`,
    )
    .replaceAll(/ style="[^"]*"/g, '')
    .replace('</head>', `<link rel="stylesheet" href="${assetOf('css', colours.getCSS())}"></head>`);
}

/** A diagram in the colours of the page, which theme/style.css has. */
function diagram(source) {
  const svg = renderMermaidSVG(source)
    .replace(/<style>[^]*?<\/style>/, '')
    .replace(/ style="[^"]*"/, '')
    .replaceAll(/\n\s*/g, '');
  const isWide = Number(/ width="([\d.]+)"/.exec(svg)?.[1]) > 700;
  return `<div class="diagram${isWide ? ' wide' : ''}" tabindex="0">${svg}</div>`;
}

const linkOf = (path) => `/${path.replace(/(^|\/)README\.md$/, '$1').replace(/\.md$/, '')}`;
const itemOf = ({ title, path, pages }) => ({
  text: title,
  link: linkOf(path),
  ...(pages ? { items: pages.map(itemOf), collapsed: true } : {}),
});

/** @type {import('vitepress').UserConfig} */
export default {
  srcDir: PAGES,
  base: BASE,
  title: 'Email API',
  description: 'A self-hosted email API: connect mailboxes, read and send over REST, receive every change by webhooks.',
  cleanUrls: true,
  // without a style element that the policy refuses
  appearance: { disableTransition: false },
  // not as a script in each page
  metaChunk: true,
  srcExclude: ['public/**'],
  rewrites: { 'README.md': 'index.md', ':folder/README.md': ':folder/index.md' },
  ignoreDeadLinks: [/(^|\/)files\//],
  head: [['link', { rel: 'icon', href: `${BASE}icon.svg`, type: 'image/svg+xml' }]],
  themeConfig: {
    nav: [
      { text: 'Reference', link: '/reference', target: '_self' },
      { text: 'Dashboard', link: '/../', target: '_self' },
    ],
    sidebar: sections().map(({ heading, pages }) => ({ text: heading, items: pages.map(itemOf) })),
    outline: [2, 3],
    search: { provider: 'local' },
  },
  markdown: {
    anchor: { slugify: anchorOf },
    codeTransformers: [colours],
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config(md) {
      const fence = md.renderer.rules.fence;
      md.renderer.rules.fence = (...args) => {
        const [tokens, index] = args;
        return tokens[index].info === 'mermaid' ? diagram(tokens[index].content) : fence(...args);
      };
      md.core.ruler.push('links', ({ tokens }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          if (token.type !== 'link_open') continue;
          const href = token.attrGet('href');
          // a file, not a page
          if (/^(\.\.\/)*files\//.test(href)) token.attrSet('target', '_self');
          else token.attrSet('href', href.replace(/(^|\/)README\.md(?=#|$)/, '$1index.md'));
        }
      });
    },
  },
  transformHtml: withoutInline,
  buildEnd({ outDir }) {
    for (const [name, text] of assets) writeFileSync(join(outDir, 'assets', name), text);
  },
};
