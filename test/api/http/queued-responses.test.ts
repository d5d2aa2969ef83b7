import { Readable } from 'node:stream';
import { type AddressInfo, connect } from 'node:net';
import { once } from 'node:events';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import fastify, { type FastifyInstance } from 'fastify';
import { serveDraining } from '../../../src/api/http/draining.ts';
import { endQueuedResponses } from '../../../src/api/http/queued-responses.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

const REQUESTS = 20;

let app: FastifyInstance;
let port: number;
let streams: Readable[];
/** handlers of `/late` that have begun */
let waiting: number;
/** `close` events of each response */
let closes: number[];

beforeEach(async () => {
  streams = [];
  closes = [];
  waiting = 0;
  app = fastify({ forceCloseConnections: 'idle' });
  endQueuedResponses(app);
  serveDraining(app);
  app.addHook('onRequest', (_request, reply, done) => {
    const number = closes.push(0) - 1;
    reply.raw.on('close', () => (closes[number] = (closes[number] ?? 0) + 1));
    done();
  });
  app.get('/short', async () => 'done');
  const stream = () => {
    const made = new Readable({ read: () => undefined });
    streams.push(made);
    return made;
  };
  app.get('/stream', (_request, reply) => reply.send(stream()));
  app.get('/late', async (request, reply) => {
    waiting += 1;
    await waitFor(() => request.raw.socket.destroyed);
    return reply.header('Content-Length', 1_000).send(stream());
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  ({ port } = app.server.address() as AddressInfo);
});
afterEach(() => app.close());

const requestsOf = (...paths: string[]) =>
  paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join('');

it('ends all responses of a connection that closes, also those that wait for another one, once each', async () => {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(requestsOf('/short', ...Array.from({ length: REQUESTS }, () => '/stream')));
  await waitFor(() => streams.length === REQUESTS);
  socket.destroy();
  await waitFor(() => streams.every((stream) => stream.destroyed));
  const begun = performance.now();
  await app.drain(10_000);
  expect(performance.now() - begun).toBeLessThan(5_000);
  expect(closes).toEqual(Array.from({ length: REQUESTS + 1 }, () => 1));
});

it('ends what a handler sends after the connection has closed', async () => {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(requestsOf(...Array.from({ length: REQUESTS }, () => '/late')));
  await waitFor(() => waiting === REQUESTS);
  socket.destroy();
  await waitFor(() => streams.length === REQUESTS && streams.every((each) => each.destroyed));
  await app.drain(10_000);
});

it('answers pipelined requests in their order on a connection that stays', async () => {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let received = '';
  socket.on('data', (bytes: Buffer) => (received += bytes.toString()));
  socket.write(requestsOf('/short', '/none', '/short'));
  await waitFor(() => received.split('HTTP/1.1 ').length === 4 && received.endsWith('done'));
  expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200']);
  socket.destroy();
});
