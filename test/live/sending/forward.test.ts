import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Email } from '../../../src/contract/email.ts';
import type { DraftResult, EmailSent } from '../../../src/contract/sending.ts';
import { type ConnectedUser, connectUser, type Live, joinLive } from '../../helpers/product/live.ts';
import { doveadm } from '../../helpers/product/mail-user.ts';
import { deliver } from '../../helpers/product/mailbox.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';

/** Forwarding on Dovecot and Postfix: what the reader gets, and what the mailbox says of the original. */

let live: Live;
let anna: ConnectedUser;
let bea: ConnectedUser;

beforeAll(async () => {
  live = await joinLive();
  [anna, bea] = await Promise.all([connectUser(live), connectUser(live)]);
}, 120_000);
afterAll(() => live?.close());

const PNG = Buffer.from('PNG');
const HTML = '<p>Our <b>prices</b></p><img src="cid:logo@shop.test">';
const path = (rest: string) => `/${anna.account.id}${rest}`;
const header = (email: Email, name: string) => email.headers.find((one) => one.name.toLowerCase() === name)?.value;

async function original(subject: string): Promise<Email> {
  await deliver(anna.user.user, {
    ...{ from: 'Shop <sales@shop.test>', to: anna.user.user, subject, html: HTML, references: '<older@shop.test>' },
    attachments: [
      { name: 'logo.png', type: 'image/png', content: PNG, cid: 'logo@shop.test' },
      { name: 'prices.pdf', type: 'application/pdf', content: Buffer.from('PDF') },
    ],
  });
  return emailOf(await anna.event('email.new', (call) => emailOf(call).subject === subject));
}

const received = async (messageId: string) =>
  emailOf(await bea.event('email.new', (call) => emailOf(call).message_id === messageId));
const markedAsForwarded = (id: string) =>
  anna.event('email.update', (call) => emailOf(call).id === id && emailOf(call).is_forwarded === true);
async function fileOf({ account_id, id, attachments }: Email, name: string): Promise<string> {
  const attachment = attachments.find((one) => one.name === name);
  return (await live.api.request('GET', `/${account_id}/emails/${id}/attachments/${attachment?.id}`)).text();
}

test('an email is forwarded with its text, its files and its conversation, and marked as forwarded', async () => {
  const from = await original('Prices');
  const note = { to: [{ email: bea.user.user }], html: '<p>Have a look.</p>' };
  const sent = await live.api.post<EmailSent>(path('/emails/send'), { ...note, forward_message_id: from.id });
  const email = await received(sent.message_id);
  expect(email.subject).toBe('Fwd: Prices');
  expect(email.body).toMatch(
    /^<p>Have a look\.<\/p>[^]*<b>From:<\/b> Shop &lt;sales@shop.test&gt;[^]*Our <b>prices<\/b>/,
  );
  expect(email.body_plain).toMatch(/Have a look\.[^]*Forwarded message[^]*From: Shop <sales@shop.test>[^]*Our prices/);
  expect(email.body_new).toContain('Have a look.');
  expect(email.body_new).not.toContain('prices');
  expect(await fileOf(email, 'prices.pdf')).toBe('PDF');
  expect(email.attachments.find(({ name }) => name === 'logo.png')).toMatchObject({
    cid: 'logo@shop.test',
    mime: 'image/png',
  });
  expect(header(email, 'references')).toBe(`<older@shop.test> ${from.message_id}`);
  expect(header(email, 'in-reply-to')).toBe(from.message_id);
  await markedAsForwarded(from.id);
  expect(await doveadm(anna.user, 'fetch', '-u', anna.user.user, 'flags', 'subject', 'Prices')).toContain('$Forwarded');
  expect((await live.api.email(anna.account.id, sent.id)).thread_id).toBe(from.thread_id);
});

test('an email is forwarded as a file, unchanged', async () => {
  const from = await original('Terms');
  const raw = await (await live.api.request('GET', path(`/emails/${from.id}/source`))).text();
  const sent = await live.api.post<EmailSent>(path('/emails/send'), {
    to: [{ email: bea.user.user }],
    subject: 'For your files',
    plain_text: 'Attached.',
    forward_message_id: from.message_id,
    forward_as: 'attachment',
  });
  const email = await received(sent.message_id);
  expect(email).toMatchObject({
    subject: 'For your files',
    attachments: [{ name: 'Terms.eml', mime: 'message/rfc822' }],
  });
  expect(await fileOf(email, 'Terms.eml')).toBe(raw);
  await markedAsForwarded(from.id);
});

test('a draft that forwards keeps it when it is changed, and marks the original once it is sent', async () => {
  const from = await original('Dates');
  const draft = await live.api.post<DraftResult>(path('/drafts'), { plain_text: 'first', forward_message_id: from.id });
  const { id } = await live.api.patch<DraftResult>(path(`/drafts/${draft.id}`), { to: [{ email: bea.user.user }] });
  expect((await live.api.email(anna.account.id, from.id)).is_forwarded).toBe(false);
  await live.api.post(path(`/drafts/${id}/send`));
  const email = emailOf(await bea.event('email.new', (call) => emailOf(call).subject === 'Fwd: Dates'));
  expect(email.body_plain).toMatch(/^first[^]*Our prices/);
  expect(email.attachments.map(({ name }) => name).sort()).toEqual(['logo.png', 'prices.pdf']);
  await markedAsForwarded(from.id);
});

test('stored files are attached by their ids, to a draft too, and only those of the account', async () => {
  const { id, attachments } = await original('Files');
  const pdf = { email_id: id, attachment_id: attachments.find(({ name }) => name === 'prices.pdf')?.id };
  const own = { content: Buffer.from('mine').toString('base64'), filename: 'mine.txt' };
  const body = { to: [{ email: bea.user.user }], html: '<img src="cid:a">' };
  const inline = { ...pdf, attachment_id: attachments.find(({ name }) => name === 'logo.png')?.id, cid: 'a' };
  const files = [own, pdf, { ...inline, filename: 'new.png' }];
  const sent = await live.api.post<EmailSent>(path('/emails/send'), { ...body, attachments: files });
  const email = await received(sent.message_id);
  expect(email.attachments.map(({ name, mime, cid }) => [name, mime, cid]).sort()).toEqual([
    ['mine.txt', 'text/plain', null],
    ['new.png', 'image/png', 'a'],
    ['prices.pdf', 'application/pdf', null],
  ]);
  expect(await fileOf(email, 'prices.pdf')).toBe('PDF');
  expect(await fileOf(email, 'new.png')).toBe(String(PNG));

  const draft = await live.api.post<DraftResult>(path('/drafts'), { ...body, subject: 'Filed', attachments: [own] });
  const { id: draftId } = await live.api.patch<DraftResult>(path(`/drafts/${draft.id}`), { attachments: [pdf] });
  await live.api.post(path(`/drafts/${draftId}/send`));
  const filed = emailOf(await bea.event('email.new', (call) => emailOf(call).subject === 'Filed'));
  expect(await fileOf(filed, 'prices.pdf')).toBe('PDF');
  expect(filed.attachments).toHaveLength(1);

  const foreign = { email_id: filed.id, attachment_id: filed.attachments[0]?.id };
  for (const wrong of [foreign, { ...pdf, email_id: sent.id }]) {
    const answer = await live.api.request('POST', path('/emails/send'), { ...body, attachments: [own, wrong] });
    const { detail } = (await answer.json()) as { detail: string };
    expect([answer.status, detail]).toEqual([400, 'attachments.1.attachment_id does not name a file of this email']);
  }
});

test('what is not stored cannot be forwarded', async () => {
  const body = { to: [{ email: bea.user.user }], forward_message_id: '<unknown@shop.test>' };
  const answer = await live.api.request('POST', path('/emails/send'), body);
  expect([answer.status, ((await answer.json()) as { detail: string }).detail]).toEqual([
    404,
    'forward_message_id is not an email of this account',
  ]);
});
