import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { Errors } from 'typebox/value';
import { sendClientError } from '../../../src/api/http/error-handler.ts';
import { EVENT_SCHEMAS } from '../../../src/api/http/openapi-events.ts';
import { EVENT_TYPES } from '../../../src/contract/events.ts';
import { announceWorker } from '../../../src/db/coordination/workers.ts';
import { newId } from '../../../src/new-id.ts';
import { expectDocumented } from '../../helpers/assert/documented.ts';
import { shapeOf } from '../../helpers/assert/openapi.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

const GOLDEN = new URL('../../openapi.golden.json', import.meta.url);
const PACKAGE = new URL('../../../package.json', import.meta.url);
const MODULES = new URL('../../../src/contract/', import.meta.url);

interface Document {
  info: { version: string };
  servers: unknown;
  paths: Record<string, Record<string, { operationId?: string }>>;
  components: { schemas: Record<string, unknown> };
  webhooks: Record<string, { post: { requestBody: { content: Record<'application/json', EventMedia> } } }>;
}

interface EventMedia {
  schema: { $ref: string };
  example: unknown;
}

let api: ApiUnderTest;
let temporalAnswers = true;
beforeAll(async () => {
  api = await apiUnderTest({
    bodyBytes: 2000,
    deps: { pingTemporal: () => (temporalAnswers ? Promise.resolve() : Promise.reject(new Error('away'))) },
  });
});
afterAll(() => api.close());

describe('errors', () => {
  const shape = (answer: Awaited<ReturnType<ApiUnderTest['call']>>) => ({
    http: answer.statusCode,
    ...answer.json<object>(),
  });

  it('are 404 for unknown paths and methods', async () => {
    const expected = {
      http: 404,
      status: 404,
      type: 'errors/not_found',
      title: 'Not found',
      detail: expect.any(String),
      request_id: expect.any(String),
    };
    expect(shape(await api.call('GET', '/nowhere'))).toEqual(expected);
    expect(shape(await api.call('PUT', '/accounts'))).toEqual(expected);
    expect(shape(await api.call('POST', `/${newId('account')}/emails`))).toEqual(expected);
    expect(shape(await api.call('GET', '/accounts/%E0%A4%A'))).toEqual(expected);
    expect(shape(await api.call('GET', `/accounts/${'x'.repeat(500)}`))).toEqual(expected);
    expect((await api.app.inject({ url: '/nowhere' })).json()).toMatchObject({ status: 404 });
  });

  it.each<[string, string, string]>([
    ['no JSON', '{"name":', 'JSON'],
    ['an empty body', '', 'body'],
    ['no object', '[]', 'body'],
    ['null', 'null', 'body'],
    ['a missing field', '{}', 'name'],
    ['a wrong type, which is not coerced', '{"name":5}', 'name'],
    ['a wrong format', '{"name":"x","expires_at":"2030-01-01"}', 'expires_at'],
    ['too long a text', JSON.stringify({ name: 'x'.repeat(101) }), 'name'],
    ['NUL', '{"name":"a\\u0000b"}', 'name'],
    ['half a character', '{"name":"\\ud800"}', 'name'],
    ['a body over the limit', JSON.stringify({ name: 'x', more: 'y'.repeat(3000) }), '2000 bytes'],
  ])('are 400 for %s', async (_what, body, named) => {
    const answer = await api.call('POST', '/api-keys', { body });
    expect(shape(answer)).toEqual({
      http: 400,
      status: 400,
      type: 'errors/invalid_parameters',
      title: 'Invalid parameters',
      detail: expect.stringContaining(named),
      request_id: answer.headers['x-request-id'],
      ...(/^(name|expires_at)$/.test(named) ? { errors: [{ path: named, message: expect.any(String) }] } : {}),
    });
  });

  it('are 400 for a body that is not sent as JSON', async () => {
    const headers = { 'content-type': 'text/plain' };
    expect((await api.call('POST', '/api-keys', { body: '{"name":"x"}', headers })).statusCode).toBe(400);
  });

  it('are 400 for a body that is not UTF-8, in place of damaged text', async () => {
    const payload = Buffer.from('{"name":"Gr\xfc\xdfe"}', 'latin1');
    const headers = { 'x-api-key': api.key, 'content-type': 'application/json; charset=iso-8859-1' };
    const answer = await api.app.inject({ method: 'POST', url: '/api/v1/api-keys', payload, headers });
    expect([answer.statusCode, answer.json<{ detail: string }>().detail]).toEqual([400, 'the body must be UTF-8']);
  });

  it('are 408 for a request that does not arrive in time', async () => {
    const socket = new PassThrough();
    sendClientError(
      Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }),
      socket as unknown as Socket,
    );
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4))).toMatchObject({
      status: 408,
      detail: expect.stringContaining('in parts'),
    });
  });

  it('hide internal causes', async () => {
    const broken = await apiUnderTest({
      commands: { removeAccount: () => Promise.reject(new Error('secret internals')) },
    });
    const answer = await broken.call('DELETE', `/accounts/${newId('account')}`);
    expect(answer.statusCode).toBe(500);
    expect(answer.json()).toMatchObject({ type: 'errors/unexpected_error', title: 'Unexpected error' });
    expect(answer.body).not.toContain('secret');
    await broken.close();
  });

  it('have the same shape for malformed HTTP', async () => {
    await api.app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = api.app.server.address() as AddressInfo;
    const status = await new Promise<number | undefined>((resolve, reject) => {
      request({ port, host: '127.0.0.1', path: '/api/v1/accounts', headers: { 'x-long': 'x'.repeat(100_000) } })
        .on('response', (response) => resolve(response.resume().statusCode))
        .on('error', reject)
        .end();
    });
    expect(status).toBe(400);
  });
});

describe('calls', () => {
  it('work with and without a trailing slash', async () => {
    const account = await storeAccount(api.database);
    for (const path of ['/accounts', `/accounts/${account}`, `/${account}/folders`]) {
      const plain = await api.call('GET', path);
      const slashed = await api.call('GET', `${path}/?unknown=1`);
      expect([slashed.statusCode, slashed.body]).toEqual([200, plain.body]);
    }
  });

  it('get responses with `nosniff` and `no-store`', async () => {
    for (const url of ['/nowhere', '/api/v1/accounts', '/health', '/api/v1/%zz']) {
      for (const headers of [{}, { 'x-api-key': api.key }]) {
        const { headers: sent } = await api.app.inject({ url, headers });
        expect(sent).toMatchObject({ 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
        expect(sent).toHaveProperty('x-request-id');
      }
    }
  });

  it('accept unknown keys with any value', async () => {
    const body = { name: 'odd', 'x\0': 'a\0', more: { deep: ['\ud800'] } };
    expect((await api.call('POST', '/api-keys', { body })).statusCode).toBe(200);
    expect((await api.call('POST', '/api-keys', { body: { ...body, name: 'a\0' } })).statusCode).toBe(400);
    const account = await storeAccount(api.database);
    for (const metadata of [{ 'a\0': 'b' }, { a: 'b\0' }]) {
      expect((await api.call('PATCH', `/accounts/${account}`, { body: { metadata } })).statusCode).toBe(400);
    }
  });

  it('carry a request id, which callers can set', async () => {
    const idOf = async (given: string) =>
      (await api.call('GET', '/accounts', { headers: { 'x-request-id': given } })).headers['x-request-id'];
    expect(await idOf('my-id.1')).toBe('my-id.1');
    expect(await idOf('no good')).toMatch(/^[0-9a-f-]{36}$/);
    expect(await idOf('x'.repeat(200))).toMatch(/^[0-9a-f-]{36}$/);
    for (const url of ['/nowhere', '/api/v1/accounts', '/health']) {
      expect((await api.app.inject({ url })).headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it('accept an empty body of any content type', async () => {
    const headers = { 'content-type': 'application/json' };
    const answer = await api.call('DELETE', `/api-keys/${newId('apiKey')}`, { headers });
    expect(answer.statusCode).toBe(404);
  });
});

describe('outside of /api/v1', () => {
  it('reports without a key whether it is alive and ready', async () => {
    expect((await api.app.inject({ url: '/health' })).statusCode).toBe(200);
    const ready = async () => (await api.app.inject({ url: '/ready' })).json<object>();
    const parts = { postgres: 'ok', temporal: 'ok' };
    expect(await ready()).toEqual({
      ...{ status: 'ready', ...parts },
      ...{ writes: 'unavailable: no worker', mailboxes: expect.any(String) },
    });
    const { db } = api.database;
    await announceWorker(db, 'a-worker', 1);
    const followed = await storeAccount(api.database);
    await storeAccount(api.database);
    await db.execute(sql`
      update accounts set watched_by = 'a-worker', last_synced_at = now() + interval '1 s' where id = ${followed}`);
    const catchingUp = expect.stringMatching(/^catching up: 1 of \d+ mailboxes$/);
    expect(await ready()).toMatchObject({ writes: 'ok', mailboxes: catchingUp });
    await db.execute(sql`update accounts set watched_by = 'a-worker', last_synced_at = now() + interval '1 s'`);
    expect(await ready()).toMatchObject({ mailboxes: 'in sync' });
    temporalAnswers = false;
    const answer = await api.app.inject({ url: '/ready' });
    temporalAnswers = true;
    expect([answer.statusCode, answer.json()]).toEqual([
      503,
      expect.objectContaining({ status: 'not_ready', postgres: 'ok', temporal: 'unreachable', writes: 'unavailable' }),
    ]);
  });

  it('has the version of package.json in its health and its document', async () => {
    const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as Document['info'];
    const { statusCode, body } = await api.app.inject({ url: '/health' });
    expect([statusCode, body]).toEqual([200, JSON.stringify({ status: 'ok', version })]);
    const document = (await api.app.inject({ url: '/openapi.json' })).json<Document>();
    expect(document.info.version).toBe(version);
    expectDocumented(document, 'GET', '/health', statusCode, body);
  });

  it('serves metrics to Prometheus', async () => {
    await storeAccount(api.database);
    await api.call('GET', `/accounts/${newId('account')}`);
    const { body } = await api.app.inject({ url: '/metrics' });
    expect(body).toMatch(
      /http_request_duration_seconds_count\{method="GET",route="\/api\/v1\/accounts\/:id",status="404"\} \d/,
    );
    expect(body).toMatch(/accounts\{status="running"\} [1-9]/);
    for (const name of ['webhook_deliveries_pending 0', 'outbox_age_seconds 0', 'database_up 1', 'process_cpu']) {
      expect(body).toContain(name);
    }
  });

  it('has the document at the addresses of the reference too, with servers relative to them', async () => {
    const document = (await api.app.inject({ url: '/openapi.json' })).json<Document>();
    for (const [url, server] of [
      ['/docs/reference/json', '../..'],
      ['/docs/json', '..'],
    ] as const) {
      const shown = (await api.app.inject({ url })).json<Document>();
      expect(shown).toEqual({ ...document, servers: [{ url: server }] });
    }
    const { headers, body } = await api.app.inject({ url: '/docs/reference/yaml' });
    expect([headers['content-type'], body]).toEqual([
      'application/yaml; charset=utf-8',
      expect.stringMatching(/^openapi: 3\.1\.0\n/),
    ]);
  });

  it.each(['/openapi.json', '/docs/json'])('sends %s compressed, and only to those who do not have it', async (url) => {
    const plain = await api.app.inject({ url });
    for (const [encoding, decompress] of [
      ['br', brotliDecompressSync],
      ['gzip', gunzipSync],
    ] as const) {
      const answer = await api.app.inject({ url, headers: { 'accept-encoding': `deflate, ${encoding};q=0.5` } });
      expect(answer.headers['content-encoding']).toBe(encoding);
      expect(decompress(answer.rawPayload).equals(plain.rawPayload)).toBe(true);
      expect(answer.rawPayload.length).toBeLessThan(plain.rawPayload.length / 4);
    }
    const refused = await api.app.inject({ url, headers: { 'accept-encoding': 'br;q=0, gzip;q=0' } });
    expect(refused.headers['content-encoding']).toBeUndefined();
    const etag = String(plain.headers['etag']);
    const again = await api.app.inject({ url, headers: { 'if-none-match': etag } });
    expect([again.statusCode, again.body]).toEqual([304, '']);
    const hash = /"(.*)"/.exec(etag)?.[1];
    expect((await api.app.inject({ url: `${url}?v=${hash}` })).headers['cache-control']).toContain('immutable');
    expect((await api.app.inject({ url: `${url}?v=old` })).headers['cache-control']).toBe('no-cache');
  });

  it('names every operation and every schema of the contract', async () => {
    const { paths, components } = (await api.app.inject({ url: '/openapi.json' })).json<Document>();
    const ids = Object.values(paths).flatMap((path) => Object.values(path).map(({ operationId }) => operationId));
    expect(ids).not.toContain(undefined);
    expect(new Set(ids).size).toBe(ids.length);
    const modules = await Promise.all(
      readdirSync(MODULES, { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith('.ts'))
        .map((file) => import(new URL(file, MODULES).href) as Promise<Record<string, unknown>>),
    );
    const named = modules.flatMap(Object.values<unknown>).flatMap((value) => {
      return typeof value === 'object' && value !== null && '$id' in value ? [value.$id] : [];
    });
    named.push('AnyEvent', ...EVENT_SCHEMAS.map(({ $id }) => $id));
    expect(Object.keys(components.schemas).sort()).toEqual(named.sort());
  });

  it('has the call of each event, with an example that its schema accepts', async () => {
    const document = (await api.app.inject({ url: '/openapi.json' })).json<Document>();
    expect(Object.keys(document.webhooks)).toEqual(EVENT_TYPES);
    const union = document.components.schemas['AnyEvent'] as { oneOf: { $ref: string }[] };
    expect(union.oneOf).toHaveLength(EVENT_TYPES.length);
    for (const [type, { post }] of Object.entries(document.webhooks)) {
      const { schema, example } = post.requestBody.content['application/json'];
      expect(union.oneOf).toContainEqual(schema);
      const own = EVENT_SCHEMAS.find(({ $id }) => schema.$ref === `#/components/schemas/${$id}`);
      expect([type, ...Errors(own ?? {}, example)]).toEqual([type]);
    }
  });

  it('has the shape that the golden file pins', async () => {
    const { body } = await api.app.inject({ url: '/openapi.json' });
    const shape = shapeOf(JSON.parse(body));
    // UPDATE_GOLDEN=1 npm test -- test/api/http/frame.test.ts accepts the change; /api/v1 only ever grows
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(GOLDEN, `${JSON.stringify(shape, null, 2)}\n`);
    expect(shape).toEqual(JSON.parse(readFileSync(GOLDEN, 'utf8')));
  });
});
