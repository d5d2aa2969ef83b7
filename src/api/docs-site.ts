import { existsSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { pageHeaders, YEAR_MS } from './pages.ts';

/** The path for which the site is built. */
const PATH = '/docs';
/** Its absolute paths in the files of the site. */
const OWN_PATHS = /(?<![\w.-])\/docs\//g;
const TEXT = /^text\/|javascript|json/;

export interface DocsSite {
  /** output of `npm run docs`, which may write it while the API runs */
  dir: string;
  publicUrl: string;
}

/**
 * Serves the site of docs/ at `/docs/`: its pages as HTML (`/docs/errors`) and as Markdown (`/docs/errors.md`), and
 * `/docs/llms.txt`, where `/llms.txt` leads. Until it is built, `/docs` leads to the reference.
 */
export async function serveDocsSite(app: FastifyInstance, { dir, publicUrl }: DocsSite): Promise<void> {
  const headers = pageHeaders({ images: [], frames: false });
  // the path under which a proxy serves the API
  const base = new URL(publicUrl).pathname.replace(/\/*$/, '');
  const isBuilt = () => existsSync(join(dir, 'index.html'));

  app.get('/llms.txt', { schema: { hide: true } }, (_request, reply) => reply.redirect('docs/llms.txt'));
  await app.register(
    async (docs) => {
      docs.addHook('onRequest', async (_request, reply) => void reply.headers(headers));
      if (base !== '') {
        docs.addHook('onSend', (_request, reply, payload) => underPath(reply, payload, `${base}${PATH}/`));
      }
      await docs.register(fastifyStatic, {
        root: dir,
        // it may be built later
        suppressWarning: true,
        serve: false,
        preCompressed: base === '',
        acceptRanges: false,
        dotfiles: 'ignore',
        cacheControl: false,
        setHeaders: (reply, path) => {
          const isHashed = path.includes(`${sep}assets${sep}`);
          reply.header('Cache-Control', isHashed ? `public, max-age=${YEAR_MS / 1000}, immutable` : 'no-cache');
          // not a video
          if (path.endsWith('.ts')) reply.header('Content-Type', 'text/plain; charset=utf-8');
        },
      });
      const sendPath = (request: FastifyRequest, reply: FastifyReply) => {
        const path = pathOf(request);
        if (path === undefined) return reply.redirect('docs/');
        if (path === '' && !isBuilt()) return reply.redirect('reference');
        const file = fileAt(dir, path);
        return file === undefined ? reply.redirect(`${path.split('/').at(-1)}/`) : reply.sendFile(file);
      };
      docs.get('', { schema: { hide: true } }, sendPath);
      docs.get('/*', { schema: { hide: true } }, sendPath);
      docs.setNotFoundHandler((_request, reply) => {
        reply.code(404);
        return isBuilt() ? reply.sendFile('404.html') : reply.type('text/plain').send(NOT_BUILT);
      });
    },
    { prefix: PATH },
  );
}

const NOT_BUILT = 'These pages are not built yet: `npm run docs` builds them. The reference is at /docs/reference.\n';

/** The path below `/docs/`; undefined: `/docs` itself. The router ignores a slash at the end, relative links do not. */
function pathOf({ url }: FastifyRequest): string | undefined {
  const [path = ''] = url.split('?');
  return path === PATH ? undefined : decodeURIComponent(path.slice(PATH.length + 1));
}

/** The file of a path, which may be missing; undefined: the path is a folder without its slash. */
function fileAt(dir: string, path: string): string | undefined {
  // what is outside the site must not be looked at
  if (path.split(/[/\\]/).includes('..') || path.includes('\0')) return MISSING;
  if (path === '' || path.endsWith('/')) return `${path}index.html`;
  const page = `${path}.html`;
  if (existsSync(join(dir, page))) return page;
  return isFolder(join(dir, path)) ? undefined : path;
}

/** No page of the site has this name. */
const MISSING = 'missing';

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    // also for a name that is too long, or below a file
    return false;
  }
}

/** The text of a file with its own paths below another path. */
async function underPath(reply: FastifyReply, payload: unknown, path: string): Promise<unknown> {
  const isText = TEXT.test(String(reply.getHeader('Content-Type')));
  if (!isText || typeof payload !== 'object' || payload === null) return payload;
  reply.removeHeader('Content-Length');
  return (await text(payload as Readable)).replaceAll(OWN_PATHS, path);
}
