import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import type { ChangeCommands } from '../../../src/api/deps.ts';
import { ApiError } from '../../../src/contract/errors.ts';
import { accounts } from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeEmail, storeFolder } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

/** Routes that change emails and folders: their validation and responses. */

let api: ApiUnderTest;
let account: string;
let folder: string;
let email: string;
const made: unknown[][] = [];
let fail: ApiError | undefined;

function recorded(name: keyof ChangeCommands) {
  return (...args: unknown[]): Promise<void> => {
    made.push([name, ...args]);
    return fail ? Promise.reject(fail) : Promise.resolve();
  };
}

beforeAll(async () => {
  api = await apiUnderTest({
    commands: {
      markEmail: recorded('markEmail'),
      moveEmail: recorded('moveEmail'),
      trashEmail: recorded('trashEmail'),
      updateEmail: recorded('updateEmail'),
      changeFolder: recorded('changeFolder'),
      deleteFolder: recorded('deleteFolder'),
      createFolder: async (accountId, folderId, wanted) => {
        await recorded('createFolder')(accountId, folderId, wanted);
        await storeFolder(api.database, accountId, { id: folderId, name: wanted.name });
      },
    },
  });
});
afterAll(() => api.close());

beforeEach(async () => {
  made.length = 0;
  fail = undefined;
  account = await storeAccount(api.database);
  folder = await storeFolder(api.database, account, { role: 'INBOX' });
  email = (await storeEmail(api.database, account, { folders: [folder] })).id;
});

const routes = (): [string, string, unknown?][] => [
  ['POST', `/emails/${email}/read`],
  ['POST', `/emails/${email}/unread`],
  ['POST', `/emails/${email}/modify`, { folders_ids: [folder] }],
  [
    'PATCH',
    `/emails/${email}`,
    { is_unread: false, is_starred: true, keywords: { add: ['a'], remove: ['b'] }, folders_ids: [folder] },
  ],
  ['DELETE', `/emails/${email}`],
  ['POST', '/folders', { name: 'New' }],
  ['PATCH', `/folders/${folder}`, { name: 'Newer' }],
  ['DELETE', `/folders/${folder}`],
];
const call = (method: string, path: string, body?: unknown, of = account) =>
  api.call(method as 'POST', `/${of}${path}`, body === undefined ? {} : { body });

describe('a change', () => {
  it('is made, and returns the stored result', async () => {
    const [shown, shownFolder] = [
      await api.get(`/${account}/emails/${email}`),
      await api.get(`/${account}/folders/${folder}`),
    ];
    const answers = [];
    for (const [method, path, body] of routes()) answers.push(await call(method, path, body));
    expect(answers.map((answer) => answer.statusCode)).toEqual([200, 200, 200, 200, 200, 201, 200, 204]);
    const bodies = answers.map((answer) => (answer.body === '' ? null : answer.json<{ id: string }>()));
    const [, , , , , created] = bodies;
    expect(bodies).toEqual([
      ...[shown, shown, shown, shown],
      { object: 'EmailDeleted', id: email },
      expect.objectContaining({ object: 'Folder', name: 'New' }),
      shownFolder,
      null,
    ]);
    expect(made).toEqual([
      ['markEmail', account, email, true],
      ['markEmail', account, email, false],
      ['moveEmail', account, email, folder],
      [
        'updateEmail',
        account,
        email,
        { flags: { add: ['\\Seen', '\\Flagged', 'a'], remove: ['b'] }, folderId: folder },
      ],
      ['trashEmail', account, email],
      ['createFolder', account, created?.id, { name: 'New', parentId: null }],
      ['changeFolder', account, folder, { name: 'Newer' }],
      ['deleteFolder', account, folder],
    ]);
  });

  it('fails immediately for an account whose login the provider rejected', async () => {
    await api.database.db.update(accounts).set({ status: 'disconnected' }).where(eq(accounts.id, account));
    for (const [method, path, body] of routes()) {
      const answer = await call(method, path, body);
      expect([answer.statusCode, answer.json()]).toEqual([
        401,
        expect.objectContaining({ type: 'errors/invalid_credentials' }),
      ]);
    }
    await api.database.db.update(accounts).set({ status: 'errored' }).where(eq(accounts.id, account));
    expect((await call('POST', `/emails/${email}/read`)).statusCode).toBe(200);
    expect(made).toHaveLength(1);
  });

  it('returns 404 for unknown objects and for those of another account', async () => {
    const other = await storeAccount(api.database);
    for (const [method, path, body] of routes()) {
      if (path !== '/folders') expect((await call(method, path, body, other)).statusCode).toBe(404);
      expect((await call(method, path, body, newId('account'))).statusCode).toBe(404);
      expect((await call(method, path, body, 'acc_x')).statusCode).toBe(404);
    }
    for (const id of [newId('email'), folder, 'email_']) {
      expect((await call('POST', `/emails/${id}/read`)).statusCode).toBe(404);
      expect((await call('DELETE', `/emails/${id}`)).statusCode).toBe(404);
    }
    for (const id of [newId('folder'), email]) expect((await call('DELETE', `/folders/${id}`)).statusCode).toBe(404);
    expect(made).toEqual([]);
  });

  it.each(['invalid_credentials', 'not_found', 'provider_rejected', 'provider_error'] as const)(
    'that fails is reported as %s',
    async (code) => {
      fail = new ApiError(code, 'the cause');
      for (const [method, path, body] of routes()) {
        const answer = await call(method, path, body);
        expect(answer.json()).toMatchObject({ type: `errors/${code}`, detail: 'the cause' });
      }
    },
  );
});

describe('a change of flags', () => {
  it.each([
    ['is_unread', { is_unread: true }, { add: [], remove: ['\\Seen'] }],
    ['is_starred', { is_starred: false }, { add: [], remove: ['\\Flagged'] }],
    ['keywords', { keywords: { add: ['$Label1', 'a[b]'.slice(0, 3)] } }, { add: ['$Label1', 'a[b'], remove: [] }],
  ])('names what %s changes', async (_, body, flags) => {
    expect((await call('PATCH', `/emails/${email}`, body)).statusCode).toBe(200);
    expect(made).toEqual([['updateEmail', account, email, { flags }]]);
  });

  it('of nothing starts nothing', async () => {
    for (const body of [{}, { keywords: {} }, { keywords: { add: [] } }]) {
      expect((await call('PATCH', `/emails/${email}`, body)).statusCode).toBe(200);
    }
    expect(made).toEqual([]);
  });

  it.each(['', 'a b', '\\Seen', 'a*', 'ä', 'a"', 'a]', 'x'.repeat(129)])('refuses the keyword %j', async (keyword) => {
    for (const keywords of [{ add: [keyword] }, { remove: [keyword] }]) {
      expect((await call('PATCH', `/emails/${email}`, { keywords })).statusCode).toBe(400);
    }
    expect(made).toEqual([]);
  });

  it.each(['NIL', 'nil', 'BODY[', 'Body.Peek[1', 'BINARY[x', 'a,b'])(
    'sets no keyword %j, which could not be read back or filtered by, and removes it',
    async (keyword) => {
      const answer = await call('PATCH', `/emails/${email}`, { keywords: { add: ['fine', keyword] } });
      expect([answer.statusCode, answer.json()]).toMatchObject([400, { errors: [{ path: 'keywords.add.1' }] }]);
      expect((await call('PATCH', `/emails/${email}`, { keywords: { remove: [keyword] } })).statusCode).toBe(200);
      expect(made).toEqual([['updateEmail', account, email, { flags: { add: [], remove: [keyword] } }]]);
    },
  );

  it.each(['NILS', 'BODY', 'BODYX[', 'x.body[', '+-.'])('sets the keyword %j', async (keyword) => {
    expect((await call('PATCH', `/emails/${email}`, { keywords: { add: [keyword] } })).statusCode).toBe(200);
  });
});

describe('bad input', () => {
  it.each([
    ['nothing', {}],
    ['no folder', { folders_ids: [] }],
    ['two folders', { folders_ids: [newId('folder'), newId('folder')] }],
    ['no list', { folders_ids: newId('folder') }],
    ['no text', { folders_ids: [5] }],
  ])('to modify: %s', async (_what, body) => {
    const answer = await call('POST', `/emails/${email}/modify`, body);
    expect([answer.statusCode, answer.json<{ detail: string }>().detail]).toEqual([
      400,
      expect.stringContaining('folders_ids'),
    ]);
    expect(made).toEqual([]);
  });

  it.each([
    ['no name', {}],
    ['an empty name', { name: '' }],
    ['a name of 256 characters', { name: 'x'.repeat(256) }],
    ['a line break', { name: 'a\nb' }],
    ['a NUL', { name: 'a\u0000b' }],
    ['a C1 control', { name: 'a\u0085b' }],
    ['a DEL', { name: 'a\u007fb' }],
    ['no text', { name: 5 }],
  ])('to a folder name: %s', async (_what, body) => {
    const answer = await call('POST', '/folders', body);
    expect([answer.statusCode, answer.json<{ detail: string }>().detail]).toEqual([
      400,
      expect.stringContaining('name'),
    ]);
    if (!('name' in body)) return;
    expect((await call('PATCH', `/folders/${folder}`, body)).statusCode).toBe(400);
    expect(made).toEqual([]);
  });

  it('to a parent', async () => {
    expect((await call('POST', '/folders', { name: 'x', parent_id: 7 })).statusCode).toBe(400);
    expect((await call('PATCH', `/folders/${folder}`, { parent_id: [] })).statusCode).toBe(400);
    expect(made).toEqual([]);
  });
});
