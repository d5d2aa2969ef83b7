import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eq } from 'drizzle-orm';
import type { Email } from '../../../src/contract/email.ts';
import { toEmail } from '../../../src/db/queries/mail/email-object.ts';
import { emailContents, emails } from '../../../src/db/schema/index.ts';
import { newId } from '../../../src/new-id.ts';
import { type ApiUnderTest, apiUnderTest } from '../../helpers/product/api-under-test.ts';
import { storeEmail, storeFolder, storeThread } from '../../helpers/assert/rows.ts';
import { storeAccount } from '../../helpers/product/stored-account.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

interface Page {
  object: string;
  data: Email[];
  has_more: boolean;
  cursor: string | null;
}

let api: ApiUnderTest;
beforeAll(async () => {
  api = await apiUnderTest();
});
afterAll(() => api.close());

const ids = (page: { data: Email[] }) => page.data.map(({ id }) => id);
const query = (filters: Record<string, string>) => `?${new URLSearchParams(filters).toString()}`;

describe('an email', () => {
  let account: string;
  let inbox: string;
  beforeAll(async () => {
    account = await storeAccount(api.database);
    inbox = await storeFolder(api.database, account, { role: 'INBOX' });
  });

  it('has every field of the contract', async () => {
    const file = { name: 'Plan.pdf', mime: 'application/pdf', size: 3 };
    const stored = await storeEmail(api.database, account, {
      subject: 'Größe "quoted" \\ \u2028',
      body: '<p>é</p>',
      bodyPlain: 'é\n\u0007"',
      cc: ['cc@example.test'],
      folders: [inbox],
      unread: true,
      attachments: [file],
      date: new Date('2026-02-03T04:05:06.789Z'),
    });
    expect(await api.get(`/${account}/emails/${stored.id}`)).toEqual({
      object: 'Email',
      id: stored.id,
      account_id: account,
      thread_id: stored.threadId,
      message_id: `<${stored.id}@example.test>`,
      date: '2026-02-03T04:05:06.789Z',
      subject: 'Größe "quoted" \\ \u2028',
      from_attendee: { identifier: 'ann@example.test', display_name: 'Ann', identifier_type: 'EMAIL_ADDRESS' },
      to_attendees: [{ identifier: 'owner@example.test', display_name: '', identifier_type: 'EMAIL_ADDRESS' }],
      cc_attendees: [{ identifier: 'cc@example.test', display_name: '', identifier_type: 'EMAIL_ADDRESS' }],
      bcc_attendees: [],
      reply_to_attendees: [],
      body: '<p>é</p>',
      body_new: null,
      body_plain: 'é\n\u0007"',
      snippet: 'é \u0007"',
      has_attachments: true,
      authentication: null,
      attachments: [{ ...file, id: stored.attachmentIds[0], extension: 'pdf', cid: null, inline: false }],
      folders: [inbox],
      is_unread: true,
      ...{ is_starred: false, is_answered: false, is_forwarded: false, keywords: [] },
      is_complete: true,
      headers: [
        { name: 'Message-ID', value: `<${stored.id}@example.test>` },
        { name: 'Subject', value: 'Größe "quoted" \\ \u2028' },
      ],
      origin: 'external',
      is_echo: false,
      tracking_id: null,
    });
  });

  it('is identical in an event and by GET', async () => {
    const { id } = await storeEmail(api.database, account, {
      folders: [inbox],
      bodyPlain: 'é\u2028 "x"',
      unread: true,
    });
    const { db } = api.database;
    const [row] = await db.select().from(emails).where(eq(emails.id, id));
    const [contents] = await db.select().from(emailContents).where(eq(emailContents.emailId, id));
    const reported = toEmail(row as typeof emails.$inferSelect, contents as typeof emailContents.$inferSelect, [inbox]);
    expect(await api.get(`/${account}/emails/${id}`)).toEqual(JSON.parse(JSON.stringify(reported)));
  });

  it('keeps bodies that look like other JSON as the text they are', async () => {
    for (const text of ['123', 'null', '{"a":1}', '"', '']) {
      const { id } = await storeEmail(api.database, account, { body: text, bodyPlain: text });
      expect(await api.get(`/${account}/emails/${id}`)).toMatchObject({ body: text, body_plain: text });
    }
  });

  it('has only the members that a list asks for', async () => {
    const attachments = [{ name: 'a.txt', mime: 'text/plain', size: 1 }];
    const own = await storeAccount(api.database);
    const { id } = await storeEmail(api.database, own, { attachments, bodyPlain: 'Hi' });
    const whole = await api.get<Email>(`/${own}/emails/${id}`);
    const listed = async (fields: string) =>
      JSON.parse((await api.call('GET', `/${own}/emails?fields=${fields}`)).body).data as Partial<Email>[];
    const { subject, snippet, body, headers } = whole;
    expect(await listed('subject,snippet')).toEqual([{ object: 'Email', id, subject, snippet }]);
    expect(await listed('headers, body,')).toEqual([{ object: 'Email', id, body, headers }]);
    expect(await listed('headers&meta_only=true')).toEqual([{ object: 'Email', id, headers }]);
    expect(await listed('attachments')).toEqual([{ object: 'Email', id, attachments: whole.attachments }]);
    expect(await listed('')).toEqual([{ object: 'Email', id }]);
    const refused = await api.call('GET', `/${own}/emails?fields=subject,bodies`);
    expect([refused.statusCode, refused.json().detail]).toEqual([400, 'fields: an Email has no member bodies']);
  });

  it('omits only bodies and attachments with meta_only', async () => {
    const attachments = [{ name: 'a.txt', mime: 'text/plain', size: 1 }];
    const { id } = await storeEmail(api.database, account, { folders: [inbox], attachments });
    const whole = await api.get<Email>(`/${account}/emails/${id}`);
    expect(await api.get(`/${account}/emails/${id}?meta_only=true`)).toEqual({
      ...whole,
      body: '',
      body_plain: '',
      attachments: [],
    });
  });

  it('shows its folders, except the folder of all mail and those that it is leaving', async () => {
    const all = await storeFolder(api.database, account, { role: 'ALL' });
    const work = await storeFolder(api.database, account, { name: 'Work' });
    const shown = async (folders: string[], deletedIn: string[] = []) => {
      const { id } = await storeEmail(api.database, account, { folders, deletedIn });
      return (await api.get<Email>(`/${account}/emails/${id}`)).folders;
    };
    expect(await shown([work, inbox, all])).toEqual([inbox, work].sort());
    expect(await shown([all])).toEqual([all]);
    expect(await shown([inbox, work], [inbox])).toEqual([work]);
    expect(await shown([inbox], [inbox])).toEqual([inbox]);
    expect(await shown([])).toEqual([]);
  });

  it('is still found while no folder holds it, until its removal is decided', async () => {
    const date = new Date('2026-12-01T00:00:00Z');
    const { id } = await storeEmail(api.database, account, { missingSince: new Date(), date });
    expect((await api.call('GET', `/${account}/emails/${id}`)).statusCode).toBe(200);
    expect(ids(await api.get<Page>(`/${account}/emails?limit=1`))).toEqual([id]);
  });

  it('is not found under a malformed, unknown or other kind of id', async () => {
    const { id } = await storeEmail(api.database, account);
    for (const wrong of [
      'nonsense',
      id.slice(0, -1),
      id.toUpperCase(),
      newId('email'),
      newId('folder'),
      '%00',
      '%20',
    ]) {
      const answer = await api.call('GET', `/${account}/emails/${wrong}`);
      expect([wrong, answer.statusCode, answer.json().type]).toEqual([wrong, 404, 'errors/not_found']);
    }
  });

  it('returns its source byte for byte', async () => {
    const { id, storageKey } = await storeEmail(api.database, account);
    const source = Buffer.from('Subject: \xff\r\n\r\n\0 bytes', 'latin1');
    await api.storage.put(storageKey, source);
    const answer = await api.call('GET', `/${account}/emails/${id}/source`);
    expect(answer.headers).toMatchObject({ 'content-type': 'message/rfc822', 'content-length': `${source.length}` });
    expect(answer.rawPayload.equals(source)).toBe(true);
  });

  it('has another tag once it is the copy in Sent, whose bytes differ from those that were sent', async () => {
    const { id, storageKey } = await storeEmail(api.database, account);
    const path = `/${account}/emails/${id}/source`;
    await api.storage.put(storageKey, Buffer.from('as it was sent'));
    const tag = String((await api.call('GET', path)).headers['etag']);
    const copy = `${account}/raw/${newId('email')}.eml`;
    await api.storage.put(copy, Buffer.from('with a Received field'));
    await api.database.db.update(emails).set({ storageKey: copy }).where(eq(emails.id, id));
    const again = await api.call('GET', path, { headers: { 'if-none-match': tag } });
    expect([again.statusCode, again.body]).toEqual([200, 'with a Received field']);
    const rest = await api.call('GET', path, { headers: { range: 'bytes=0-3', 'if-range': tag } });
    expect([rest.statusCode, rest.body]).toEqual([200, 'with a Received field']);
  });
});

describe('a list of emails', () => {
  it('returns the newest first, without drafts, with trash and spam', async () => {
    const account = await storeAccount(api.database);
    const [trash, spam, drafts] = [
      await storeFolder(api.database, account, { role: 'TRASH' }),
      await storeFolder(api.database, account, { role: 'SPAM' }),
      await storeFolder(api.database, account, { role: 'DRAFTS' }),
    ];
    const a = await storeEmail(api.database, account, { folders: [trash] });
    const b = await storeEmail(api.database, account, { folders: [spam] });
    const draft = await storeEmail(api.database, account, { folders: [drafts], draft: true });
    const list = await api.get<Page>(`/${account}/emails`);
    expect(list).toMatchObject({ object: 'Emails', has_more: false, cursor: null });
    expect(ids(list)).toEqual([b.id, a.id]);
    expect(list.data[0]).toEqual(await api.get(`/${account}/emails/${b.id}`));
    expect(ids(await api.get<Page>(`/${account}/folders/${drafts}/emails`))).toEqual([draft.id]);
  });

  it('pages by cursor without gaps or repeats, despite equal dates and arriving mail', async () => {
    const account = await storeAccount(api.database);
    const inbox = await storeFolder(api.database, account, { role: 'INBOX' });
    const date = new Date('2026-05-01T00:00:00Z');
    const all: string[] = [];
    for (let n = 0; n < 7; n++) all.unshift((await storeEmail(api.database, account, { date, folders: [inbox] })).id);
    for (const path of [`/${account}/emails`, `/${account}/folders/${inbox}/emails`]) {
      const seen: string[] = [];
      let cursor: string | null = '';
      while (cursor !== null) {
        const page: Page = await api.get<Page>(`${path}?limit=3${cursor && `&cursor=${cursor}`}`);
        expect(page.has_more).toBe(page.cursor !== null);
        seen.push(...ids(page));
        cursor = page.cursor;
        await storeEmail(api.database, account, { date: new Date('2026-06-01T00:00:00Z'), folders: [inbox] });
      }
      expect(seen.filter((id) => all.includes(id))).toEqual(all);
    }
  });

  it('has no further page when the last one is full', async () => {
    const account = await storeAccount(api.database);
    await storeEmail(api.database, account);
    await storeEmail(api.database, account);
    expect(await api.get(`/${account}/emails?limit=2`)).toMatchObject({ has_more: false, cursor: null });
  });

  it('rejects cursors that are forged or belong to another list', async () => {
    const account = await storeAccount(api.database);
    for (let n = 0; n < 3; n++) await storeEmail(api.database, account, { unread: true });
    const { cursor } = await api.get<Page>(`/${account}/emails?limit=1`);
    const status = async (path: string) => (await api.call('GET', path)).statusCode;
    expect(await status(`/${account}/emails?limit=2&meta_only=true&cursor=${cursor}`)).toBe(200);
    expect(await status(`/${account}/emails?is_unread=true&cursor=${cursor}`)).toBe(400);
    for (const wrong of ['x', 'a.b', `${cursor}x`, cursor?.slice(3), '', '%00']) {
      expect([wrong, await status(`/${account}/emails?cursor=${wrong}`)]).toEqual([wrong, 400]);
    }
    const other = await storeAccount(api.database);
    expect(await status(`/${other}/emails?cursor=${cursor}`)).toBe(400);
  });

  it('shows an email once that is in a folder twice', async () => {
    const account = await storeAccount(api.database);
    const inbox = await storeFolder(api.database, account, { role: 'INBOX' });
    const { id } = await storeEmail(api.database, account, { folders: [inbox, inbox] });
    expect(ids(await api.get<Page>(`/${account}/folders/${inbox}/emails`))).toEqual([id]);
  });

  it('is not found for an unknown folder, nor for an account that is being removed', async () => {
    const account = await storeAccount(api.database);
    const folder = await storeFolder(api.database, account);
    const status = async (path: string) => (await api.call('GET', path)).statusCode;
    expect(await status(`/${account}/folders/${newId('folder')}/emails`)).toBe(404);
    expect(await status(`/${account}/folders/${folder}/emails`)).toBe(200);
    await api.database.pool.query('update accounts set removed_at = now() where id = $1', [account]);
    await waitFor(async () => (await status(`/${account}/folders/${folder}/emails`)) === 404);
    await waitFor(async () => (await status(`/${account}/emails`)) === 404);
    expect(await status(`/${newId('account')}/emails`)).toBe(404);
  });
});

describe('filters of a list of emails', () => {
  let account: string;
  let inbox: string;
  let work: string;
  const stored: Record<string, string> = {};
  beforeAll(async () => {
    account = await storeAccount(api.database);
    inbox = await storeFolder(api.database, account, { role: 'INBOX' });
    work = await storeFolder(api.database, account, { name: 'Work' });
    const thread = await storeThread(api.database, account);
    const joined = await storeThread(api.database, account, thread);
    stored['joined'] = joined;
    stored['thread'] = thread;
    const store = async (name: string, options: Parameters<typeof storeEmail>[2]) => {
      stored[name] = (await storeEmail(api.database, account, options)).id;
    };
    await store('report', {
      subject: 'Résumé of the year',
      from: 'Boss@Example.test',
      fromName: 'Zoë Łuk',
      folders: [work],
      date: new Date('2026-03-01T00:00:00.000Z'),
      attachments: [{ name: 'a.pdf', mime: 'application/pdf', size: 1 }],
    });
    await store('news', {
      subject: '100%_off \\ today',
      from: 'news@shop.test',
      to: ['list@shop.test'],
      cc: ['OWNER@example.test'],
      bodyPlain: '日本語テスト and Привет',
      folders: [inbox],
      unread: true,
      authentication: { spf: 'fail', dkim: null, dmarc: 'none', from_aligned: false },
      list: { id: 'offers.shop.test', unsubscribe: ['mailto:u@shop.test'], unsubscribe_post: false },
      date: new Date('2026-03-02T00:00:00.000Z'),
      threadId: thread,
    });
    await store('plain', {
      subject: 'Lunch',
      bcc: ['hidden@example.test'],
      bodyPlain: 'the straße is long',
      folders: [inbox],
      messageId: '<Odd+id@x.test>',
      date: new Date('2026-03-03T00:00:00.000Z'),
    });
  });

  const names = async (filters: Record<string, string>, folder?: string) => {
    const path = folder ? `/${account}/folders/${folder}/emails` : `/${account}/emails`;
    const found = ids(await api.get<Page>(`${path}${query(filters)}`));
    return found.map((id) => Object.entries(stored).find(([, value]) => value === id)?.[0]);
  };

  it.each<[Record<string, string>, string[]]>([
    [{ q: 'resume' }, ['report']],
    [{ q: 'RÉSUMÉ OF' }, ['report']],
    [{ q: 'esum' }, ['report']],
    [{ q: 'zoe luk' }, ['report']],
    [{ q: 'boss@example' }, ['report']],
    [{ q: '日本' }, ['news']],
    [{ q: '本語テ' }, ['news']],
    [{ q: 'привет' }, ['news']],
    [{ q: '100%_off' }, ['news']],
    [{ q: '100__' }, []],
    [{ q: '\\ today' }, ['news']],
    [{ q: 'strasse' }, ['plain']],
    [{ q: 'lu' }, ['plain', 'report']],
    [{ q: 'l' }, ['plain', 'news', 'report']],
    [{ q: 'un' }, []],
    [{ q: '' }, ['plain', 'news', 'report']],
    [{ q: ' ' }, ['plain', 'news', 'report']],
    [{ q: 'hidden@example.test' }, ['plain']],
    [{ q: 'nowhere to be found' }, []],
    [{ from: 'boss@example.TEST' }, ['report']],
    [{ from: 'boss@example' }, []],
    [{ to: 'owner@example.test' }, ['plain', 'news', 'report']],
    [{ to: 'Hidden@example.test' }, ['plain']],
    [{ to: 'news@shop.test' }, []],
    [{ any_email: 'news@shop.test' }, ['news']],
    [{ any_email: ' boss@example.test , list@shop.test,' }, ['news', 'report']],
    [{ subject: 'resume' }, ['report']],
    [{ subject: 'STRASSE' }, []],
    [{ subject: '%' }, ['news']],
    [{ has_attachment: 'true' }, ['report']],
    [{ has_attachment: 'false' }, ['plain', 'news']],
    [{ is_unread: 'true' }, ['news']],
    [{ is_unread: 'false' }, ['plain', 'report']],
    [{ before: '2026-03-02T00:00:00.000Z' }, ['report']],
    [{ after: '2026-03-02T00:00:00.000Z' }, ['plain']],
    [{ after: '2026-03-01T23:59:59.999Z', before: '2026-03-02T01:00:00.001+01:00' }, ['news']],
    [{ message_id: 'Odd+id@x.test' }, ['plain']],
    [{ message_id: '<Odd+id@x.test>' }, ['plain']],
    [{ message_id: 'odd+id@x.test' }, []],
    [{ dmarc: 'none' }, ['news']],
    [{ dmarc: 'pass' }, []],
    [{ from_aligned: 'false' }, ['news']],
    [{ from_aligned: 'true' }, []],
    [{ list_id: 'Offers.shop.test' }, ['news']],
    [{ list_id: '<offers.shop.test>', is_unread: 'false' }, []],
    [{ list_id: 'shop.test' }, []],
    [{ thread_id: 'thr_unknown' }, []],
    [{ exclude_folder: 'nonsense' }, ['plain', 'news', 'report']],
    [{ q: 'example', from: 'boss@example.test', has_attachment: 'true' }, ['report']],
    [{ q: 'example', subject: 'lunch', to: 'owner@example.test' }, ['plain']],
  ])('%j', async (filters, expected) => {
    expect(await names(filters)).toEqual(expected);
  });

  it('narrows by folders', async () => {
    expect(await names({ exclude_folder: inbox })).toEqual(['report']);
    expect(await names({ exclude_folder: `${work}, ${inbox}` })).toEqual([]);
    expect(await names({}, inbox)).toEqual(['plain', 'news']);
    expect(await names({ q: 'привет' }, inbox)).toEqual(['news']);
    expect(await names({ q: 'привет' }, work)).toEqual([]);
    expect(await names({ from: 'boss@example.test' }, inbox)).toEqual([]);
    expect(await names({ from: 'boss@example.test' }, work)).toEqual(['report']);
    expect(await names({ is_unread: 'true' }, inbox)).toEqual(['news']);
    expect(await names({ before: '2026-03-03T00:00:00Z' }, inbox)).toEqual(['news']);
  });

  it('narrows by thread, under every id that the thread has had', async () => {
    expect(await names({ thread_id: stored['thread'] as string })).toEqual(['news']);
    expect(await names({ thread_id: stored['joined'] as string })).toEqual(['news']);
  });

  it.each<[string, string]>([
    ['limit=0', 'limit'],
    ['limit=251', 'limit'],
    ['limit=abc', 'limit'],
    ['limit=', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=5&limit=6', 'limit'],
    ['is_unread=1', 'is_unread'],
    ['is_unread=TRUE', 'is_unread'],
    ['has_attachment=', 'has_attachment'],
    ['before=yesterday', 'before'],
    ['after=2026-02-30T00:00:00Z', 'after'],
    ['meta_only=yes', 'meta_only'],
    [`q=${'x'.repeat(257)}`, 'q'],
    ['q=%00', 'q'],
  ])('refuses %s and names the field', async (text, field) => {
    const answer = await api.call('GET', `/${account}/emails?${text}`);
    expect(answer.json()).toMatchObject({
      status: 400,
      type: 'errors/invalid_parameters',
      title: 'Invalid parameters',
    });
    expect(answer.json().detail).toContain(field);
  });

  it('accepts extreme dates, and ignores unknown parameters', async () => {
    expect(await names({ after: '0000-01-01T00:00:00Z', before: '9999-12-31T23:59:59Z', unknown: 'x' })).toHaveLength(
      3,
    );
  });
});
