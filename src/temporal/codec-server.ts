import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { fastify, type FastifyInstance } from 'fastify';

export interface CodecServerOptions {
  codec: PayloadCodec;
  /** see CodecRoutesOptions */
  token: string;
}

export interface CodecServer {
  /** on loopback, at any free port */
  port: number;
  close(): Promise<void>;
}

export interface CodecRoutesOptions {
  codec: PayloadCodec;
  /** the origin of the Temporal UI: pages of other origins are refused, programs without an origin are not */
  origin: string;
  /** a request must bear it: `Authorization: Bearer <token>`, or as the password of Basic */
  token: string;
}

/** As the UI sends and expects them: bytes in base64. */
interface WirePayload {
  metadata?: Record<string, string>;
  data?: string;
}

/** The status with which a request is refused; undefined: it is accepted. */
type Refuse = (headers: IncomingHttpHeaders, method: string) => 401 | 403 | undefined;

const MAX_REQUEST_BYTES = 8 * 1024 * 1024;
/** The names under which loopback is reached. A page that uses DNS rebinding sends its own name. */
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;

/**
 * Decrypts payloads for the embedded Temporal UI (`POST /decode`), so operators can read summaries and results. The guard of
 * the UI forwards calls to it, so that the browser sends the token as the password of Basic. It listens on loopback, where
 * other users of the machine have programs: only the token tells them from the operator.
 */
export async function startCodecServer({ codec, token }: CodecServerOptions): Promise<CodecServer> {
  const app = fastify({ forceCloseConnections: true });
  addRoutes(app, codec, ({ host = '', authorization = '' }) => {
    if (!LOOPBACK_HOST.test(host)) return 403;
    return isSame(tokenIn(authorization), token) ? undefined : 401;
  });
  addSignIn(app);
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return { port: Number(new URL(url).port), close: () => app.close() };
}

/**
 * Decrypts payloads as routes of the API, for operators who are signed in. The UI does not pass on our token: the proxy
 * in front of it, which asks for the operator's login, adds one; a browser that was asked for the token by `GET /` sends
 * it as Basic if the UI is set to include cross-origin credentials.
 */
export function codecRoutes({ codec, origin: allowed, token }: CodecRoutesOptions): (app: FastifyInstance) => void {
  return (app) => {
    addRoutes(app, codec, ({ origin, authorization = '' }, method) => {
      if (origin !== undefined && origin !== allowed) return 403;
      // a preflight request bears no credentials
      if (method === 'OPTIONS') return origin === undefined ? 403 : undefined;
      return isSame(tokenIn(authorization), token) ? undefined : 401;
    });
    addSignIn(app);
  };
}

/** A page that makes the browser ask for the token, since it may not ask for calls of the UI. */
function addSignIn(app: FastifyInstance): void {
  app.get('/', HIDDEN, (_request, reply) =>
    reply.type('text/plain').send('You are signed in for decoding histories.\n'),
  );
}

const HIDDEN = { schema: { hide: true } };

function addRoutes(app: FastifyInstance, codec: PayloadCodec, refuse: Refuse): void {
  app.addHook('onRequest', async ({ headers, method }, reply) => {
    const status = refuse(headers, method);
    if (status === 401) reply.header('WWW-Authenticate', 'Basic realm="Temporal histories", charset="UTF-8"');
    if (status !== undefined) return reply.code(status).send();
    const { origin } = headers;
    if (origin === undefined) return;
    reply.headers({
      'Access-Control-Allow-Origin': origin,
      'Access-Control-Allow-Credentials': 'true',
      Vary: 'Origin',
    });
  });
  // the body is JSON, regardless of its content type
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, app.getDefaultJsonParser('error', 'error'));
  app.setErrorHandler((_error, _request, reply) => reply.code(400).send());
  app.setNotFoundHandler((_request, reply) => reply.code(404).send());
  app.options('/*', HIDDEN, (_request, reply) =>
    reply
      .code(204)
      .headers({
        'Access-Control-Allow-Methods': 'POST',
        'Access-Control-Allow-Headers': 'content-type, x-namespace, authorization',
      })
      .send(),
  );
  app.post<{ Body: { payloads?: WirePayload[] } }>(
    '/decode',
    { ...HIDDEN, bodyLimit: MAX_REQUEST_BYTES },
    async ({ body: { payloads = [] } }) => ({ payloads: (await codec.decode(payloads.map(fromWire))).map(toWire) }),
  );
}

/** The token of a header `Authorization`, or the password in it. */
function tokenIn(authorization: string): string {
  const [scheme = '', value = ''] = authorization.split(' ');
  if (scheme.toLowerCase() === 'bearer') return value;
  if (scheme.toLowerCase() !== 'basic') return '';
  const text = Buffer.from(value, 'base64').toString();
  return text.slice(text.indexOf(':') + 1);
}

function isSame(given: string, token: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(token));
}

const fromWire = ({ metadata = {}, data = '' }: WirePayload): Payload => ({
  metadata: mapValues(metadata, (value) => Buffer.from(value, 'base64')),
  data: Buffer.from(data, 'base64'),
});

const toWire = ({ metadata, data }: Payload): WirePayload => ({
  metadata: mapValues(metadata ?? {}, (value) => Buffer.from(value).toString('base64')),
  data: Buffer.from(data ?? []).toString('base64'),
});

function mapValues<From, To>(record: Record<string, From>, change: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}
