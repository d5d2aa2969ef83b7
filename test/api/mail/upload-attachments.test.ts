import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { createDraftCommands } from '../../../src/api/commands/drafts.ts';
import { createSendCommands } from '../../../src/api/commands/sends.ts';
import type { Commands } from '../../../src/api/deps.ts';
import type { Upload } from '../../../src/contract/sending.ts';
import { newId } from '../../../src/new-id.ts';
import { resolveInput, storeInput } from '../../../src/outgoing/outgoing-input.ts';
import { recordSend } from '../../../src/outgoing/send-state.ts';
import { createDataKeys } from '../../../src/security/data-keys.ts';
import { createSecrets } from '../../../src/security/secrets.ts';
import { encryptStorage } from '../../../src/storage/encrypted.ts';
import { openStorage, type Storage } from '../../../src/storage/storage.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { type FakeS3, startFakeS3 } from '../../storage/fake-s3.ts';
import { FILE, MiB, range, startUploadCalls, type UploadCalls } from './upload-calls.ts';

/** Attachments of sends and drafts that name an upload. */

let dir: string;
let s3: FakeS3;
const aws = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test', AWS_EC2_METADATA_DISABLED: 'true' };
const before = Object.fromEntries(Object.keys(aws).map((name) => [name, process.env[name]]));
let storage: Storage;
let api: ApiUnderTest;
let calls: UploadCalls;
let accountId: string;

/** What sends or saves drafts reads its input first, and then finds no Temporal. */
const commands: Partial<Commands> = {
  sendEmail: (...given) => createSendCommands(outgoing()).sendEmail(...given),
  createDraft: (...given) => createDraftCommands(outgoing()).createDraft(...given),
  updateDraft: (...given) => createDraftCommands(outgoing()).updateDraft(...given),
};
const outgoing = () => ({
  client: {} as Client,
  hasWorker: () => Promise.resolve(false),
  db: api.database.db,
  storage,
});

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'uploads-'));
  s3 = await startFakeS3();
  Object.assign(process.env, aws);
  storage = openStorage(pathToFileURL(join(dir, 'plain')).href);
  api = await apiUnderTest({ commands, deps: { storage } });
  calls = await startUploadCalls(api, storage);
  ({ accountId } = calls);
});
afterAll(async () => {
  for (const [name, value] of Object.entries(before)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  await api?.close();
  await s3?.close();
  await rm(dir, { recursive: true, force: true });
});

describe('an attachment by upload', () => {
  it('has the bytes of the upload, with its name and type unless others are given', async () => {
    const menu = await calls.upload(Buffer.from('Soup'), 'menu.txt', 'text/plain');
    const own = { content: Buffer.from('own').toString('base64'), filename: 'own.txt' };
    const given = { filename: 'b.md', content_type: 'text/markdown' };
    expect(await calls.attached([{ upload_id: menu.id }, own, { upload_id: menu.id, ...given }])).toEqual([
      { filename: 'menu.txt', content_type: 'text/plain', bytes: Buffer.from('Soup') },
      { filename: 'own.txt', bytes: Buffer.from('own') },
      { ...given, bytes: Buffer.from('Soup') },
    ]);
  });

  it('must be complete, of the same key, and not expired; all files together have a limit', async () => {
    const limited = await calls.keyWith({ accountIds: [calls.accountId] });
    const foreign = (await calls.call('POST', '/uploads', { body: Buffer.from('x'), key: limited })).json.id;
    const expired = (await calls.upload(Buffer.from('x'), 'a', 'text/plain')).id;
    await calls.expire(expired);
    const half = await calls.begin(10);
    await calls.part(half.id, Buffer.from('0123456789'), 0, 4);
    const large = (await calls.call('POST', '/uploads', { body: Buffer.alloc(13 * MiB) })).json.id;
    const text = { content: 'QQ==' };
    const gone = 'attachments.1.upload_id is not an upload of this key, or has expired';
    for (const [attachments, detail] of [
      [[text, { upload_id: foreign }], gone],
      [[text, { upload_id: expired }], gone],
      [[text, { upload_id: newId('upload') }], gone],
      [[text, { upload_id: half.id }], 'attachments.1.upload_id is not complete: 4 of 10 bytes are stored'],
      [[text, { upload_id: 'x' }], 'attachments.1.upload_id is not the id of an upload'],
      [
        [text, { upload_id: large, content: 'QQ==' }],
        'attachments.1 must have one of content, email_id with attachment_id, and upload_id',
      ],
      [[{ upload_id: large }, { upload_id: large }], expect.stringContaining(`larger than ${25 * MiB} bytes`)],
    ] as const) {
      for (const path of ['emails/send', 'drafts']) {
        const body = { to: [{ email: 'bob@example.test' }], subject: 'x', attachments };
        const answer = await api.call('POST', `/${accountId}/${path}`, { body });
        expect([path, answer.statusCode, answer.json().detail]).toEqual([path, 400, detail]);
      }
      const changed = await api.call('PATCH', `/${accountId}/drafts/${newId('draft')}`, { body: { attachments } });
      expect([changed.statusCode, changed.json().detail]).toEqual([400, detail]);
    }
  });

  it('of a repeated call may be gone', async () => {
    const { id } = await calls.upload(Buffer.from('x'), 'a', 'text/plain');
    const apiKeyId = await calls.ownId();
    const caller = { apiKeyId, apiKeyName: 'test', permissions: 'full', accountIds: null } as const;
    const emailId = newId('email');
    const own = { id: emailId, accountId, apiKeyId, apiKeyName: 'test', draftId: null, metadata: null };
    await recordSend(api.database.db, { ...own, trackingId: null, tracking: null, inputKey: null });
    await api.database.pool.query(`update sends set state = 'sent', message_id = '<a@b>' where id = $1`, [emailId]);
    await api.call('DELETE', `/uploads/${id}`);
    const input = { to: [{ email: 'bob@example.test' }], attachments: [{ upload_id: id }] };
    const { sendEmail } = createSendCommands(outgoing());
    expect(await sendEmail(accountId, caller, emailId, input)).toMatchObject({ id: emailId, message_id: '<a@b>' });
    await expect(sendEmail(accountId, caller, newId('email'), input)).rejects.toMatchObject({
      code: 'invalid_parameters',
    });
  });

  it('whose bytes are deleted during the call is refused', async () => {
    const { id } = await calls.upload(Buffer.from('x'), 'a', 'text/plain');
    const owner = { accountId, apiKeyId: await calls.ownId() };
    const input = await resolveInput(api.database.db, owner, { attachments: [{ upload_id: id }] });
    await storage.deletePrefix(`uploads/${id}/`);
    const key = `${accountId}/outgoing/${newId('email')}.json`;
    await expect(storeInput(storage, key, input)).rejects.toMatchObject({
      detail: 'attachments.0.upload_id is not an upload of this key, or has expired',
    });
    expect(await storage.size(key)).toBeUndefined();
  });
});

describe.each<[string, () => Storage]>([
  ['S3 (a fake server)', () => openStorage('s3://mails', { s3Endpoint: s3.endpoint })],
  ['encrypted files', () => sealed(openStorage(pathToFileURL(join(dir, 'sealed')).href))],
  ['S3, encrypted', () => sealed(openStorage('s3://mails/sealed/', { s3Endpoint: s3.endpoint }))],
])('in a storage of %s', (_, open) => {
  it('25 MiB in parts are attached as they were sent', async () => {
    const used = open();
    const other = await apiUnderTest({ deps: { storage: used, db: api.database.db, pool: api.database.pool } });
    const headers = { 'x-api-key': api.key, 'content-type': 'application/octet-stream' };
    const made = await other.app.inject({ method: 'POST', url: `/api/v1/uploads?size=${FILE.length}`, headers });
    const { id } = made.json<Upload>();
    for (let from = 0; from < FILE.length; from += 10 * MiB) {
      const until = Math.min(from + 10 * MiB, FILE.length);
      const answer = await other.app.inject({
        method: 'PATCH',
        url: `/api/v1/uploads/${id}`,
        headers: { ...headers, ...range(from, until, FILE.length) },
        payload: FILE.subarray(from, until),
      });
      expect(answer.json()).toMatchObject({ received: until });
    }
    const [file] = await calls.attached([{ upload_id: id }], used);
    expect(file?.bytes.equals(FILE)).toBe(true);
    expect((await calls.call('DELETE', `/uploads/${id}`)).status).toBe(204);
    await other.close();
  });
});

const secrets = createSecrets({ current: randomBytes(32) });
const sealed = (inner: Storage): Storage =>
  encryptStorage(inner, { keys: createDataKeys({ db: api.database.db, secrets }), encrypts: true });

it('an upload is encrypted under a separate key, which is lost with it', async () => {
  const plain = openStorage(pathToFileURL(join(dir, 'own-key')).href);
  const { id } = await calls.begin(5);
  const key = `uploads/${id}/0.a`;
  await sealed(plain).put(key, Buffer.from('hello'));
  expect((await plain.size(key)) ?? 0).toBeGreaterThan(5);
  expect(await sealed(plain).size(key)).toBe(5);
  await api.database.pool.query('delete from uploads where id = $1', [id]);
  await expect(sealed(plain).get(key)).rejects.toThrow('no stored object');
  await expect(sealed(plain).put(key, Buffer.from('x'))).rejects.toThrow('was removed');
});
