import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { Contact } from '../../src/contract/contact.ts';
import type { Email } from '../../src/contract/email.ts';
import { ApiFailure } from '../helpers/product/api.ts';
import { brief, type ConnectedUser, connectUser, type Live, joinLive, typesOf } from '../helpers/product/live.ts';
import { kick } from '../helpers/product/mail-user.ts';
import { openMailbox } from '../helpers/product/mailbox.ts';
import { newMessageId } from '../helpers/product/mail-text.ts';
import { emailOf } from '../helpers/fakes/receiver.ts';
import { startTcpProxy } from '../helpers/fakes/tcp-proxy.ts';

/** Changes that the user makes in other mail programs: each is one event, under the same id. */

let live: Live;
let eve: ConnectedUser;

beforeAll(async () => {
  live = await joinLive();
}, 120_000);

afterAll(() => live?.close());

beforeEach(async () => {
  eve = await connectUser(live, {
    before: async (box) => {
      for (const subject of ['old 1', 'old 2', 'old 3']) await box.append('INBOX', { subject });
      await box.append('Drafts', { subject: 'old draft' }, { flags: ['\\Draft'] });
    },
  });
});

afterEach(() => eve.box.close());

const folderId = async (nameOrRole: string) => (await live.api.folder(eve.account.id, nameOrRole)).id;

async function expectGone(email: Email): Promise<void> {
  await expect(live.api.email(email.account_id, email.id)).rejects.toBeInstanceOf(ApiFailure);
}

test('reading and unreading are events of type email.update, and the folder counts follow', async () => {
  const { uid, call } = await eve.receive('INBOX', 'flags');
  await eve.settle();
  const { id } = emailOf(call);
  await eve.box.addFlags('INBOX', uid, ['\\Seen']);
  const read = await eve.event('email.update', (one) => emailOf(one).id === id);
  expect(emailOf(read)).toEqual({ ...emailOf(call), is_unread: false });
  expect(await live.api.email(eve.account.id, id)).toEqual(emailOf(read));
  await eve.box.removeFlags('INBOX', uid, ['\\Seen']);
  await eve.event('email.update', (one) => emailOf(one).id === id && emailOf(one).is_unread);
  expect(typesOf(await eve.settle())).toEqual(['email.update', 'email.update']);
});

test('a flag that the API does not show causes no event', async () => {
  const { uid } = await eve.receive('INBOX', 'flagged');
  await eve.settle();
  await eve.box.addFlags('INBOX', uid, ['\\Draft']);
  expect(brief(await eve.settle())).toEqual([]);
});

test('stars, answers and keywords are events, and the API changes and finds them', async () => {
  const { uid, call } = await eve.receive('INBOX', 'labelled');
  const { id } = emailOf(call);
  await eve.settle();
  await eve.box.addFlags('INBOX', uid, ['\\Answered', '\\Flagged', '$Forwarded', 'Project-X']);
  const shown = await eve.event('email.update', (one) => emailOf(one).id === id);
  const flags = { is_starred: true, is_answered: true, is_forwarded: true, keywords: ['$forwarded', 'project-x'] };
  expect(emailOf(shown)).toEqual({ ...emailOf(call), ...flags });
  expect(await live.api.email(eve.account.id, id)).toEqual(emailOf(shown));
  await eve.settle();

  const path = `/${eve.account.id}/emails/${id}`;
  const body = { is_unread: false, is_starred: false, keywords: { add: ['Later'], remove: ['PROJECT-X'] } };
  const changed = await (await live.api.request('PATCH', path, body)).json();
  const now = { ...flags, is_unread: false, is_starred: false, keywords: ['$forwarded', 'later'] };
  expect(changed).toEqual({ ...emailOf(shown), ...now });
  expect(typesOf(await eve.settle())).toEqual(['email.update']);
  const found = async (query: string) =>
    (await live.api.get<{ data: Email[] }>(`/${eve.account.id}/emails?${query}`)).data.map((email) => email.id);
  expect(await found('keyword=LATER,$forwarded&is_answered=true')).toEqual([id]);
  expect(await found('is_starred=true')).toEqual([]);

  const archive = await folderId('ARCHIVE');
  const moved = await live.api.request('PATCH', path, { is_starred: true, folders_ids: [archive] });
  expect(await moved.json()).toEqual({ ...(changed as Email), is_starred: true, folders: [archive] });
  await eve.settle('Archive');
  expect(await live.api.email(eve.account.id, id)).toMatchObject({
    is_starred: true,
    keywords: ['$forwarded', 'later'],
  });
});

test('a move keeps the id and is one event, there and back', async () => {
  const { uid, call } = await eve.receive('INBOX', 'goes places');
  const { id } = emailOf(call);
  await eve.settle();
  await eve.box.move('INBOX', uid, 'Archive');
  const archive = await folderId('ARCHIVE');
  const there = await eve.event('email.update', (one) => emailOf(one).folders[0] === archive);
  expect(emailOf(there)).toEqual({ ...emailOf(call), folders: [archive] });
  expect(typesOf(await eve.settle('Archive'))).toEqual(['email.update']);

  const [back] = await eve.box.uids('Archive');
  await eve.box.move('Archive', back ?? 0, 'INBOX');
  const inbox = await folderId('INBOX');
  await eve.event('email.update', (one) => emailOf(one).folders[0] === inbox);
  expect(typesOf(await eve.settle())).toEqual(['email.update']);
  expect((await live.api.email(eve.account.id, id)).folders).toEqual([inbox]);
});

test('the move of a client without MOVE (copy, then delete) is one move too', async () => {
  const { uid, call } = await eve.receive('INBOX', 'copied and deleted');
  await eve.settle();
  const lock = await eve.box.client.getMailboxLock('INBOX');
  await eve.box.client.messageCopy(String(uid), 'Archive', { uid: true });
  await eve.box.client.messageDelete(String(uid), { uid: true });
  lock.release();
  const archive = await folderId('ARCHIVE');
  await eve.event('email.update', (one) => emailOf(one).id === emailOf(call).id && emailOf(one).folders[0] === archive);
  await eve.settle('Archive');
  await eve.settle();
  expect(typesOf(eve.events('email.new').filter((one) => emailOf(one).subject === 'copied and deleted'))).toHaveLength(
    1,
  );
  expect(eve.events('email.delete')).toEqual([]);
});

test('to the trash is an update, a permanent removal from it a delete', async () => {
  const { uid, call } = await eve.receive('INBOX', 'rubbish');
  await eve.settle();
  await eve.box.move('INBOX', uid, 'Trash');
  const trash = await folderId('TRASH');
  await eve.event('email.update', (one) => emailOf(one).folders[0] === trash);
  await eve.box.expunge('Trash', await eve.box.uids('Trash'));
  const gone = await eve.event('email.delete');
  expect(emailOf(gone)).toMatchObject({ id: emailOf(call).id, subject: 'rubbish' });
  expect(typesOf(await eve.settle('Trash'))).toEqual(['email.update', 'email.delete']);
  await expectGone(emailOf(call));
});

test('a person is a contact as long as their mail exists', async () => {
  const contacts = async () =>
    (await live.api.get<{ data: Contact[] }>(`/${eve.account.id}/contacts?search=zoe`)).data.map(
      ({ id, display_name }) => `${display_name} ${id}`,
    );
  const [first = 0, second = 0] = [
    await eve.box.append('INBOX', {
      subject: 'one',
      from: 'Zoe <zoe@elsewhere.test>',
      date: new Date(Date.now() - 9e6),
    }),
    await eve.box.append('INBOX', { subject: 'two', from: 'Zoë Z. <ZOE@elsewhere.test>' }),
  ];
  await eve.event('email.new', (call) => emailOf(call).subject === 'two');
  expect(await contacts()).toEqual(['Zoë Z. zoe@elsewhere.test']);
  await eve.box.expunge('INBOX', second);
  await eve.event('email.delete', (call) => emailOf(call).subject === 'two');
  expect(await contacts()).toEqual(['Zoe zoe@elsewhere.test']);
  await eve.box.expunge('INBOX', first);
  await eve.event('email.delete', (call) => emailOf(call).subject === 'one');
  expect(await contacts()).toEqual([]);
});

test('mail from before connecting is not stored, and its changes cause no events', async () => {
  const [seen, moved, deleted] = await eve.box.uids('INBOX');
  await eve.box.addFlags('INBOX', seen ?? 0, ['\\Seen']);
  await eve.box.move('INBOX', moved ?? 0, 'Archive');
  await eve.box.expunge('INBOX', deleted ?? 0);
  expect(brief(await eve.settle())).toEqual([]);
  expect(brief(await eve.settle('Archive'))).toEqual([]);
  const all = await live.api.emails(eve.account.id);
  expect(all.data.map(({ subject }) => subject)).toEqual(['a mark', 'a mark']);
});

test('a mail that another program files immediately is one new mail there', async () => {
  const messageId = newMessageId();
  const uid = await eve.box.append('INBOX', { subject: 'filed', messageId });
  await eve.box.move('INBOX', uid, 'Archive');
  await eve.event('email.new', (one) => emailOf(one).message_id === messageId);
  await eve.settle('Archive');
  await eve.settle();
  const calls = eve.events('email.new', 'email.update', 'email.delete');
  const types = typesOf(calls.filter((call) => emailOf(call).message_id === messageId));
  expect(types.filter((type) => type === 'email.new')).toHaveLength(1);
  expect(types).not.toContain('email.delete');
  const [email] = (await live.api.emails(eve.account.id, { message_id: messageId })).data;
  expect(email?.folders).toEqual([await folderId('ARCHIVE')]);
});

test('a draft of another program is reported, listed, edited and sent', async () => {
  const messageId = newMessageId();
  const uid = await eve.box.append(
    'Drafts',
    { subject: 'Draft 1', from: eve.user.user, messageId },
    { flags: ['\\Draft'] },
  );
  const first = await eve.event('email.draft.new');
  expect(emailOf(first)).toMatchObject({
    object: 'Draft',
    subject: 'Draft 1',
    draft_id: expect.stringMatching(/^drf_/),
  });
  const drafts = await live.api.get<{ object: string; data: Email[] }>(`/${eve.account.id}/drafts`);
  expect(drafts).toMatchObject({
    object: 'Drafts',
    data: [{ id: emailOf(first).id, draft_id: emailOf(first).draft_id }],
  });
  const one = await live.api.get<Email>(`/${eve.account.id}/drafts/${emailOf(first).draft_id}`);
  expect(one).toMatchObject({ id: emailOf(first).id, subject: 'Draft 1' });
  expect((await live.api.emails(eve.account.id)).data).toEqual([]);

  // mail programs save an edited draft as a new message and remove the old one
  await eve.box.append(
    'Drafts',
    { subject: 'Draft 2', from: eve.user.user, messageId: newMessageId() },
    { flags: ['\\Draft'] },
  );
  await eve.box.expunge('Drafts', uid);
  const second = await eve.event('email.draft.new', (call) => emailOf(call).subject === 'Draft 2');
  expect(emailOf(await eve.event('email.draft.delete')).draft_id).toBe(emailOf(first).draft_id);

  const left = await eve.box.uids('Drafts');
  await eve.box.expunge('Drafts', left.at(-1) ?? 0);
  await eve.box.append('Sent', { subject: 'Draft 2', from: eve.user.user }, { flags: ['\\Seen'] });
  await eve.event('email.draft.delete', (call) => emailOf(call).draft_id === emailOf(second).draft_id);
  const sent = await eve.event('email.new', (call) => emailOf(call).subject === 'Draft 2');
  expect(emailOf(sent)).toMatchObject({
    object: 'Email',
    is_echo: true,
    origin: 'external',
    folders: [await folderId('SENT')],
  });
  expect(typesOf(await eve.settle()).sort()).toEqual([
    'email.draft.delete',
    'email.draft.delete',
    'email.draft.new',
    'email.draft.new',
    'email.new',
  ]);
});

test('sessions ended by the server lose nothing', async () => {
  const { uid, call } = await eve.receive('INBOX', 'before the kick');
  await eve.settle();
  await kick(eve.user);
  eve.box = await openMailbox(eve.user);
  await eve.box.append('INBOX', { subject: 'after the kick' });
  await eve.box.addFlags('INBOX', uid, ['\\Seen']);
  await eve.event('email.new', (one) => emailOf(one).subject === 'after the kick', { timeoutMs: 20_000 });
  await eve.event('email.update', (one) => emailOf(one).id === emailOf(call).id);
  expect(typesOf(await eve.settle()).sort()).toEqual(['email.new', 'email.update']);
}, 45_000);

test('changes during a network failure are reported once afterwards, with the same ids', async () => {
  const proxy = await startTcpProxy(eve.user.dovecot.imapPort);
  const far = await connectUser(live, { imapPort: proxy.port });
  const moved = await far.receive('INBOX', 'moved offline');
  const removed = await far.receive('INBOX', 'deleted offline');
  const read = await far.receive('INBOX', 'read offline');
  await far.settle();
  proxy.cut();
  await far.box.move('INBOX', moved.uid, 'Archive');
  await far.box.expunge('INBOX', removed.uid);
  await far.box.addFlags('INBOX', read.uid, ['\\Seen']);
  await far.box.append('INBOX', { subject: 'arrived offline' });
  await far.event('account.status.errored', undefined, { timeoutMs: 75_000 });
  expect((await live.api.get<{ status: string }>(`/accounts/${far.account.id}`)).status).toBe('errored');
  expect(await live.api.email(far.account.id, emailOf(moved.call).id)).toEqual(emailOf(moved.call));

  proxy.restore();
  const back = await far.event('account.status.running', undefined, { timeoutMs: 60_000 });
  expect(back.event.data).toMatchObject({ status: 'running', previous_status: 'errored' });
  await far.event('email.new', (one) => emailOf(one).subject === 'arrived offline');
  const since = [...(await far.settle('Archive')), ...(await far.settle())];
  expect(brief(since)).toEqual([
    'email.delete deleted offline',
    'email.new arrived offline',
    'email.update moved offline',
    'email.update read offline',
  ]);
  const now = await live.api.email(far.account.id, emailOf(moved.call).id);
  expect(now.folders).toEqual([(await live.api.folder(far.account.id, 'ARCHIVE')).id]);
  await far.box.close();
  await proxy.close();
}, 180_000);
