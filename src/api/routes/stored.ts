import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { DownloadLink } from '../../contract/email.ts';
import { ApiError, ErrorBody, errorBody } from '../../contract/errors.ts';
import { ObjectDamaged } from '../../storage/encrypted.ts';
import type { Storage } from '../../storage/storage.ts';
import { NO_BODY, responsesAs } from './route.ts';

/** A stored object to download. The content of a key never changes. */
export interface StoredFile {
  key: string;
  mime: string;
  name: string;
}

const BYTES = 'application/octet-stream';

/** Query of a download. */
export const DownloadQuery = Type.Object({
  link: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'returns a link that downloads the file without a key for ten minutes',
    }),
  ),
});

/**
 * OpenAPI responses of a download. `mediaType`: the one that is sent, or a range of them. Generators of clients know
 * `application/octet-stream`, and leave out what has no type that they know.
 */
export function downloadResponses(description: string, mediaType: string): Record<number, object> {
  const schema = Type.String({ format: 'binary' });
  const content = { [BYTES]: { schema }, [mediaType]: { schema } };
  return {
    ...responsesAs(BYTES, description, schema, 'not_found'),
    200: {
      description: `${description}; with \`link\`, a DownloadLink`,
      content: { ...content, 'application/json': { schema: DownloadLink } },
    },
    206: { description: 'The requested range', content },
    304: { description: '`If-None-Match` matches the `ETag` of the stored object', ...NO_BODY },
    416: {
      description: '`errors/invalid_parameters` Range not satisfiable',
      content: { 'application/json': { schema: ErrorBody } },
    },
  };
}

/**
 * Streams a stored object, or a single range of it (RFC 9110 14; multiple or malformed ranges return the whole object);
 * responds with 304 when the caller has it already. The headers make browsers save the file, and never run it or guess
 * its type.
 */
export async function sendStored(
  request: FastifyRequest,
  reply: FastifyReply,
  storage: Storage,
  file: StoredFile,
): Promise<FastifyReply> {
  const size = await storage.size(file.key);
  if (size === undefined) throw new ApiError('not_found', 'the content is no longer stored');
  // from the key: the sent bytes and the copy in Sent belong to the same email id
  const etag = `"${file.key.slice(file.key.lastIndexOf('/') + 1)}"`;
  reply.header('ETag', etag).header('Cache-Control', 'private, max-age=0');
  if (isNamed(etag, request.headers['if-none-match'])) return reply.code(304).send(nothing());
  reply
    .header('Accept-Ranges', 'bytes')
    .header('X-Content-Type-Options', 'nosniff')
    .header('Content-Security-Policy', 'sandbox')
    .header('Content-Disposition', disposition(file.name));
  const ifRange = request.headers['if-range'];
  // RFC 9110 section 14.2: a range is that of a GET
  const isRanged = request.method === 'GET' && (ifRange === undefined || ifRange === etag);
  const range = isRanged ? readRange(request.headers.range, size) : undefined;
  if (range === 'unsatisfiable') {
    const body = {
      ...errorBody('invalid_parameters', `the range begins after the end of the content (${size} bytes)`, {
        requestId: request.id,
      }),
      status: 416,
    };
    return reply
      .code(416)
      .header('Content-Range', `bytes */${size}`)
      .type('application/json; charset=utf-8')
      .send(body);
  }
  const { start, end } = range ?? { start: 0, end: size - 1 };
  if (range) reply.code(206).header('Content-Range', `bytes ${start}-${end}/${size}`);
  reply.type(mediaType(file.mime)).header('Content-Length', end - start + 1);
  if (size === 0 || request.method === 'HEAD') return reply.send(nothing());
  const bytes = await storage.get(file.key, range);
  bytes.once('error', (err) => {
    if (err instanceof ObjectDamaged) request.log.error({ err, key: file.key }, 'stored object is damaged');
  });
  return reply.send(bytes);
}

/** No bytes. A stream, or Fastify would write their number as the Content-Length. */
const nothing = (): Readable => Readable.from([]);

/** Whether an If-None-Match names the tag, by the weak comparison (RFC 9110 section 13.1.2). */
function isNamed(etag: string, header: string | undefined): boolean {
  return header?.trim() === '*' || header?.match(/"[^"]*"/g)?.includes(etag) === true;
}

interface Range {
  start: number;
  end: number;
}

function readRange(header: string | undefined, size: number): Range | 'unsatisfiable' | undefined {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header?.replaceAll(' ', '') ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined;
  if (first === '') {
    const length = Math.min(Number(last), size);
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return undefined;
  return start >= size ? 'unsatisfiable' : { start, end };
}

const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,127}\/[a-z0-9!#$&^_.+-]{1,127}$/i;

function mediaType(mime: string): string {
  return MEDIA_TYPE.test(mime) ? mime : BYTES;
}

/** Content-Disposition (RFC 6266): an ASCII name for old clients, and the actual name. */
function disposition(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, '_') || 'attachment';
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded || plain}`;
}
