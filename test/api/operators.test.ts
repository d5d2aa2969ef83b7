import { randomBytes } from 'node:crypto';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { defaultPayloadConverter } from '@temporalio/common';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { currentRequestId } from '../../src/runtime/request-context.ts';
import { createPayloadCodec } from '../../src/temporal/codec.ts';
import { codecRoutes } from '../../src/temporal/codec-server.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

/** Features for operators: decoding histories for the Temporal UI, and the log. */

const ORIGIN = 'https://ui.example.test';
const TOKEN = 'a-token-of-more-than-twenty-characters';
const codec = createPayloadCodec({ current: randomBytes(32) });
let lines: Record<string, unknown>[] = [];
let seen: string | undefined;
let api: ApiUnderTest;
let plain: ApiUnderTest;

beforeAll(async () => {
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  api = await apiUnderTest({
    commands: {
      verifyMailbox: async (id) => {
        seen = currentRequestId();
        return {
          object: 'MailboxVerification',
          account_id: id,
          workflow_id: `verify/${id}`,
          status: 'running',
          folders: 0,
          messages: 0,
          differences: 0,
          left: 0,
          kinds: {},
          resolved: {},
          sample: [],
        };
      },
    },
    deps: {
      codecRoutes: codecRoutes({ codec, origin: ORIGIN, token: TOKEN }),
      logger: createLogger('info', 'api', sink),
    },
  });
  plain = await apiUnderTest();
});
afterAll(() => Promise.all([api.close(), plain.close()]));

async function hidden(value: unknown): Promise<string> {
  const [payload] = await codec.encode([defaultPayloadConverter.toPayload(value)]);
  const base64 = (bytes?: Uint8Array | null) => Buffer.from(bytes ?? []).toString('base64');
  const metadata = Object.entries(payload?.metadata ?? {}).map(([name, bytes]) => [name, base64(bytes)]);
  return JSON.stringify({
    payloads: [{ metadata: Object.fromEntries(metadata) as object, data: base64(payload?.data) }],
  });
}

const decode = async (headers: Record<string, string>, app = api.app) =>
  app.inject({ method: 'POST', url: '/temporal/codec/decode', headers, payload: await hidden('shown') });

describe('the codec for the Temporal UI', () => {
  it.each([
    ['the token', `Bearer ${TOKEN}`],
    ['the token as a password', `Basic ${Buffer.from(`operator:${TOKEN}`).toString('base64')}`],
  ])('decodes for the UI with %s', async (_how, authorization) => {
    const answer = await decode({ origin: ORIGIN, authorization, 'content-type': 'application/json' });
    expect(answer.statusCode).toBe(200);
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': ORIGIN,
      'access-control-allow-credentials': 'true',
      vary: 'Origin',
    });
    const [payload] = answer.json<{ payloads: { data: string }[] }>().payloads;
    expect(atob(payload?.data ?? '')).toBe('"shown"');
  });

  it('decodes for programs, which have no origin', async () => {
    expect((await decode({ authorization: `Bearer ${TOKEN}` })).statusCode).toBe(200);
  });

  it.each<[string, number, Record<string, string>]>([
    ['no token', 401, { origin: ORIGIN }],
    ['another token', 401, { origin: ORIGIN, authorization: `Bearer ${TOKEN}x` }],
    ['an empty password', 401, { origin: ORIGIN, authorization: `Basic ${btoa('operator:')}` }],
    ['another page', 403, { origin: 'https://evil.test', authorization: `Bearer ${TOKEN}` }],
    ['a page without origin', 403, { origin: 'null', authorization: `Bearer ${TOKEN}` }],
  ])('refuses %s', async (_who, status, headers) => {
    const answer = await decode(headers);
    expect([answer.statusCode, answer.body]).toEqual([status, '']);
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
  });

  it('answers the CORS preflight of the UI only', async () => {
    const ask = (origin: string) =>
      api.app.inject({ method: 'OPTIONS', url: '/temporal/codec/decode', headers: { origin } });
    expect((await ask(ORIGIN)).statusCode).toBe(204);
    expect((await ask(ORIGIN)).headers['access-control-allow-headers']).toContain('x-namespace');
    expect((await ask('https://evil.test')).statusCode).toBe(403);
  });

  it('asks a browser for the token, once', async () => {
    const ask = (headers: Record<string, string>) => api.app.inject({ url: '/temporal/codec/', headers });
    expect((await ask({})).headers['www-authenticate']).toMatch(/^Basic /);
    expect((await ask({ authorization: `Basic ${btoa(`x:${TOKEN}`)}` })).statusCode).toBe(200);
  });

  it('is not served without its settings, and is not part of the API', async () => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };
    expect((await decode(headers, plain.app)).statusCode).toBe(404);
    expect(JSON.stringify(api.app.swagger())).not.toContain('codec');
  });
});

describe('the log', () => {
  it('has one line for each request, with its id and its account and without its query', async () => {
    const accountId = await storeAccount(api.database);
    lines = [];
    const headers = { 'x-request-id': 'call-1' };
    await api.call('GET', `/${accountId}/emails?q=canary`, { headers });
    await api.call('GET', `/accounts/${newId('account')}`, { headers: { 'x-request-id': 'call-2' } });
    await api.app.inject({ url: '/d/canary', headers: { 'x-request-id': 'call-3' } });
    expect(lines).toEqual([
      expect.objectContaining({
        level: 'info',
        msg: 'request finished',
        requestId: 'call-1',
        method: 'GET',
        route: '/api/v1/:account_id/emails',
        status: 200,
        durationMs: expect.any(Number),
        accountId,
      }),
      expect.objectContaining({ requestId: 'call-2', status: 404 }),
      expect.objectContaining({ requestId: 'call-3', route: '/d/*', status: 404 }),
    ]);
    expect(JSON.stringify(lines)).not.toContain('canary');
  });

  it('omits probes', async () => {
    lines = [];
    for (const url of ['/health', '/ready', '/metrics']) await api.app.inject({ url });
    expect(lines).toEqual([]);
  });

  it('has the request id in lines of commands', async () => {
    const accountId = await storeAccount(api.database);
    await api.call('POST', `/accounts/${accountId}/verify`, { headers: { 'x-request-id': 'call-3' } });
    expect(seen).toBe('call-3');
  });
});
