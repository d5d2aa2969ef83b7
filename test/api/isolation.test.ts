import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { createDraftCommands } from '../../src/api/commands/drafts.ts';
import { createSendCommands } from '../../src/api/commands/sends.ts';
import type { Commands } from '../../src/api/deps.ts';
import { bodyOf, fill, furnish, type Route, routesOf } from '../helpers/product/all-routes.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/product/api-under-test.ts';
import { storeFolder } from '../helpers/assert/rows.ts';
import { waitFor } from '../helpers/assert/wait.ts';

/*
 * Over all routes: the path of account A finds nothing of account B, the path of an account that is being removed finds
 * nothing, and calls without a key are rejected.
 */

let api: ApiUnderTest;
let routes: Route[];

/** Changes are not made here; what sends or saves drafts looks for these first, and then finds no Temporal. */
const done = () => Promise.resolve();
const commands: Partial<Commands> = {
  ...{ markEmail: done, moveEmail: done, trashEmail: done, updateEmail: done, changeFolder: done, deleteFolder: done },
  startBatch: done,
  createFolder: async (accountId, id, { name }) => {
    await storeFolder(api.database, accountId, { id, name });
  },
  sendDraft: (...given) => createSendCommands(outgoing()).sendDraft(...given),
  updateDraft: (...given) => createDraftCommands(outgoing()).updateDraft(...given),
  deleteDraft: (...given) => createDraftCommands(outgoing()).deleteDraft(...given),
};
const outgoing = () => ({
  client: {} as Client,
  hasWorker: () => Promise.resolve(false),
  db: api.database.db,
  storage: api.storage,
});
const WITHOUT_TEMPORAL = /\/drafts$|\/drafts\/.*|\/emails\/send$/;

beforeAll(async () => {
  api = await apiUnderTest({ commands });
  routes = routesOf(api);
});
afterAll(() => api.close());

it('keeps accounts apart on every route', async () => {
  const a = await furnish(api);
  const b = await furnish(api);
  const own = routes.filter(({ path }) => path.includes('{account_id}'));
  expect(own.length).toBeGreaterThan(10);
  const call = (method: Route['method'], path: string, ids: Record<string, string>) =>
    api.call(method, fill(path, ids), bodyOf({ method, path }, ids));
  for (const { method, path } of own) {
    if (method === 'GET' || !WITHOUT_TEMPORAL.test(path)) {
      const mine = await call(method, path, a);
      expect([method, path, Math.floor(mine.statusCode / 100)]).toEqual([method, path, 2]);
    }
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
    for (const name of names.filter((one) => one !== 'account_id')) {
      const mixed = await call(method, path, { ...a, [name]: b[name] as string });
      expect([path, name, mixed.statusCode, mixed.json().type]).toEqual([path, name, 404, 'errors/not_found']);
    }
  }
  await api.database.pool.query('update accounts set removed_at = now() where id = $1', [a['account_id']]);
  // another process has removed it: see src/api/http/admissions.ts
  await waitFor(async () => (await api.call('GET', `/${a['account_id']}/folders`)).statusCode === 404);
  for (const { method, path } of own) {
    expect([path, (await call(method, path, a)).statusCode]).toEqual([path, 404]);
  }
});

it('rejects calls without a key on every route', async () => {
  for (const { method, path } of routes) {
    const url = `/api/v1${path.replace(/\{\w+\}/g, 'x')}`;
    for (const headers of [{}, { 'x-api-key': '' }, { 'x-api-key': `${api.key}x` }]) {
      const answer = await api.app.inject({ method, url, headers });
      expect([path, answer.statusCode, answer.json().type]).toEqual([path, 401, 'errors/unauthorized']);
    }
  }
});
