import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account, InitialSync } from '../../src/contract/account.ts';
import type { Email } from '../../src/contract/email.ts';
import { brief, type Connected, connectUser, type Live, joinLive, typesOf } from '../helpers/product/live.ts';
import type { Mailbox } from '../helpers/product/mailbox.ts';
import { emailOf } from '../helpers/fakes/receiver.ts';

/** The optional import of mail that was in the mailbox before it was connected. */

let live: Live;

beforeAll(async () => {
  live = await joinLive();
}, 120_000);

afterAll(() => live?.close());

const DAY = 86_400_000;
const daysAgo = (days: number) => new Date(Date.now() - days * DAY);
const enabled = (days: number) => ({ initial_sync_enable: true, initial_sync_days: days });

async function fill(box: Mailbox, count: number, name = 'old'): Promise<void> {
  for (let index = 0; index < count; index++) {
    await box.append('INBOX', { subject: `${name} ${index}` }, { date: daysAgo(1) });
  }
}

function progress(owner: Connected): InitialSync[] {
  return owner
    .events('account.initial_sync.running', 'account.initial_sync.completed', 'account.initial_sync.failed')
    .map(({ event }) => event.data['initial_sync'] as InitialSync);
}

test('mail of the last days is imported from every folder without email.new, with its progress reported', async () => {
  const lea = await connectUser(live, {
    before: async (box) => {
      await box.append('INBOX', { subject: 'recent', text: 'wanted' }, { date: daysAgo(2), flags: ['\\Seen'] });
      await box.append('Archive', { subject: 'recent, filed' }, { date: daysAgo(3) });
      await box.append('Drafts', { subject: 'a draft' }, { date: daysAgo(1), flags: ['\\Draft'] });
      await box.append('INBOX', { subject: 'too old' }, { date: daysAgo(20) });
    },
    config: enabled(7),
  });
  expect(lea.account.initial_sync).toMatchObject({ days: 7, status: expect.stringMatching(/^(pending|running)$/) });
  await lea.event('account.initial_sync.completed', undefined, { timeoutMs: 30_000 });
  expect(progress(lea)).toMatchObject([
    { status: 'running', days: 7, completed_at: null, started_at: expect.any(String) },
    { status: 'completed', days: 7, imported: 3, completed_at: expect.any(String) },
  ]);
  const { initial_sync: now } = await live.api.get<Account>(`/accounts/${lea.account.id}`);
  expect(now).toEqual(progress(lea).at(-1));

  const listed = await live.api.emails(lea.account.id);
  expect(Object.fromEntries(listed.data.map(({ subject, is_unread }) => [subject, is_unread]))).toEqual({
    recent: false,
    'recent, filed': true,
  });
  expect((await live.api.emails(lea.account.id, { q: 'wanted' })).data).toHaveLength(1);
  const drafts = await live.api.get<{ data: Email[] }>(`/${lea.account.id}/drafts`);
  expect(drafts.data).toMatchObject([{ subject: 'a draft', draft_id: expect.stringMatching(/^drf_/) }]);
  expect(brief(await lea.settle())).toEqual([]);

  // imported mail is known mail from now on, older mail is not
  const uids = await lea.box.uids('INBOX');
  await lea.box.addFlags('INBOX', uids[1] ?? 0, ['\\Seen']);
  await lea.box.move('INBOX', uids[0] ?? 0, 'Archive');
  const moved = await lea.event('email.update');
  expect(emailOf(moved).subject).toBe('recent');
  expect(typesOf([...(await lea.settle()), ...(await lea.settle('Archive'))])).toEqual(['email.update']);
  await lea.box.close();
}, 60_000);

test('with sync off nothing is imported or reported', async () => {
  const max = await connectUser(live, { before: (box) => fill(box, 3) });
  expect(max.account.initial_sync).toBeNull();
  expect(brief(await max.settle())).toEqual([]);
  expect(progress(max)).toEqual([]);
  await max.box.close();
});

test('new mail is reported while the import runs', async () => {
  const ned = await connectUser(live, { before: (box) => fill(box, 400), config: enabled(30) });
  const { call } = await ned.receive('INBOX', 'brand new');
  const done = await ned.event('account.initial_sync.completed', undefined, { timeoutMs: 60_000 });
  expect(call.event.sequence).toBeLessThan(done.event.sequence);
  expect(progress(ned).at(-1)).toMatchObject({ imported: 400 });
  expect(typesOf(await ned.settle())).toEqual(['email.new']);
  await ned.box.close();
}, 90_000);
