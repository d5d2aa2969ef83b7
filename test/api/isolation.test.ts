import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { createDraftCommands } from '../../src/api/commands/drafts.ts';
import { createSendCommands } from '../../src/api/commands/sends.ts';
import type { Commands } from '../../src/api/deps.ts';
import { type ApiUnderTest, apiUnderTest } from '../helpers/api-under-test.ts';
import { storeEmail, storeFolder } from '../helpers/rows.ts';
import { storeAccount } from '../helpers/stored-account.ts';

/*
 * Over all routes there are: nothing of account B is found under the path of account A, nothing is found under the path
 * of an account that is being removed, and nothing is done without a key.
 */

let api: ApiUnderTest;
let routes: { method: 'GET' | 'POST'; path: string }[];

/** Changes are not made here; what sends or saves drafts looks for these first, and then finds no Temporal. */
const done = () => Promise.resolve();
const commands: Partial<Commands> = {
  ...{ markEmail: done, moveEmail: done, trashEmail: done, changeFolder: done, deleteFolder: done },
  createFolder: async (accountId, id, { name }) => {
    await storeFolder(api.database, accountId, { id, name });
  },
  sendDraft: (...given) => createSendCommands(outgoing()).sendDraft(...given),
  updateDraft: (...given) => createDraftCommands(outgoing()).updateDraft(...given),
  deleteDraft: (...given) => createDraftCommands(outgoing()).deleteDraft(...given),
};
const outgoing = () => ({ client: {} as Client, db: api.database.db, storage: api.storage });
const WITHOUT_TEMPORAL = /\/drafts$|\/drafts\/.*|\/emails\/send$/;

/** What has to be sent along. */
const BODIES: Record<string, (ids: Record<string, string>) => unknown> = {
  'POST /{account_id}/emails/{email_id}/modify': ({ folder_id }) => ({ folders_ids: [folder_id] }),
  'POST /{account_id}/folders': () => ({ name: 'New' }),
  'PATCH /{account_id}/folders/{folder_id}': () => ({ name: 'Newer' }),
  'POST /{account_id}/emails/send': () => ({ to: [{ email: 'bob@example.test' }], subject: 'x' }),
  'POST /{account_id}/drafts': () => ({ subject: 'x' }),
  'PATCH /{account_id}/drafts/{draft_id}': () => ({ subject: 'x' }),
};

beforeAll(async () => {
  api = await apiUnderTest({ commands });
  const { paths = {} } = api.app.swagger() as { paths?: Record<string, object> };
  routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({
      method: method.toUpperCase() as 'GET',
      path: path.replace('/api/v1', ''),
    })),
  );
});
afterAll(() => api.close());

/** An account with one of everything that a path can name. */
async function furnish(): Promise<Record<string, string>> {
  const account = await storeAccount(api.database);
  const folder = await storeFolder(api.database, account, { role: 'INBOX' });
  const files = [{ name: 'a.txt', mime: 'text/plain', size: 1 }];
  const email = await storeEmail(api.database, account, { folders: [folder], attachments: files });
  const draft = await storeEmail(api.database, account, { draft: true });
  await api.storage.put(email.storageKey, Buffer.from('x'));
  await api.storage.put(`${account}/att/${email.attachmentIds[0]}`, Buffer.from('x'));
  return {
    account_id: account,
    folder_id: folder,
    email_id: email.id,
    attachment_id: email.attachmentIds[0] as string,
    thread_id: email.threadId,
    draft_id: draft.draftId as string,
  };
}

const fill = (path: string, values: Record<string, string>) =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (values[name] === undefined) throw new Error(`this test does not know what ${name} is`);
    return values[name];
  });

it('keeps accounts apart on every route', async () => {
  const a = await furnish();
  const b = await furnish();
  const own = routes.filter(({ path }) => path.includes('{account_id}'));
  expect(own.length).toBeGreaterThan(10);
  const call = (method: 'GET' | 'POST', path: string, ids: Record<string, string>) => {
    const body = BODIES[`${method} ${path}`]?.(ids);
    return api.call(method, fill(path, ids), body === undefined ? {} : { body });
  };
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
  for (const { method, path } of own) {
    expect([path, (await call(method, path, a)).statusCode]).toEqual([path, 404]);
  }
});

it('lets nobody in without a key on any route', async () => {
  for (const { method, path } of routes) {
    const url = `/api/v1${path.replace(/\{\w+\}/g, 'x')}`;
    for (const headers of [{}, { 'x-api-key': '' }, { 'x-api-key': `${api.key}x` }]) {
      const answer = await api.app.inject({ method, url, headers });
      expect([path, answer.statusCode, answer.json().type]).toEqual([path, 401, 'errors/unauthorized']);
    }
  }
});
