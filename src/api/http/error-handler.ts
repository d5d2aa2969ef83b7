import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, errorBody, type ErrorCode } from '../../contract/errors.ts';
import { unavailablePart } from '../../outage.ts';
import { showLimit, TooManyRequests } from './request-limits.ts';
import { StorageMissing } from '../../storage/storage.ts';

/** Makes every error a response in the shape of SPEC "Errors". */
export function handleErrors(app: FastifyInstance, limits: { bodyBytes: number }): void {
  app.setErrorHandler(async (error: FastifyError | Error, request, reply) => {
    if (isTooLarge(error)) await discard(request.raw, EXCESS * limits.bodyBytes);
    const apiError = toApiError(error, request.routeOptions.bodyLimit ?? limits.bodyBytes);
    if (apiError.code === 'unexpected_error') {
      request.log.error({ err: error, requestId: request.id, route: request.routeOptions.url }, 'a request failed');
    }
    if (apiError.code === 'service_unavailable') {
      request.log.warn(
        { err: error, requestId: request.id, route: request.routeOptions.url },
        'a part of the installation is away',
      );
    }
    if (apiError instanceof TooManyRequests) {
      const { exceeded } = apiError;
      showLimit(reply.header('Retry-After', String(exceeded.resetS)), exceeded, 0);
    }
    return sendError(reply, apiError.code, apiError.detail);
  });
  app.setNotFoundHandler((_request, reply) => sendError(reply, 'not_found', 'there is no such path or method'));
}

const isTooLarge = (error: FastifyError | Error) => 'code' in error && error.code === 'FST_ERR_CTP_BODY_TOO_LARGE';

/** At most this many times the limit is discarded, for at most this long (ms). */
const EXCESS = 4;
const DISCARD_MS = 10_000;

/** A client that is still sending does not read the response: the rest of its body is read and discarded. */
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

/** For errors that occur before there is a route: an URL that cannot be read. */
export function sendFrameworkError(_error: FastifyError, _request: FastifyRequest, reply: FastifyReply): void {
  // there are no hooks for these
  reply.header('X-Content-Type-Options', 'nosniff').header('Cache-Control', 'no-store');
  void sendError(reply, 'not_found', 'the path cannot be read');
}

const SAFE = [
  'Content-Type: application/json; charset=utf-8',
  'X-Content-Type-Options: nosniff',
  'Cache-Control: no-store',
];

/** For what cannot be read as HTTP at all: written to the socket, since Node has no reply object for it. */
export function sendClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const detail = error.code === 'HPE_HEADER_OVERFLOW' ? 'the headers are too long' : 'the request cannot be read';
  const body = JSON.stringify(errorBody('invalid_parameters', detail));
  const head = ['HTTP/1.1 400 Bad Request', ...SAFE, 'Connection: close'];
  socket.end(`${[...head, `Content-Length: ${Buffer.byteLength(body)}`].join('\r\n')}\r\n\r\n${body}`);
}

function sendError(reply: FastifyReply, code: ErrorCode, detail: string): FastifyReply {
  const body = errorBody(code, detail);
  if (code === 'service_unavailable') {
    reply.header('Retry-After', String(RETRY_AFTER_S));
    for (const name of OF_DOWNLOADS) reply.removeHeader(name);
  }
  return reply.code(body.status).type('application/json; charset=utf-8').send(JSON.stringify(body));
}

/** When a caller of a service that is away does well to try again, s. */
const RETRY_AFTER_S = 5;

/** Set before it shows that the bytes cannot be read. */
const OF_DOWNLOADS = ['Accept-Ranges', 'Content-Disposition', 'Content-Range', 'ETag', 'Cache-Control'];

function toApiError(error: FastifyError | Error, bodyBytes: number): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof StorageMissing) return new ApiError('not_found', 'it is no longer stored');
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
    return new ApiError('invalid_parameters', 'the request cannot be read');
  }
  return new ApiError('unexpected_error', 'something unexpected happened; X-Request-Id names this call in the log');
}
