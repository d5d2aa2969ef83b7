import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Email } from '../../../src/contract/email.ts';
import { type ConnectedUser, connectUser, type Live, joinLive } from '../../helpers/product/live.ts';
import { mailText, newMessageId } from '../../helpers/product/mail-text.ts';
import { submit } from '../../helpers/product/mailbox.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Bounces as a real Postfix makes them, of mail that the owner sends by his own mail program. */

let live: Live;
let user: ConnectedUser;
beforeAll(async () => {
  live = await joinLive();
  user = await connectUser(live);
}, 180_000);
afterAll(() => live?.close(), 60_000);

const GONE = 'missing-user@example.test';

test('the report names the result of each recipient, and the mail', async () => {
  const messageId = newMessageId();
  const fields = { from: user.user.user, to: GONE, subject: 'To a missing user', messageId };
  await user.box.append('Sent', mailText(fields), { flags: ['\\Seen'] });
  const sent = await user.event('email.new', (call) => emailOf(call).message_id === messageId);
  await submit(user.user, GONE, fields);
  const bounce = emailOf(await user.event('email.new.bounce'));
  expect(bounce).toMatchObject({
    object: 'Email',
    origin: 'external',
    is_echo: false,
    bounce: {
      recipient: GONE,
      action: 'failed',
      status: '5.1.1',
      diagnostic: expect.stringContaining(GONE),
      message_id: messageId,
      email_id: emailOf(sent).id,
      tracking_id: null,
    },
  });
  expect(bounce.from_attendee.identifier).toMatch(/^mailer-daemon@/i);
  expect(await live.api.email(user.account.id, bounce.id)).toEqual(bounce);
  expect(user.events('email.new')).toHaveLength(1);
}, 60_000);

test('a bounce that arrives before the copy in Sent is linked to it later', async () => {
  const messageId = newMessageId();
  const fields = { from: user.user.user, to: GONE, subject: 'To a missing user again', messageId };
  await submit(user.user, GONE, fields);
  const early = emailOf(await user.event('email.new.bounce', (call) => emailOf(call).bounce?.message_id === messageId));
  expect(early.bounce).toMatchObject({ recipient: GONE, email_id: null });
  await user.box.append('Sent', mailText(fields), { flags: ['\\Seen'] });
  const sent = await user.event('email.new', (call) => emailOf(call).message_id === messageId);
  const email = await waitFor(async () => {
    const found: Email = await live.api.email(user.account.id, early.id);
    return found.bounce?.email_id ? found : undefined;
  });
  expect(email?.bounce).toEqual({ ...early.bounce, email_id: emailOf(sent).id });
}, 60_000);
