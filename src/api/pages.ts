import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply } from 'fastify';
import Type from 'typebox';
import { preferredLanguage } from './language.ts';

/** Paths that the router of the dashboard shows. */
const DASHBOARD = [
  '',
  'sign-in',
  'mailboxes',
  'deliveries',
  'endpoints',
  'replays',
  'events',
  'keys',
  'audit',
  'settings',
];

export const YEAR_MS = 365 * 24 * 60 * 60 * 1000;

export interface Pages {
  /** output of `vite build`: `index.html`, `connect.html`, `reference.html`, `assets/` */
  dir: string;
  publicUrl: string;
  brand: { name: string; color: string | null; logoUrl: string | null };
  /** the logo of a link, if it has its own */
  logoOf: (token: string, address: string) => Promise<string | undefined>;
}

/**
 * Serves the dashboard at `/`, the connect page at `/connect/{token}` and the reference at `/docs/reference`. Browsers
 * cache files with a hash in their name for a year, and do not cache the pages.
 */
export async function servePages(app: FastifyInstance, { dir, publicUrl, brand, logoOf }: Pages): Promise<void> {
  // the path under which a proxy serves the API
  const base = new URL(publicUrl).pathname.replace(/\/*$/, '/');
  const page = (name: string) =>
    readFileSync(join(dir, name), 'utf8').replace('<base href="/"', `<base href="${base.replaceAll('"', '%22')}"`);
  const index = page('index.html');
  const reference = page('reference.html');
  const connect = page('connect.html').replace(
    'name="brand" content="{}"',
    () => `name="brand" content="${attribute(brandOf(brand))}"`,
  );

  await app.register(fastifyStatic, {
    root: join(dir, 'assets'),
    prefix: '/assets/',
    preCompressed: true,
    immutable: true,
    maxAge: YEAR_MS,
    index: false,
    // serves the files present at start only
    wildcard: false,
    decorateReply: false,
  });
  const dashboard = pageHeaders({ images: [], frames: true });
  for (const section of DASHBOARD) {
    for (const path of section === '' ? ['/'] : [`/${section}`, `/${section}/*`]) {
      app.get(path, { schema: { hide: true } }, (_request, reply) => sendPage(reply, index, dashboard));
    }
  }
  const plain = pageHeaders({ images: [], frames: false });
  app.get('/docs/reference', { schema: { hide: true } }, (_request, reply) => sendPage(reply, reference, plain));
  app
    .withTypeProvider<TypeBoxTypeProvider>()
    .get(
      '/connect/:token',
      { schema: { hide: true, params: Type.Object({ token: Type.String() }) } },
      async ({ params, headers, ip }, reply) => {
        const language = preferredLanguage(headers['accept-language']);
        const logo = (await logoOf(params.token, ip)) ?? brand.logoUrl;
        reply.headers({ 'Content-Language': language, Vary: 'Accept-Language' });
        const hosted = pageHeaders({ images: logo?.startsWith('https:') ? [new URL(logo).origin] : [], frames: false });
        return sendPage(reply, connect.replace('<html lang="en"', `<html lang="${language}"`), hosted);
      },
    );
}

/** What the connect page shows where a link is not known. */
const brandOf = ({ name, color, logoUrl }: Pages['brand']) => JSON.stringify({ name, color, logo_url: logoUrl });

const attribute = (text: string) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');

function sendPage(reply: FastifyReply, text: string, headers: Record<string, string>): FastifyReply {
  return reply.headers(headers).type('text/html; charset=utf-8').send(text);
}

/** The headers of a page that loads from this origin alone; `images`: other origins of images. */
export function pageHeaders({ images, frames }: { images: string[]; frames: boolean }): Record<string, string> {
  return {
    'Content-Security-Policy': [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      ["img-src 'self' data:", ...images].join(' '),
      "connect-src 'self'",
      "font-src 'self'",
      // the viewer of an email
      `frame-src ${frames ? "'self'" : "'none'"}`,
      "base-uri 'self'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
    'Referrer-Policy': 'no-referrer',
    'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
    'Cross-Origin-Opener-Policy': 'same-origin',
    // the page references files that the next version does not have
    'Cache-Control': 'no-cache',
  };
}
