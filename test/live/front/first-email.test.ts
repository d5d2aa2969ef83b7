import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import type { Account } from '../../../src/contract/account.ts';
import type { Email } from '../../../src/contract/email.ts';
import type { Api } from '../../helpers/product/api.ts';
import { type ConnectedUser, connectUser, type Live, joinLive } from '../../helpers/product/live.ts';
import { addUser } from '../../helpers/product/mail-user.ts';
import { deliver, submit } from '../../helpers/product/mailbox.ts';
import { mailServers } from '../../helpers/servers/mail-servers.ts';
import { mailText, newMessageId } from '../../helpers/product/mail-text.ts';
import { emailOf, startReceiver } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** The main way: a mailbox is connected, mail arrives, is reported and can be read over the public API alone. */

let live: Live;
let api: Api;
let anna: ConnectedUser;

beforeAll(async () => {
  live = await joinLive();
  api = live.api;
  anna = await connectUser(live, { state: 'customer 42', name: 'Anna' });
}, 120_000);

afterAll(async () => {
  await anna?.box.close();
  await live?.close();
});

test('connecting returns the account and emits account.add with the given state', async () => {
  const { dovecot, postfix } = mailServers();
  expect(anna.account).toMatchObject({
    object: 'Account',
    user_id: anna.user.user,
    name: 'Anna',
    provider: 'imap',
    status: 'running',
    status_detail: '',
    is_locked: false,
    metadata: {},
    initial_sync: null,
    authserv_id: null,
    retention_days: null,
    connection_params: {
      mail: {
        imap_host: '127.0.0.1',
        imap_port: dovecot.imapPort,
        imap_user: anna.user.user,
        imap_encryption: 'NONE',
        smtp_port: postfix.submissionPort,
        smtp_encryption: 'NONE',
      },
    },
  });
  const { event } = await anna.event('account.add');
  expect(event).toMatchObject({ object: 'Event', account_id: anna.account.id, data: { state: 'customer 42' } });
  expect(event.data.account).toMatchObject({ id: anna.account.id, status: 'running' });
  expect(JSON.stringify(event)).not.toContain(anna.user.password);
});

test('a mail appended right after connecting is reported once, and the event equals GET field for field', async () => {
  const bea = await connectUser(live);
  const messageId = newMessageId();
  await bea.box.append('INBOX', {
    subject: 'Grüße 🌍',
    html: '<p>Hallo</p>',
    text: 'Hallo',
    messageId,
    to: bea.user.user,
  });
  const call = await bea.event('email.new', (one) => emailOf(one).message_id === messageId);
  const email = emailOf(call);
  expect(email).toMatchObject({
    object: 'Email',
    account_id: bea.account.id,
    subject: 'Grüße 🌍',
    body: expect.stringContaining('<p>Hallo</p>'),
    body_plain: expect.stringContaining('Hallo'),
    from_attendee: { identifier: 'ada@elsewhere.test', display_name: 'Ada Writer', identifier_type: 'EMAIL_ADDRESS' },
    to_attendees: [{ identifier: bea.user.user }],
    is_unread: true,
    is_complete: true,
    is_echo: false,
    origin: 'external',
    tracking_id: null,
    has_attachments: false,
    authentication: null,
    folders: [(await api.folder(bea.account.id, 'INBOX')).id],
  });
  expect(await api.email(bea.account.id, email.id)).toEqual(email);
  expect((await bea.settle()).map(({ event }) => event.type)).toEqual(['email.new']);
  await bea.box.close();
});

test('mail through Postfix is reported, readable as source byte for byte, and its attachments download', async () => {
  const content = randomBytes(300_000);
  const picture = randomBytes(5_000);
  const raw = mailText({
    to: anna.user.user,
    subject: 'With files',
    html: '<p>See <img src="cid:pic1"></p>',
    attachments: [
      { name: 'Bericht.PDF', type: 'application/pdf', content },
      { name: 'pic.png', type: 'image/png', content: picture, cid: 'pic1' },
    ],
  });
  await deliver(anna.user.user, raw);
  const call = await anna.event('email.new', (one) => emailOf(one).subject === 'With files');
  const email = emailOf(call);
  expect(await api.email(anna.account.id, email.id)).toEqual(email);
  expect(email.body).toContain('cid:pic1');
  expect(email.has_attachments).toBe(true);
  expect(email.attachments).toMatchObject([
    { name: 'Bericht.PDF', extension: 'pdf', size: 300_000, mime: 'application/pdf', cid: null, inline: false },
    { name: 'pic.png', extension: 'png', size: 5_000, mime: 'image/png', cid: 'pic1', inline: true },
  ]);

  const source = await bytes(`/${anna.account.id}/emails/${email.id}/source`);
  expect(source.headers.get('content-type')).toContain('message/rfc822');
  // the servers put their own lines on top
  expect(source.body.toString('latin1').endsWith(raw.toString('latin1'))).toBe(true);

  const [file, inline] = email.attachments;
  const path = `/${anna.account.id}/emails/${email.id}/attachments/${file?.id}`;
  const download = await bytes(path);
  expect(download.status).toBe(200);
  expect(download.body.equals(content)).toBe(true);
  expect(download.headers.get('content-type')).toContain('application/pdf');
  expect(download.headers.get('content-length')).toBe('300000');
  expect(download.headers.get('content-disposition')).toMatch(/filename\*=UTF-8''Bericht\.PDF/i);
  expect(download.headers.get('x-content-type-options')).toBe('nosniff');
  const range = await bytes(path, { Range: 'bytes=1000-1999' });
  expect(range.status).toBe(206);
  expect(range.headers.get('content-range')).toBe('bytes 1000-1999/300000');
  expect(range.body.equals(content.subarray(1000, 2000))).toBe(true);
  const second = await bytes(`/${anna.account.id}/emails/${email.id}/attachments/${inline?.id}`);
  expect(second.body.equals(picture)).toBe(true);
});

test('reading over the API never marks a mail as read', async () => {
  const { call, uid } = await anna.receive('INBOX', 'look but do not touch');
  await api.email(anna.account.id, emailOf(call).id);
  await bytes(`/${anna.account.id}/emails/${emailOf(call).id}/source`);
  const lock = await anna.box.client.getMailboxLock('INBOX');
  const found = await anna.box.client.fetchOne(String(uid), { flags: true }, { uid: true });
  lock.release();
  expect(found && found.flags?.has('\\Seen')).toBe(false);
});

test('a conversation is one thread over both paths, oldest first, own answers included', async () => {
  const first = newMessageId();
  const own = newMessageId();
  const base = Date.now() - 3_600_000;
  const at = (minutes: number) => new Date(base + minutes * 60_000);
  // the answer arrives before what it answers
  await anna.box.append('INBOX', {
    ...{ subject: 'Re: Plan', messageId: newMessageId(), inReplyTo: own, references: `${first} ${own}` },
    date: at(10),
  });
  await anna.box.append('INBOX', { subject: 'Plan', messageId: first, date: at(0) });
  await anna.box.append('Sent', {
    ...{ subject: 'Re: Plan', from: anna.user.user, messageId: own, inReplyTo: first, references: first },
    date: at(5),
  });
  const sent = await anna.event('email.new', (one) => emailOf(one).message_id === own);
  expect(emailOf(sent)).toMatchObject({ is_echo: true, origin: 'external' });
  await anna.event('email.new', (one) => emailOf(one).message_id === first);
  await anna.settle();

  const email = await api.email(anna.account.id, emailOf(sent).id);
  const thread = await api.get<{ object: string; id: string; data: Email[]; has_more: boolean }>(
    `/${anna.account.id}/emails/${email.id}/thread`,
  );
  expect(thread).toMatchObject({ object: 'Thread', id: email.thread_id, has_more: false });
  expect(thread.data.map(({ subject, date }) => [subject, date])).toEqual([
    ['Plan', toDate(at(0))],
    ['Re: Plan', toDate(at(5))],
    ['Re: Plan', toDate(at(10))],
  ]);
  expect(await api.get(`/${anna.account.id}/threads/${thread.id}`)).toEqual(thread);
});

test('list, filters and search find what arrived, newest first, page by page', async () => {
  const carl = await connectUser(live);
  const base = Date.now() - 86_400_000;
  const mails = Array.from({ length: 7 }, (_, index) => ({
    subject: `Number ${index}`,
    text: index === 3 ? 'Das Café Überall liegt am Ufer' : 'nothing here',
    from: index === 4 ? 'Zoë <zoe@elsewhere.test>' : 'Ada Writer <ada@elsewhere.test>',
    date: new Date(base + index * 60_000),
    to: carl.user.user,
  }));
  for (const [index, mail] of mails.entries()) {
    await carl.box.append('INBOX', mail, { flags: index === 5 ? ['\\Seen'] : [] });
  }
  await carl.event('email.new', (one) => emailOf(one).subject === 'Number 6');
  const id = carl.account.id;
  const subjects = async (query: Record<string, string>) =>
    (await api.emails(id, query)).data.map(({ subject }) => subject);

  const pages: string[] = [];
  let cursor: string | null = null;
  do {
    const page = await api.emails(id, { limit: '3', ...(cursor === null ? {} : { cursor }) });
    pages.push(...page.data.map(({ subject }) => subject));
    cursor = page.cursor;
    expect(page.has_more).toBe(cursor !== null);
  } while (cursor !== null);
  expect(pages).toEqual([6, 5, 4, 3, 2, 1, 0].map((index) => `Number ${index}`));

  expect(await subjects({ q: 'CAFE' })).toEqual(['Number 3']);
  expect(await subjects({ q: 'fé über' })).toEqual(['Number 3']);
  expect(await subjects({ q: 'berlin' })).toEqual([]);
  expect(await subjects({ q: 'zoe' })).toEqual(['Number 4']);
  expect(await subjects({ from: 'zoe@elsewhere.test' })).toEqual(['Number 4']);
  expect(await subjects({ is_unread: 'false' })).toEqual(['Number 5']);
  expect(await subjects({ subject: 'number 2' })).toEqual(['Number 2']);
  expect(await subjects({ after: toDate(mails[5]?.date) })).toEqual(['Number 6']);
  expect(await subjects({ before: toDate(mails[1]?.date) })).toEqual(['Number 0']);
  const inbox = await api.folder(id, 'INBOX');
  expect(inbox).toMatchObject({ total_count: 7, unread_count: 6 });
  const inFolder = await api.get<{ data: Email[] }>(`/${id}/folders/${inbox.id}/emails?meta_only=true`);
  expect(inFolder.data.map(({ body, attachments }) => [body, attachments])).toEqual(Array(7).fill(['', []]));
  await carl.box.close();
});

test('contacts and senders come from the mail and the account', async () => {
  await anna.box.append('INBOX', { from: 'Nina New <nina@elsewhere.test>', to: anna.user.user, subject: 'hello' });
  await anna.event('email.new', (one) => emailOf(one).from_attendee.identifier === 'nina@elsewhere.test');
  const contacts = await api.get<{ data: { id: string }[] }>(`/${anna.account.id}/contacts?search=nina`);
  expect(contacts.data).toMatchObject([
    { object: 'Contact', id: 'nina@elsewhere.test', display_name: 'Nina New', emails: ['nina@elsewhere.test'] },
  ]);
  const all = await api.get<{ data: { id: string }[] }>(`/${anna.account.id}/contacts`);
  expect(all.data.map(({ id }) => id)).not.toContain(anna.user.user);
  expect(await api.get(`/${anna.account.id}/email-senders`)).toMatchObject({
    object: 'EmailSenders',
    data: [{ object: 'EmailSender', email: anna.user.user, is_primary: true, is_default: true }],
    has_more: false,
  });
});

test('a bounce made by Postfix is reported as email.new.bounce and as nothing else', async () => {
  const messageId = newMessageId();
  await submit(anna.user, 'missing.user@example.test', { subject: 'will come back', messageId });
  const call = await anna.event('email.new.bounce');
  expect(emailOf(call).bounce).toMatchObject({
    recipient: 'missing.user@example.test',
    action: 'failed',
    status: '5.1.1',
    message_id: messageId,
  });
  await anna.settle();
  expect(anna.events('email.new').filter((one) => emailOf(one).id === emailOf(call).id)).toEqual([]);
  expect(await api.email(anna.account.id, emailOf(call).id)).toEqual(emailOf(call));
});

test('a mailbox is connected over TLS on both sides', async () => {
  const { dovecot, postfix } = mailServers();
  const user = await addUser();
  const account = await api.post<Account>('/auth/intent', {
    provider: 'imap',
    credentials: {
      user: user.user,
      password: user.password,
      imap: { host: 'localhost', port: dovecot.imapsPort, encryption: 'ssl' },
      smtp: { host: 'localhost', port: postfix.submissionPort, encryption: 'STARTTLS' },
    },
  });
  expect(account.connection_params.mail).toMatchObject({ imap_encryption: 'SSL', smtp_encryption: 'STARTTLS' });
  await deliver(user.user, { subject: 'over TLS' });
  await live.receiver.waitFor(({ event }) => event.account_id === account.id && event.type === 'email.new');
});

test('the delivery log names every call, its attempts and its workflow', async () => {
  const { call } = await anna.receive('INBOX', 'logged');
  const log = await api.get<{ data: { id: string }[] }>(`/webhooks/conversations?event_id=${call.event.id}`);
  expect(log.data).toMatchObject([
    { id: call.headers['x-email-engine-delivery'], event_type: 'email.new', account_id: anna.account.id },
  ]);
  const read = () => api.get<{ status: string }>(`/webhooks/conversations/${log.data[0]?.id}`);
  // the result is stored after the response
  await waitFor(async () => (await read()).status !== 'pending', { what: 'the result of the call' });
  expect(await read()).toMatchObject({
    object: 'WebhookConversation',
    status: 'delivered',
    http_status: 200,
    attempts_count: 1,
    workflow_id: expect.stringMatching(/^deliver\//),
    payload: call.event,
    attempts: [{ number: 1, http_status: 200, error: null }],
  });
});

test('a refused call is repeated with the same ids and bytes', async () => {
  const receiver = await startReceiver();
  try {
    const endpoint = await api.listen(receiver, { types: ['email.new'], accounts: [anna.account.id] });
    receiver.answer = () => (receiver.calls.length === 0 ? 503 : 200);
    await anna.receive('INBOX', 'twice');
    await receiver.waitFor(({ event }) => emailOf({ event }).subject === 'twice');
    const [first, second] = receiver.calls;
    expect(receiver.calls.map(({ status }) => status)).toEqual([503, 200]);
    expect(first?.event.id).toBe(second?.event.id);
    expect(first?.body.equals(second?.body ?? Buffer.of())).toBe(true);
    expect(first?.headers['x-email-engine-delivery']).toBe(second?.headers['x-email-engine-delivery']);
    expect(receiver.faults).toEqual([]);
    await api.delete(`/webhooks/endpoints/${endpoint.id}`);
  } finally {
    await receiver.close();
  }
});

test('every call of this run had the documented signature and headers', () => {
  expect(live.receiver.calls.length).toBeGreaterThan(20);
  expect(live.receiver.faults).toEqual([]);
});

async function bytes(path: string, headers: Record<string, string> = {}) {
  const response = await api.request('GET', path, undefined, headers);
  return { status: response.status, headers: response.headers, body: Buffer.from(await response.arrayBuffer()) };
}

/** A time as a mail's Date header shows it: whole seconds. */
function toDate(date: Date | undefined): string {
  return new Date(Math.floor((date?.getTime() ?? 0) / 1000) * 1000).toISOString();
}
