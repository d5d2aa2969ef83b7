import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { MockActivityEnvironment } from '@temporalio/testing';
import { eq, sql } from 'drizzle-orm';
import { createHousekeepingActivities } from '../../src/activities/housekeeping.ts';
import { drafts, emails } from '../../src/db/schema/index.ts';
import { PartUnavailable } from '../../src/outage.ts';
import { createLogger } from '../../src/runtime/logger.ts';
import { newId } from '../../src/new-id.ts';
import { openStorage, type Storage } from '../../src/storage/storage.ts';
import { type TestDatabase, testDatabase } from '../helpers/servers/postgres.ts';
import { storeEmail } from '../helpers/assert/rows.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

let test: TestDatabase;
let dir: string;
let storage: Storage;

beforeAll(async () => {
  test = await testDatabase();
  dir = await mkdtemp(join(tmpdir(), 'sweep-'));
  storage = openStorage(`file://${dir}`);
});
afterAll(async () => {
  await test.drop();
  await rm(dir, { recursive: true, force: true });
});

async function housekeep(): Promise<void> {
  const { db } = test.database;
  const logger = createLogger('silent', 'test');
  const { deleteExpired } = createHousekeepingActivities({
    db,
    storage,
    lostRuns: { findOverdue: async () => {} },
    logger,
  });
  await new MockActivityEnvironment().run(deleteExpired);
}

async function putOld(keys: string[], hours = 25): Promise<void> {
  for (const key of keys) await storage.put(key, Buffer.from('x'));
  const names = new Set(keys.map((key) => key.split('/').at(-1)));
  const old = new Date(Date.now() - hours * 3_600_000);
  for (const entry of await readdir(dir, { recursive: true, withFileTypes: true })) {
    if (names.has(entry.name)) await utimes(join(entry.parentPath, entry.name), old, old);
  }
}

const keysOf = async (accountId: string) => (await storage.list(`${accountId}/`)).map(({ key }) => key).sort();

describe('the storage of an account', () => {
  it('loses objects that no row names, once they are a day old', async () => {
    const { db } = test.database;
    const accountId = await storeAccount(test.database);
    const stored = await storeEmail(test.database, accountId, {
      attachments: [{ name: 'a.txt', mime: 'text/plain', size: 1 }],
    });
    const copy = await storeEmail(test.database, accountId);
    // the email of a Sent copy has the id of its send, its file has another one
    const copyKey = `${accountId}/raw/${newId('email')}.eml`;
    await db.update(emails).set({ origin: 'api', storageKey: copyKey }).where(eq(emails.id, copy.id));
    const draftId = newId('draft');
    const draftKey = `${accountId}/outgoing/${draftId}.json`;
    await db.insert(drafts).values({ id: draftId, accountId, inputKey: draftKey, createdAt: new Date() });
    const attachment = `${accountId}/att/${stored.attachmentIds[0]}`;
    const young = `${accountId}/raw/${newId('email')}.eml`;
    const named = [stored.storageKey, attachment, copyKey, draftKey];
    const orphans = ['raw/email_1.eml', 'raw/email_2.eml.9f-1.tmp', 'att/att_1', 'outgoing/x.json', 'sent/x.eml'];
    await putOld([...named, ...orphans.map((key) => `${accountId}/${key}`), `${accountId}/other/of-another-kind`]);
    await storage.put(young, Buffer.from('x'));

    await housekeep();
    expect(await keysOf(accountId)).toEqual([...named, young, `${accountId}/other/of-another-kind`].sort());
  });

  it('loses parts of uploads that began over a day before, once a day', async () => {
    const accountId = await storeAccount(test.database);
    const swept: [string, number][] = [];
    const before = storage;
    storage = {
      ...before,
      deleteUnfinished: async (prefix, at) => void swept.push([prefix, Math.round((Date.now() - +at) / 3_600_000)]),
    };
    await putOld([`${accountId}/raw/email_1.eml`]);
    await housekeep();
    await housekeep();
    storage = before;
    expect(swept.filter(([prefix]) => prefix === `${accountId}/`)).toEqual([[`${accountId}/`, 24]]);
    expect(swept.filter(([prefix]) => prefix === 'uploads/')).toHaveLength(2);
  });

  it('is swept once a day, and an interrupted sweep continues where it stopped', async () => {
    const { db } = test.database;
    const accountId = await storeAccount(test.database);
    const [first, second] = [`${accountId}/raw/email_11.eml`, `${accountId}/raw/email_22.eml`];
    await putOld([first, second]);
    await db.execute(sql`update accounts set storage_sweep_after = ${first} where id = ${accountId}`);
    await housekeep();
    expect(await keysOf(accountId)).toEqual([first]);
    await housekeep();
    expect(await keysOf(accountId)).toEqual([first]);
    await db.execute(sql`update accounts set storage_swept_at = now() - interval '25 hours' where id = ${accountId}`);
    await housekeep();
    expect(await keysOf(accountId)).toEqual([]);
  });

  describe('that fails', () => {
    let whole: Storage;
    beforeEach(async () => {
      whole = storage;
      await test.database.db.execute(sql`update accounts set storage_swept_at = now(), storage_sweep_after = null`);
    });
    afterEach(() => {
      storage = whole;
    });
    const failFor = (ids: string[]) => {
      const isOf = (prefix: string) => ids.some((id) => prefix === `${id}/`);
      storage = {
        ...whole,
        list: async (prefix, after) => {
          if (isOf(prefix)) throw new PartUnavailable('storage');
          return whole.list(prefix, after);
        },
      };
    };
    const due = async (ids: string[]) => {
      const { rows } = await test.database.db.execute<{ id: string }>(sql`
        select id from accounts where id = any(${sql.param(ids)}::text[]) and storage_swept_at is null order by id`);
      return rows.map(({ id }) => id);
    };

    it('is swept in a day, and the other accounts now', async () => {
      const ids = (await Promise.all([1, 2].map(() => storeAccount(test.database)))).sort();
      for (const id of ids) await putOld([`${id}/raw/email_1.eml`]);
      failFor(ids.slice(0, 1));
      await housekeep();
      storage = whole;
      expect(await Promise.all(ids.map(keysOf))).toEqual([[`${ids[0]}/raw/email_1.eml`], []]);
      await housekeep();
      expect(await keysOf(ids[0] ?? '')).toHaveLength(1);
    });

    it('continues where it stopped when it is swept again', async () => {
      const { db } = test.database;
      const accountId = await storeAccount(test.database);
      const [first, second] = [`${accountId}/raw/email_11.eml`, `${accountId}/raw/email_22.eml`];
      await putOld([first, second]);
      await db.execute(sql`update accounts set storage_sweep_after = ${first} where id = ${accountId}`);
      failFor([accountId]);
      await housekeep();
      storage = whole;
      await db.execute(sql`update accounts set storage_swept_at = now() - interval '25 hours' where id = ${accountId}`);
      await housekeep();
      expect(await keysOf(accountId)).toEqual([first]);
    });

    it('with that of others stops the sweep, as in an outage: the others stay due', async () => {
      const ids = (await Promise.all(Array.from({ length: 5 }, () => storeAccount(test.database)))).sort();
      failFor(ids);
      await housekeep();
      expect(await due(ids)).toEqual(ids.slice(3));
    });
  });
});

describe('uploads', () => {
  const store = async (expiresIn: string) => {
    const id = newId('upload');
    await test.database.pool.query(
      `insert into uploads (id, api_key_id, size, received, parts, created_at, expires_at)
      values ($1, 'pk_1', 1, 1, array['uploads/' || $1 || '/0.a'], now(), now() + $2::interval)`,
      [id, expiresIn],
    );
    await storage.put(`uploads/${id}/0.a`, Buffer.from('x'));
    return id;
  };
  const stored = async () => {
    const { rows } = await test.database.pool.query<{ id: string }>('select id from uploads order by id');
    const folders = await readdir(join(dir, 'uploads')).catch(() => []);
    return { rows: rows.map(({ id }) => id), folders: folders.sort() };
  };

  it('are deleted with their bytes once they have expired', async () => {
    const live = await store('1 hour');
    for (let count = 0; count < 45; count++) await store('-1 second');
    await housekeep();
    expect(await stored()).toEqual({ rows: [live], folders: [live] });
  });

  it('that no longer exist lose the bytes that a killed process left, and live ones do not', async () => {
    const { rows: live } = await stored();
    await putOld(['uploads/upl_gone/0.b', `uploads/upl_gone/4.c-1.tmp`], 49);
    await putOld(['uploads/upl_young/0.d'], 25);
    await housekeep();
    expect(await stored()).toEqual({ rows: live, folders: [...live, 'upl_young'].sort() });
  });
});
