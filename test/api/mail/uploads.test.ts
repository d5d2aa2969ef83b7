import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Upload } from '../../../src/contract/sending.ts';
import { openStorage, type Storage } from '../../../src/storage/storage.ts';
import { waitFor } from '../../helpers/assert/wait.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { FILE, MiB, range, startUploadCalls, type UploadCalls } from './upload-calls.ts';

/** Files that are sent to the API as they are, in one call or in parts. */

const QUOTA = 100 * MiB;

let dir: string;
let storage: Storage;
let api: ApiUnderTest;
let calls: UploadCalls;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'uploads-'));
  storage = openStorage(pathToFileURL(dir).href);
  api = await apiUnderTest({ uploadedBytes: QUOTA, deps: { storage } });
  calls = await startUploadCalls(api, storage);
});
afterAll(async () => {
  await api?.close();
  await rm(dir, { recursive: true, force: true });
});

describe('a file in one call', () => {
  it('is stored as it is, and shown with its name and type', async () => {
    const made = await calls.call('POST', '/uploads?filename=Preise%20M%C3%A4rz.pdf', {
      body: Buffer.from('PDF'),
      headers: { 'content-type': 'application/pdf' },
    });
    expect([made.status, made.json]).toEqual([
      201,
      {
        object: 'Upload',
        id: expect.stringMatching(/^upl_[0-9a-z]{26}$/),
        status: 'complete',
        size: 3,
        received: 3,
        filename: 'Preise März.pdf',
        content_type: 'application/pdf',
        created_at: expect.any(String),
        expires_at: expect.any(String),
      },
    ]);
    const { created_at: from, expires_at: until } = made.json;
    expect(Date.parse(until) - Date.parse(from)).toBe(24 * 3_600_000);
    expect((await api.call('GET', `/uploads/${made.json.id}`)).json()).toEqual(made.json);
  });

  it('has the type that the file name implies when the caller names none', async () => {
    const ofCurl = await calls.call('POST', '/uploads?filename=a.txt', {
      body: Buffer.from('{}'),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    expect(ofCurl.json.content_type).toBeNull();
    const json = await calls.upload(Buffer.from('{"not": parsed'), 'a.json', 'application/json');
    expect([json.size, json.content_type]).toEqual([14, 'application/json']);
  });

  it('is stored once for one Idempotency-Key, which no other file or name gets', async () => {
    const { body, ...named } = { body: Buffer.from('once'), headers: { 'idempotency-key': 'once' } };
    const post = (query: string, file = body) => calls.call('POST', `/uploads?${query}`, { ...named, body: file });
    const [one, two] = await Promise.all([post('filename=a.txt'), post('filename=a.txt')]);
    const again = await post('filename=a.txt');
    expect([one.status, two.status, again.status]).toEqual([201, 201, 201]);
    expect([two.json, again.json]).toEqual([one.json, one.json]);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    for (const other of [await post('filename=a.txt', Buffer.from('ONCE')), await post('filename=b.txt')])
      expect([other.status, other.json.type]).toEqual([409, 'errors/already_exists']);
    const { rows } = await api.database.pool.query('select id from uploads where received = 4');
    expect(rows).toEqual([{ id: one.json.id }]);
    await calls.call('DELETE', `/uploads/${one.json.id}`);
    const gone = await post('filename=a.txt');
    expect([gone.status, gone.json.detail]).toEqual([409, expect.stringContaining('use another key')]);
    const tooLong = await calls.call('POST', '/uploads', { body, headers: { 'idempotency-key': 'k'.repeat(256) } });
    expect(tooLong.status).toBe(400);
  });

  it('may come without its length', async () => {
    const answer = await fetch(`${calls.url}/api/v1/uploads`, {
      method: 'POST',
      headers: { 'x-api-key': api.key },
      body: new ReadableStream({
        start(controller) {
          controller.enqueue(FILE.subarray(0, 5 * MiB));
          controller.enqueue(FILE.subarray(5 * MiB, 6 * MiB));
          controller.close();
        },
      }),
      duplex: 'half',
    });
    const made = (await answer.json()) as Upload;
    expect([made.status, made.size]).toEqual(['complete', 6 * MiB]);
    const [file] = await calls.attached([{ upload_id: made.id }]);
    expect(file?.bytes.equals(FILE.subarray(0, 6 * MiB))).toBe(true);
  });

  it.each<[string, string, { body?: Buffer; headers?: Record<string, string> }, string | undefined]>([
    ['an empty body', '/uploads', {}, 'size'],
    ['too much', '/uploads', { body: Buffer.alloc(25 * MiB + 1) }, undefined],
    ['too large a size', `/uploads?size=${25 * MiB + 1}`, {}, 'size'],
    ['more than its size', '/uploads?size=2', { body: Buffer.from('abc') }, undefined],
    ['a line break in its name', '/uploads?filename=a%0Ab', { body: Buffer.from('x') }, 'filename'],
    [
      'a form',
      '/uploads',
      { body: Buffer.from('x'), headers: { 'content-type': 'multipart/form-data; boundary=a' } },
      'Content-Type',
    ],
  ])('is refused with %s', async (_, path, options, field) => {
    const { status, json } = await calls.call('POST', path, options);
    expect([status, json.type, json.errors?.[0]?.path]).toEqual([400, 'errors/invalid_parameters', field]);
    if (field !== undefined) expect(json.detail.startsWith(field)).toBe(true);
  });

  it('leaves nothing when its connection is lost', async () => {
    const { rows: known } = await api.database.pool.query('select id from uploads');
    const sent = httpRequest(`${calls.url}/api/v1/uploads`, {
      method: 'POST',
      headers: { 'x-api-key': api.key, 'content-length': FILE.length },
    }).on('error', () => {});
    sent.write(FILE.subarray(0, 9 * MiB));
    const count = async () => (await api.database.pool.query('select id, received from uploads')).rows;
    await waitFor(async () => (await count()).some(({ received }) => Number(received) >= 8 * MiB));
    sent.destroy();
    await waitFor(async () => (await count()).length === known.length);
    const kept = await readdir(join(dir, 'uploads'));
    expect(kept.sort()).toEqual(known.map(({ id }) => id).sort());
  });
});

describe('a file in parts', () => {
  it('grows part by part, and may begin with the first call', async () => {
    const file = FILE.subarray(0, 1000);
    const made = await calls.call('POST', '/uploads?size=1000&filename=a.bin', { body: file.subarray(0, 100) });
    expect(made.json).toMatchObject({ status: 'uploading', received: 100, size: 1000 });
    const { id } = made.json;
    const second = await api.call('PATCH', `/uploads/${id}`, {
      body: 'b'.repeat(300),
      headers: { ...range(100, 400, 1000), 'content-type': 'application/octet-stream' },
    });
    expect(second.json()).toMatchObject({ status: 'uploading', received: 400 });
    expect((await calls.part(id, file, 400)).json).toMatchObject({ status: 'complete', received: 1000 });
    const [own] = await calls.attached([{ upload_id: id, cid: 'a' }]);
    const whole = Buffer.concat([file.subarray(0, 100), Buffer.alloc(300, 'b'), file.subarray(400)]);
    expect(own).toEqual({ filename: 'a.bin', cid: 'a', bytes: whole });
  });

  it('a part that is stored is done again without effect, and one that overlaps adds what is new', async () => {
    const file = FILE.subarray(0, 1000);
    const { id } = await calls.begin(1000);
    await calls.part(id, file, 0, 500);
    for (const [from, until] of [
      [0, 500],
      [100, 300],
    ] as const) {
      const again = await calls.part(id, file, from, until);
      expect([again.status, again.json.received]).toEqual([200, 500]);
    }
    expect((await calls.part(id, file, 300)).json).toMatchObject({ status: 'complete', received: 1000 });
    expect((await calls.part(id, file, 900)).status).toBe(200);
    expect((await calls.attached([{ upload_id: id }]))[0]?.bytes.equals(file)).toBe(true);
  });

  it('a gap is refused, with the offset where the next part begins', async () => {
    const file = FILE.subarray(0, 1000);
    const { id } = await calls.begin(1000);
    await calls.part(id, file, 0, 200);
    const gap = await calls.part(id, file, 201);
    expect([gap.status, gap.headers.get('upload-offset'), gap.json.errors]).toEqual([
      416,
      '200',
      [{ path: 'Content-Range', message: 'must begin at 200 or before: so many bytes are stored' }],
    ]);
  });

  it.each<[string | undefined, string]>([
    [undefined, 'must be bytes <first>-<last>/<size>'],
    ['bytes 5-2/10', 'must be bytes <first>-<last>/<size>'],
    ['bytes */10', 'must be bytes <first>-<last>/<size>'],
    ['bytes 0-2/11', 'must be within the file, which has 10 bytes'],
    ['bytes 8-10/10', 'must be within the file, which has 10 bytes'],
    ['bytes 0-3/10', 'names 4 bytes, and the body has 3'],
  ])('Content-Range %j is refused', async (given, message) => {
    const { id } = await calls.begin(10);
    const headers = given === undefined ? {} : { 'content-range': given };
    const answer = await calls.call('PATCH', `/uploads/${id}`, { body: Buffer.from('abc'), headers });
    expect([answer.status, answer.json.errors]).toEqual([400, [{ path: 'Content-Range', message }]]);
    expect((await calls.call('GET', `/uploads/${id}`)).json.received).toBe(0);
  });

  it('parts with the same bytes at the same time are stored once', async () => {
    const file = FILE.subarray(0, 12 * MiB + 7);
    const { id } = await calls.begin(file.length);
    const answers = await Promise.all([1, 2, 3, 4].map((n) => calls.part(id, file, 0, n < 4 ? file.length : 5 * MiB)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(answers.at(0)?.json).toMatchObject({ status: 'complete', received: file.length });
    expect((await calls.attached([{ upload_id: id }]))[0]?.bytes.equals(file)).toBe(true);
    const { parts } = (await api.database.pool.query('select parts from uploads where id = $1', [id])).rows[0];
    expect((await storage.list(`uploads/${id}/`)).map(({ key }) => key).sort()).toEqual([...parts].sort());
  });

  it('what had arrived when the connection was lost stays', async () => {
    const { id } = await calls.begin(FILE.length);
    const sent = httpRequest(`${calls.url}/api/v1/uploads/${id}`, {
      method: 'PATCH',
      headers: { 'x-api-key': api.key, 'content-length': FILE.length, ...range(0, FILE.length, FILE.length) },
    }).on('error', () => {});
    sent.write(FILE.subarray(0, 9 * MiB));
    const received = async () => (await calls.call('GET', `/uploads/${id}`)).json.received;
    let stored = 0;
    await waitFor(async () => (stored = await received()) >= 8 * MiB);
    sent.destroy();
    await waitFor(async () => (await received()) > stored);
    const from = await received();
    expect(from).toBeLessThanOrEqual(9 * MiB);
    expect((await calls.part(id, FILE, from)).json.status).toBe('complete');
    expect((await calls.attached([{ upload_id: id }]))[0]?.bytes.equals(FILE)).toBe(true);
    await calls.call('DELETE', `/uploads/${id}`);
  });

  it('has a limited number of parts', async () => {
    const { id } = await calls.begin(2000);
    await api.database.pool.query(`update uploads set parts = array_fill('x'::text, array[1000]) where id = $1`, [id]);
    const answer = await calls.part(id, FILE.subarray(0, 2000), 0, 1);
    expect([answer.status, answer.json.errors?.[0]?.path]).toEqual([400, 'Content-Range']);
    await api.database.pool.query('delete from uploads where id = $1', [id]);
  });
});

describe('an upload', () => {
  it('is found by its key and by keys with full access, and by no other', async () => {
    const limited = await calls.keyWith({ accountIds: [calls.accountId] });
    const mine = await calls.upload(Buffer.from('mine'), 'a.txt', 'text/plain');
    const theirs = (await calls.call('POST', '/uploads', { body: Buffer.from('x'), key: limited })).json;
    expect((await calls.call('GET', `/uploads/${theirs.id}`, { key: limited })).status).toBe(200);
    expect((await calls.call('GET', `/uploads/${theirs.id}`)).status).toBe(200);
    for (const method of ['GET', 'DELETE', 'PATCH']) {
      const answer = await calls.call(method, `/uploads/${mine.id}`, { key: limited });
      expect([method, answer.status, answer.json.detail]).toEqual([method, 404, 'no upload has this id']);
    }
    expect(
      (await calls.call('GET', `/uploads/${mine.id}`, { key: await calls.keyWith({ permissions: 'read' }) })).status,
    ).toBe(404);
    expect((await calls.part(theirs.id, Buffer.from('x'), 0)).status).toBe(404);
  });

  it('is gone once it is deleted, with its bytes', async () => {
    const { id } = await calls.upload(Buffer.from('short'), 'a.txt', 'text/plain');
    expect((await api.call('DELETE', `/uploads/${id}`)).statusCode).toBe(204);
    for (const method of ['GET', 'DELETE']) expect((await calls.call(method, `/uploads/${id}`)).status).toBe(404);
    expect(await storage.list(`uploads/${id}/`)).toEqual([]);
  });

  it('counts to its key until it expires', async () => {
    const key = await calls.keyWith({ accountIds: [calls.accountId] });
    const made = [];
    for (let n = 0; n < 4; n++) made.push(await calls.begin(25 * MiB, key));
    const refused = await calls.call('POST', '/uploads?size=1', { key });
    expect([refused.status, refused.json.type]).toEqual([409, 'errors/already_exists']);
    expect(refused.json.detail).toContain(`more than ${QUOTA} bytes`);
    expect((await calls.call('POST', '/uploads?size=1')).status).toBe(201);
    await calls.expire(made[0]?.id ?? '');
    const atOnce = await Promise.all(
      Array.from({ length: 4 }, () => calls.call('POST', `/uploads?size=${10 * MiB}`, { key })),
    );
    expect(atOnce.map(({ status }) => status).sort()).toEqual([201, 201, 409, 409]);
  });

  it('is shown again to a repeated call, although another one would be more than its key may have', async () => {
    const key = await calls.keyWith({ accountIds: [calls.accountId] });
    for (let n = 0; n < 3; n++) await calls.begin(25 * MiB, key);
    const post = (path: string, name: string, body?: Buffer) =>
      calls.call('POST', path, { key, headers: { 'idempotency-key': name }, ...(body ? { body } : {}) });
    const whole = await post('/uploads', 'whole', FILE.subarray(0, 15 * MiB));
    const parts = await post(`/uploads?size=${10 * MiB}`, 'parts');
    const begun = await calls.call('PATCH', `/uploads/${parts.json.id}`, {
      key,
      body: FILE.subarray(0, 5 * MiB),
      headers: range(0, 5 * MiB, 10 * MiB),
    });
    expect([whole.status, parts.status, begun.json.received]).toEqual([201, 201, 5 * MiB]);
    const again = await post('/uploads', 'whole', FILE.subarray(0, 15 * MiB));
    expect([again.status, again.json, again.headers.get('idempotency-replayed')]).toEqual([201, whole.json, 'true']);
    expect((await post(`/uploads?size=${10 * MiB}`, 'parts')).json).toEqual(begun.json);
    const other = await post('/uploads', 'whole', FILE.subarray(1, 15 * MiB));
    expect([other.status, other.json.detail]).toEqual([409, expect.stringContaining('used for another call')]);
    const unknown = await post('/uploads', 'unknown', FILE.subarray(0, 15 * MiB));
    expect([unknown.status, unknown.json.detail]).toEqual([409, expect.stringContaining(`more than ${QUOTA} bytes`)]);
    await calls.call('DELETE', `/uploads/${whole.json.id}`, { key });
    expect((await post('/uploads', 'unknown', FILE.subarray(0, 15 * MiB))).status).toBe(201);
  });
});
