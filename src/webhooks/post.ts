import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { urlToHttpOptions } from 'node:url';
import { types } from 'node:util';
import { type Outbound, OutboundRefused, OutboundUnresolved } from '../outbound.ts';
import { createAgents } from './agents.ts';

export interface PostRequest {
  /** http or https */
  url: string;
  headers: readonly { name: string; value: string }[];
  body: Buffer;
  /** for everything: DNS, connection, TLS, request, and the answer with its body; ms */
  timeoutMs: number;
  /** gives the call up: `post` rejects with the signal's reason */
  signal?: AbortSignal;
}

/** What came of a call; either an answer or an `error` that may be shown. */
export interface PostOutcome {
  httpStatus: number | null;
  /** text of the answer, at most MAX_ANSWER_BYTES */
  responseBody: string | null;
  /** `Retry-After` as sent */
  retryAfter: string | undefined;
  error: string | null;
  durationMs: number;
}

export interface Poster {
  /** Makes one POST; never follows a redirect. Rejects only when `signal` is aborted. */
  post(request: PostRequest): Promise<PostOutcome>;
  /** closes the connections that are kept open */
  close(): void;
}

/** So much of an answer is read and kept (CONTRACT "Webhooks"); the rest is not waited for. */
export const MAX_ANSWER_BYTES = 16 * 1024;

/** Calls webhook endpoints, only at addresses that `outbound` allows. `ca` is for tests. */
export function createPoster(outbound: Pick<Outbound, 'resolve'>, options: { ca?: string } = {}): Poster {
  const agents = createAgents(outbound, options.ca);
  return {
    async post(request) {
      const began = performance.now();
      const end = new AbortController();
      const giveUp = () => end.abort();
      const timer = setTimeout(giveUp, request.timeoutMs);
      request.signal?.addEventListener('abort', giveUp);
      const answer = await exchange(agents, request, end.signal)
        .catch((error: unknown) => {
          // The other side closed a kept connection just as it was used again, and most likely has seen nothing of
          // this call. Had it, a later try would repeat it as well.
          if (error instanceof StaleConnection) return exchange(agents, request, end.signal);
          throw error;
        })
        .catch((error: unknown) => (types.isNativeError(error) ? error : new Error('the call failed')))
        .finally(() => {
          clearTimeout(timer);
          request.signal?.removeEventListener('abort', giveUp);
        });
      const durationMs = Math.round(performance.now() - began);
      if (!types.isNativeError(answer)) return { ...answer, error: null, durationMs };
      request.signal?.throwIfAborted();
      const late = end.signal.aborted;
      const error = late ? `no complete answer within ${request.timeoutMs} ms` : describePostError(answer);
      return { httpStatus: null, responseBody: null, retryAfter: undefined, error, durationMs };
    },
    close() {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

type Answer = Pick<PostOutcome, 'httpStatus' | 'responseBody' | 'retryAfter'>;

class StaleConnection extends Error {}

/** One request and its answer, or a rejection; the connection goes back to the agent when the answer was read whole. */
function exchange(agents: ReturnType<typeof createAgents>, request: PostRequest, end: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const call = begin(agents, request, end);
    let answered = false;
    const fail = (error: Error) => {
      const code = (error as NodeJS.ErrnoException).code;
      const stale = call.reusedSocket && !answered && (code === 'ECONNRESET' || code === 'EPIPE');
      reject(stale ? new StaleConnection() : error);
    };
    call.on('error', fail);
    // once there is an answer, its own end or error counts
    call.on('close', () => {
      if (!answered) fail(Object.assign(new Error('closed without an answer'), { code: 'ECONNRESET' }));
    });
    call.on('response', (response) => {
      answered = true;
      readAnswer(response).then((body) => {
        if (!response.complete) call.destroy();
        const status = response.statusCode ?? 0;
        resolve({ httpStatus: status, responseBody: body, retryAfter: response.headers['retry-after'] });
      }, fail);
    });
    call.end(request.body);
  });
}

function begin(agents: ReturnType<typeof createAgents>, request: PostRequest, signal: AbortSignal): ClientRequest {
  const url = new URL(request.url);
  const secure = url.protocol === 'https:';
  const { hostname, port, path, auth } = urlToHttpOptions(url);
  const call = (secure ? https : http).request({
    method: 'POST',
    hostname,
    port,
    path,
    ...(auth ? { auth } : {}),
    agent: secure ? agents.https : agents.http,
    signal,
  });
  for (const { name, value } of request.headers) call.appendHeader(name, value);
  call.setHeader('Content-Length', request.body.length);
  return call;
}

async function readAnswer(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES) break;
  }
  return answerText(Buffer.concat(chunks));
}

/** At most MAX_ANSWER_BYTES of UTF-8, cut between characters; Postgres keeps no NUL. */
function answerText(bytes: Buffer): string {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const text = decoder.decode(bytes.subarray(0, MAX_ANSWER_BYTES), { stream: bytes.length > MAX_ANSWER_BYTES });
  const plain = text.replaceAll('\0', '\uFFFD');
  if (Buffer.byteLength(plain) <= MAX_ANSWER_BYTES) return plain;
  return new TextDecoder().decode(Buffer.from(plain).subarray(0, MAX_ANSWER_BYTES), { stream: true });
}

const MESSAGES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed before the answer was complete',
  EPIPE: 'the connection was closed before the answer was complete',
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
};

const TLS = /^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH$|INVALID_CA$)/;

/** Why a call got no answer, in words that the delivery log may show. */
export function describePostError(error: Error): string {
  if (error instanceof OutboundRefused || error instanceof OutboundUnresolved) return error.message;
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined) return 'the call failed';
  const known = MESSAGES[code];
  if (known !== undefined) return known;
  if (TLS.test(code)) return `the TLS connection failed (${code})`;
  return code.startsWith('HPE_') ? `the answer is not valid HTTP (${code})` : `the call failed (${code})`;
}
