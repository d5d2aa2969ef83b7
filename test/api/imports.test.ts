import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Import } from '../../src/contract/runs/import.ts';
import { beginImport, completeImport, countBatch, failImport } from '../../src/db/coordination/import-state.ts';
import { loadImportRun, pendingFolders } from '../../src/mailbox/store/import-folders.ts';
import { newId } from '../../src/new-id.ts';
import { storeFolder } from '../helpers/assert/rows.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeAccount } from '../helpers/product/stored-account.ts';

let api: ApiUnderTest;
let account: string;
const woken: string[] = [];
beforeAll(async () => {
  api = await apiUnderTest({ commands: { wakeImport: async ({ id }) => void woken.push(id) } });
});
afterAll(() => api.close());
beforeEach(async () => {
  woken.length = 0;
  account = await storeAccount(api.database);
});

const request = (method: 'GET' | 'POST', path = '', body?: object) =>
  api.call(method, `/accounts/${account}/imports${path}`, body ? { body } : {});
const create = async (body: object = {}) => (await request('POST', '', body)).json<Import>();
const refOf = ({ id }: Import) => ({ id, accountId: account });
const eventsOf = async () => {
  const { rows } = await api.database.pool.query<{ type: string }>(
    'select type from events where account_id = $1 order by sequence',
    [account],
  );
  return rows.map(({ type }) => type);
};

describe('imports', () => {
  it('of several accounts are one list, without those of removed accounts', async () => {
    const other = await storeAccount(api.database);
    const removed = await storeAccount(api.database);
    const make = async (of: string) => (await api.call('POST', `/accounts/${of}/imports`, { body: {} })).json<Import>();
    const [first, second] = [await make(account), await make(other)];
    await make(removed);
    await api.database.pool.query('update accounts set removed_at = now() where id = $1', [removed]);
    const list = async (query: string) => {
      const answer = await api.call('GET', `/imports?limit=100&${query}`);
      return answer.json<{ data: Import[] }>().data.map(({ id }) => id);
    };
    const both = `account_ids=${account},${other}`;
    expect(await list(both)).toEqual([second.id, first.id]);
    expect((await list('')).slice(0, 2)).toEqual([second.id, first.id]);
    await request('POST', `/${first.id}/cancel`);
    expect(await list(`${both}&unfinished=true`)).toEqual([second.id]);
    expect(await list(`${both}&unfinished=false`)).toEqual([first.id]);
    const unknown = await api.call('GET', `/imports?account_ids=${account},acc_none`);
    expect([unknown.statusCode, unknown.json<{ detail: string }>().detail]).toEqual([
      400,
      'account_ids.1 is not the id of an account',
    ]);
  });

  it('of a window in the years before 100 have the dates that were given', async () => {
    const window = { since: '0001-01-01T00:00:00.000Z', until: '0099-12-31T23:59:59.999Z' };
    const made = await create(window);
    expect(made).toMatchObject(window);
    await beginImport(api.database.db, refOf(made));
    expect(await loadImportRun(api.database.db, made.id)).toMatchObject({
      since: new Date(window.since),
      until: new Date(window.until),
    });
  });

  it('are created, listed, read, paused, continued and cancelled', async () => {
    const folder = await storeFolder(api.database, account, { role: 'INBOX' });
    const made = await create({ since: '2020-01-01T00:00:00+01:00', folders: [folder, 'SENT'], order: 'newest_first' });
    expect(made).toEqual({
      object: 'Import',
      id: expect.stringMatching(/^imp_/),
      account_id: account,
      status: 'queued',
      reason: null,
      next_attempt_at: null,
      since: '2019-12-31T23:00:00.000Z',
      until: null,
      folders: [folder, 'SENT'],
      order: 'newest_first',
      progress: { folders_known: 0, folders_done: 0, messages_known: 0, messages_done: 0, messages_left: 0 },
      imported: 0,
      messages_per_second: null,
      workflow_id: `import/${made.id}`,
      created_at: expect.any(String),
      started_at: null,
      completed_at: null,
    });
    expect((await request('GET', `/${made.id}`)).json()).toEqual(made);
    expect((await request('GET')).json()).toEqual({ object: 'Imports', data: [made], has_more: false });
    expect((await request('GET', '?status=running')).json<{ data: [] }>().data).toEqual([]);
    for (const [verb, status] of [
      ['pause', 'paused'],
      ['continue', 'queued'],
      ['cancel', 'cancelled'],
      ['continue', 'cancelled'],
    ] as const) {
      expect((await request('POST', `/${made.id}/${verb}`)).json()).toMatchObject({ id: made.id, status });
    }
    expect(woken).toEqual(Array(5).fill(made.id));
    expect(await eventsOf()).toEqual(['import.cancelled']);
  });

  it.each([
    [{ since: '2020-01-02T00:00:00Z', until: '2020-01-01T00:00:00Z' }, 400, 'since must be before until'],
    [{ folders: ['Sent Items'] }, 400, 'folders: Sent Items is no role and no id'],
    [{ folders: [newId('folder')] }, 404, expect.any(String)],
    [{ order: 'oldest_first' }, 400, expect.any(String)],
  ])('of %j are refused', async (body, status, detail) => {
    const answer = await request('POST', '', body);
    expect([answer.statusCode, answer.json<{ detail: string }>().detail]).toEqual([status, detail]);
    expect(woken).toEqual([]);
  });

  it('of one account run one after the other, after the initial sync', async () => {
    const [first, second] = [await create(), await create()];
    const { db, pool } = api.database;
    await pool.query(`update accounts set initial_sync_status = 'running' where id = $1`, [account]);
    expect(await beginImport(db, refOf(first))).toMatchObject({
      status: 'queued',
      reason: expect.stringContaining('sync'),
    });
    await pool.query(`update accounts set initial_sync_status = null where id = $1`, [account]);
    expect(await beginImport(db, refOf(second))).toMatchObject({ status: 'queued', reason: expect.any(String) });
    expect(await beginImport(db, refOf(first))).toMatchObject({ status: 'running', reason: null });
    await completeImport(db, refOf(first));
    expect(await beginImport(db, refOf(second))).toMatchObject({ status: 'running' });
    expect(await eventsOf()).toEqual(['import.started', 'import.completed', 'import.started']);
  });

  it('of one account run one after the other when an earlier one is continued', async () => {
    const [first, second] = [await create(), await create()];
    const { db } = api.database;
    await request('POST', `/${first.id}/pause`);
    expect(await beginImport(db, refOf(second))).toMatchObject({ status: 'running' });
    await request('POST', `/${first.id}/continue`);
    expect(await beginImport(db, refOf(first))).toMatchObject({ status: 'queued', reason: expect.any(String) });
    // its next attempt leaves the turn to the earlier one
    expect(await beginImport(db, refOf(second))).toMatchObject({ status: 'queued' });
    expect(await beginImport(db, refOf(first))).toMatchObject({ status: 'running' });
  });

  it('wait while the account is disconnected', async () => {
    const made = await create();
    await api.database.pool.query(`update accounts set status = 'disconnected' where id = $1`, [account]);
    expect(await beginImport(api.database.db, refOf(made))).toMatchObject({
      status: 'waiting',
      reason: expect.stringContaining('reconnect'),
    });
  });

  it('are at most 20 at a time', async () => {
    for (let index = 0; index < 20; index++) await create();
    expect((await request('POST', '', {})).statusCode).toBe(409);
  });

  it('count what they read, and store nothing once they are paused', async () => {
    const { db } = api.database;
    const folder = await storeFolder(api.database, account, { role: 'INBOX' });
    const made = await create();
    await beginImport(db, refOf(made));
    await pendingFolders(db, { ...refOf(made), since: null, until: null, folders: null });
    const batch = { imported: 3, read: 5 };
    await countBatch(db, { importId: made.id, folderId: folder }, batch);
    expect((await request('GET', `/${made.id}`)).json()).toMatchObject({
      imported: 3,
      progress: { folders_known: 1, messages_done: 5 },
      messages_per_second: expect.any(Number),
    });
    await request('POST', `/${made.id}/pause`);
    await expect(countBatch(db, { importId: made.id, folderId: folder }, batch)).rejects.toThrow('not running');
    await request('POST', `/${made.id}/continue`);
    await beginImport(db, refOf(made));
    await failImport(db, refOf(made), 'timed out');
    expect((await request('GET', `/${made.id}`)).json()).toMatchObject({
      status: 'failed',
      reason: 'timed out',
      imported: 3,
      completed_at: expect.any(String),
    });
    expect((await request('POST', `/${made.id}/continue`)).json()).toMatchObject({
      status: 'queued',
      completed_at: null,
      progress: { messages_done: 5 },
    });
  });
});
