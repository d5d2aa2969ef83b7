import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Email } from '../../src/contract/email.ts';
import { emailOf } from '../helpers/fakes/receiver.ts';
import { type ConnectedUser, connectUser, type Live, joinLive } from '../helpers/product/live.ts';
import { mailText } from '../helpers/product/mail-text.ts';
import { deliver } from '../helpers/product/mailbox.ts';

/** What a mail says of its sender and its list, delivered by Postfix and Dovecot, which add no Authentication-Results. */

let live: Live;
let ivo: ConnectedUser;

beforeAll(async () => {
  live = await joinLive();
  ivo = await connectUser(live);
}, 120_000);
afterAll(() => live?.close());

const results = (id: string) => `Authentication-Results: ${id}; spf=pass; dmarc=pass header.from=bank.test`;
const mail = (subject: string) =>
  mailText({
    ...{ from: 'Bank <service@bank.test>', to: ivo.user.user, subject },
    headers: { 'List-Id': '<News.bank.test>', 'List-Unsubscribe': '<https://bank.test/u>' },
  });
const withFields = (fields: string[], subject: string) =>
  Buffer.concat([Buffer.from(`${fields.join('\r\n')}\r\n`), mail(subject)]);
const arrived = async (subject: string) =>
  emailOf(await ivo.event('email.new', (call) => emailOf(call).subject === subject));
const found = async (query: string) =>
  (await live.api.get<{ data: Email[] }>(`/${ivo.account.id}/emails?${query}`)).data.map(({ subject }) => subject);

const PASS = { spf: 'pass', dkim: null, dmarc: 'pass', from_aligned: true };

test('what the sender writes is not believed; what stands above every Received is', async () => {
  await deliver(ivo.user.user, withFields([results('localhost'), results('mx.test')], 'forged'));
  const forged = await arrived('forged');
  expect(forged.headers.map(({ name }) => name)).toContain('Authentication-Results');
  expect(forged.authentication).toBeNull();

  await ivo.box.append('INBOX', withFields([results('mx.test'), 'Received: by mx.test'], 'judged'));
  const judged = await arrived('judged');
  expect(judged.authentication).toEqual(PASS);
  expect(await live.api.email(ivo.account.id, judged.id)).toEqual(judged);
  expect(await found('from_aligned=true&dmarc=pass')).toEqual(['judged']);
});

test('with the authserv-id of the account its topmost result is believed, from the next mail on', async () => {
  await live.api.patch(`/accounts/${ivo.account.id}`, { authserv_id: 'mx.test' });
  await deliver(ivo.user.user, withFields([results('mx.test')], 'configured'));
  expect((await arrived('configured')).authentication).toEqual(PASS);
  await deliver(ivo.user.user, withFields([results('mx2.test')], 'foreign'));
  expect((await arrived('foreign')).authentication).toBeNull();
});

test('mail of a list says how to leave it, and is found by its id', async () => {
  await deliver(ivo.user.user, mail('news'));
  const { list } = await arrived('news');
  expect(list).toEqual({ id: 'news.bank.test', unsubscribe: ['https://bank.test/u'], unsubscribe_post: false });
  expect(await found('list_id=news.bank.test')).toContain('news');
});
