import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { statementsOf } from '../../helpers/assert/statements.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

/*
 * How many statements reads make, apart from the look-up of key and account, which is made twice a second at most
 * (src/api/http/admissions.ts), and from the time when a key was used last, once a minute.
 */
let api: ApiUnderTest;
const paths: Record<string, string> = {};

beforeAll(async () => {
  api = await apiUnderTest();
  const account = await storeAccount(api.database);
  const inbox = await storeFolder(api.database, account, { role: 'INBOX' });
  const attachments = [{ name: 'a.txt', mime: 'text/plain', size: 3 }];
  const { id, attachmentIds, storageKey } = await storeEmail(api.database, account, { folders: [inbox], attachments });
  await api.storage.put(storageKey, Buffer.from('Subject: a\r\n\r\n'));
  await api.storage.put(`${account}/att/${attachmentIds[0]}`, Buffer.from('abc'));
  const draft = await storeEmail(api.database, account, { draft: true, folders: [inbox] });
  const email = `/${account}/emails/${id}`;
  Object.assign(paths, {
    list: `/${account}/emails`,
    metadata: `/${account}/emails?meta_only=true`,
    search: `/${account}/emails?q=text&from=ann@example.test`,
    'list of a folder': `/${account}/folders/${inbox}/emails`,
    email,
    source: `${email}/source`,
    attachment: `${email}/attachments/${attachmentIds[0]}`,
    thread: `${email}/thread`,
    view: `${email}/view`,
    drafts: `/${account}/drafts`,
    draft: `/${account}/drafts/${draft.draftId}`,
    folders: `/${account}/folders`,
  });
});
afterAll(() => api.close());

it.each([
  ['list', 1],
  ['metadata', 1],
  ['search', 1],
  // the folder has to exist
  ['list of a folder', 2],
  ['email', 1],
  ['source', 1],
  ['attachment', 1],
  // its id, then its emails
  ['thread', 2],
  ['view', 1],
  ['drafts', 1],
  ['draft', 1],
  ['folders', 1],
])('%s: %d statements', async (name, budget) => {
  const path = paths[name] as string;
  const statements = await statementsOf(async () => {
    expect((await api.call('GET', path)).statusCode).toBe(200);
  });
  const made = statements.filter((text) => !/\b(from|update) api_keys\b/.test(text));
  expect(made.length === budget ? [] : made).toEqual([]);
});
