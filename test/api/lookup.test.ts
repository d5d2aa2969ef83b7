import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { sql } from 'drizzle-orm';
import { nameOf } from '../../src/db/access/audit.ts';
import { problemsAt } from '../../src/alerts/problems.ts';
import { LOOKED_UP, type LookupList } from '../../src/contract/lookup.ts';
import { readOverview } from '../../src/db/queries/overview.ts';
import { MOST_HITS } from '../../src/db/queries/lookup.ts';
import { newId } from '../../src/new-id.ts';
import { storeEmail, storeFolder } from '../helpers/assert/rows.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

let api: ApiUnderTest;
let account: string;
let other: string;
let folder: string;
let email: { id: string; threadId: string };
beforeAll(async () => {
  api = await apiUnderTest();
  account = await storeAccount(api.database, { name: 'Ada 100%', userId: 'ada@example.test' });
  other = await storeAccount(api.database, { name: 'Bob', userId: 'bob@example.test' });
  folder = await storeFolder(api.database, account, { role: 'INBOX' });
  email = await storeEmail(api.database, account, {
    folders: [folder],
    subject: 'Offer',
    messageId: '<offer@example.test>',
  });
  await storeEmail(api.database, other, {
    folders: [await storeFolder(api.database, other, { role: 'INBOX' })],
    subject: 'Offer to Bob',
    messageId: '<offer@example.test>',
  });
});
afterAll(() => api.close());

const post = async <T>(path: string, body: object) =>
  (await api.call('POST', path, { body: JSON.stringify(body) })).json<T>();

const found = async (q: string, headers?: Record<string, string>) => {
  const answer = await api.call('GET', `/lookup?q=${encodeURIComponent(q)}`, headers ? { headers } : {});
  expect(answer.statusCode).toBe(200);
  return answer.json<LookupList>().data;
};

describe('GET /lookup', () => {
  it('finds an object by its id', async () => {
    expect(await found(` ${email.id} `)).toEqual([
      { object: 'LookupHit', kind: 'email', id: email.id, account_id: account, email_id: email.id, name: 'Offer' },
    ]);
    expect(await found(account)).toMatchObject([{ kind: 'account', name: 'Ada 100%' }]);
    expect(await found(folder)).toMatchObject([{ kind: 'folder', account_id: account }]);
    expect(await found(email.threadId)).toMatchObject([{ kind: 'thread', account_id: account }]);
    const key = await post<{ id: string }>('/api-keys', { name: 'A key' });
    expect(await found(key.id)).toMatchObject([{ kind: 'apiKey', account_id: null, name: 'A key' }]);
  });

  it('finds nothing of an account that is being removed', async () => {
    const removed = await storeAccount(api.database, { name: 'Cleo', userId: 'cleo@example.test' });
    const inbox = await storeFolder(api.database, removed, { role: 'INBOX' });
    const { id, threadId } = await storeEmail(api.database, removed, { folders: [inbox], subject: 'Secret' });
    await api.database.pool.query('update accounts set removed_at = now() where id = $1', [removed]);
    for (const one of [removed, inbox, id, threadId]) expect(await found(one)).toEqual([]);
  });

  it.each(LOOKED_UP)('finds nothing for an unknown id of the kind %s', async (kind) => {
    expect(await found(newId(kind))).toEqual([]);
  });

  it('finds the emails with a Message-ID, in all mailboxes', async () => {
    expect((await found('<offer@example.test>')).map(({ name }) => name)).toEqual(['Offer', 'Offer to Bob']);
    expect(await found('<none@example.test>')).toEqual([]);
  });

  it('finds mailboxes and endpoints by a part of their name, literally', async () => {
    const endpoint = await post<{ id: string }>('/webhooks/endpoints', {
      url: 'https://93.184.215.14/hook',
      description: 'CRM of ada',
      trigger_events: ['email.new'],
    });
    expect((await found('ADA')).map(({ id }) => id)).toEqual([account, endpoint.id]);
    expect((await found('184.215')).map(({ id }) => id)).toEqual([endpoint.id]);
    expect((await found('0%')).map(({ id }) => id)).toEqual([account]);
    expect(await found('_')).toEqual([]);
    expect((await api.call('GET', '/lookup?q=')).statusCode).toBe(400);
  });

  it.each([
    'https://caller:pa%40ss@93.184.215.15/hook',
    'https://caller:pa@ss@93.184.215.15/hook',
    'https:///caller:pa@93.184.215.15/hook',
  ])('names an endpoint without the user and password of its URL: %s', async (url) => {
    const { id } = await post<{ id: string }>('/webhooks/endpoints', { url, trigger_events: ['email.new'] });
    expect(await nameOf(api.database.db, id)).toBe('93.184.215.15');
    const [name] = (await found(id)).map((hit) => hit.name);
    expect(name).toMatch(/^https:\/*93\.184\.215\.15\/hook$/);
    for (const q of ['caller', 'pa%40']) expect(await found(q)).toEqual([]);
    await api.database.db.execute(sql`
      update webhook_endpoints set failing_since = now() - interval '1 hour', failed_attempts = 9 where id = ${id}`);
    const [{ problems }, { rows }] = await Promise.all([
      readOverview(api.database.pool, { period: 'hour' }),
      api.database.db.execute<{ name: string }>(problemsAt(new Date(), 0)),
    ]);
    expect(problems).toContainEqual(expect.objectContaining({ id, name }));
    expect(rows.map((row) => row.name)).toContain(name);
    await api.call('DELETE', `/webhooks/endpoints/${id}`);
  });

  it('lists a bounded number', async () => {
    for (let n = 0; n <= MOST_HITS; n++) await storeAccount(api.database, { name: `Many ${n}` });
    expect(await found('Many')).toHaveLength(MOST_HITS);
  });

  it('finds for a limited key what is of its accounts', async () => {
    const { api_key: key } = await post<{ api_key: string }>('/api-keys', { name: 'limited', accounts: [other] });
    const headers = { 'x-api-key': key };
    for (const q of [email.id, account, folder, 'CRM']) expect([q, await found(q, headers)]).toEqual([q, []]);
    expect((await found('<offer@example.test>', headers)).map(({ name }) => name)).toEqual(['Offer to Bob']);
    expect((await found(other, headers)).map(({ id }) => id)).toEqual([other]);
  });
});
