import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { ApiError } from '../../../src/contract/errors.ts';
import { storeResponse } from '../../../src/db/access/idempotency.ts';
import { recordSend } from '../../../src/outgoing/send-state.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

/* Calls with an Idempotency-Key whose first response was lost: with a killed process, or with a 5xx. */

const MAIL = { to: [{ email: 'bea@elsewhere.test' }], plain_text: 'Hi' };
const LOST = () => new ApiError('service_unavailable', 'the response is lost');

let api: ApiUnderTest;
let accountId: string;
/** what `sendEmail` does with the id of the email, before its response is lost or given */
let make: (id: string) => Promise<void>;
let isLost: boolean;
let wakeImport: () => Promise<void>;
let startReplay: () => Promise<void>;
beforeAll(async () => {
  const sendEmail = async (account: string, _caller: unknown, id: string) => {
    await make(id);
    if (isLost) throw LOST();
    return { object: 'EmailSent' as const, id, account_id: account, message_id: '<a@b>', tracking_id: null };
  };
  const commands = { sendEmail, wakeImport: () => wakeImport(), startReplay: () => startReplay() };
  api = await apiUnderTest({ commands });
});
afterAll(() => api.close());
beforeEach(async () => {
  accountId = await storeAccount(api.database);
  isLost = false;
  make = async () => undefined;
});

const post = (path: string, key: string, body: unknown) =>
  api.call('POST', path, { body, headers: { 'idempotency-key': key } });
const setStatus = (status: string) =>
  api.database.pool.query('update accounts set status = $2 where id = $1', [accountId, status]);
const send = (key: string) => post(`/${accountId}/emails/send`, key, MAIL);

async function recordSent(id: string): Promise<void> {
  const own = { apiKeyId: 'pk_1', apiKeyName: 'key', metadata: null, trackingId: null, tracking: null };
  await recordSend(api.database.db, { ...own, id, accountId, draftId: null, inputKey: null });
  await api.database.pool.query(`update sends set state = 'sent' where id = $1`, [id]);
}

it('a send that was made is answered, though its mailbox was disconnected since', async () => {
  const ids: string[] = [];
  make = async (id) => {
    ids.push(id);
    if (ids.length === 1) await recordSent(id);
  };
  isLost = true;
  expect((await send('sent')).statusCode).toBe(503);
  await setStatus('disconnected');
  isLost = false;
  const again = await send('sent');
  expect([again.statusCode, again.json().id]).toEqual([200, ids[0]]);
  expect(ids[1]).toBe(ids[0]);
});

it('a send that was refused as its mailbox is disconnected is made once that is reconnected', async () => {
  await setStatus('disconnected');
  expect((await send('later')).statusCode).toBe(401);
  expect((await send('later')).statusCode).toBe(401);
  await setStatus('running');
  const sent = await send('later');
  expect([sent.statusCode, sent.headers['idempotency-replayed']]).toEqual([200, undefined]);
  expect((await send('later')).headers['idempotency-replayed']).toBe('true');
});

it('the first of two responses stays the response', async () => {
  const first = await send('two');
  const { rows } = await api.database.pool.query(`select api_key_id from idempotency_keys where key = 'two'`);
  const key = { apiKeyId: rows[0].api_key_id, key: 'two' };
  expect(await storeResponse(api.database.db, key, { status: 400, sealedBody: Buffer.from('x') })).toBe(false);
  expect((await send('two')).body).toBe(first.body);
});

it('what was done is answered when its response cannot be stored', async () => {
  make = () => api.database.pool.query('alter table idempotency_keys rename to away').then(() => undefined);
  try {
    expect((await send('unstored')).statusCode).toBe(200);
  } finally {
    await api.database.pool.query('alter table away rename to idempotency_keys');
  }
});

it('a call whose key was released in the middle of its transaction makes nothing', async () => {
  await api.database.pool.query(`
    create function release() returns trigger language plpgsql as $$ begin
      delete from idempotency_keys where key = 'released'; return new; end $$;
    create trigger release before insert on api_keys for each row execute function release()`);
  try {
    expect((await post('/api-keys', 'released', { name: 'released' })).statusCode).toBe(503);
  } finally {
    await api.database.pool.query('drop trigger release on api_keys; drop function release');
  }
  const { rows } = await api.database.pool.query(`select 1 from api_keys where name = 'released'`);
  expect(rows).toEqual([]);
});

it('the import that a call created is found again, though there are as many as there may be', async () => {
  wakeImport = () => Promise.reject(LOST());
  expect((await post(`/accounts/${accountId}/imports`, 'import', {})).statusCode).toBe(503);
  wakeImport = async () => undefined;
  for (let number = 1; number < 20; number++) await post(`/accounts/${accountId}/imports`, `import ${number}`, {});
  expect((await post(`/accounts/${accountId}/imports`, 'import 20', {})).statusCode).toBe(409);
  expect((await post(`/accounts/${accountId}/imports`, 'import', {})).statusCode).toBe(201);
});

it('the replay that a call created is found again, though its endpoint is disabled', async () => {
  const hook = { url: 'https://93.184.215.14/', trigger_events: ['email.new'] };
  const { id } = (await api.call('POST', '/webhooks/endpoints', { body: hook })).json<{ id: string }>();
  startReplay = () => Promise.reject(LOST());
  expect((await post('/webhooks/replays', 'replay', { endpoint_id: id })).statusCode).toBe(503);
  await api.call('PATCH', `/webhooks/endpoints/${id}`, { body: { enabled: false } });
  startReplay = async () => undefined;
  expect((await post('/webhooks/replays', 'replay', { endpoint_id: id })).statusCode).toBe(200);
});
