import { createServer, type Server, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from '@jest/globals';
import { createOutbound } from '../../../src/security/outbound.ts';
import { createPoster, MAX_RESPONSE_BYTES, type PostOutcome } from '../../../src/webhooks/attempt/post.ts';
import { listenOnFreePort } from '../../helpers/servers/free-port.ts';

/*
 * Receivers that attack the caller. Whatever they send, a call ends in its time, reads a bounded part of it, and is recorded
 * as what it was.
 */

const poster = createPoster(createOutbound({ allow: ['127.0.0.0/8'] }));
const servers: { server: Server; sockets: Socket[] }[] = [];

afterEach(async () => {
  poster.close();
  for (const { server, sockets } of servers.splice(0)) {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  }
});

interface Called extends PostOutcome {
  /** connections that were made */
  connections: number;
  /** what the receiver could send, until it was cut off */
  sentBytes: number;
}

/** Calls a server that runs `attack` on a connection once it has got a request. */
async function call(attack: (socket: Socket) => void, timeoutMs: number): Promise<Called> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.once('data', () => attack(socket));
  });
  servers.push({ server, sockets });
  const url = `http://127.0.0.1:${await listenOnFreePort(server)}/`;
  const outcome = await poster.post({ url, headers: [], body: Buffer.from('{}'), timeoutMs });
  const sentBytes = sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  return { ...outcome, connections: sockets.length, sentBytes };
}

/** Sends `head`, then `part` for as long as the other side reads. */
const flood =
  (head: string, part: string | Buffer) =>
  (socket: Socket): void => {
    socket.write(head);
    const pump = () => {
      while (!socket.destroyed && socket.write(part));
    };
    socket.on('drain', pump);
    pump();
  };

/** Sends `head`, then a `part` every 20 ms. */
const drip =
  (head: string, part: string) =>
  (socket: Socket): void => {
    socket.write(head);
    const timer = setInterval(() => socket.write(part), 20);
    socket.on('close', () => clearInterval(timer));
  };

/** Long enough for a machine that is busy with other tests; a call that is cut off takes a few milliseconds. */
const TIMEOUT_MS = 10_000;
/** What a call reads at most, and the buffers of both sockets. */
const CUT_OFF_BYTES = 16 * 1024 * 1024;
const KIB_64 = 'x'.repeat(64 * 1024);
const CHUNKED = 'HTTP/1.1 500 Error\r\nTransfer-Encoding: chunked\r\n\r\n';

describe('a receiver that sends without end is cut off', () => {
  it.each<[string, (socket: Socket) => void, RegExp]>([
    ['one header', flood('HTTP/1.1 200 OK\r\nX: ', KIB_64), /headers of the response are too large/],
    ['headers', flood('HTTP/1.1 200 OK\r\n', 'X: y\r\n'.repeat(1_000)), /headers of the response are too large/],
    ['a reason', flood('HTTP/1.1 200 ', KIB_64), /headers of the response are too large|not valid HTTP/],
    ['interim responses', flood('', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000)), /response is too large/],
    ['empty lines', flood('', '\r\n'.repeat(10_000)), /response is too large/],
    ['chunk extensions', flood(`${CHUNKED}1;`, KIB_64), /not valid HTTP/],
    ['short chunks', flood(CHUNKED, `1;${'x'.repeat(1_000)}\r\na\r\n`), /response is too large/],
    ['trailers', flood(`${CHUNKED}0\r\n`, 'X: y\r\n'.repeat(1_000)), /headers of the response are too large/],
  ])('%s', async (_what, attack, error) => {
    const outcome = await call(attack, TIMEOUT_MS);
    expect(outcome).toMatchObject({ httpStatus: null, error: expect.stringMatching(error) });
    expect(outcome.durationMs).toBeLessThan(TIMEOUT_MS / 2);
    expect(outcome.sentBytes).toBeLessThan(CUT_OFF_BYTES);
  });

  it.each<[string, (socket: Socket) => void]>([
    ['a body of an announced length', flood(`HTTP/1.1 500 Error\r\nContent-Length: ${2 ** 52}\r\n\r\n`, KIB_64)],
    ['a body without a length', flood('HTTP/1.1 500 Error\r\n\r\n', KIB_64)],
    ['chunks', flood(CHUNKED, `10000\r\n${KIB_64}\r\n`)],
  ])('%s: the status counts, and the beginning is kept', async (_what, attack) => {
    const outcome = await call(attack, TIMEOUT_MS);
    expect(outcome).toMatchObject({ httpStatus: 500, responseBody: 'x'.repeat(MAX_RESPONSE_BYTES) });
    expect(outcome.durationMs).toBeLessThan(TIMEOUT_MS / 2);
    expect(outcome.sentBytes).toBeLessThan(CUT_OFF_BYTES);
  });
});

describe('a receiver that sends slowly has the time of one call', () => {
  it.each<[string, (socket: Socket) => void]>([
    ['a status line', drip('HTTP/1.1 200 ', 'x')],
    ['interim responses', drip('', 'HTTP/1.1 103 Early Hints\r\n\r\n')],
    ['empty lines', drip('', '\r\n')],
    ['a header', drip('HTTP/1.1 200 OK\r\nX: ', 'x')],
    ['a body', drip('HTTP/1.1 200 OK\r\n\r\n', 'x')],
    ['chunks', drip(CHUNKED, '1\r\nx\r\n')],
  ])('%s', async (_what, attack) => {
    const outcome = await call(attack, 300);
    expect(outcome).toMatchObject({ httpStatus: null, error: 'no complete response within 300 ms' });
    expect(outcome.durationMs).toBeLessThan(5_000);
  });
});

describe('a compressed response', () => {
  const bomb = gzipSync(Buffer.alloc(50_000_000), { level: 9 });
  const zipped = (length: string) => `HTTP/1.1 503 Busy\r\nContent-Encoding: gzip\r\n${length}\r\n`;

  it('is not decompressed: its bytes are kept as they came', async () => {
    const outcome = await call((socket) => socket.write(zipped('Content-Length: 5\r\n') + 'plain'), TIMEOUT_MS);
    expect(outcome).toMatchObject({ httpStatus: 503, responseBody: 'plain' });
  });

  it('that would be 50 MB is as long as its bytes', async () => {
    const attack = (socket: Socket) => {
      socket.write(zipped(`Content-Length: ${bomb.length}\r\n`));
      socket.write(bomb);
    };
    const outcome = await call(attack, TIMEOUT_MS);
    expect(outcome.httpStatus).toBe(503);
    expect(Buffer.byteLength(outcome.responseBody ?? '')).toBeLessThanOrEqual(MAX_RESPONSE_BYTES);
  });
});

describe('a redirect', () => {
  it.each([301, 302, 303, 307, 308])('%i is not followed', async (status) => {
    const attack = (socket: Socket) => {
      const location = `http://127.0.0.1:${socket.localPort}/again`;
      socket.write(`HTTP/1.1 ${status} Elsewhere\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`);
    };
    expect(await call(attack, TIMEOUT_MS)).toMatchObject({ httpStatus: status, connections: 1 });
  });
});
