import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Email } from '../../../src/contract/email.ts';
import type { DraftResult, DraftSent, EmailSent } from '../../../src/contract/sending.ts';
import type { RunningDovecot } from '../../helpers/servers/dovecot.ts';
import { addUserWhoSends, startDovecotProfile } from '../../helpers/servers/dovecot-profiles.ts';
import { FakeGmail } from '../../helpers/fakes/fake-gmail.ts';
import { FakeSmtp } from '../../helpers/fakes/fake-smtp.ts';
import { type Connected, connectLogin, type Live, joinLive, typesOf } from '../../helpers/product/live.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Sending and drafts where the provider files the Sent copy automatically, and where it has few extensions. */

let live: Live;
let stripped: RunningDovecot;
let gmail: FakeGmail;
let smtp: FakeSmtp;

beforeAll(async () => {
  live = await joinLive();
  stripped = await startDovecotProfile('stripped');
  gmail = await new FakeGmail().listen();
  smtp = await new FakeSmtp().listen();
}, 120_000);

afterAll(async () => {
  await live?.close();
  await gmail?.close();
  await smtp?.close();
  await stripped?.stop();
});

const BEA = [{ email: 'bea@elsewhere.test', display_name: 'Bea' }];

async function sendAndDraft(anna: Connected, uidsIn: (role: 'Sent' | 'Drafts') => Promise<unknown[]>): Promise<void> {
  const path = (rest: string) => `/${anna.account.id}${rest}`;
  await anna.settle();
  const sent = await live.api.post<EmailSent>(path('/emails/send'), {
    to: BEA,
    subject: 'one',
    html: '<p>Hallo <a href="https://example.com/a">dort</a></p>',
    tracking_options: { opens: true, links: true, label: 'spring' },
    attachments: [{ content: Buffer.from('file').toString('base64'), filename: 'a.txt' }],
  });
  const soon = await live.api.email(anna.account.id, sent.id);
  expect(soon).toMatchObject({ id: sent.id, origin: 'api', tracking_id: sent.tracking_id });
  const copy = emailOf(await anna.event('email.new', (call) => emailOf(call).subject === 'one'));
  expect(copy).toMatchObject({ id: sent.id, origin: 'api', message_id: sent.message_id });
  expect(copy.body).not.toContain('/t/');
  expect(copy.attachments.map(({ id }) => id)).toEqual(soon.attachments.map(({ id }) => id));

  const draft = await live.api.post<DraftResult>(path('/drafts'), { to: BEA, subject: 'two', plain_text: 'first' });
  await anna.event('email.draft.new', (call) => emailOf(call).draft_id === draft.id);
  const updated = await live.api.patch<DraftResult>(path(`/drafts/${draft.id}`), { plain_text: 'second' });
  const answer = await live.api.post<DraftSent>(path(`/drafts/${updated.id}/send`));
  expect(answer).toEqual({ object: 'DraftSent', draft_id: updated.id });
  const second = emailOf(
    await anna.event('email.new', (call) => emailOf(call).subject === 'two', { timeoutMs: 60_000 }),
  );
  expect(second).toMatchObject({ origin: 'api', message_id: updated.message_id });
  expect(second.body_plain.trim()).toBe('second');
  const thrown = await live.api.post<DraftResult>(path('/drafts'), { subject: 'three' });
  expect((await live.api.request('DELETE', path(`/drafts/${thrown.id}`))).status).toBe(204);

  await waitFor(async () => (await uidsIn('Drafts')).length === 0, { what: 'Drafts to be empty' });
  expect(await uidsIn('Sent')).toHaveLength(2);
  const types = typesOf(await anna.settle('INBOX', { timeoutMs: 60_000 }));
  expect(types.filter((type) => type === 'email.new')).toHaveLength(2);
  expect(types.filter((type) => type === 'email.draft.new')).toHaveLength(3);
  expect(types.filter((type) => type === 'email.draft.delete')).toHaveLength(3);
  const { data } = await live.api.get<{ data: Email[] }>(path('/drafts'));
  expect(data).toEqual([]);
}

test('without MOVE, UIDPLUS and SPECIAL-USE', async () => {
  const user = await addUserWhoSends(stripped);
  const anna = await connectLogin(live, { ...user, submissionPort: smtp.port });
  await sendAndDraft(anna, (role) => anna.box.uids(role));
  expect(smtp.messages).toHaveLength(2);
}, 120_000);

test('in Gmail, which files sent mail automatically', async () => {
  smtp.messages.length = 0;
  smtp.onAccepted = async (source) => {
    // it takes its time
    setTimeout(() => gmail.deliverSent(source), 1_500);
  };
  const login = { user: 'anna@gmail.test', password: 'secret', imapPort: gmail.port, submissionPort: smtp.port };
  const anna = await connectLogin(live, login);
  const paths = { Sent: '[Gmail]/Sent Mail', Drafts: '[Gmail]/Drafts' };
  await sendAndDraft(anna, async (role) => gmail.folder(paths[role]).messages);
  expect(smtp.messages).toHaveLength(2);
  expect(
    gmail
      .folder('[Gmail]/All Mail')
      .messages.filter(({ source }) => /Subject: (one|two|three)/.test(source.toString())),
  ).toHaveLength(2);
}, 120_000);
