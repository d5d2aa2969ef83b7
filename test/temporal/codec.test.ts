import { randomBytes } from 'node:crypto';
import http from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { loadDataConverter } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { createPayloadCodec, MAX_PAYLOAD_BYTES } from '../../src/temporal/codec.ts';
import { type CodecServer, startCodecServer } from '../../src/temporal/codec-server.ts';
import { createDataConverter } from '../../src/temporal/data-converter.ts';
import { UNSEALED } from '../../src/workflows/names.ts';

const current = randomBytes(32);
const codec = createPayloadCodec({ current });
const payload = (value: unknown): Payload => defaultPayloadConverter.toPayload(value);
const valueOf = (found: Payload | undefined) => defaultPayloadConverter.fromPayload(found as Payload);

describe('the codec', () => {
  it.each([
    ['text', 'a canary'],
    ['object', { a: [1, null, 'ü'] }],
    ['nothing', undefined],
    ['bytes', new Uint8Array([0, 255])],
  ])('hides %s, and gives it back', async (_what, value) => {
    const [hidden] = await codec.encode([payload(value)]);
    expect(Buffer.from(hidden?.data ?? []).toString('latin1')).not.toMatch(/canary|json/);
    expect(Object.keys(hidden?.metadata ?? {})).toEqual(['encoding', 'encryption-key-id']);
    const [shown] = await codec.decode([hidden as Payload]);
    expect(valueOf(shown)).toEqual(value);
  });

  it('never returns the same bytes twice', async () => {
    const [one, two] = await codec.encode([payload('x'), payload('x')]);
    expect(Buffer.from(one?.data ?? []).equals(Buffer.from(two?.data ?? []))).toBe(false);
  });

  it('reads payloads encrypted with the previous key', async () => {
    const hidden = await codec.encode([payload('x')]);
    const rotated = createPayloadCodec({ current: randomBytes(32), previous: current });
    expect((await rotated.decode(hidden)).map(valueOf)).toEqual(['x']);
    const otherCodec = createPayloadCodec({ current: randomBytes(32) });
    await expect(otherCodec.decode(hidden)).rejects.toThrow('ENCRYPTION_KEY_PREVIOUS');
  });

  it('refuses changed payloads', async () => {
    const [hidden] = await codec.encode([payload('x')]);
    const data = Buffer.from(hidden?.data ?? []);
    data[data.length - 1] = (data[data.length - 1] ?? 0) ^ 1;
    await expect(codec.decode([{ ...hidden, data }])).rejects.toThrow();
  });

  const there = { type: 'workflow', namespace: 'default', workflowId: 'verify/acc_1' } as const;
  const elsewhere = { ...there, workflowId: 'remove/acc_1' };

  it('opens payloads sealed for one workflow for no other, regardless of their metadata', async () => {
    const [hidden] = await codec.encode([payload('x')], there);
    expect((await codec.decode([hidden as Payload], there)).map(valueOf)).toEqual(['x']);
    await expect(codec.decode([hidden as Payload], elsewhere)).rejects.toThrow('another workflow');
    const renamed = { ...hidden?.metadata, 'sealed-for': Buffer.from(elsewhere.workflowId) };
    await expect(codec.decode([{ ...hidden, metadata: renamed }], elsewhere)).rejects.toThrow('another workflow');
    const { 'sealed-for': _left, ...unnamed } = hidden?.metadata ?? {};
    await expect(codec.decode([{ ...hidden, metadata: unnamed }], elsewhere)).rejects.toThrow('another workflow');
  });

  it('refuses what was never encrypted; marks it where a workflow is to refuse it; shows it where it is only read', async () => {
    const activity = { type: 'activity', namespace: 'default', workflowId: there.workflowId, isLocal: false } as const;
    const marking = createPayloadCodec({ current }, 'mark');
    const showing = createPayloadCodec({ current }, 'show');
    await expect(codec.decode([payload('plain')], there)).rejects.toThrow('not sealed');
    expect((await marking.decode([payload('plain')], activity)).map(valueOf)).toEqual([UNSEALED]);
    expect((await marking.decode([payload('plain')], there)).map(valueOf)).toEqual([UNSEALED]);
    await expect(marking.decode([payload('plain')])).rejects.toThrow('not sealed');
    expect((await showing.decode([payload('plain')])).map(valueOf)).toEqual(['plain']);
    const bound = await codec.encode([payload('bound')], there);
    expect((await showing.decode(bound)).map(valueOf)).toEqual(['bound']);
  });

  it('refuses a payload over the limit without retries', async () => {
    const bytes = (length: number): Payload => ({ metadata: {}, data: Buffer.alloc(length) });
    await expect(codec.encode([bytes(MAX_PAYLOAD_BYTES)])).resolves.toHaveLength(1);
    await expect(codec.encode([bytes(MAX_PAYLOAD_BYTES + 1)])).rejects.toMatchObject({
      type: 'PayloadTooLarge',
      nonRetryable: true,
    });
  });
});

describe('the data converter', () => {
  it('keeps messages and stacks of failures for the codec', () => {
    const { failureConverter, payloadConverter } = loadDataConverter(createDataConverter({ current }));
    const failure = failureConverter.errorToFailure(new Error('a canary'), payloadConverter);
    expect(failure.message).toBe('Encoded failure');
    expect(failure.stackTrace).toBe('');
    expect(failureConverter.failureToError(failure, payloadConverter).message).toBe('a canary');
  });
});

describe('the codec server', () => {
  const token = 'the-password-of-the-operator';
  const authorization = `Basic ${btoa(`operator:${token}`)}`;
  let server: CodecServer;
  let url: string;
  beforeEach(async () => {
    server = await startCodecServer({ codec, token });
    url = `http://127.0.0.1:${server.port}`;
  });
  afterEach(() => server.close());

  const wire = async (value: unknown) => {
    const [hidden] = await codec.encode([payload(value)]);
    const metadata = Object.entries(hidden?.metadata ?? {}).map(([name, bytes]) => [
      name,
      Buffer.from(bytes).toString('base64'),
    ]);
    const data = Buffer.from(hidden?.data ?? []).toString('base64');
    return JSON.stringify({ payloads: [{ metadata: Object.fromEntries(metadata) as object, data }] });
  };

  it('decrypts for the holder of the password', async () => {
    const body = await wire('shown');
    const response = await fetch(`${url}/decode`, { method: 'POST', headers: { authorization }, body });
    const { payloads } = (await response.json()) as { payloads: { metadata: { encoding: string }; data: string }[] };
    expect(atob(payloads[0]?.data ?? '')).toBe('"shown"');
    expect(atob(payloads[0]?.metadata.encoding ?? '')).toBe('json/plain');
  });

  it('asks a browser for the password', async () => {
    const asked = await fetch(`${url}/`);
    expect([asked.status, asked.headers.get('www-authenticate')]).toEqual([401, expect.stringMatching(/^Basic /)]);
    expect((await fetch(`${url}/`, { headers: { authorization } })).status).toBe(200);
  });

  it.each<[string, Record<string, string>]>([
    ['a program that gives the origin of the UI', { origin: 'http://127.0.0.1:8233' }],
    ['another page', { origin: 'http://evil.test' }],
    ['no page', {}],
    ['a wrong password', { authorization: `Basic ${btoa('operator:x')}` }],
    ['the password in a scheme that sends none', { authorization: `Digest ${token}` }],
  ])('refuses %s', async (_who, headers) => {
    for (const method of ['POST', 'OPTIONS']) {
      const body = method === 'POST' ? await wire('x') : null;
      const response = await fetch(`${url}/decode`, { method, headers, body });
      expect([response.status, await response.text()]).toEqual([401, '']);
    }
  });

  it('reads JSON with any content type, and no more than 8 MB of it', async () => {
    const body = await wire('x');
    const send = (type: string, text: string) =>
      fetch(`${url}/decode`, { method: 'POST', headers: { authorization, 'content-type': type }, body: text });
    expect((await fetch(`${url}/decode`, { method: 'POST', headers: { authorization }, body })).status).toBe(200);
    expect((await send('application/json', body)).status).toBe(200);
    expect((await send('text/plain', 'x'.repeat(9 * 1024 * 1024))).status).toBe(400);
  });

  it('refuses a page that reached loopback under its own name', async () => {
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const headers = { authorization, host: 'rebound.test' };
      const request = http.request(`${url}/decode`, { method: 'POST', headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      request.on('error', reject).end('{}');
    });
    expect(status).toBe(403);
  });

  it('survives unreadable requests', async () => {
    const init = { method: 'POST', headers: { authorization }, body: '{' };
    expect((await fetch(`${url}/decode`, init)).status).toBe(400);
    expect((await fetch(`${url}/other`, { headers: { authorization } })).status).toBe(404);
  });
});
