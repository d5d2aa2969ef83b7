import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Email } from '../../../src/contract/email.ts';
import type { DraftResult, DraftSent, EmailSent } from '../../../src/contract/sending.ts';
import { ApiFailure } from '../../helpers/product/api.ts';
import { type ConnectedUser, connectUser, type Live, joinLive, typesOf } from '../../helpers/product/live.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Sending and drafts on Dovecot and Postfix, seen by mail programs of both sides. */

let live: Live;
let anna: ConnectedUser;
let bea: ConnectedUser;

beforeAll(async () => {
  live = await joinLive();
  [anna, bea] = await Promise.all([connectUser(live, { name: 'Anna Ärger' }), connectUser(live)]);
}, 120_000);

afterAll(async () => {
  await live?.close();
});

const path = (rest: string, of = anna) => `/${of.account.id}${rest}`;
const send = (body: unknown, headers: Record<string, string> = {}) =>
  live.api.request('POST', path('/emails/send'), body, headers);
async function sent(body: unknown): Promise<EmailSent> {
  return live.api.post<EmailSent>(path('/emails/send'), body);
}
const folderOf = async (role: string, of = anna) =>
  (await live.api.folders(of.account.id)).find((folder) => folder.role === role);

describe('sending', () => {
  test('a mail is delivered once; its copy is in Sent under the returned id, with one event', async () => {
    const answer = await sent({
      to: [{ email: bea.user.user, display_name: 'Bea Béla' }],
      subject: 'Grüße 🌍',
      html: '<p>Hallo <b>Bea</b></p>',
      metadata: 'order 7',
      attachments: [{ content: Buffer.from('Rechnung').toString('base64'), filename: 'Rechnung März.txt' }],
    });
    expect(answer).toEqual({
      object: 'EmailSent',
      id: expect.stringMatching(/^email_/),
      account_id: anna.account.id,
      message_id: expect.stringMatching(/^<[^<>\s]+@[^<>\s]+>$/),
      tracking_id: null,
    });
    const soon = await live.api.email(anna.account.id, answer.id);
    expect(soon).toMatchObject({
      id: answer.id,
      subject: 'Grüße 🌍',
      origin: 'api',
      is_echo: true,
      has_attachments: true,
    });

    const reported = await anna.event('email.new', (call) => emailOf(call).id === answer.id);
    const copy = emailOf(reported);
    const sentFolder = await folderOf('SENT');
    expect(copy).toMatchObject({
      message_id: answer.message_id,
      folders: [sentFolder?.id],
      origin: 'api',
      is_echo: true,
      is_unread: false,
      sent_by: { api_key_id: expect.stringMatching(/^pk_/), api_key_name: expect.any(String), metadata: 'order 7' },
      to_attendees: [{ identifier: bea.user.user, display_name: 'Bea Béla', identifier_type: 'EMAIL_ADDRESS' }],
      from_attendee: { identifier: anna.user.user, display_name: 'Anna Ärger', identifier_type: 'EMAIL_ADDRESS' },
      thread_id: soon.thread_id,
    });
    expect(copy.attachments.map(({ id }) => id)).toEqual(soon.attachments.map(({ id }) => id));
    expect(await live.api.email(anna.account.id, answer.id)).toEqual(copy);
    expect(copy.body_plain).toContain('Hallo');
    expect(JSON.stringify(copy.headers)).not.toContain('order 7');

    const received = await bea.event('email.new', (call) => emailOf(call).message_id === answer.message_id);
    expect(emailOf(received)).toMatchObject({ subject: 'Grüße 🌍', origin: 'external', is_echo: false });
    expect(await anna.box.uids('Sent')).toHaveLength(1);
    expect(typesOf(await anna.settle())).toEqual(['email.new']);
  });

  test('mail that the owner sends to the same mailbox is a copy in Sent and one in INBOX', async () => {
    const answer = await sent({ to: [{ email: anna.user.user }], subject: 'to myself', plain_text: 'note' });
    const copy = await anna.event('email.new', (call) => emailOf(call).id === answer.id);
    const received = await anna.event(
      'email.new',
      (call) => emailOf(call).message_id === answer.message_id && emailOf(call).id !== answer.id,
    );
    expect(emailOf(copy)).toMatchObject({ origin: 'api', folders: [(await folderOf('SENT'))?.id] });
    expect(emailOf(received)).toMatchObject({
      origin: 'external',
      is_echo: true,
      folders: [(await folderOf('INBOX'))?.id],
    });
    expect(emailOf(received).thread_id).toBe(emailOf(copy).thread_id);
    expect(typesOf(await anna.settle())).toEqual(['email.new', 'email.new']);
  });

  test('a reply carries the whole chain, and only the Sent copy has Bcc', async () => {
    const first = await sent({ to: [{ email: bea.user.user }], subject: 'first', plain_text: 'a' });
    const received = emailOf(await bea.event('email.new', (call) => emailOf(call).message_id === first.message_id));
    const reply = await live.api.post<EmailSent>(path('/emails/send', bea), {
      to: [{ email: anna.user.user }],
      bcc: [{ email: bea.user.user }],
      subject: 'Re: first',
      plain_text: 'b',
      reply_to_message_id: received.id,
    });
    const answered = emailOf(await anna.event('email.new', (call) => emailOf(call).message_id === reply.message_id));
    const header = (email: Email, name: string) => email.headers.find((one) => one.name.toLowerCase() === name)?.value;
    expect(header(answered, 'in-reply-to')).toBe(first.message_id);
    expect(header(answered, 'references')).toBe(first.message_id);
    expect(header(answered, 'bcc')).toBeUndefined();
    expect(answered.thread_id).toBe((await live.api.email(anna.account.id, first.id)).thread_id);
    const again = await sent({
      to: [{ email: bea.user.user }],
      subject: 'Re: first',
      plain_text: 'c',
      reply_to_message_id: answered.message_id,
    });
    const last = emailOf(await bea.event('email.new', (call) => emailOf(call).message_id === again.message_id));
    expect(header(last, 'references')).toBe(`${first.message_id} ${reply.message_id}`);
    const copy = emailOf(await bea.event('email.new', (call) => emailOf(call).id === reply.id));
    expect(copy.bcc_attendees.map(({ identifier }) => identifier)).toEqual([bea.user.user]);
    const own = emailOf(
      await bea.event(
        'email.new',
        (call) => emailOf(call).message_id === reply.message_id && emailOf(call).id !== reply.id,
      ),
    );
    expect(own.bcc_attendees).toEqual([]);
  });

  test('a repeated Idempotency-Key returns the first response and sends nothing', async () => {
    const body = { to: [{ email: bea.user.user }], subject: 'once', plain_text: 'x' };
    const key = { 'Idempotency-Key': `once-${Date.now()}` };
    const answers = await Promise.all([1, 2, 3].map(async () => (await send(body, key)).json()));
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[2]).toEqual(answers[0]);
    await bea.event('email.new', (call) => emailOf(call).message_id === (answers[0] as EmailSent).message_id);
    await bea.settle();
    const arrived = bea.events('email.new').filter((call) => emailOf(call).subject === 'once');
    expect(arrived).toHaveLength(1);
    expect((await send({ ...body, subject: 'other' }, key)).status).toBe(409);
  });

  test('a refused recipient is listed and the others get it; when all are refused it is 422', async () => {
    const invalid = 'missing-user@example.invalid..';
    expect((await send({ to: [{ email: invalid }], subject: 'x' })).status).toBe(400);
    const bad = await send({ to: [{ email: bea.user.user }], subject: 'a\r\nBcc: x@y.z' });
    expect(bad.status).toBe(400);
    expect(((await bad.json()) as ApiFailure['body']).detail).toContain('subject');
  });
});

describe('drafts', () => {
  const draftsOf = async () => (await live.api.get<{ data: Email[] }>(path('/drafts'))).data;

  test('are created, updated, sent and deleted in the Drafts folder of the mailbox', async () => {
    await anna.settle();
    const created = await live.api.request('POST', path('/drafts'), {
      subject: 'draft one',
      html: '<p>one</p>',
      attachments: [{ content: Buffer.from('file').toString('base64'), filename: 'a.txt', content_type: 'text/plain' }],
      custom_headers: [{ name: 'X-Case', value: '7' }],
    });
    expect(created.status).toBe(201);
    const draft = (await created.json()) as DraftResult;
    expect(draft).toMatchObject({ object: 'DraftCreated', id: expect.stringMatching(/^drf_/), tracking_id: null });
    expect(draft.draft_id).toBe(draft.id);
    const reported = emailOf(await anna.event('email.draft.new', (call) => emailOf(call).draft_id === draft.id));
    expect(reported).toMatchObject({ object: 'Draft', subject: 'draft one', message_id: draft.message_id });
    expect((await draftsOf()).map((one) => one.draft_id)).toEqual([draft.id]);

    const updated = await live.api.patch<DraftResult>(path(`/drafts/${draft.id}`), {
      to: [{ email: bea.user.user }],
      subject: 'draft two',
    });
    expect(updated).toMatchObject({ object: 'DraftUpdated', previous_draft_id: draft.id });
    expect(updated.id).not.toBe(draft.id);
    expect((await live.api.request('GET', path(`/drafts/${draft.id}`))).status).toBe(404);
    const now = await live.api.get<Email>(path(`/drafts/${updated.id}`));
    expect(now).toMatchObject({
      subject: 'draft two',
      body: '<p>one</p>',
      has_attachments: true,
      draft_id: updated.id,
    });
    expect(now.headers).toContainEqual({ name: 'X-Case', value: '7' });
    await waitFor(async () => (await anna.box.uids('Drafts')).length === 1);
    expect((await draftsOf()).map((one) => one.draft_id)).toEqual([updated.id]);

    const answer = await live.api.post<DraftSent>(path(`/drafts/${updated.id}/send`));
    expect(answer).toEqual({ object: 'DraftSent', draft_id: updated.id });
    const received = emailOf(await bea.event('email.new', (call) => emailOf(call).subject === 'draft two'));
    expect(received).toMatchObject({ body: '<p>one</p>', has_attachments: true, message_id: updated.message_id });
    expect(await draftsOf()).toEqual([]);
    expect((await live.api.request('POST', path(`/drafts/${updated.id}/send`))).status).toBe(404);
    const copy = emailOf(await anna.event('email.new', (call) => emailOf(call).subject === 'draft two'));
    expect(copy).toMatchObject({ origin: 'api', folders: [(await folderOf('SENT'))?.id] });
    await waitFor(async () => (await anna.box.uids('Drafts')).length === 0);
    expect(typesOf(await anna.settle()).sort()).toEqual(
      ['email.draft.delete', 'email.draft.delete', 'email.draft.new', 'email.draft.new', 'email.new'].sort(),
    );
  });

  test('of other mail programs can be updated, sent and deleted by their email id', async () => {
    const uid = await anna.box.append(
      'Drafts',
      { subject: 'by hand', text: 'hand', to: bea.user.user },
      { flags: ['\\Draft'] },
    );
    const reported = emailOf(await anna.event('email.draft.new', (call) => emailOf(call).subject === 'by hand'));
    expect(uid).toBeGreaterThan(0);
    const updated = await live.api.patch<DraftResult>(path(`/drafts/${reported.id}`), { subject: 'by hand 2' });
    expect(updated.previous_draft_id).toBe(reported.draft_id);
    await live.api.post<DraftSent>(path(`/drafts/${updated.id}/send`));
    const received = emailOf(await bea.event('email.new', (call) => emailOf(call).subject === 'by hand 2'));
    expect(received.body_plain.trim()).toBe('hand');
    const other = await live.api.post<DraftResult>(path('/drafts'), {
      to: [{ email: 'ada@example.com', display_name: 'Ada' }],
      subject: 'Offer',
      html: '<p>A first version.</p>',
    });
    expect((await live.api.request('DELETE', path(`/drafts/${other.id}`))).status).toBe(204);
    await waitFor(async () => (await anna.box.uids('Drafts')).length === 0);
    await anna.event('email.draft.delete', (call) => emailOf(call).draft_id === other.id);
  });
});
