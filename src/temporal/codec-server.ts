import type { Payload, PayloadCodec } from '@temporalio/common';
import { fastify } from 'fastify';

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
/** The names under which loopback is reached. A page that came by DNS rebinding sends a name of its own. */
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;

/**
 * Decrypts payloads for the Temporal UI (`POST /decode`), so operators can read summaries and results. It listens on
 * loopback and serves pages of the given origins only. Rejects when the port is taken.
 */
export async function startCodecServer({ codec, port, origins }: CodecServerOptions): Promise<CodecServer> {
  const app = fastify({ bodyLimit: MAX_REQUEST_BYTES, forceCloseConnections: true });
  app.addHook('onRequest', async ({ headers: { origin, host = '' } }, reply) => {
    if (!LOOPBACK_HOST.test(host) || origin === undefined || !origins.includes(origin)) return reply.code(403).send();
    reply.headers({ 'Access-Control-Allow-Origin': origin, Vary: 'Origin' });
  });
  // whatever it calls itself, the body is JSON
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, app.getDefaultJsonParser('error', 'error'));
  app.setErrorHandler((_error, _request, reply) => reply.code(400).send());
  app.setNotFoundHandler((_request, reply) => reply.code(404).send());
  app.options('*', (_request, reply) =>
    reply
      .code(204)
      .headers({
        'Access-Control-Allow-Methods': 'POST',
        'Access-Control-Allow-Headers': 'content-type, x-namespace, authorization',
      })
      .send(),
  );
  app.post<{ Body: { payloads?: WirePayload[] } }>('/decode', async ({ body: { payloads = [] } }) => ({
    payloads: (await codec.decode(payloads.map(fromWire))).map(toWire),
  }));
  const url = await app.listen({ host: '127.0.0.1', port });
  return { url, close: () => app.close() };
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
