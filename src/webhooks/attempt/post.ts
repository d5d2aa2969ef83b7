import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { urlToHttpOptions } from 'node:url';
import { types } from 'node:util';
import type { PostErrorKind } from '../../contract/webhook.ts';
import { type Outbound, OutboundRefused, OutboundUnresolved } from '../../security/outbound.ts';
import { onUnanswered } from '../../security/unanswered.ts';
import { userInfoOf, withoutUserInfo } from '../../security/user-info.ts';
import { type Agents, closeIdle, createAgents } from './agents.ts';

export interface PostRequest {
  /** http or https */
  url: string;
  headers: readonly { name: string; value: string }[];
  body: Buffer;
  /** for everything: DNS, connection, TLS, request, and the response with its body; ms */
  timeoutMs: number;
  /** cancels the call: `post` rejects with the signal's reason */
  signal?: AbortSignal;
}

/** The outcome of a call: either a response or an `error` that may be shown. */
export interface PostOutcome {
  httpStatus: number | null;
  /** text of the response, at most MAX_RESPONSE_BYTES */
  responseBody: string | null;
  /** `Retry-After` as sent */
  retryAfter: string | undefined;
  error: string | null;
  errorKind: PostErrorKind | null;
  durationMs: number;
}

export interface Poster {
  /** Makes one POST; never follows a redirect. Rejects only when `signal` is aborted. */
  post(request: PostRequest): Promise<PostOutcome>;
  /** closes the open connections */
  close(): void;
}

/** Bytes of a response body that are read and stored; the rest is not awaited. */
export const MAX_RESPONSE_BYTES = 16 * 1024;
/**
 * Bytes that a call receives at most. The parser bounds headers, and `readBody` the body; interim responses, empty lines and the
 * framing of chunks have no other bound. A body of chunks of one byte each has a tenth of this.
 */
const MAX_RECEIVED_BYTES = 1024 * 1024;

/** Calls webhook endpoints, only at addresses that `outbound` allows. `ca` is for tests. */
export function createPoster(outbound: Pick<Outbound, 'resolve'>, options: { ca?: string } = {}): Poster {
  const agents = createAgents(outbound, options.ca);
  return {
    async post(request) {
      const began = performance.now();
      const end = new AbortController();
      const cancel = () => end.abort();
      const timer = setTimeout(cancel, request.timeoutMs);
      request.signal?.addEventListener('abort', cancel);
      const response = await exchange(agents, request, end.signal)
        .catch((error: unknown) => {
          // The other side closed an idle connection just as it was used again, and most likely has not seen this call.
          // If it has, a later attempt would repeat the call as well. It may have closed the other idle ones too.
          if (!(error instanceof StaleConnection)) throw error;
          closeIdle(agents, new URL(request.url));
          return exchange(agents, request, end.signal);
        })
        .catch((error: unknown) => (types.isNativeError(error) ? error : new Error('the call failed')))
        .finally(() => {
          clearTimeout(timer);
          request.signal?.removeEventListener('abort', cancel);
        });
      const durationMs = Math.round(performance.now() - began);
      if (!types.isNativeError(response)) return { ...response, error: null, errorKind: null, durationMs };
      request.signal?.throwIfAborted();
      const late = end.signal.aborted;
      const error = late ? `no complete response within ${request.timeoutMs} ms` : describePostError(response);
      const errorKind = late ? 'timeout' : postErrorKind(response);
      return { httpStatus: null, responseBody: null, retryAfter: undefined, error, errorKind, durationMs };
    },
    close() {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

type Response = Pick<PostOutcome, 'httpStatus' | 'responseBody' | 'retryAfter'>;

class StaleConnection extends Error {}
class TooLarge extends Error {}

/** One request and its response, or a rejection; the agent reuses the connection when the response was read whole. */
function exchange(agents: Agents, request: PostRequest, end: AbortSignal): Promise<Response> {
  return new Promise((resolve, reject) => {
    const call = begin(agents, request, end);
    let hasResponse = false;
    const fail = (error: Error) => {
      const code = (error as NodeJS.ErrnoException).code;
      const stale = call.reusedSocket && !hasResponse && (code === 'ECONNRESET' || code === 'EPIPE');
      reject(stale ? new StaleConnection() : error);
    };
    call.on('error', fail);
    call.on('socket', (socket) => boundReceived(call, socket));
    onUnanswered(call, fail);
    call.on('response', (response) => {
      hasResponse = true;
      readBody(response).then((body) => {
        if (!response.complete) call.destroy();
        const status = response.statusCode ?? 0;
        resolve({ httpStatus: status, responseBody: body, retryAfter: response.headers['retry-after'] });
      }, fail);
    });
    call.end(request.body);
  });
}

/** Ends a call that receives too much. */
function boundReceived(call: ClientRequest, socket: Socket): void {
  const before = socket.bytesRead;
  const check = () => {
    if (socket.bytesRead - before > MAX_RECEIVED_BYTES) call.destroy(new TooLarge());
  };
  socket.on('data', check);
  call.once('close', () => socket.off('data', check));
}

function begin(agents: Agents, request: PostRequest, signal: AbortSignal): ClientRequest {
  const url = new URL(request.url);
  const secure = url.protocol === 'https:';
  const { hostname, port, path } = urlToHttpOptions(withoutUserInfo(url));
  const auth = userInfoOf(url);
  const hasOwnAuth = request.headers.some(({ name }) => name.toLowerCase() === 'authorization');
  const call = (secure ? https : http).request({
    method: 'POST',
    hostname,
    port,
    path,
    ...(auth && !hasOwnAuth ? { auth } : {}),
    agent: secure ? agents.https : agents.http,
    signal,
  });
  for (const { name, value } of request.headers) call.appendHeader(name, value);
  call.setHeader('Content-Length', request.body.length);
  return call;
}

/** Whether the response was longer than what is kept of it. */
export function isLongResponse({ responseBody }: Pick<PostOutcome, 'responseBody'>): boolean {
  // cut between characters, which have at most four bytes
  return responseBody !== null && Buffer.byteLength(responseBody) > MAX_RESPONSE_BYTES - 4;
}

async function readBody(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX_RESPONSE_BYTES) break;
  }
  return bodyText(Buffer.concat(chunks));
}

/** At most MAX_RESPONSE_BYTES of UTF-8, cut between characters; Postgres stores no NUL. */
function bodyText(bytes: Buffer): string {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const text = decoder.decode(bytes.subarray(0, MAX_RESPONSE_BYTES), { stream: bytes.length > MAX_RESPONSE_BYTES });
  const plain = text.replaceAll('\0', '\uFFFD');
  if (Buffer.byteLength(plain) <= MAX_RESPONSE_BYTES) return plain;
  return new TextDecoder().decode(Buffer.from(plain).subarray(0, MAX_RESPONSE_BYTES), { stream: true });
}

const MESSAGES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed before the response was complete',
  EPIPE: 'the connection was closed before the response was complete',
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
};

const TLS = /^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH$|INVALID_CA$)/;

/** Why a call got no response, in words that the delivery log may show. */
export function describePostError(error: Error): string {
  if (error instanceof OutboundRefused || error instanceof OutboundUnresolved) return error.message;
  if (error instanceof TooLarge) return 'the response is too large';
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined) return 'the call failed';
  if (code === 'HPE_HEADER_OVERFLOW') return 'the headers of the response are too large';
  const message = MESSAGES[code];
  if (message !== undefined) return message;
  if (TLS.test(code)) return `the TLS connection failed (${code})`;
  return code.startsWith('HPE_') ? `the response is not valid HTTP (${code})` : `the call failed (${code})`;
}

/** The stage at which a call failed. */
export function postErrorKind(error: Error): PostErrorKind {
  if (error instanceof OutboundRefused) return 'address';
  if (error instanceof OutboundUnresolved) return 'dns';
  if (error instanceof TooLarge) return 'too_large';
  const code = (error as NodeJS.ErrnoException).code ?? '';
  if (code in MESSAGES) return 'connect';
  if (TLS.test(code)) return 'tls';
  if (code === 'HPE_HEADER_OVERFLOW') return 'too_large';
  return code.startsWith('HPE_') ? 'response' : 'other';
}
