import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { VERSION } from '../../src/runtime/version.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';

/** Serving of the pages of web/; test/live/front/dashboard.test.ts tests them in a browser. */

let api: ApiUnderTest;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'pages-'));
  await mkdir(join(dir, 'assets'));
  await writeFile(join(dir, 'index.html'), '<base href="/" /><p>dashboard</p>');
  const head = '<html lang="en"><base href="/" /><meta name="brand" content="{}" />';
  await writeFile(join(dir, 'connect.html'), `${head}<p>connect</p>`);
  await writeFile(join(dir, 'reference.html'), '<base href="/" /><p>reference</p>');
  await writeFile(join(dir, 'assets', 'app-1234.js'), 'export {}');
  await writeFile(join(dir, 'assets', 'app-1234.js.br'), 'compressed');
  api = await apiUnderTest({ deps: { pagesDir: dir } });
});
afterAll(async () => {
  await api.close();
  await rm(dir, { recursive: true });
});

const get = (url: string, headers = {}) => api.app.inject({ url, headers });

describe('the dashboard', () => {
  it.each(['/', '/mailboxes', '/mailboxes/acc_1/emails/email_1', '/deliveries/whc_1', '/keys', '/settings?x=1'])(
    'is served at %s',
    async (path) => {
      const answer = await get(path);
      expect(answer.statusCode).toBe(200);
      expect(answer.body).toContain('dashboard');
      expect(answer.headers['cache-control']).toBe('no-cache');
    },
  );

  it('allow scripts and styles of their origin only, and no framing', async () => {
    const policy = String((await get('/')).headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain('unsafe');
  });

  it('leaves the paths of the API to the API', async () => {
    for (const path of ['/api/v1/nowhere', '/api', '/nowhere', '/assets/none.js', '/t/x', '/connect', '/openapi']) {
      const answer = await get(path, { 'x-api-key': api.key, accept: 'text/html' });
      expect({ path, status: answer.statusCode, body: answer.json<{ type: string }>().type }).toEqual({
        path,
        status: 404,
        body: 'errors/not_found',
      });
    }
    expect((await get('/health')).json()).toEqual({ status: 'ok', version: VERSION });
  });

  it('has precompressed files that browsers cache for a year', async () => {
    const answer = await get('/assets/app-1234.js', { 'accept-encoding': 'br, gzip' });
    expect(answer.headers).toMatchObject({
      'cache-control': 'public, max-age=31536000, immutable',
      'content-encoding': 'br',
      'x-content-type-options': 'nosniff',
    });
    expect(answer.body).toBe('compressed');
    expect((await get('/assets/app-1234.js')).body).toBe('export {}');
    expect((await get('/assets/../index.html')).statusCode).not.toBe(200);
    expect((await get('/assets/%2e%2e/index.html')).statusCode).not.toBe(200);
  });

  it('works under the path of a proxy', async () => {
    const below = await apiUnderTest({ deps: { pagesDir: dir }, publicUrl: 'https://example.com/mail' });
    expect((await below.app.inject({ url: '/' })).body).toContain('<base href="/mail/"');
    await below.close();
  });
});

describe('the reference', () => {
  it('is a page that loads nothing from elsewhere', async () => {
    for (const path of ['/docs/reference', '/docs/reference/']) {
      const answer = await get(path);
      expect([answer.statusCode, answer.body]).toEqual([200, expect.stringContaining('reference')]);
      expect(String(answer.headers['content-security-policy'])).toMatch(/^default-src 'none'; script-src 'self'; /);
    }
  });
});

describe('the connect page', () => {
  it('is served for any token, sends no referrer, and allows no frame', async () => {
    const answer = await get(`/connect/${'a'.repeat(43)}`);
    expect(answer.statusCode).toBe(200);
    expect(answer.body).toContain('connect');
    expect(answer.headers['referrer-policy']).toBe('no-referrer');
    expect(String(answer.headers['content-security-policy'])).toContain("frame-src 'none'");
    expect(answer.body).toContain('content="{&quot;name&quot;:&quot;Email API&quot;');
  });

  it.each([
    [undefined, 'en'],
    ['*', 'en'],
    ['pt-BR, sv', 'en'],
    ['de-AT,de;q=0.9,en;q=0.8', 'de'],
    ['pt, en;q=0.5, FR-ca;q=0.7', 'fr'],
    ['ja;q=0, nl;q=0.1', 'nl'],
    ['de;q=x, pl;q=0.2', 'pl'],
  ])('has, for Accept-Language %s, the language %s', async (header, language) => {
    const answer = await get(`/connect/${'a'.repeat(43)}`, header === undefined ? {} : { 'accept-language': header });
    expect(answer.body).toContain(`<html lang="${language}"`);
    expect(answer.headers).toMatchObject({ 'content-language': language, vary: 'Accept-Language' });
  });

  it.each([
    ['https://cdn.example.com/logo.png?x=1', "img-src 'self' data: https://cdn.example.com;"],
    ['data:image/png;base64,iVBORw0KGgo=', "img-src 'self' data:;"],
  ])('may load the logo of its link: %s', async (logo, policy) => {
    const made = await api.call('POST', '/auth/links', { body: { brand: { name: 'Harbour', logo } } });
    const answer = await get(new URL(made.json<{ url: string }>().url).pathname);
    expect(String(answer.headers['content-security-policy'])).toContain(policy);
  });
});
