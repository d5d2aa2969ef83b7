import { releaseKey } from '../../../src/db/access/idempotency.ts';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { ApiError } from '../../../src/contract/errors.ts';
import { createApiKey } from '../../../src/db/access/api-keys.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

let api: ApiUnderTest;
let connect: () => Promise<string>;
beforeAll(async () => {
  api = await apiUnderTest({ commands: { connectMailbox: () => connect() } });
});
afterAll(() => api.close());

const post = (key: string, body: unknown = { name: 'one' }, path = '/api-keys') =>
  api.call('POST', path, { body, headers: { 'idempotency-key': key } });
const INTENT = { provider: 'imap', credentials: { user: 'me@example.test', password: 'canary-password' } };

it('returns the first response again and does nothing twice', async () => {
  const first = await post('a');
  const again = await api.call('POST', '/api-keys', {
    body: '{ "name" : "one" }',
    headers: { 'idempotency-key': 'a' },
  });
  expect([again.statusCode, again.body]).toEqual([200, first.body]);
  expect(again.headers['idempotency-replayed']).toBe('true');
  expect(first.headers['idempotency-replayed']).toBeUndefined();
  expect((await post('b')).json().id).not.toBe(first.json().id);
});

it('stores responses and calls encrypted', async () => {
  const { api_key: value } = (await post('sealed')).json();
  connect = () => Promise.reject(new ApiError('invalid_credentials', 'refused'));
  await post('sealed too', INTENT, '/auth/intent');
  const { rows } = await api.database.pool.query('select fingerprint, response from idempotency_keys');
  const bytes = Buffer.concat(rows.flatMap((row) => [row.fingerprint, row.response ?? Buffer.alloc(0)]));
  for (const canary of [value, 'canary-password']) expect(bytes.includes(canary)).toBe(false);
});

it('reports a first response that can no longer be decrypted', async () => {
  await post('unreadable');
  await api.database.pool.query(`update idempotency_keys set response = 'x' where key = 'unreadable'`);
  const again = await post('unreadable');
  expect([again.statusCode, again.json().type]).toEqual([409, 'errors/already_exists']);
  expect(again.json().detail).toMatch(/can no longer be decrypted/);
});

it('keeps a stored response when the call fails after it, as where the confirmation of the commit is lost', async () => {
  const first = await post('confirmed');
  const { rows } = await api.database.pool.query(`select api_key_id from idempotency_keys where key = 'confirmed'`);
  await releaseKey(api.database.db, { apiKeyId: rows[0].api_key_id, key: 'confirmed' });
  expect((await post('confirmed')).json()).toEqual(first.json());
});

it('rejects the same key for another call', async () => {
  await post('c');
  for (const answer of [
    await post('c', { name: 'two' }),
    await post('c', { url: 'https://93.184.215.14/', trigger_events: ['email.new'] }, '/webhooks/endpoints'),
  ]) {
    expect([answer.statusCode, answer.json().type]).toEqual([409, 'errors/already_exists']);
  }
});

it('makes a second call wait for the first', async () => {
  const id = await storeAccount(api.database);
  let calls = 0;
  let finish = (): void => undefined;
  connect = () => {
    calls += 1;
    return new Promise((resolve) => {
      finish = () => resolve(id);
    });
  };
  const first = post('d', INTENT, '/auth/intent');
  const second = post('d', INTENT, '/auth/intent');
  await waitFor(() => calls > 0);
  finish();
  expect((await second).body).toBe((await first).body);
  expect(calls).toBe(1);
});

it('repeats 4xx responses, and allows a retry after 5xx', async () => {
  const id = await storeAccount(api.database);
  connect = () => Promise.reject(new ApiError('provider_error', 'no answer'));
  expect((await post('e', INTENT, '/auth/intent')).statusCode).toBe(502);
  connect = () => Promise.resolve(id);
  expect((await post('e', INTENT, '/auth/intent')).statusCode).toBe(200);
  connect = () => Promise.reject(new ApiError('invalid_credentials', 'refused'));
  expect((await post('f', INTENT, '/auth/intent')).statusCode).toBe(401);
  connect = () => Promise.resolve(id);
  expect((await post('f', INTENT, '/auth/intent')).statusCode).toBe(401);
});

it('allows a retry of a call that was too many at once', async () => {
  connect = () => Promise.reject(new ApiError('too_many_requests', 'too many at once'));
  const first = await post('busy', INTENT, '/auth/intent');
  expect([first.statusCode, first.headers['retry-after']]).toEqual([429, '5']);
  const id = await storeAccount(api.database);
  connect = () => Promise.resolve(id);
  const second = await post('busy', INTENT, '/auth/intent');
  expect([second.statusCode, second.headers['idempotency-replayed']]).toEqual([200, undefined]);
});

it('does not store errors that precede the call', async () => {
  expect((await post('g', { name: 5 })).statusCode).toBe(400);
  expect((await post('g')).statusCode).toBe(200);
});

it('applies to one API key, for 24 hours, with at most 255 characters', async () => {
  const first = (await post('h')).json();
  const other = await createApiKey(api.database.db, { name: 'other', expiresAt: null });
  const headers = { 'idempotency-key': 'h', 'x-api-key': other.key };
  const theirs = await api.call('POST', '/api-keys', { body: { name: 'one' }, headers });
  expect(theirs.json().id).not.toBe(first.id);
  await api.database.pool.query(`update idempotency_keys set created_at = now() - interval '25 hours'`);
  expect((await post('h', { name: 'another' })).json().name).toBe('another');
  expect((await post('x'.repeat(255))).statusCode).toBe(200);
  expect((await post('x'.repeat(256))).statusCode).toBe(400);
  expect((await post('')).statusCode).toBe(400);
});

it('takes over from a call whose process died', async () => {
  const { apiKeyId } = (await api.database.pool.query(`select api_key_id as "apiKeyId" from idempotency_keys limit 1`))
    .rows[0];
  await api.database.pool.query(
    `insert into idempotency_keys (api_key_id, key, fingerprint, created_at) values ($1, 'dead', '', now() - interval '10 minutes')`,
    [apiKeyId],
  );
  expect((await post('dead')).statusCode).toBe(200);
});

it('creates nothing where the response cannot be stored, and once when the call is repeated', async () => {
  const { pool } = api.database;
  const endpoint = { url: 'https://93.184.215.14/once', trigger_events: ['email.new'] };
  const { id } = (await post('once', endpoint, '/webhooks/endpoints')).json();
  const app = { provider: 'google', name: 'once', client_id: 'id', client_secret: 'secret' };
  const person = { name: 'Ann', email: 'ann@example.test', role: 'admin' };
  const calls: [path: string, body: unknown, table: string][] = [
    ['/api-keys', { name: 'once' }, 'api_keys'],
    ['/webhooks/endpoints', endpoint, 'webhook_endpoints'],
    [`/webhooks/endpoints/${id}/test`, { type: 'email.new' }, 'deliveries'],
    ['/auth/links', {}, 'auth_links'],
    ['/oauth/apps', app, 'oauth_apps'],
    ['/persons', person, 'invited_persons'],
  ];
  const counts = async () => {
    const each = calls.map(
      async ([, , table]) => (await pool.query(`select count(*)::int as n from ${table}`)).rows[0].n,
    );
    return Promise.all(each);
  };
  const secretOf = async () => (await api.get<{ secret: string }>(`/webhooks/endpoints/${id}`)).secret;
  const [before, secret] = [await counts(), await secretOf()];
  await pool.query(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'killed'; end $$;
    create trigger refuse before update of response on idempotency_keys for each row execute function refuse()`);
  const all: [path: string, body: unknown][] = [
    ...calls.map(([path, body]): [string, unknown] => [path, body]),
    [`/webhooks/endpoints/${id}/rotate-secret`, undefined],
  ];
  for (const [path, body] of all)
    expect((await post(`once ${path}`, body, path)).statusCode).toBeGreaterThanOrEqual(500);
  expect([await counts(), await secretOf()]).toEqual([before, secret]);
  await pool.query('drop trigger refuse on idempotency_keys');
  for (const [path, body] of all) {
    const first = await post(`once ${path}`, body, path);
    const again = await post(`once ${path}`, body, path);
    expect([first.statusCode, again.statusCode, again.body]).toEqual([200, 200, first.body]);
  }
  // a person is a key too
  expect(await counts()).toEqual(before.map((count, index) => count + (index === 0 ? 2 : 1)));
  expect(await secretOf()).not.toBe(secret);
});
