import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';

/** Serving of the site of docs/; test/live/front/docs-site.test.ts tests its pages in a browser. */

let dir: string;
let api: ApiUnderTest;
let below: ApiUnderTest;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'docs-site-'));
  await mkdir(join(dir, 'assets'));
  await mkdir(join(dir, 'recipes'));
  const files = {
    'index.html': '<a href="/docs/errors">home</a>',
    'errors.html':
      '<script src="/docs/assets/app.1234.js"></script><a href="https://www.postgresql.org/docs/current/">errors</a>',
    'errors.html.br': 'compressed',
    'errors.md': '# Errors',
    '404.html': 'no page',
    'llms.txt': '# Email API',
    'recipes/index.html': 'recipes',
    'assets/app.1234.js': 'const base = "/docs/"',
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  api = await apiUnderTest({ deps: { docsDir: dir } });
  below = await apiUnderTest({ deps: { docsDir: dir }, publicUrl: 'https://example.com/mail/' });
});
afterAll(async () => {
  await Promise.all([api.close(), below.close()]);
  await rm(dir, { recursive: true });
});

async function get(
  url: string,
  { of = api, headers = {} }: { of?: ApiUnderTest; headers?: Record<string, string> } = {},
) {
  const answer = await of.app.inject({ url, headers });
  return { status: answer.statusCode, headers: answer.headers, body: answer.body };
}

describe('the documents', () => {
  it.each([
    ['/docs/', '<a href="/docs/errors">home</a>', 'text/html'],
    ['/docs/?q=1', '<a href="/docs/errors">home</a>', 'text/html'],
    ['/docs/recipes/', 'recipes', 'text/html'],
    ['/docs/errors.md', '# Errors', 'text/markdown'],
    ['/docs/llms.txt', '# Email API', 'text/plain'],
  ])('serves %s', async (url, text, type) => {
    const { status, headers, body } = await get(url);
    expect([status, body]).toEqual([200, text]);
    expect(headers).toMatchObject({ 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' });
    expect(headers['content-type']).toMatch(type);
  });

  it('has the policy of the other pages, and precompressed files', async () => {
    const { headers, body } = await get('/docs/errors', { headers: { 'accept-encoding': 'br' } });
    expect([headers['content-encoding'], body]).toEqual(['br', 'compressed']);
    const policy = String(headers['content-security-policy']);
    for (const part of ["default-src 'none'", "script-src 'self';", "style-src 'self';"])
      expect(policy).toContain(part);
    expect(policy).not.toContain('unsafe');
    const asset = await get('/docs/assets/app.1234.js');
    expect(asset.headers['cache-control']).toBe('public, max-age=31536000, immutable');
  });

  it.each([
    ['/docs', 'docs/'],
    ['/docs/recipes', 'recipes/'],
    ['/llms.txt', 'docs/llms.txt'],
    ['/docs/yaml', 'reference/yaml'],
  ])('leads from %s to %s', async (url, to) => {
    const { status, headers } = await get(url);
    expect([status, headers['location']]).toEqual([302, to]);
  });

  it('has a page for what it does not have, and nothing from outside of its folder', async () => {
    expect(await get('/docs/nowhere')).toMatchObject({ status: 404, body: 'no page' });
    for (const url of ['/docs/../package.json', '/docs/%2e%2e/package.json', '/docs/..%2fpackage.json', '/docs/%00']) {
      const { status } = await get(url);
      expect([url, status >= 400 && status < 500]).toEqual([url, true]);
    }
    // neither do the answers tell folders, files and what is not there apart
    const odd = ['etc', 'etc%2fpasswd%2fx', 'nope'].map((name) => `/docs/${'..%2f'.repeat(12)}${name}`);
    for (const url of [...odd, '/docs/recipes.html/x', `/docs/${'a'.repeat(300)}`]) {
      expect([url, (await get(url)).status]).toEqual([url, 404]);
    }
  });

  it('names its files below the path of a proxy, and leaves other addresses alone', async () => {
    const { body } = await get('/docs/errors', { of: below, headers: { 'accept-encoding': 'br' } });
    expect(body).toContain('src="/mail/docs/assets/app.1234.js"');
    expect(body).toContain('href="https://www.postgresql.org/docs/current/"');
    expect((await get('/docs/assets/app.1234.js', { of: below })).body).toBe('const base = "/mail/docs/"');
  });

  it('leads to the reference until it is built', async () => {
    const index = join(dir, 'index.html');
    await rename(index, `${index}.later`);
    try {
      expect((await get('/docs/')).headers['location']).toBe('reference');
      expect(await get('/docs/nowhere')).toMatchObject({ status: 404, body: expect.stringContaining('npm run docs') });
    } finally {
      await rename(`${index}.later`, index);
    }
  });
});
