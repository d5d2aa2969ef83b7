import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser } from 'puppeteer-core';
import { markdownFiles } from '../../helpers/assert/markdown.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { browse, type Browsing, startBrowser } from '../../helpers/product/browser.ts';
import { BUILT_PAGES } from '../../helpers/product/built.ts';
import { SITE } from '../../helpers/servers/docs-site.ts';
import { freePort, listenOnFreePort } from '../../helpers/servers/free-port.ts';

/** The site of docs/ as it is built, in a browser, under the policy of its pages. */

const ROOT = join(import.meta.dirname, '..', '..', '..');
const PAGES = markdownFiles(ROOT)
  .filter((path) => path.startsWith('docs/'))
  .map((path) => path.slice('docs/'.length));
const htmlOf = (page: string) => page.replace(/(^|\/)README\.md$/, '$1index.md').replace(/\.md$/, '.html');
const pathOf = (page: string) => `/docs/${page.replace(/(^|\/)README\.md$/, '$1').replace(/\.md$/, '')}`;

describe('the files of the site', () => {
  it.each(PAGES)('have %s as HTML without inline scripts or styles, and as Markdown', (page) => {
    const html = readFileSync(join(SITE, htmlOf(page)), 'utf8');
    expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/);
    expect(html).not.toMatch(/<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?\/\//);
    expect(readFileSync(join(SITE, page), 'utf8')).toMatch(/^# /);
  });

  it('link only each other, the reference and the dashboard', () => {
    const broken = PAGES.flatMap((page) => {
      const html = readFileSync(join(SITE, htmlOf(page)), 'utf8');
      const links = [...html.matchAll(/(?:href|src)="([^"#]+)[^"]*"/g)].map(([, link = '']) => link);
      return links
        .filter((link) => !/^[a-z]+:/.test(link))
        .map((link) => new URL(link, `http://site${pathOf(page)}`).pathname)
        .filter((path) => path !== '/' && path !== '/docs/reference' && !exists(path))
        .map((path) => `${page}: ${path}`);
    });
    expect([...new Set(broken)]).toEqual([]);
  });

  it('list every page for models', () => {
    const list = readFileSync(join(SITE, 'llms.txt'), 'utf8');
    expect(PAGES.filter((page) => page !== 'README.md' && !list.includes(`](${page})`))).toEqual([]);
  });
});

function exists(path: string): boolean {
  const file = join(SITE, path.slice('/docs'.length));
  return [file, `${file}.html`, join(file, 'index.html')].some((one) => existsSync(one) && one !== SITE);
}

describe('in a browser', () => {
  let api: ApiUnderTest;
  let browser: Browser;
  let base: string;
  beforeAll(async () => {
    api = await apiUnderTest({ deps: { docsDir: SITE, pagesDir: BUILT_PAGES } });
    const port = await freePort();
    await api.app.listen({ host: '127.0.0.1', port });
    base = `http://127.0.0.1:${port}`;
    browser = await startBrowser();
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    await api?.close();
  });

  /** Opens each page and returns what is wrong with it. */
  async function visit(reader: Browsing, name: string): Promise<string[]> {
    const found: string[] = [];
    for (const page of PAGES) {
      await reader.open(pathOf(page));
      await reader.page.waitForSelector('.VPContent h1');
      const width = Number(await reader.page.evaluate('document.documentElement.scrollWidth - innerWidth'));
      if (width > 0) found.push(`${name} ${page}: ${width} px wider than the screen`);
      found.push(...(await reader.audit()).map((fault) => `${name} ${page}: ${fault}`));
      await reader.picture(`docs-${name}-${page.replaceAll('/', '-').replace(/\.md$/, '')}`);
    }
    return [...found, ...reader.faults.map((fault) => `${name}: ${fault}`)];
  }

  it.each([
    ['desk', { width: 1280 }],
    ['phone', { width: 390, height: 844 }],
    ['dark', { width: 1280, dark: true }],
  ])(
    'every page keeps its policy, fits and is accessible: %s',
    async (name, options) => {
      const reader = await browse(browser, base, options);
      expect(await visit(reader, name)).toEqual([]);
      await reader.close();
    },
    180_000,
  );

  it('finds pages, follows links without loading anew, and leads to the reference', async () => {
    const reader = await browse(browser, base);
    const requests: string[] = [];
    reader.page.on('request', (request) => requests.push(request.url()));
    await reader.open('/docs');
    await reader.sees('Quick start');
    await reader.page.click('.DocSearch-Button');
    await reader.page.waitForSelector('.search-input');
    await reader.page.type('.search-input', 'Retry-After');
    await reader.page.waitForSelector('.result');
    await reader.picture('docs-search');
    await reader.page.keyboard.press('Enter');
    await reader.page.waitForFunction('location.pathname !== "/docs/"');
    await reader.open('/docs/webhooks');
    await reader.click('recipe', 'link');
    await reader.page.waitForFunction('location.pathname === "/docs/recipes/webhooks"');
    // a link of the reference as it was
    await reader.open('/docs#/API%20keys/getSession');
    await reader.page.waitForSelector('#getSession [aria-expanded=true]');
    expect(await reader.page.evaluate('location.pathname')).toBe('/docs/reference');
    expect(requests.filter((url) => !url.startsWith(`${base}/`) && !url.startsWith('data:'))).toEqual([]);
    expect(reader.faults).toEqual([]);
    await reader.close();
  }, 60_000);

  it('works below the path under which a proxy serves it', async () => {
    const below = await apiUnderTest({
      deps: { docsDir: SITE, pagesDir: BUILT_PAGES },
      publicUrl: 'https://example.com/mail',
    });
    const outside: string[] = [];
    const proxy = createServer(({ url = '', headers }, response) => {
      if (!url.startsWith('/mail/')) outside.push(url);
      void below.app.inject({ url: url.replace(/^\/mail/, ''), headers }).then((answer) => {
        response.writeHead(answer.statusCode, answer.headers).end(answer.rawPayload);
      });
    });
    const reader = await browse(browser, `http://127.0.0.1:${await listenOnFreePort(proxy)}/mail`);
    await reader.open('/docs');
    await reader.click('Settings', 'link');
    await reader.page.waitForFunction('location.pathname === "/mail/docs/settings"');
    await reader.click('Reference', 'link');
    await reader.page.waitForSelector('.operation');
    expect([outside.filter((url) => url !== '/favicon.ico'), reader.faults]).toEqual([[], []]);
    await reader.close();
    proxy.close();
    await below.close();
  }, 60_000);
});

it('has no page that docs/ does not have', () => {
  const html = readdirSync(SITE, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html'));
  expect(html.filter((name) => name !== '404.html').sort()).toEqual(PAGES.map(htmlOf).sort());
});
