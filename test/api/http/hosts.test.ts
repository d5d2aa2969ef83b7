import { connect } from 'node:net';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { freePort } from '../../helpers/servers/free-port.ts';

const docs = ['/docs', '/docs/', '/docs/json', '/docs/reference/json'];
const KEYLESS = ['/health', '/ready', '/metrics', '/openapi.json', '/llms.txt', ...docs];
let api: ApiUnderTest;
let exposed: ApiUnderTest;
let port: number;
beforeAll(async () => {
  [api, exposed] = await Promise.all([
    apiUnderTest({ isLocal: true, publicUrl: 'https://mail.example.com', trustProxy: true }),
    apiUnderTest(),
  ]);
  port = await freePort();
  await api.app.listen({ host: '127.0.0.1', port });
});
afterAll(() => Promise.all([api.close(), exposed.close()]));

async function raw(...headers: string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.end(['GET /health HTTP/1.1', ...headers, 'Connection: close', '', ''].join('\r\n'));
  return (await text(socket)).split('\r\n')[0] ?? '';
}

it('requires one Host', async () => {
  expect(await raw('Host: 127.0.0.1')).toBe('HTTP/1.1 200 OK');
  expect(await raw('Host: 127.0.0.1', 'Host: 127.0.0.1')).toBe('HTTP/1.1 400 Bad Request');
  expect(await raw('Host: 127.0.0.1', 'hOST: evil.test')).toBe('HTTP/1.1 400 Bad Request');
});

it.each(KEYLESS)('does not show %s to a page under a foreign name', async (url) => {
  const statusOf = async (host: string, headers: Record<string, string> = {}) =>
    (await api.app.inject({ url, headers: { host, ...headers } })).statusCode;
  for (const host of ['evil.test', 'evil.test:3000', '127.0.0.1.evil.test', 'localhost.evil.test', '%', 'a b']) {
    expect([host, await statusOf(host)]).toEqual([host, 403]);
  }
  expect(await statusOf('evil.test', { 'x-forwarded-host': 'localhost', forwarded: 'host=localhost' })).toBe(403);
  for (const host of ['localhost:3000', '127.0.0.1', '127.0.0.9:1', '[::1]:3000', '192.0.2.1', 'mail.example.com']) {
    expect(await statusOf(host)).toBeLessThan(400);
  }
  const beyond = await exposed.app.inject({ url, headers: { host: 'api.internal.example' } });
  expect(beyond.statusCode).toBeLessThan(400);
});

it('shows calls with a key and tracking links to any host', async () => {
  const call = (url: string) => api.app.inject({ url, headers: { host: 'click.example', 'x-api-key': api.key } });
  expect((await call('/api/v1/accounts')).statusCode).toBe(200);
  expect((await call('/t/o/trk_x.gif')).statusCode).toBe(200);
});
