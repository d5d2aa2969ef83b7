import { createHash } from 'node:crypto';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';

const YEAR_S = 365 * 24 * 60 * 60;
/** Higher ones take seconds for a few percent. */
const BROTLI_QUALITY = 6;

/**
 * Handles requests for a text that does not change while the process runs. `make` is called at the first one. Callers get it
 * compressed, or nothing if they have it. With `?v=` and the hash of its ETag, browsers keep it for a year.
 */
export function storedText(type: string, make: () => string) {
  let stored: { hash: string; forms: Record<'br' | 'gzip' | 'identity', Buffer> } | undefined;
  const read = () => {
    if (stored) return stored;
    const identity = Buffer.from(make());
    const hash = createHash('sha256').update(identity).digest('base64url').slice(0, 16);
    const br = brotliCompressSync(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY } });
    stored = { hash, forms: { identity, br, gzip: gzipSync(identity) } };
    return stored;
  };
  return (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const { hash, forms } = read();
    const { v } = request.query as { v?: string };
    const etag = `W/"${hash}"`;
    reply.headers({
      ETag: etag,
      Vary: 'Accept-Encoding',
      'Cache-Control': v === hash ? `public, max-age=${YEAR_S}, immutable` : 'no-cache',
    });
    if (request.headers['if-none-match']?.includes(etag)) return reply.code(304).send();
    const encoding = encodingFor(request.headers['accept-encoding'] ?? '');
    if (encoding !== 'identity') reply.header('Content-Encoding', encoding);
    return reply.type(type).send(forms[encoding]);
  };
}

/** The smallest form that the caller accepts. */
function encodingFor(accepted: string): 'br' | 'gzip' | 'identity' {
  const names = accepted
    .toLowerCase()
    .split(',')
    .filter((coding) => !/;\s*q=0(\.0*)?\s*$/.test(coding))
    .map((coding) => coding.split(';')[0]?.trim());
  return (['br', 'gzip'] as const).find((name) => names.includes(name)) ?? 'identity';
}
