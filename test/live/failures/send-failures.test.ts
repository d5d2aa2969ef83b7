import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Email } from '../../../src/contract/email.ts';
import type { DraftResult, EmailSent } from '../../../src/contract/sending.ts';
import { at, FakeSmtp } from '../../helpers/fakes/fake-smtp.ts';
import { type Connected, connectLogin, connectUser, type Live, joinLive } from '../../helpers/product/live.ts';
import { addUser } from '../../helpers/product/mail-user.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Responses of sends when the SMTP server misbehaves; the mailbox is on Dovecot. */

let live: Live;
let smtp: FakeSmtp;
let anna: Connected;

beforeAll(async () => {
  live = await joinLive();
  smtp = await new FakeSmtp().listen();
  anna = await connect();
}, 120_000);

afterAll(async () => {
  await live?.close();
  await smtp?.close();
});

beforeEach(() => {
  smtp.script = () => undefined;
});

async function connect(): Promise<Connected> {
  const user = await addUser();
  return connectLogin(live, { ...user, submissionPort: smtp.port });
}

const MAIL = { to: [{ email: 'bea@elsewhere.test' }], plain_text: 'hello' };
async function send(subject: string, { key, of = anna }: { key?: string; of?: Connected } = {}) {
  const headers: Record<string, string> = key ? { 'Idempotency-Key': key } : {};
  const answer = await live.api.request('POST', `/${of.account.id}/emails/send`, { ...MAIL, subject }, headers);
  return { status: answer.status, body: (await answer.json()) as EmailSent & { type?: string; detail?: string } };
}
const taken = (subject: string) => smtp.messages.filter(({ source }) => source.includes(`Subject: ${subject}\r\n`));
const draftsOf = async () => (await live.api.get<{ data: Email[] }>(`/${anna.account.id}/drafts`)).data;

describe('a send that fails', () => {
  test('is 422 when the server refuses the mail, and leaves nothing behind', async () => {
    smtp.script = at('dot', '552 5.3.4 message too large');
    expect(await send('too large')).toMatchObject({ status: 422, body: { type: 'errors/provider_rejected' } });
    expect((await live.api.emails(anna.account.id, { subject: 'too large' })).data).toEqual([]);
  });

  test('is 502 when the server is busy, and may be repeated with the same key', async () => {
    const key = `busy-${Date.now()}`;
    smtp.script = at('MAIL', '451 4.3.2 try later');
    expect(await send('busy', { key })).toMatchObject({ status: 502, body: { type: 'errors/provider_error' } });
    smtp.script = () => undefined;
    const { status, body } = await send('busy', { key });
    expect(status).toBe(200);
    expect(taken('busy')).toHaveLength(1);
    await anna.event('email.new', (call) => emailOf(call).id === body.id);
  });

  test('is 502 when the server is dead', async () => {
    smtp.script = at('greeting', 'silence', 99);
    for (const session of smtp.sessions) session.socket.destroy();
    expect(await send('dead')).toMatchObject({ status: 502 });
    expect(taken('dead')).toEqual([]);
  }, 60_000);

  test('is 502 with that reason when the outcome is unknown, and is never repeated', async () => {
    const key = `lost-${Date.now()}`;
    smtp.script = at('dot', 'take and drop', 1);
    const first = await send('lost', { key });
    expect(first).toMatchObject({ status: 502 });
    expect(first.body.detail).toContain('may have been sent');
    expect(await send('lost', { key })).toMatchObject({ status: 502 });
    expect(taken('lost')).toHaveLength(1);
  }, 60_000);

  test('leaves the draft unchanged', async () => {
    const draft = await live.api.post<DraftResult>(`/${anna.account.id}/drafts`, { ...MAIL, subject: 'kept' });
    smtp.script = at('dot', '554 5.7.1 no');
    const refused = await live.api.request('POST', `/${anna.account.id}/drafts/${draft.id}/send`);
    expect(refused.status).toBe(422);
    expect((await draftsOf()).map((one) => one.draft_id)).toContain(draft.id);
    smtp.script = () => undefined;
    const sent = await Promise.all(
      [1, 2].map(() => live.api.request('POST', `/${anna.account.id}/drafts/${draft.id}/send`)),
    );
    expect(sent.map(({ status }) => status).sort()).toEqual(expect.arrayContaining([200]));
    expect(taken('kept')).toHaveLength(1);
    await waitFor(async () => (await draftsOf()).every((one) => one.draft_id !== draft.id));
  });

  test('is 401 when the login is refused, and the account is disconnected', async () => {
    const carl = await connect();
    for (const session of smtp.sessions) session.socket.destroy();
    smtp.script = at('AUTH', '535 5.7.8 no', 99);
    expect(await send('refused', { of: carl })).toMatchObject({
      status: 401,
      body: { type: 'errors/invalid_credentials' },
    });
    await carl.event('account.status.disconnected');
    const { connections } = smtp;
    expect(await send('refused again', { of: carl })).toMatchObject({ status: 401 });
    // without asking the server once more
    expect(smtp.connections).toBe(connections);
    expect((await live.api.emails(carl.account.id)).data).toEqual([]);
  }, 60_000);
});

describe('a send that succeeds', () => {
  test('lists the refused recipients', async () => {
    smtp.script = (moment, line) =>
      moment === 'RCPT' && line.includes('nobody@') ? '550 5.1.1 no such user' : undefined;
    const body = { ...MAIL, to: [...MAIL.to, { email: 'nobody@elsewhere.test' }], subject: 'some' };
    const answer = await live.api.post<EmailSent>(`/${anna.account.id}/emails/send`, body);
    expect(answer.rejected).toEqual(['nobody@elsewhere.test']);
    expect(taken('some')[0]?.to).toEqual(['bea@elsewhere.test']);
    smtp.script = at('RCPT', '550 5.1.1 no such user', 9);
    expect(await send('all refused')).toMatchObject({ status: 422 });
  });

  test('completes although the caller hangs up', async () => {
    const subject = 'hung up';
    let release: () => void = () => {};
    const reached = new Promise<void>((resolve) => {
      smtp.script = async (moment) => {
        if (moment !== 'MAIL') return undefined;
        resolve();
        await new Promise<void>((go) => (release = go));
        return undefined;
      };
    });
    const hanging = new AbortController();
    const call = fetch(`${live.api.base}/api/v1/${anna.account.id}/emails/send`, {
      method: 'POST',
      headers: { 'X-API-KEY': live.api.key, 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...MAIL, subject }),
      signal: hanging.signal,
    }).catch(() => {});
    await reached;
    hanging.abort();
    await call;
    release();
    const { event } = await anna.event('email.new', (one) => emailOf(one).subject === subject);
    expect(taken(subject)).toHaveLength(1);
    expect(event.data).toMatchObject({ email: { origin: 'api' } });
  });

  test('bad input is 400 that names the field, and stores nothing', async () => {
    const bad: [unknown, string][] = [
      [{ ...MAIL, subject: 'x'.repeat(1_000_000) }, 'subject'],
      [{ ...MAIL, subject: 'a\nb' }, 'subject'],
      [{ ...MAIL, attachments: [{ content: '!!!' }] }, 'attachments.0.content'],
      [{ ...MAIL, attachments: Array.from({ length: 101 }, () => ({ content: '' })) }, 'attachments'],
      [{ ...MAIL, custom_headers: [{ name: 'Received', value: 'x' }] }, 'custom_headers.0.name'],
      [{ ...MAIL, tracking_options: { opens: true } }, 'html'],
      [{ ...MAIL, reply_to_message_id: '' }, 'reply_to_message_id'],
      [{ subject: 'no recipient' }, 'to'],
      [{ to: MAIL.to }, 'subject'],
      [{ ...MAIL, plain_text: 'x'.repeat(41 * 1024 * 1024) }, ''],
    ];
    for (const [body, field] of bad) {
      const answer = await live.api.request('POST', `/${anna.account.id}/emails/send`, body);
      expect(answer.status).toBe(400);
      expect(((await answer.json()) as { detail: string }).detail).toContain(field);
    }
  }, 60_000);

  test('a reply to an unknown email is 404 that names the field, for drafts too', async () => {
    for (const path of ['emails/send', 'drafts']) {
      const body = { ...MAIL, reply_to_message_id: 'email_01m7zgraq2rnsjs7nv13zwjgtj' };
      const answer = await live.api.request('POST', `/${anna.account.id}/${path}`, body);
      expect(answer.status).toBe(404);
      expect(((await answer.json()) as { detail: string }).detail).toContain('reply_to_message_id');
    }
  });
});

test('250 sends of one account at once to a server that takes 3 s for each do not delay the changes of another', async () => {
  const bea = await connectUser(live);
  const { call } = await bea.receive('INBOX', 'to be marked');
  const mark = (how: 'read' | 'unread') => live.api.post(`/${bea.account.id}/emails/${emailOf(call).id}/${how}`);
  smtp.script = async (moment) => (moment === 'dot' ? (await sleep(3_000), undefined) : undefined);
  const sends = Promise.all(Array.from({ length: 250 }, (_, number) => send(`of many ${number}`)));
  await waitFor(() => smtp.count('MAIL') > 0);
  // as long as a send may wait for its turn
  const times: number[] = [];
  for (let count = 0; count < 20; count++) {
    const began = performance.now();
    await mark(count % 2 === 0 ? 'read' : 'unread');
    times.push(performance.now() - began);
    await sleep(500);
  }
  expect(Math.max(...times)).toBeLessThan(3_000);
  const answers = await sends;
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
  expect(smtp.messages.filter(({ source }) => source.includes('Subject: of many '))).toHaveLength(
    answers.filter(({ status }) => status === 200).length,
  );
}, 120_000);
