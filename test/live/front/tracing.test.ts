import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort, listenOnFreePort } from '../../helpers/servers/free-port.ts';
import { type Product, startProduct } from '../../helpers/product/product.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** A trace goes from the caller's request over the workflow to its activities. */

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
let collector: Server;
let product: Product;
/** bodies in protobuf: names are in them as they are, ids as bytes */
const received: Buffer[] = [];

beforeAll(async () => {
  collector = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (request.url === '/v1/traces') received.push(Buffer.concat(chunks));
      response.writeHead(200, { 'Content-Type': 'application/x-protobuf' }).end();
    });
  });
  const port = await listenOnFreePort(collector);
  product = await startProduct({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_BSP_SCHEDULE_DELAY: '200',
  });
}, 120_000);
afterAll(async () => {
  await product?.stop();
  collector?.close();
  collector?.closeAllConnections();
});

test('the spans of API and worker are in the trace of the caller, without the address', async () => {
  const side = { host: '127.0.0.1', port: await freePort(), encryption: 'none' };
  const credentials = { user: 'canary@example.test', password: 'canary', imap: side, smtp: side };
  const headers = { traceparent: `00-${TRACE_ID}-00f067aa0ba902b7-01` };
  const answer = await product.api.request('POST', '/auth/intent', { provider: 'imap', credentials }, headers);
  expect(answer.status).toBe(502);
  const traced = (name: string) =>
    received.some((body) => body.includes(name) && body.includes(Buffer.from(TRACE_ID, 'hex')));
  for (const name of ['POST /api/v1/auth/intent', 'StartWorkflow:connectMailbox', 'RunActivity:verifyMailbox']) {
    await waitFor(() => traced(name), { timeoutMs: 20_000, what: `a span ${name}` });
  }
  for (const service of ['email-api', 'email-worker'])
    expect(received.some((body) => body.includes(service))).toBe(true);
  expect(Buffer.concat(received).includes('canary')).toBe(false);
});
