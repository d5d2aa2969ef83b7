import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import type { Contact } from '../../../src/contract/contact.ts';
import type { DownloadLink, Email, Thread } from '../../../src/contract/email.ts';
import type { Folder } from '../../../src/contract/folder.ts';
import { createDownloadLinks } from '../../../src/api/http/download-links.ts';
import { createSigner } from '../../../src/api/http/cursor.ts';
import { createApiKey, deleteApiKey } from '../../../src/db/access/api-keys.ts';
import { markRemoved } from '../../../src/db/queries/accounts.ts';
import { sends } from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeContact, storeEmail, storeFolder, storeThread } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';

let api: ApiUnderTest;
let account: string;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

const status = async (path: string) => (await api.call('GET', path)).statusCode;
const ids = (page: { data: { id: string }[] }) => page.data.map(({ id }) => id);

describe('a thread', () => {
  beforeAll(async () => {
    account = await storeAccount(api.database);
  });

  it('holds the conversation, oldest first, without drafts, by both paths', async () => {
    const threadId = await storeThread(api.database, account);
    const date = new Date('2026-07-01T00:00:00Z');
    const first = await storeEmail(api.database, account, { threadId, date });
    const second = await storeEmail(api.database, account, { threadId, date });
    const third = await storeEmail(api.database, account, { threadId, date: new Date('2026-06-01T00:00:00Z') });
    await storeEmail(api.database, account, { threadId, draft: true });
    const thread = await api.get<Thread>(`/${account}/threads/${threadId}`);
    expect(thread).toMatchObject({ object: 'Thread', id: threadId, has_more: false });
    expect(thread).not.toHaveProperty('cursor');
    expect(ids(thread)).toEqual([third.id, first.id, second.id]);
    expect(await api.get(`/${account}/emails/${second.id}/thread`)).toEqual(thread);
    const brief = await api.get<Thread>(`/${account}/threads/${threadId}?meta_only=true`);
    expect(brief.data.map(({ body }) => body)).toEqual(['', '', '']);

    const page = await api.get<Thread>(`/${account}/threads/${threadId}?limit=2`);
    expect([ids(page), page.has_more]).toEqual([[third.id, first.id], true]);
    const rest = await api.get<Thread>(`/${account}/threads/${threadId}?limit=2&cursor=${page.cursor}`);
    expect([ids(rest), rest.has_more]).toEqual([[second.id], false]);
    expect(await status(`/${account}/threads/${threadId}?cursor=${page.cursor}x`)).toBe(400);
  });

  it('is found under every id that it has had', async () => {
    const threadId = await storeThread(api.database, account);
    const former = await storeThread(api.database, account, threadId);
    const { id } = await storeEmail(api.database, account, { threadId });
    const thread = await api.get<Thread>(`/${account}/threads/${former}`);
    expect([thread.id, ids(thread)]).toEqual([threadId, [id]]);
  });

  it('of emails that were just sent has them by both paths, under every id that it has had', async () => {
    const threadId = await storeThread(api.database, account);
    const former = await storeThread(api.database, account, threadId);
    const pathsTo = (id: string) => [`threads/${threadId}`, `threads/${former}`, `emails/${id}/thread`];
    const { id: template } = await storeEmail(api.database, account, {});
    const whole = await api.get<Email>(`/${account}/emails/${template}`);
    const [first, second] = [newId('email'), newId('email')];
    const row = { accountId: account, state: 'sent', apiKeyId: 'pk_1', apiKeyName: 'key', storageKey: 'a' };
    for (const [at, [id, thread_id]] of (
      [
        [first, former],
        [second, threadId],
      ] as const
    ).entries()) {
      const times = { createdAt: new Date(at), updatedAt: new Date(at) };
      await api.database.db.insert(sends).values({ ...row, ...times, id, email: { ...whole, id, thread_id } });
    }
    for (const path of [...pathsTo(first), ...pathsTo(second)]) {
      const thread = await api.get<Thread>(`/${account}/${path}`);
      expect([path, thread.id, ids(thread)]).toEqual([path, threadId, [first, second]]);
    }
    const brief = await api.get<Thread>(`/${account}/threads/${threadId}?meta_only=true`);
    expect(brief.data.map(({ body }) => body)).toEqual(['', '']);
    const other = await storeAccount(api.database);
    expect(await status(`/${other}/threads/${threadId}`)).toBe(404);
    await api.database.db.delete(sends).where(eq(sends.accountId, account));
    expect(await status(`/${account}/threads/${threadId}`)).toBe(404);
  });

  it('is not found without remaining emails', async () => {
    expect(await status(`/${account}/threads/${await storeThread(api.database, account)}`)).toBe(404);
    expect(await status(`/${account}/threads/${newId('thread')}`)).toBe(404);
    expect(await status(`/${account}/threads/${newId('email')}`)).toBe(404);
  });
});

describe('an attachment', () => {
  const bytes = randomBytes(1000);
  let path: string;
  const store = async (name: string, mime: string, content = bytes) => {
    const attachments = [{ name, mime, size: content.length }];
    const email = await storeEmail(api.database, account, { attachments });
    const [id] = email.attachmentIds;
    await api.storage.put(`${account}/att/${id}`, content);
    return `/${account}/emails/${email.id}/attachments/${id}`;
  };
  beforeAll(async () => {
    path = await store('Übersicht "1".pdf', 'application/pdf');
  });

  it('is returned whole, to be saved under its name', async () => {
    const answer = await api.call('GET', path);
    expect(answer.rawPayload.equals(bytes)).toBe(true);
    expect(answer.headers).toMatchObject({
      'content-type': 'application/pdf',
      'content-length': '1000',
      'accept-ranges': 'bytes',
      'x-content-type-options': 'nosniff',
      'content-disposition': `attachment; filename="_bersicht _1_.pdf"; filename*=UTF-8''%C3%9Cbersicht%20%221%22.pdf`,
    });
  });

  it.each<[string, number, number, number]>([
    ['bytes=0-0', 206, 0, 1],
    ['bytes=10-19', 206, 10, 20],
    ['bytes=990-', 206, 990, 1000],
    ['bytes=990-5000', 206, 990, 1000],
    ['bytes=-10', 206, 990, 1000],
    ['bytes=-5000', 206, 0, 1000],
    ['bytes=20-10', 200, 0, 1000],
    ['bytes=0-1,5-6', 200, 0, 1000],
    ['lines=0-1', 200, 0, 1000],
    ['nonsense', 200, 0, 1000],
  ])('answers the range %s with %d', async (range, code, start, end) => {
    const answer = await api.call('GET', path, { headers: { range } });
    expect(answer.statusCode).toBe(code);
    expect(answer.rawPayload.equals(bytes.subarray(start, end))).toBe(true);
    expect(answer.headers['content-length']).toBe(String(end - start));
    expect(answer.headers['content-range']).toBe(code === 206 ? `bytes ${start}-${end - 1}/1000` : undefined);
  });

  it('rejects a range beyond its end, and returns the whole if it has changed', async () => {
    const beyond = await api.call('GET', path, { headers: { range: 'bytes=1000-' } });
    expect([beyond.statusCode, beyond.headers['content-range'], beyond.json().status]).toEqual([
      416,
      'bytes */1000',
      416,
    ]);
    const { headers } = await api.call('GET', path);
    const again = (ifRange: string) => api.call('GET', path, { headers: { range: 'bytes=0-0', 'if-range': ifRange } });
    expect((await again(String(headers['etag']))).statusCode).toBe(206);
    expect((await again('"other"')).statusCode).toBe(200);
  });

  it('has a range of GET only', async () => {
    const head = await api.app.inject({
      method: 'HEAD',
      url: `/api/v1${path}`,
      headers: { 'x-api-key': api.key, range: 'bytes=0-0' },
    });
    expect([head.statusCode, head.headers['content-length']]).toEqual([200, '1000']);
  });

  const withTag = (method: 'GET' | 'HEAD', ifNoneMatch: string, more = {}) =>
    api.app.inject({
      method,
      url: `/api/v1${path}`,
      headers: { 'x-api-key': api.key, 'if-none-match': ifNoneMatch, ...more },
    });

  it.each<[string, (tag: string) => string]>([
    ['its tag', (tag) => tag],
    ['its tag as a weak one', (tag) => `W/${tag}`],
    ['a list with its tag', (tag) => `"other, or not", W/"another",${tag}`],
    ['any tag', () => '*'],
  ])('is not sent again to a caller who names %s', async (_, of) => {
    const tag = String((await api.call('GET', path)).headers['etag']);
    for (const method of ['GET', 'HEAD'] as const) {
      const answer = await withTag(method, of(tag), { range: 'bytes=2000-' });
      expect([answer.statusCode, answer.body, answer.headers['content-length']]).toEqual([304, '', undefined]);
      expect(answer.headers).toMatchObject({ etag: tag, 'cache-control': 'private, max-age=0' });
    }
  });

  it.each<[string, (tag: string) => string]>([
    ['another tag', () => '"other"'],
    ['its tag without quotes', (tag) => tag.slice(1, -1)],
    ['a tag that contains its own', (tag) => `"x${tag.slice(1)}`],
    ['nothing', () => ''],
  ])('is sent to a caller who names %s', async (_, of) => {
    const tag = String((await api.call('GET', path)).headers['etag']);
    const answer = await withTag('GET', of(tag));
    expect([answer.statusCode, answer.rawPayload.equals(bytes)]).toEqual([200, true]);
    expect((await withTag('GET', of(tag), { range: 'bytes=0-0' })).statusCode).toBe(206);
  });

  it('may be empty, unnamed, or have an invalid type', async () => {
    const answer = await api.call('GET', await store('', 'not a\r\ntype', Buffer.alloc(0)));
    expect([answer.statusCode, answer.rawPayload.length]).toEqual([200, 0]);
    expect(answer.headers).toMatchObject({ 'content-type': 'application/octet-stream', 'content-length': '0' });
    expect(answer.headers['content-disposition']).toBe(
      `attachment; filename="attachment"; filename*=UTF-8''attachment`,
    );
  });

  it('is reported by HEAD without its bytes', async () => {
    const url = `/api/v1${path}`;
    const answer = await api.app.inject({ method: 'HEAD', url, headers: { 'x-api-key': api.key } });
    expect([answer.statusCode, answer.headers['content-length'], answer.body]).toEqual([200, '1000', '']);
  });

  describe('by a link', () => {
    const linkTo = async (of: string, key = api.key) => {
      const answer = await api.call('GET', `${of}?link=true`, { headers: { 'x-api-key': key } });
      return { status: answer.statusCode, ...answer.json<DownloadLink>() };
    };
    const open = (url: string, headers = {}) => api.app.inject({ method: 'GET', url: new URL(url).pathname, headers });

    it('is downloaded without a key, also in ranges', async () => {
      const { object, url, expires_at: expiresAt } = await linkTo(path);
      expect([object, new URL(url).origin]).toEqual(['DownloadLink', 'http://127.0.0.1:3000']);
      expect(Date.parse(expiresAt) - Date.now()).toBeGreaterThan(590_000);
      expect(Date.parse(expiresAt) - Date.now()).toBeLessThanOrEqual(600_000);
      const whole = await open(url);
      expect([whole.statusCode, whole.rawPayload.equals(bytes)]).toEqual([200, true]);
      expect(whole.headers['content-type']).toBe('application/pdf');
      expect((await open(url, { range: 'bytes=0-9' })).statusCode).toBe(206);
    });

    it('is saved and not shown, whatever host the caller names', async () => {
      const { url } = await linkTo(await store('page.html', 'text/html'));
      expect((await open(url, { host: 'evil.example' })).headers).toMatchObject({
        'content-type': 'text/html',
        'content-disposition': `attachment; filename="page.html"; filename*=UTF-8''page.html`,
        'content-security-policy': 'sandbox',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'private, max-age=0',
      });
      const headers = { 'x-api-key': api.key, host: 'evil.example', 'x-forwarded-host': 'evil.example' };
      const made = await api.call('GET', `${path}?link=true`, { headers });
      expect(made.json<DownloadLink>().url).toMatch(/^http:\/\/127\.0\.0\.1:3000\/d\//);
      expect(made.headers['cache-control']).toBe('no-store');
    });

    it('as a raw message too', async () => {
      const { id } = await storeEmail(api.database, account);
      await api.storage.put(`${account}/raw/${id}.eml`, bytes);
      const { url } = await linkTo(`/${account}/emails/${id}/source`);
      expect((await open(url)).rawPayload.equals(bytes)).toBe(true);
    });

    it('is not found once the link was changed or has ended', async () => {
      const { url } = await linkTo(path);
      const [signature, text = ''] = url.split('.').slice(-2);
      const other = Buffer.from(text, 'base64url')
        .toString()
        .replace(/\d+\]$/, '9999999999999]');
      const forged = `http://x/d/${signature?.split('/').at(-1)}.${Buffer.from(other).toString('base64url')}`;
      for (const wrong of [forged, url.replace('/d/', '/d/x'), 'http://x/d/a.b', 'http://x/d/.'])
        expect((await open(wrong)).statusCode).toBe(404);
      let now = 0;
      const links = createDownloadLinks(createSigner([randomBytes(32)]), '', () => now);
      const token = links.write({ accountId: account, emailId: 'e', attachmentId: null }, 'pk').url.slice('/d/'.length);
      now = 599_999;
      expect(links.read(token)).toEqual({ accountId: account, emailId: 'e', attachmentId: null, apiKeyId: 'pk' });
      now = 600_000;
      expect(() => links.read(token)).toThrow(expect.objectContaining({ code: 'not_found' }));
    });

    it.each<[string, (key: string, account: string) => Promise<unknown>]>([
      ['its key was deleted', (key) => deleteApiKey(api.database.db, key)],
      [
        'its key expired',
        (key) => api.database.pool.query('update api_keys set expires_at = now() where id = $1', [key]),
      ],
      [
        'its key lost the account',
        (key) => api.database.pool.query(`update api_keys set account_ids = '{acc_x}' where id = $1`, [key]),
      ],
      [
        'the account was removed',
        (_, removed) => api.database.db.transaction((tx) => markRemoved(tx, removed, new Date())),
      ],
    ])('is not found once %s', async (_, end) => {
      const own = await storeAccount(api.database);
      const { id } = await storeEmail(api.database, own);
      await api.storage.put(`${own}/raw/${id}.eml`, bytes);
      const maker = await createApiKey(api.database.db, { name: 'maker', expiresAt: null, accountIds: [own] });
      const { url } = await linkTo(`/${own}/emails/${id}/source`, maker.key);
      expect((await open(url)).statusCode).toBe(200);
      await end(maker.apiKey.id, own);
      expect((await open(url)).statusCode).toBe(404);
    });

    it('is refused to a key of another account, and for a file that does not exist', async () => {
      const { key } = await createApiKey(api.database.db, {
        name: 'other',
        expiresAt: null,
        accountIds: [newId('account')],
      });
      expect((await linkTo(path, key)).status).toBe(404);
      expect((await linkTo(`${path.slice(0, path.lastIndexOf('/'))}/${newId('attachment')}`)).status).toBe(404);
    });
  });

  it('is not found when its bytes are lost', async () => {
    const gone = await store('x', 'text/plain');
    await api.storage.delete([`${account}/att/${gone.split('/').at(-1)}`]);
    expect(await status(gone)).toBe(404);
  });
});

describe('folders', () => {
  it('are listed with INBOX first, then other roles, then by name', async () => {
    const owner = await storeAccount(api.database);
    const store = (options: Parameters<typeof storeFolder>[2]) => storeFolder(api.database, owner, options);
    const b = await store({ name: 'b10' });
    const a = await store({ name: 'Äpfel' });
    const c = await store({ name: 'b9' });
    const trash = await store({ role: 'TRASH' });
    const sent = await store({ role: 'SENT' });
    const inbox = await store({ role: 'INBOX', name: 'INBOX', total: 7, unread: 2 });
    const child = await store({ name: 'z', parentId: inbox });
    const list = await api.get<{ object: string; data: Folder[]; has_more: boolean }>(`/${owner}/folders`);
    expect(list).toMatchObject({ object: 'Folders', has_more: false });
    expect(ids(list)).toEqual([inbox, sent, trash, a, c, b, child]);
    expect(list.data[0]).toEqual({
      object: 'Folder',
      id: inbox,
      account_id: owner,
      name: 'INBOX',
      role: 'INBOX',
      parent_id: null,
      total_count: 7,
      unread_count: 2,
    });
    expect(await api.get(`/${owner}/folders/${child}`)).toEqual(list.data[6]);
    expect(list.data[6]?.parent_id).toBe(inbox);
    expect(await status(`/${owner}/folders/${newId('folder')}`)).toBe(404);
  });
});

describe('drafts', () => {
  it('are listed newest first, and found by either id', async () => {
    const owner = await storeAccount(api.database);
    await storeEmail(api.database, owner);
    const older = await storeEmail(api.database, owner, { draft: true, to: [] });
    const newer = await storeEmail(api.database, owner, { draft: true });
    const page = await api.get<{ data: Email[]; cursor: string }>(`/${owner}/drafts?limit=1`);
    expect(page).toMatchObject({ object: 'Drafts', has_more: true });
    const rest = await api.get<{ data: Email[] }>(`/${owner}/drafts?limit=1&cursor=${page.cursor}`);
    expect(rest).toMatchObject({ has_more: false, cursor: null });
    expect([...ids(page), ...ids(rest)]).toEqual([newer.id, older.id]);
    expect(page.data[0]).toMatchObject({ object: 'Email', draft_id: newer.draftId });
    expect(await api.get(`/${owner}/drafts/${newer.draftId}`)).toEqual(page.data[0]);
    expect(await api.get(`/${owner}/drafts/${newer.id}`)).toEqual(page.data[0]);
  });

  it('are not found once sent or saved again; other emails are not drafts', async () => {
    const email = await storeEmail(api.database, account);
    expect(await status(`/${account}/drafts/${email.id}`)).toBe(404);
    expect(await status(`/${account}/drafts/${newId('draft')}`)).toBe(404);
    expect(await status(`/${account}/drafts/${newId('folder')}`)).toBe(404);
  });
});

describe('contacts and senders', () => {
  it('are those of the mailbox, the latest first', async () => {
    const owner = await storeAccount(api.database, { userId: 'me@example.test', name: 'Me Myself' });
    const at = new Date('2026-02-01T00:00:00Z');
    await storeContact(api.database, owner, { address: 'b_1@example.test', displayName: 'Bea', lastContactedAt: at });
    await storeContact(api.database, owner, { address: 'a@example.test', lastContactedAt: at });
    await storeContact(api.database, owner, {
      address: 'c@example.test',
      displayName: 'Ceä',
      lastContactedAt: new Date(),
    });
    const first = await api.get<{ data: Contact[]; cursor: string }>(`/${owner}/contacts?limit=2`);
    const rest = await api.get<{ data: Contact[] }>(`/${owner}/contacts?limit=2&cursor=${first.cursor}`);
    expect([...ids(first), ...ids(rest)]).toEqual(['c@example.test', 'b_1@example.test', 'a@example.test']);
    expect(first.data[1]).toEqual({
      object: 'Contact',
      id: 'b_1@example.test',
      account_id: owner,
      display_name: 'Bea',
      emails: ['b_1@example.test'],
      last_contacted_at: '2026-02-01T00:00:00.000Z',
    });
    expect(rest.data[0]?.display_name).toBeNull();
    const found = async (search: string) =>
      ids(await api.get(`/${owner}/contacts?search=${encodeURIComponent(search)}`));
    expect(await found('BEA')).toEqual(['b_1@example.test']);
    expect(await found('b_')).toEqual(['b_1@example.test']);
    expect(await found('%')).toEqual([]);
    expect(await api.get(`/${owner}/email-senders`)).toEqual({
      object: 'EmailSenders',
      data: [
        {
          object: 'EmailSender',
          email: 'me@example.test',
          display_name: 'Me Myself',
          is_primary: true,
          is_default: true,
          verification_status: 'verified',
        },
      ],
      has_more: false,
    });
  });
});
