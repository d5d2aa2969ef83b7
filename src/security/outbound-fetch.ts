import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import { isLoopback, type Outbound } from './outbound.ts';
import { onUnanswered } from './unanswered.ts';
import { userInfoOf } from './user-info.ts';

export interface FetchOptions {
  outbound: Pick<Outbound, 'resolve'>;
  /** for everything: DNS, connection, TLS, request and response; ms */
  timeoutMs: number;
  /** bytes of the longest body that is read; a longer one rejects */
  maxBytes: number;
  /** allows `http` to loopback addresses */
  allowsLoopbackHttp?: boolean;
  /** in addition to the system's certificates; for tests */
  ca?: string | Buffer;
}

/** The parts of a request that this fetch sends. */
export interface FetchInit {
  method?: string;
  headers?: Record<string, string>;
  body?: string | URLSearchParams | null | undefined;
  signal?: AbortSignal | undefined;
}

/** A request to a URL that a caller named. */
export type OutboundFetch = (url: string | URL, init?: FetchInit) => Promise<Response>;

/** The URL is not one that may be called. */
export class UrlRefused extends Error {
  override readonly name = 'UrlRefused';
}

/**
 * A `fetch` for URLs that callers name: connects only to addresses that `outbound` allows, checks TLS against the name in the
 * URL, never follows a redirect, and reads a bounded body within a deadline.
 * Rejects with UrlRefused, OutboundRefused, OutboundUnresolved, or an error with a code of Node's.
 */
export function createOutboundFetch(options: FetchOptions): OutboundFetch {
  return async (target, init = {}) => {
    const url = new URL(target);
    const timeout = AbortSignal.timeout(options.timeoutMs);
    const signal = init.signal ? AbortSignal.any([timeout, init.signal]) : timeout;
    const addresses = await options.outbound.resolve(url.hostname);
    const isLocal = addresses.every(({ address }) => isLoopback(address));
    if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLocal && options.allowsLoopbackHttp)) {
      throw new UrlRefused('the URL must begin with https://');
    }
    try {
      return await call(url, addresses[0]?.address ?? '', { ...init, signal }, options);
    } catch (error) {
      if (timeout.aborted) throw Object.assign(new Error('timed out', { cause: error }), { code: 'ETIMEDOUT' });
      throw error;
    }
  };
}

function call(url: URL, address: string, init: FetchInit, { maxBytes, ca }: FetchOptions): Promise<Response> {
  const body = init.body ? Buffer.from(init.body.toString()) : undefined;
  const isSecure = url.protocol === 'https:';
  const auth = userInfoOf(url);
  return new Promise<Response>((resolve, reject) => {
    const request = (isSecure ? https : http).request({
      method: init.method ?? 'GET',
      host: address,
      port: url.port || (isSecure ? 443 : 80),
      path: url.pathname + url.search,
      headers: { ...init.headers, host: url.host, ...(body ? { 'content-length': body.length } : {}) },
      ...(auth === undefined ? {} : { auth }),
      ...(isIP(url.hostname.replace(/^\[|\]$/g, '')) ? {} : { servername: url.hostname }),
      ...(ca === undefined ? {} : { ca }),
      agent: false,
      signal: init.signal,
    });
    request.on('error', reject);
    onUnanswered(request, reject);
    request.on('response', (response) => {
      readBody(response, maxBytes)
        .then((bytes) => responseOf(response, bytes))
        .then(resolve, reject);
    });
    request.end(body);
  });
}

async function readBody(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw Object.assign(new Error('too large'), { code: 'ResponseTooLarge' });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function responseOf({ statusCode = 0, headers }: IncomingMessage, body: Buffer): Response {
  if (statusCode < 200 || statusCode > 599) {
    throw Object.assign(new Error(`the status ${statusCode} does not exist`), { code: 'InvalidStatus' });
  }
  const own = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  const isEmpty = statusCode === 204 || statusCode === 205 || statusCode === 304;
  return new Response(isEmpty ? null : body.toString('utf8'), { status: statusCode, headers: own });
}
