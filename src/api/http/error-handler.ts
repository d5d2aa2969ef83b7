import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import { ApiError, errorBody, type ErrorCode, type FieldError } from '../../contract/errors.ts';
import { unavailablePart } from '../../outage.ts';
import { showLimit, TooManyRequests } from './request-limits.ts';
import { ObjectDamaged } from '../../storage/encrypted.ts';
import { StorageMissing } from '../../storage/storage.ts';

/** Converts every error to a response with an `ErrorBody` (docs/errors.md). */
export function handleErrors(app: FastifyInstance, limits: { bodyBytes: number }): void {
  app.setErrorHandler(async (error: FastifyError | Error, request, reply) => {
    if (isTooLarge(error)) await discard(request.raw, EXCESS * limits.bodyBytes);
    const apiError = toApiError(error, request.routeOptions.bodyLimit ?? limits.bodyBytes);
    if (apiError.code === 'unexpected_error') {
      request.log.error({ err: error, requestId: request.id, route: request.routeOptions.url }, 'request failed');
    }
    if (apiError.code === 'service_unavailable') {
      request.log.warn(
        { err: error, requestId: request.id, route: request.routeOptions.url },
        'dependency unavailable',
      );
    }
    if (apiError instanceof TooManyRequests) {
      const { exceeded } = apiError;
      showLimit(reply.header('Retry-After', String(exceeded.resetS)), exceeded, 0);
    }
    for (const name of OF_DOWNLOADS) reply.removeHeader(name);
    return sendError(reply, apiError.code, apiError.detail, fieldsOf(apiError, request.routeOptions.schema));
  });
  app.setNotFoundHandler((_request, reply) => sendError(reply, 'not_found', 'no route has this path and method'));
}

const isTooLarge = (error: FastifyError | Error) => 'code' in error && error.code === 'FST_ERR_CTP_BODY_TOO_LARGE';

/** Limits of discarding: a multiple of the body limit, and a duration in ms. */
const EXCESS = 4;
const DISCARD_MS = 10_000;

/** Reads and discards the rest of a body: a client does not read the response while it is sending. */
function discard(body: Readable, maxBytes: number): Promise<void> {
  return new Promise((resolve) => {
    let left = maxBytes;
    const done = () => {
      clearTimeout(timer);
      body.off('data', count).off('end', done).off('close', done).off('error', done);
      resolve();
    };
    const count = (chunk: Buffer) => {
      left -= chunk.length;
      if (left < 0) done();
    };
    const timer = setTimeout(done, DISCARD_MS);
    if (body.readableEnded || body.destroyed) return done();
    body.on('data', count).once('end', done).once('close', done).once('error', done).resume();
  });
}

/** Responds to errors that precede routing, such as a malformed URL. */
export function sendFrameworkError(_error: FastifyError, _request: FastifyRequest, reply: FastifyReply): void {
  // hooks do not run for these errors
  reply
    .header('X-Request-Id', reply.request.id)
    .header('X-Content-Type-Options', 'nosniff')
    .header('Cache-Control', 'no-store');
  void sendError(reply, 'not_found', 'the path is malformed');
}

const SAFE = [
  'Content-Type: application/json; charset=utf-8',
  'X-Content-Type-Options: nosniff',
  'Cache-Control: no-store',
];

/** Responds to input that is not valid HTTP, directly on the socket, since Node provides no reply object. */
export function sendClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const isLate = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const body = JSON.stringify({
    ...errorBody('invalid_parameters', reasonOf(error)),
    ...(isLate ? { status: 408 } : {}),
  });
  const head = [`HTTP/1.1 ${isLate ? '408 Request Timeout' : '400 Bad Request'}`, ...SAFE, 'Connection: close'];
  socket.end(`${[...head, `Content-Length: ${Buffer.byteLength(body)}`].join('\r\n')}\r\n\r\n${body}`);
}

function reasonOf({ code }: NodeJS.ErrnoException): string {
  if (code === 'HPE_HEADER_OVERFLOW') return 'the headers are too long';
  return code === 'ERR_HTTP_REQUEST_TIMEOUT'
    ? 'the request did not arrive in time: upload large files in parts (PATCH /uploads/{id})'
    : 'the request is malformed';
}

function sendError(
  reply: FastifyReply,
  code: ErrorCode,
  detail: string,
  fields: readonly FieldError[] = [],
): FastifyReply {
  const body = errorBody(code, detail, { fields, requestId: reply.request.id });
  if (LATER.has(code) && !reply.hasHeader('Retry-After')) reply.header('Retry-After', String(RETRY_AFTER_S));
  return reply.code(body.status).type('application/json; charset=utf-8').send(JSON.stringify(body));
}

/**
 * The fields at fault. A detail of `invalid_parameters` begins with the field, if it is about one: that is a property of the
 * body or the query of the route.
 */
function fieldsOf({ code, detail, fields }: ApiError, schema: FastifySchema | undefined): readonly FieldError[] {
  if (fields.length > 0 || code !== 'invalid_parameters') return fields;
  const [, path = '', name = '', message = ''] = /^(([\w-]+)(?:\.[\w-]+)*):? (.+)$/s.exec(detail) ?? [];
  return [schema?.body, schema?.querystring].some((part) => hasProperty(part, name)) ? [{ path, message }] : [];
}

function hasProperty(schema: unknown, name: string): boolean {
  if (typeof schema !== 'object' || schema === null) return false;
  const { properties = {}, anyOf = [] } = schema as { properties?: object; anyOf?: unknown[] };
  return Object.hasOwn(properties, name) || anyOf.some((one) => hasProperty(one, name));
}

const LATER = new Set<ErrorCode>(['too_many_requests', 'service_unavailable']);

/** `Retry-After` of responses whose error names no time, s. */
const RETRY_AFTER_S = 5;

/** Headers of downloads, set before reading the bytes fails. */
const OF_DOWNLOADS = ['Accept-Ranges', 'Content-Disposition', 'Content-Range', 'ETag', 'Cache-Control'];

function toApiError(error: FastifyError | Error, bodyBytes: number): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof StorageMissing) return new ApiError('not_found', 'the content is no longer stored');
  if (error instanceof ObjectDamaged) {
    return new ApiError('not_found', 'the stored content is damaged and cannot be returned');
  }
  const away = unavailablePart(error);
  if (away) return new ApiError('service_unavailable', away.detail, { cause: error });
  if (isTooLarge(error)) {
    return new ApiError('invalid_parameters', `the body is larger than ${bodyBytes} bytes`);
  }
  if ('code' in error && error.code === 'FST_ERR_CTP_INVALID_JSON_BODY') {
    return new ApiError('invalid_parameters', 'the body is not valid JSON');
  }
  const status = 'statusCode' in error ? error.statusCode : undefined;
  if (status !== undefined && status >= 400 && status < 500) {
    return new ApiError('invalid_parameters', 'the request is malformed');
  }
  return new ApiError('unexpected_error', 'an unexpected error occurred; search the log for X-Request-Id');
}
