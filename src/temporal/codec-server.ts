import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Payload, PayloadCodec } from '@temporalio/common';

export interface CodecServerOptions {
  codec: PayloadCodec;
  /** loopback port; 0: any that is free */
  port: number;
  /** origins whose pages may ask, e.g. `http://127.0.0.1:8233` */
  origins: readonly string[];
}

export interface CodecServer {
  /** for `--ui-codec-endpoint` */
  url: string;
  close(): Promise<void>;
}

/** As the UI sends and expects them: bytes in base64. */
interface WirePayload {
  metadata?: Record<string, string>;
  data?: string;
}

const MAX_REQUEST_BYTES = 8 * 1024 * 1024;

/**
 * Decrypts payloads for the Temporal UI (`POST /decode`), so that operators read summaries and results. It listens on
 * loopback and answers pages of the given origins only. Rejects when the port is taken.
 */
export async function startCodecServer({ codec, port, origins }: CodecServerOptions): Promise<CodecServer> {
  const server = createServer((request, response) => {
    answer(request, response, codec, origins).catch(() => {
      response.statusCode = 400;
      response.end();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  codec: PayloadCodec,
  origins: readonly string[],
): Promise<void> {
  const { origin } = request.headers;
  // a page that reached us under a name of its own (DNS rebinding) sends that name
  const local = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(request.headers.host ?? '');
  if (!local || origin === undefined || !origins.includes(origin)) {
    response.statusCode = 403;
    response.end();
    return;
  }
  response.setHeader('Access-Control-Allow-Origin', origin);
  response.setHeader('Vary', 'Origin');
  if (request.method === 'OPTIONS') {
    response.setHeader('Access-Control-Allow-Methods', 'POST');
    response.setHeader('Access-Control-Allow-Headers', 'content-type, x-namespace, authorization');
    response.statusCode = 204;
    response.end();
    return;
  }
  if (request.method !== 'POST' || request.url !== '/decode') {
    response.statusCode = 404;
    response.end();
    return;
  }
  const { payloads = [] } = JSON.parse(await bodyOf(request)) as { payloads?: WirePayload[] };
  const decoded = await codec.decode(payloads.map(fromWire));
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify({ payloads: decoded.map(toWire) }));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_REQUEST_BYTES) throw new RangeError('the request is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
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
