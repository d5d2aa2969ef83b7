import { isIP } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { withDeadline } from '../async.ts';
import { ApiError, errorBody } from '../contract/errors.ts';
import { isId } from '../contract/ids.ts';
import type { Db } from '../db/driver/client.ts';
import { findTracking, type Hit, recordHit, type TrackingRecord } from '../db/queries/tracking.ts';
import type { Logger } from '../runtime/logger.ts';

/*
 * Pixels and links of tracked mail. They need no key, since the readers of the mail load them. The reader comes first:
 * the pixel is always sent, and a link with a known target always redirects, even when the hit cannot be recorded. Every
 * GET is a hit; HEAD, which scanners and previews use, is not.
 */

export interface TrackingDeps {
  db: Db;
  logger: Logger;
}

/** 1×1, transparent. */
const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

/** Longest time that a reader waits for the database, ms. */
const DEADLINE_MS = 3_000;

const MAX_USER_AGENT = 512;

/** Serves `GET /t/o/{trk}.gif` (opens) and `GET /t/c/{trk}/{n}` (clicks). */
export function serveTracking(app: FastifyInstance, { db, logger }: TrackingDeps): void {
  const recordUnlessHead = (record: TrackingRecord, request: FastifyRequest, url?: string) =>
    request.method === 'HEAD' ? Promise.resolve() : recordHit(db, record, hitOf(request, url));
  const failed = (err: unknown) => logger.error({ err }, 'could not record open or click');

  app.get<{ Params: { file: string } }>('/t/o/:file', { schema: { hide: true } }, async (request, reply) => {
    const open = async () => {
      const record = await find(db, /^(.*)\.gif$/.exec(request.params.file)?.[1]);
      if (record?.opens) await recordUnlessHead(record, request);
    };
    await inTime(open()).catch(failed);
    return uncached(reply).type('image/gif').send(PIXEL);
  });

  app.get<{ Params: { id: string; n: string } }>('/t/c/:id/:n', { schema: { hide: true } }, async (request, reply) => {
    const { id, n } = request.params;
    let record: TrackingRecord | undefined;
    try {
      record = await inTime(find(db, id));
    } catch (err) {
      failed(err);
      const body = errorBody('service_unavailable', 'the link cannot be looked up; retry in a moment', {
        requestId: request.id,
      });
      return uncached(reply).code(body.status).header('Retry-After', '5').send(body);
    }
    const url = /^(0|[1-9]\d{0,4})$/.test(n) ? record?.links[Number(n)] : undefined;
    const target = url === undefined ? undefined : headerSafe(url);
    if (!record || target === undefined) throw new ApiError('not_found', 'no link has this URL');
    await inTime(recordUnlessHead(record, request, url)).catch(failed);
    return uncached(reply).redirect(target, 302);
  });
}

async function find(db: Db, id: string | undefined): Promise<TrackingRecord | undefined> {
  return id !== undefined && isId('tracking', id) ? findTracking(db, id) : undefined;
}

/** The result of a query; rejects when it takes too long, without stopping the query. */
function inTime<T>(work: Promise<T>): Promise<T> {
  return withDeadline(DEADLINE_MS, work, () => new Error('the database did not respond in time'));
}

function hitOf(request: FastifyRequest, url: string | undefined): Hit {
  return {
    date: new Date(),
    ip: addressOf(request),
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are removed
    userAgent: (request.headers['user-agent'] ?? '').replace(/[\0-\x1f\x7f-\x9f]/g, '').slice(0, MAX_USER_AGENT),
    ...(url === undefined ? {} : { url }),
  };
}

/** IP address of the caller: X-Forwarded-For can contain anything; mapped IPv4 addresses become IPv4. */
function addressOf({ ip, socket }: FastifyRequest): string {
  const address = isIP(ip) ? ip : (socket.remoteAddress ?? '');
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Encodes a URL for a header: non-ASCII characters become `%` escapes and Punycode. */
function headerSafe(url: string): string | undefined {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return undefined;
  return /^[\x21-\x7e]+$/.test(url) ? url : new URL(url).href;
}

function uncached(reply: FastifyReply): FastifyReply {
  return reply.header('Cache-Control', 'no-store, no-cache, must-revalidate, private, max-age=0');
}
