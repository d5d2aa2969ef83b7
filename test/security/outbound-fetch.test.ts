import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { createOutbound } from '../../src/security/outbound.ts';
import { createOutboundFetch } from '../../src/security/outbound-fetch.ts';
import { listenOnFreePort } from '../helpers/servers/free-port.ts';

/** Answers of servers that callers name. */

let server: Server;
let url: string;
let answer = '';
let request = '';
beforeAll(async () => {
  server = createServer(
    (socket) =>
      void socket
        .on('error', () => {})
        .once('data', (data) => {
          request = data.toString();
          socket.end(answer);
        }),
  );
  url = `http://127.0.0.1:${await listenOnFreePort(server)}/`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

const fetch = createOutboundFetch({
  outbound: createOutbound({ allow: ['127.0.0.0/8'] }),
  timeoutMs: 2_000,
  maxBytes: 1_000,
  allowsLoopbackHttp: true,
});

it.each(['101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x', '101 x', '099 x', '600 x', '999 x', ''])(
  'a response with the status %j is an error in time',
  async (status) => {
    answer = status && `HTTP/1.1 ${status}\r\n\r\n`;
    await expect(fetch(url)).rejects.toMatchObject({ code: expect.stringMatching(/^\w+$/) });
  },
);

it.each([200, 204, 304, 404, 599])('a response with the status %i is one', async (status) => {
  answer = `HTTP/1.1 ${status} x\r\nContent-Length: 0\r\n\r\n`;
  expect((await fetch(url)).status).toBe(status);
});

it.each([
  ['ann:p%40ss', 'ann:p@ss'],
  ['ann:100%', 'ann:100%'],
  ['ann:p%40ss%', 'ann:p@ss%'],
  ['%e2%82%ac%:%ff-%40', '€%:%ff-@'],
  ['100%zz:%41', '100%zz:A'],
  [':only', ':only'],
])('the user and password %s of a URL are sent as %s', async (given, sent) => {
  answer = 'HTTP/1.1 200 x\r\nContent-Length: 0\r\n\r\n';
  await fetch(url.replace('http://', `http://${given}@`));
  expect(request).toContain(`Authorization: Basic ${Buffer.from(sent).toString('base64')}`);
});
