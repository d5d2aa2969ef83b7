import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { hiddenAddress, startUiGuard, type UiGuard, whyRefused } from '../../src/embedded/ui-guard.ts';
import { createPayloadCodec } from '../../src/temporal/codec.ts';
import { type CodecServer, startCodecServer } from '../../src/temporal/codec-server.ts';
import { freePort, listenOnFreePort } from '../helpers/servers/free-port.ts';

const HOST = '127.0.0.1:8233';
const PASSWORD = 'the-password-of-the-operator';
const OWN = `http://${HOST}`;
const NAVIGATION = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };

describe('the guard in front of the Temporal UI', () => {
  it.each<[string, string, string, Record<string, string>]>([
    ['the page itself', 'GET', '/', { host: HOST, 'sec-fetch-site': 'none' }],
    ['its own requests', 'GET', '/api/v1/settings', { host: HOST, 'sec-fetch-site': 'same-origin' }],
    ['its own changes', 'POST', '/api/v1/x', { host: HOST, origin: OWN, 'sec-fetch-site': 'same-origin' }],
    ['a program that reads', 'GET', '/api/v1/settings', { host: HOST }],
    ['a link to it', 'GET', '/namespaces/default/workflows', { host: HOST, ...NAVIGATION }],
    ['another name of loopback', 'POST', '/api/v1/x', { host: 'localhost:8233', origin: 'http://localhost:8233' }],
    ['a forwarded port', 'POST', '/api/v1/x', { host: 'localhost:9000', origin: 'http://localhost:9000' }],
  ])('passes on %s', (_what, method, path, headers) => {
    expect(whyRefused({ method, path, headers })).toBeUndefined();
  });

  it.each<[string, string, string, Record<string, string>]>([
    ['a page that rebound its name', 'GET', '/', { host: 'evil.test:8233', 'sec-fetch-site': 'none' }],
    ['what it posts as its own', 'POST', '/api/v1/x', { host: 'evil.test:8233', origin: 'http://evil.test:8233' }],
    ['no name at all', 'GET', '/', {}],
    ['a name that only begins like ours', 'GET', '/', { host: '127.0.0.1.evil.test:8233' }],
    ['a form of another page', 'POST', '/api/v1/x', { host: HOST, origin: 'http://evil.test' }],
    ['a sandboxed page', 'POST', '/api/v1/x', { host: HOST, origin: 'null' }],
    ['a page of another port', 'POST', '/api/v1/x', { host: 'localhost:8233', origin: 'http://localhost:3000' }],
    ['a change from nowhere', 'POST', '/api/v1/x', { host: HOST }],
    [
      'a picture in another page',
      'GET',
      '/x',
      { host: HOST, 'sec-fetch-site': 'cross-site', 'sec-fetch-dest': 'image' },
    ],
    ['a page of the same site', 'GET', '/', { host: HOST, 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }],
    ['a frame', 'GET', '/', { host: HOST, ...NAVIGATION, 'sec-fetch-dest': 'iframe' }],
    ['a link to the data', 'GET', '/api/v1/settings', { host: HOST, ...NAVIGATION }],
  ])('refuses %s', (_what, method, path, headers) => {
    expect(whyRefused({ method, path, headers })).toEqual(expect.any(String));
  });
});

describe('behind the guard', () => {
  let ui: Server;
  let codec: CodecServer;
  let guard: UiGuard;
  let seen: string[];

  beforeEach(async () => {
    seen = [];
    ui = createServer((incoming, response) => {
      seen.push(`${incoming.method} ${incoming.url} ${incoming.headers.host}`);
      incoming.pipe(response.writeHead(201, { 'x-frame-options': 'SAMEORIGIN', 'set-cookie': ['a=1', 'b=2'] }));
    });
    const port = await listenOnFreePort(ui);
    codec = await startCodecServer({ codec: createPayloadCodec({ current: Buffer.alloc(32, 1) }), token: PASSWORD });
    const target = { ip: '127.0.0.1', port };
    guard = await startUiGuard({ port: await freePort(), target, codecPort: codec.port });
  });
  afterEach(async () => {
    await Promise.all([guard.close(), codec.close()]);
    ui.close();
  });

  it('a request of the UI is forwarded unchanged, and its response returned; no page may frame it', async () => {
    const response = await fetch(`${guard.url}/api/v1/x?y=1`, {
      method: 'POST',
      headers: { origin: guard.url },
      body: 'sent',
    });
    expect(response.status).toBe(201);
    expect(await response.text()).toBe('sent');
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    expect(response.headers.get('x-frame-options')).toBe('DENY');
    expect(seen).toEqual([`POST /api/v1/x?y=1 127.0.0.1:${(ui.address() as AddressInfo).port}`]);
  });

  it('the codec decodes for the page with the password, and for no program without it', async () => {
    const decode = async (headers: Record<string, string>) => {
      const call = { method: 'POST', headers: { origin: guard.url, ...headers }, body: '{"payloads":[]}' };
      return (await fetch(`${guard.codecUrl}/decode`, call)).status;
    };
    expect(await decode({})).toBe(401);
    expect(await decode({ authorization: `Basic ${btoa(`operator:${PASSWORD}`)}` })).toBe(200);
    expect(await decode({ authorization: `Basic ${btoa(`operator:${PASSWORD}`)}`, origin: 'http://evil.test' })).toBe(
      403,
    );
    const asked = await fetch(`${guard.codecUrl}/`);
    expect([asked.status, asked.headers.get('www-authenticate')]).toEqual([401, expect.stringMatching(/^Basic /)]);
    expect(seen).toEqual([]);
  });

  it('refused requests are not forwarded', async () => {
    const status = await new Promise((resolve, reject) => {
      const headers = { host: 'evil.test' };
      request(`${guard.url}/`, { headers }, (response) => resolve(response.resume().statusCode))
        .on('error', reject)
        .end();
    });
    expect(status).toBe(403);
    expect(seen).toEqual([]);
  });

  it('a UI that is down is a 502', async () => {
    ui.close();
    ui.closeAllConnections();
    expect((await fetch(guard.url)).status).toBe(502);
  });

  it('the UI itself listens at an address that cannot be guessed', async () => {
    const [one, other] = [await hiddenAddress(), await hiddenAddress()];
    expect(one.ip).toMatch(/^127\./);
    expect(one).not.toEqual(other);
  });
});
