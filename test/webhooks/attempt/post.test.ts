import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { Header } from '../../../src/contract/email.ts';
import { createOutbound } from '../../../src/security/outbound.ts';
import { createPoster, MAX_RESPONSE_BYTES, type Poster, type PostOutcome } from '../../../src/webhooks/attempt/post.ts';
import { makeCertificate, type TestCertificate } from '../../helpers/servers/test-ca.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { listenOnFreePort } from '../../helpers/servers/free-port.ts';

interface Got {
  method: string | undefined;
  url: string | undefined;
  headers: IncomingMessage['rawHeaders'];
  body: string;
}

const loopback = createOutbound({ allow: ['127.0.0.0/8'] });
const servers: Server[] = [];
const posters: Poster[] = [];
let got: Got[] = [];
let connections = 0;

function poster(options: { ca?: string; outbound?: Parameters<typeof createPoster>[0] } = {}): Poster {
  const made = createPoster(options.outbound ?? loopback, options.ca === undefined ? {} : { ca: options.ca });
  posters.push(made);
  return made;
}

async function listen(server: Server): Promise<number> {
  server.on('connection', () => connections++);
  server.on('secureConnection', () => connections++);
  servers.push(server);
  return listenOnFreePort(server);
}

/** A web server that notes what it gets and answers as scripted. */
function receive(answer: (response: ServerResponse, request: IncomingMessage) => void) {
  return (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method, url, rawHeaders } = request;
      got.push({ method, url, headers: rawHeaders, body: Buffer.concat(chunks).toString() });
      answer(response, request);
    });
  };
}

async function web(answer: Parameters<typeof receive>[0]): Promise<string> {
  return `http://127.0.0.1:${await listen(http.createServer(receive(answer)))}/hook?a=1`;
}

/** A server that speaks as scripted as soon as something was sent to it. */
async function raw(speak: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => speak(socket));
  });
  return `http://127.0.0.1:${await listen(server)}/`;
}

function post(
  url: string,
  options: { by?: Poster; timeoutMs?: number; signal?: AbortSignal; more?: Header[] } = {},
): Promise<PostOutcome> {
  const { by = poster(), timeoutMs = 5_000, signal, more = [] } = options;
  return by.post({
    url,
    headers: [{ name: 'X-One', value: 'first' }, { name: 'x-one', value: 'second' }, ...more],
    body: Buffer.from('{"ü":1}'),
    timeoutMs,
    ...(signal ? { signal } : {}),
  });
}

afterEach(async () => {
  for (const made of posters.splice(0)) made.close();
  for (const server of servers.splice(0)) {
    (server as http.Server).closeAllConnections?.();
    await new Promise((resolve) => server.close(resolve));
  }
  got = [];
  connections = 0;
});

describe('a call', () => {
  it('is one POST of the exact bytes; the response is kept', async () => {
    const url = await web((response) => response.writeHead(202, { 'retry-after': '7' }).end('thank you'));
    expect(await post(url)).toEqual({
      httpStatus: 202,
      responseBody: 'thank you',
      retryAfter: '7',
      error: null,
      errorKind: null,
      durationMs: expect.any(Number),
    });
    expect(got).toMatchObject([{ method: 'POST', url: '/hook?a=1', body: '{"ü":1}' }]);
    const headers = (got[0]?.headers ?? []).join(' ');
    expect(headers).toContain('X-One first X-One second');
    expect(headers).toContain('Content-Length 8');
  });

  it('sends a user and password of the URL as Basic authentication', async () => {
    const url = await web((response) => response.end());
    await post(url.replace('http://', 'http://user:p%40ss@'));
    expect(got[0]?.headers.join(' ')).toContain(`Authorization Basic ${btoa('user:p@ss')}`);
    await post(url.replace('http://', 'http://user:100%@'));
    expect(got[1]?.headers.join(' ')).toContain(`Authorization Basic ${btoa('user:100%')}`);
  });

  it('sends an Authorization header of the endpoint instead', async () => {
    const url = await web((response) => response.end());
    const more = [{ name: 'authorization', value: 'Bearer one' }];
    await post(url.replace('http://', 'http://user:password@'), { more });
    const sent = (got[0]?.headers ?? []).map((text) => text.toLowerCase());
    expect(sent.filter((text) => text === 'authorization')).toHaveLength(1);
    expect(sent).toContain('bearer one');
  });

  it('reuses a connection, and opens a new one when the server closes it at that moment', async () => {
    const by = poster();
    const url = await web((response, request) => {
      response.end('ok', () => {
        if (got.length === 2) setImmediate(() => request.socket.destroy());
      });
    });
    for (let call = 0; call < 5; call++) expect(await post(url, { by })).toMatchObject({ httpStatus: 200 });
    expect(got).toHaveLength(5);
    expect(connections).toBe(2);
  });

  it('is repeated on a new connection when the server has closed all those that are kept open', async () => {
    const by = poster();
    const used = new Set<Socket>();
    const url = await web((response, request) => {
      if (used.has(request.socket)) request.socket.destroy();
      else response.end('ok');
      used.add(request.socket);
    });
    await Promise.all([post(url, { by }), post(url, { by }), post(url, { by })]);
    expect(connections).toBe(3);
    expect(await post(url, { by })).toMatchObject({ httpStatus: 200, error: null });
    expect(connections).toBe(4);
  });

  it('never follows a redirect', async () => {
    const url = await web((response) => response.writeHead(302, { location: '/elsewhere' }).end());
    expect(await post(url)).toMatchObject({ httpStatus: 302, error: null });
    expect(got).toHaveLength(1);
  });

  it('keeps the first 16 KiB of a response and does not wait for more', async () => {
    const url = await web((response) => {
      response.write('ä'.repeat(MAX_RESPONSE_BYTES));
      response.write('\0');
    });
    const { httpStatus, responseBody, error } = await post(url, { timeoutMs: 20_000 });
    expect(httpStatus).toBe(200);
    expect(responseBody).toBe('ä'.repeat(MAX_RESPONSE_BYTES / 2));
    // it would have timed out if it had waited
    expect(error).toBeNull();
  });

  it('keeps text that Postgres can hold', async () => {
    const url = await web((response) => response.end(Buffer.from([0x61, 0, 0xff, 0x62])));
    expect(await post(url)).toMatchObject({ responseBody: 'a\uFFFD\uFFFDb' });
    const filled = await web((response) => response.end(Buffer.alloc(MAX_RESPONSE_BYTES + 10, 0xff)));
    const { responseBody } = await post(filled);
    expect(Buffer.byteLength(responseBody ?? '')).toBeLessThanOrEqual(MAX_RESPONSE_BYTES);
  });
});

describe('a call that fails', () => {
  it.each<[string, (response: ServerResponse) => void]>([
    ['no response', () => {}],
    ['a response without an end', (response) => void response.write('a')],
    ['a response that drips', (response) => void setInterval(() => response.write('.'), 20).unref()],
  ])('ends after its timeout: %s', async (_what, answer) => {
    const url = await web(answer);
    const outcome = await post(url, { timeoutMs: 300 });
    expect(outcome).toMatchObject({
      httpStatus: null,
      error: 'no complete response within 300 ms',
      errorKind: 'timeout',
    });
  });

  it.each<[string, (socket: Socket) => void, string | RegExp, string]>([
    ['says nothing', (socket) => socket.destroy(), /^the connection was closed/, 'connect'],
    [
      'stops in the middle',
      (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab'),
      /^the connection was closed/,
      'connect',
    ],
    ['speaks no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH\r\n\r\n'), /not valid HTTP/, 'response'],
    [
      'upgrades',
      (socket) => socket.end('HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
      /closed/,
      'connect',
    ],
    [
      'sends endless headers',
      (socket) => socket.end(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}`),
      /headers of the response are too large/,
      'too_large',
    ],
  ])('says why: the server %s', async (_what, speak, error, errorKind) => {
    const outcome = await post(await raw(speak));
    expect(outcome).toMatchObject({ httpStatus: null, error: expect.stringMatching(error), errorKind });
  });

  it('says why: the port is closed, the name is unknown, the address is not allowed', async () => {
    const url = await web((response) => response.end());
    await new Promise((resolve) => servers.pop()?.close(resolve));
    expect((await post(url)).error).toBe('the connection was refused');
    const strict = poster({ outbound: createOutbound({ allow: [] }) });
    expect((await post('http://169.254.169.254/', { by: strict })).error).toMatch(/non-public/);
    const lost = createOutbound({
      allow: [],
      lookup: async () => Promise.reject(Object.assign(new Error(), { code: 'ENOTFOUND' })),
    });
    expect((await post('http://nowhere.test/', { by: poster({ outbound: lost }) })).error).toMatch(/does not exist/);
  });

  it('rejects with the reason of its signal', async () => {
    const url = await web(() => {});
    const controller = new AbortController();
    const call = post(url, { signal: controller.signal });
    await waitFor(() => got.length === 1);
    controller.abort(new Error('the worker ends'));
    await expect(call).rejects.toThrow('the worker ends');
  });
});

describe('calls to the same server', () => {
  it('do not wait for others that get no response', async () => {
    const by = poster();
    const url = await web((response, request) => {
      if (!request.url?.includes('hang')) response.end();
    });
    const controller = new AbortController();
    const hanging = Array.from({ length: 80 }, () => post(`${url}&hang`, { by, signal: controller.signal }));
    await waitFor(() => got.length === 80);
    expect(await post(url, { by })).toMatchObject({ httpStatus: 200 });
    controller.abort(new Error('enough'));
    expect((await Promise.allSettled(hanging)).every(({ status }) => status === 'rejected')).toBe(true);
  });
});

describe('the address of a call', () => {
  it.each([
    'http://2130706433:PORT/',
    'http://0x7f.1:PORT/',
    'http://[::ffff:127.0.0.1]:PORT/',
    'http://localhost:PORT/',
  ])('is checked in every spelling: %s', async (spelling) => {
    const url = await web((response) => response.end());
    const there = spelling.replace('PORT', new URL(url).port);
    const strict = poster({ outbound: createOutbound({ allow: [] }) });
    expect((await post(there, { by: strict })).error).toMatch(/non-public/);
    expect(got).toEqual([]);
  });

  it('is resolved again for each new connection, which goes to the address that was checked', async () => {
    const asked: string[] = [];
    const changing = createOutbound({
      allow: ['127.0.0.1/32'],
      lookup: async (host) => {
        asked.push(host);
        return [{ address: asked.length === 1 ? '127.0.0.1' : '10.0.0.1' }];
      },
    });
    const url = await web((response) => response.writeHead(200, { connection: 'close' }).end());
    const there = url.replace('127.0.0.1', 'hook.test');
    const by = poster({ outbound: changing });
    expect((await post(there, { by })).httpStatus).toBe(200);
    expect(got[0]?.headers.join(' ')).toContain(`Host ${new URL(there).host}`);
    expect((await post(there, { by })).error).toMatch(/non-public/);
    expect(asked).toEqual(['hook.test', 'hook.test']);
  });

  it('may be one of several: the next one is tried when one does not respond', async () => {
    const several = createOutbound({
      allow: ['127.0.0.0/8', '::1/128'],
      lookup: async () => [{ address: '::1' }, { address: '127.0.0.1' }],
    });
    const url = await web((response) => response.end());
    expect(await post(url.replace('127.0.0.1', 'hook.test'), { by: poster({ outbound: several }) })).toMatchObject({
      httpStatus: 200,
    });
  });
});

describe('a call over TLS', () => {
  let dir: string;
  let files: TestCertificate;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'post-tls-'));
    files = await makeCertificate(dir);
  });
  afterAll(() => rm(dir, { recursive: true }));

  const secure = async () => {
    const options = { cert: readFileSync(files.cert), key: readFileSync(files.key) };
    const names: (string | undefined)[] = [];
    const server = https.createServer(
      options,
      receive((response) => response.end()),
    );
    server.on('secureConnection', (socket) => names.push(socket.servername || undefined));
    return { port: await listen(server), names };
  };

  it('checks the certificate against the name in the URL, though it connects to an address', async () => {
    const { port, names } = await secure();
    const named = createOutbound({ allow: ['127.0.0.0/8'], lookup: async () => [{ address: '127.0.0.1' }] });
    const by = poster({ ca: readFileSync(files.ca, 'utf8'), outbound: named });
    expect(await post(`https://localhost:${port}/`, { by })).toMatchObject({ httpStatus: 200 });
    expect(names).toEqual(['localhost']);
    expect(await post(`https://127.0.0.1:${port}/`, { by })).toMatchObject({ httpStatus: 200 });
    expect((await post(`https://other.test:${port}/`, { by })).error).toMatch(/^the TLS connection failed \(ERR_TLS/);
  });

  it('refuses a certificate of an unknown authority, and a server without TLS', async () => {
    const { port } = await secure();
    expect((await post(`https://127.0.0.1:${port}/`)).error).toMatch(/^the TLS connection failed/);
    const plain = await web((response) => response.end());
    expect((await post(plain.replace('http:', 'https:'))).error).toMatch(/^the TLS connection failed/);
    expect(got).toEqual([]);
  });
});
