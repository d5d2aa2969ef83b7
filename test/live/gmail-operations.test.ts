import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { Email } from '../../src/contract/email.ts';
import type { Folder } from '../../src/contract/folder.ts';
import { FakeGmail } from '../helpers/fakes/fake-gmail.ts';
import { type Connected, connectLogin, type Live, joinLive, typesOf } from '../helpers/product/live.ts';
import { addUser } from '../helpers/product/mail-user.ts';
import { mailText, newMessageId } from '../helpers/product/mail-text.ts';
import { emailOf } from '../helpers/fakes/receiver.ts';

/** Email operations on a mailbox whose folders are labels, with one copy of each mail in All Mail. */

const ALL = '[Gmail]/All Mail';
const SENT = '[Gmail]/Sent Mail';
const TRASH = '[Gmail]/Trash';

let live: Live;
let gmail: FakeGmail;
let eve: Connected;

beforeAll(async () => {
  live = await joinLive({ SYNC_POLL_INTERVAL: '1s' });
}, 120_000);
afterAll(() => live?.close());

beforeEach(async () => {
  gmail = new FakeGmail();
  await gmail.listen();
  const user = await addUser();
  eve = await connectLogin(live, { ...user, imapPort: gmail.port });
});
afterEach(async () => {
  await eve.box.close();
  await live.api.delete(`/accounts/${eve.account.id}`);
  await gmail.close();
});

async function receive(subject: string): Promise<{ email: Email; labels: () => string[] }> {
  const messageId = newMessageId();
  gmail.deliver(mailText({ subject, messageId }));
  const email = emailOf(await eve.event('email.new', (call) => emailOf(call).message_id === messageId));
  const emailId = gmail.folder(ALL).messages.find(({ source }) => source.includes(messageId))?.emailId as string;
  await eve.settle();
  return { email, labels: () => gmail.labelsOf(emailId) };
}

const folderId = async (nameOrRole: string) => (await live.api.folder(eve.account.id, nameOrRole)).id;
const move = async ({ id }: Email, to: string) =>
  live.api.post<Email>(`/${eve.account.id}/emails/${id}/modify`, { folders_ids: [await folderId(to)] });

test('a flag belongs to the mail, regardless of its labels', async () => {
  const { email, labels } = await receive('flagged');
  expect(labels()).toEqual(['INBOX', ALL]);
  const read = await live.api.post<Email>(`/${eve.account.id}/emails/${email.id}/read`);
  expect(read).toEqual({ ...email, is_unread: false });
  for (const path of ['INBOX', ALL]) {
    const [message] = gmail.folder(path).messages.filter(({ source }) => source.includes(email.message_id ?? ''));
    expect([...(message?.flags ?? [])]).toEqual(['\\Seen']);
  }
  expect(typesOf(await eve.settle())).toEqual(['email.update']);
});

test('a move changes labels: All Mail keeps the mail, other labels go', async () => {
  const { email, labels } = await receive('labelled');
  expect((await move(email, 'Work')).folders).toEqual([await folderId('Work')]);
  expect(labels()).toEqual(['Work', ALL].sort());
  expect(typesOf(await eve.settle())).toEqual(['email.update']);
  const later = await live.api.post<Folder>(`/${eve.account.id}/folders`, { name: 'Later' });
  await eve.box.client.getMailboxLock('Work').then(async (lock) => {
    await eve.box.client.messageCopy('1', 'INBOX', { uid: true });
    lock.release();
  });
  await eve.event('email.update', (call) => emailOf(call).folders.length === 2);
  await eve.settle();
  expect((await move(email, 'Later')).folders).toEqual([later.id]);
  expect(labels()).toEqual(['Later', ALL].sort());
  expect(typesOf(await eve.settle())).toEqual(['email.update']);
});

test('mail to oneself that is moved stays in Sent, and the call and its event say so', async () => {
  const messageId = newMessageId();
  const sentId = gmail.deliverSent(mailText({ subject: 'to myself', messageId }));
  const sent = gmail.folder(SENT);
  gmail.copy(sent, sent.messages[0]!, gmail.folder('INBOX'));
  gmail.tell();
  const { id } = emailOf(await eve.event('email.new', (call) => emailOf(call).message_id === messageId));
  await eve.settle();
  const email = await live.api.email(eve.account.id, id);
  expect(email.folders).toHaveLength(2);
  const folders = [await folderId('SENT'), await folderId('Work')].sort();
  expect((await move(email, 'Work')).folders).toEqual(folders);
  expect(gmail.labelsOf(sentId)).toEqual([ALL, SENT, 'Work'].sort());
  const [call, ...others] = await eve.settle();
  expect([emailOf(call!).folders, others]).toEqual([folders, []]);
  const marked = 'select 1 from locations where email_id = $1 and pending_removal_since is not null';
  expect((await live.pool.query(marked, [id])).rows).toEqual([]);
});

test('from All Mail alone a move adds the label', async () => {
  const { email, labels } = await receive('archived');
  await eve.box.expunge('INBOX', await eve.box.uids('INBOX'));
  await eve.event('email.update', (call) => emailOf(call).id === email.id);
  await eve.settle();
  expect(labels()).toEqual([ALL]);
  expect((await move(email, 'Work')).folders).toEqual([await folderId('Work')]);
  expect(labels()).toEqual(['Work', ALL].sort());
  expect(typesOf(await eve.settle())).toEqual(['email.update']);
  await expect(move(email, 'ALL')).rejects.toMatchObject({ status: 422 });
});

test('the trash takes a mail out of everything else, and a label brings it back', async () => {
  const { email, labels } = await receive('rubbish');
  await live.api.delete(`/${eve.account.id}/emails/${email.id}`);
  expect(labels()).toEqual([TRASH]);
  expect(await live.api.email(eve.account.id, email.id)).toMatchObject({ folders: [await folderId('TRASH')] });
  expect(typesOf(await eve.settle())).toEqual(['email.update']);
  expect((await move(email, 'INBOX')).folders).toEqual([await folderId('INBOX')]);
  expect(labels()).toEqual(['INBOX', ALL]);
  expect(typesOf(await eve.settle())).toEqual(['email.update']);
});

test('deleting a label keeps mail with another label, and moves the rest to Trash', async () => {
  const [both, alone] = [await receive('both'), await receive('alone')];
  await move(alone.email, 'Work');
  await eve.box.client.getMailboxLock('INBOX').then(async (lock) => {
    const found = (await eve.box.client.search({ subject: 'both' }, { uid: true })) || [];
    await eve.box.client.messageCopy(found, 'Work', { uid: true });
    lock.release();
  });
  await eve.event('email.update', (call) => emailOf(call).folders.length === 2);
  await eve.settle();
  const work = await folderId('Work');
  expect((await live.api.request('DELETE', `/${eve.account.id}/folders/${work}`)).status).toBe(204);
  expect(both.labels()).toEqual(['INBOX', ALL]);
  expect(alone.labels()).toEqual([TRASH]);
  expect(await live.api.email(eve.account.id, both.email.id)).toMatchObject({ folders: [await folderId('INBOX')] });
  expect(await live.api.email(eve.account.id, alone.email.id)).toMatchObject({ folders: [await folderId('TRASH')] });
  const types = typesOf(await eve.settle());
  expect(types.sort()).toEqual(['email.folder.delete', 'email.update', 'email.update']);
});
