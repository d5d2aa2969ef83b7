import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eq, sql } from 'drizzle-orm';
import { saveIntent } from '../../src/db/access/connect-intents.ts';
import { createEndpoint, getEndpoint, rotateSecret } from '../../src/db/queries/endpoints.ts';
import { reserveKey, storeResponse } from '../../src/db/access/idempotency.ts';
import { countSealed, resealAll, SEALED_COLUMNS } from '../../src/maintenance/reseal.ts';
import { accounts } from '../../src/db/schema/index.ts';
import { openCredentials, sealCredentials } from '../../src/mailbox/settings.ts';
import { newId } from '../../src/new-id.ts';
import { createSecrets } from '../../src/security/secrets.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

const oldKey = randomBytes(32);
const newKey = randomBytes(32);
const before = createSecrets({ current: oldKey });
const during = createSecrets({ current: newKey, previous: oldKey });
const after = createSecrets({ current: newKey });
let test: TestDatabase;
beforeAll(async () => {
  test = await testDatabase();
});
afterAll(() => test.drop());

const ENDPOINT = {
  url: 'https://example.test/hook',
  description: null,
  enabled: true,
  triggerEvents: ['email.new'],
  accountIds: [],
  headers: [{ name: 'X-Token', value: 'canary-header' }],
  secret: 'canary-secret',
};
const passwords = { imapPassword: 'canary-imap', smtpPassword: 'canary-smtp' };

async function storeSealed() {
  const { db } = test.database;
  const accountIds: string[] = [];
  for (let at = 0; at < 3; at += 1) {
    const id = await storeAccount(test.database);
    await db
      .update(accounts)
      .set({ credentials: sealCredentials(before, id, passwords) })
      .where(eq(accounts.id, id));
    accountIds.push(id);
  }
  const { id: endpointId } = await createEndpoint(db, before, ENDPOINT);
  await rotateSecret(db, before, endpointId, { secret: 'canary-later', now: new Date() });
  const intentId = newId('intent');
  const intentAt = { table: 'connect_intents', column: 'intent', id: intentId };
  await saveIntent(db, intentId, before.seal(intentAt, 'canary-intent'), new Date());
  for (let at = 0; at < 450; at += 1) {
    const key = { apiKeyId: 'pk_1', key: `call ${at}` };
    await reserveKey(db, key, Buffer.from('x'));
    const responseAt = { table: 'idempotency_keys', column: 'response', id: `pk_1 call ${at}` };
    await storeResponse(db, key, { status: 200, sealedBody: before.seal(responseAt, `canary ${at}`) });
  }
  return { accountIds, endpointId, intentId };
}

describe('a new encryption key', () => {
  it('replaces the old one in every column', async () => {
    const { db } = test.database;
    const { accountIds, endpointId } = await storeSealed();
    const total = 3 + 3 + 1 + 450;
    expect(await countSealed(db, during)).toEqual({ previous: total, unreadable: 0 });
    expect(await countSealed(db, after)).toEqual({ previous: 0, unreadable: total });
    const found = await resealAll(db, during);
    expect(found.reduce((sum, { resealed }) => sum + resealed, 0)).toBe(total);
    expect(found.every(({ unreadable }) => unreadable === 0)).toBe(true);
    expect(await countSealed(db, after)).toEqual({ previous: 0, unreadable: 0 });
    for (const id of accountIds) {
      const [row] = await db.select().from(accounts).where(eq(accounts.id, id));
      expect(openCredentials(after, id, row?.credentials ?? Buffer.alloc(0))).toEqual(passwords);
    }
    expect(await getEndpoint(db, after, endpointId)).toMatchObject({
      secret: 'canary-later',
      headers: ENDPOINT.headers,
      disabled_reason: null,
    });
    expect((await resealAll(db, during)).every(({ resealed }) => resealed === 0)).toBe(true);
  });

  it('covers every column with sealed bytes', async () => {
    const { rows } = await test.database.db.execute<{ name: string }>(sql`
      select table_name || '.' || column_name as name from information_schema.columns
      where table_schema = 'public' and data_type = 'bytea'`);
    const notSealed = new Set([
      ...['api_keys.digest', 'auth_links.digest', 'sessions.digest', 'idempotency_keys.fingerprint'],
      'invited_persons.link_digest',
    ]);
    const bytes = rows.map(({ name }) => name).filter((name) => !notSealed.has(name));
    const sealed = SEALED_COLUMNS.map(({ table, column }) => `${table}.${column}`);
    expect(bytes.filter((name) => !sealed.includes(name))).toEqual([]);
    expect(sealed.filter((name) => !bytes.includes(name))).toEqual([]);
  });

  it('leaves values that neither key opens, and the endpoint reports it and can be repaired', async () => {
    const { db } = test.database;
    const lost = createSecrets({ current: randomBytes(32) });
    const { id } = await createEndpoint(db, lost, ENDPOINT);
    expect((await resealAll(db, during)).reduce((sum, { unreadable }) => sum + unreadable, 0)).toBe(2);
    expect(await getEndpoint(db, after, id)).toMatchObject({
      disabled_reason: 'secret_unreadable',
      secret: '',
      headers: [],
    });
    expect(await rotateSecret(db, after, id, { secret: 'new', now: new Date() })).toMatchObject({ secret: 'new' });
  });
});
