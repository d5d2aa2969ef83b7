import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createHousekeepingActivities } from '../../src/activities/housekeeping.ts';
import { listAudit, recordAudit } from '../../src/db/access/audit.ts';
import { drafts, sends, trackingRecords } from '../../src/db/schema/index.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { openStorage, type Storage } from '../../src/storage/storage.ts';
import { testDatabase, type TestDatabase } from '../helpers/servers/postgres.ts';
import { storeEmail } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

let test: TestDatabase;
let dir: string;
let storage: Storage;
let accountId: string;
beforeAll(async () => {
  test = await testDatabase();
  dir = await mkdtemp(join(tmpdir(), 'retention-test-'));
  storage = openStorage(pathToFileURL(dir).href);
});
afterAll(async () => {
  await test.drop();
  await rm(dir, { recursive: true, force: true });
});
beforeEach(async () => {
  accountId = await storeAccount(test.database);
  for (const table of [sends, drafts, trackingRecords]) await test.database.db.delete(table);
});

const HOUR_MS = 3_600_000;
const ago = (days: number) => new Date(Date.now() - days * 24 * HOUR_MS);

async function keepHouse(more: { auditRetentionMs?: number } = {}): Promise<void> {
  const { db } = test.database;
  const logger = createLogger('silent', 'test');
  const { deleteExpired } = createHousekeepingActivities({
    db,
    storage,
    logger,
    lostRuns: { findOverdue: async () => {} },
    ...more,
  });
  expect(await new MockActivityEnvironment().run(deleteExpired)).toEqual({ done: true });
}

describe('housekeeping', () => {
  const send = (more: Partial<typeof sends.$inferInsert>) => {
    const at = more.createdAt ?? ago(31);
    const own = { id: newId('email'), accountId, apiKeyId: 'pk_1', apiKeyName: 'key', createdAt: at, updatedAt: at };
    return { ...own, ...more };
  };

  it('deletes sends that ended 30 days ago, and none whose Sent copy is awaited', async () => {
    const { db } = test.database;
    const left = [
      send({ state: 'sent', createdAt: ago(29) }),
      send({ state: 'sent', updatedAt: ago(1) }),
      send({ state: 'sent', storageKey: 'copy' }),
      send({ state: 'sent', email: {} as never }),
      send({ state: 'submitting' }),
    ];
    const ended = (['sent', 'failed', 'unknown'] as const).map((state) => send({ state }));
    await db.insert(sends).values([...left, ...ended]);
    await keepHouse();
    const rows = await db.select({ id: sends.id }).from(sends);
    expect(rows.map(({ id }) => id).sort()).toEqual(left.map(({ id }) => id).sort());
  });

  it('deletes audit records after 90 days, or after the time that is set', async () => {
    const { db } = test.database;
    const own = {
      action: 'api_key.create' as const,
      status: 200,
      apiKeyId: 'pk_1',
      address: '192.0.2.1',
      objectId: null,
      objectName: null,
    };
    const days = async () => (await listAudit(db, {}, { limit: 9, position: null })).data.map((one) => one.request_id);
    for (const age of [91, 89, 8, 6]) await recordAudit(db, { ...own, at: ago(age), requestId: String(age) });
    await keepHouse();
    expect(await days()).toEqual(['6', '8', '89']);
    await keepHouse({ auditRetentionMs: 7 * 24 * HOUR_MS });
    expect(await days()).toEqual(['6']);
  });

  it('deletes drafts that ended 30 days ago, and none whose email is in Drafts', async () => {
    const { db } = test.database;
    const draft = (state: string, more: Partial<typeof drafts.$inferInsert> = {}) => ({
      ...{ id: newId('draft'), accountId, emailId: null, state, createdAt: ago(400), updatedAt: ago(31) },
      ...more,
    });
    const left = [
      draft('active', { emailId: 'email_a' }),
      draft('superseded', { updatedAt: ago(29) }),
      draft('superseded', { emailId: 'email_b' }),
      draft('sent', { emailId: 'email_c' }),
    ];
    await db.insert(drafts).values([...left, ...['superseded', 'sent', 'deleted', 'failed'].map((one) => draft(one))]);
    await keepHouse();
    const rows = await db.select({ id: drafts.id }).from(drafts);
    expect(rows.map(({ id }) => id).sort()).toEqual(left.map(({ id }) => id).sort());
  });

  it('deletes tracking a year after the email was sent, once the email is deleted', async () => {
    const { db } = test.database;
    const stored = await storeEmail(test.database, accountId);
    const awaited = send({ state: 'sent', storageKey: 'copy' });
    await db.insert(sends).values(awaited);
    const record = (emailId: string, days: number) => ({
      ...{ id: newId('tracking'), accountId, emailId, messageId: '<m@x>', label: null, opens: true, links: [] },
      createdAt: ago(days),
    });
    const left = [record(stored.id, 400), record(awaited.id, 400), record(newId('email'), 364)];
    await db.insert(trackingRecords).values([...left, record(newId('email'), 366)]);
    await keepHouse();
    const rows = await db.select({ id: trackingRecords.id }).from(trackingRecords);
    expect(rows.map(({ id }) => id).sort()).toEqual(left.map(({ id }) => id).sort());
  });

  it('gives up sends and drafts that were never started, and deletes their files', async () => {
    const { db } = test.database;
    const [old, fresh] = [new Date(Date.now() - 3 * HOUR_MS), new Date(Date.now() - HOUR_MS)];
    const keys = ['a', 'b', 'c', 'd'].map((name) => `${accountId}/outgoing/${name}.json`);
    for (const key of keys) await storage.put(key, Buffer.from('{}'));
    const [staleSend, freshSend, staleDraft, freshDraft] = keys;
    await db
      .insert(sends)
      .values([
        send({ state: 'queued', createdAt: old, inputKey: staleSend ?? '' }),
        send({ state: 'queued', createdAt: fresh, inputKey: freshSend ?? '' }),
      ]);
    const draft = { accountId, state: 'saving', createdAt: ago(1) };
    await db.insert(drafts).values([
      { ...draft, id: newId('draft'), inputKey: staleDraft ?? '', updatedAt: old },
      { ...draft, id: newId('draft'), inputKey: freshDraft ?? '', updatedAt: fresh },
    ]);
    await keepHouse();
    const key = { state: sends.state, key: sends.inputKey };
    const rows = [
      ...(await db.select(key).from(sends)),
      ...(await db.select({ state: drafts.state, key: drafts.inputKey }).from(drafts)),
    ];
    expect(rows.sort((a, b) => a.state.localeCompare(b.state))).toEqual([
      { state: 'failed', key: null },
      { state: 'failed', key: null },
      { state: 'queued', key: freshSend },
      { state: 'saving', key: freshDraft },
    ]);
    expect(await Promise.all(keys.map((one) => storage.size(one)))).toEqual([undefined, 2, undefined, 2]);
  });
});
