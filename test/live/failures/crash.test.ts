import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Account } from '../../../src/contract/account.ts';
import {
  brief,
  type Connected,
  connectLogin,
  connectUser,
  type ConnectedUser,
  type OwnLive,
  startLive,
  typesOf,
} from '../../helpers/product/live.ts';
import { isLong } from '../../helpers/runner/long.ts';
import { addUser } from '../../helpers/product/mail-user.ts';
import { openMailbox } from '../../helpers/product/mailbox.ts';
import { emailOf } from '../../helpers/fakes/receiver.ts';
import { waitFor } from '../../helpers/assert/wait.ts';

/** Nothing is lost and nothing reported twice when the worker dies without a word. */

/** mails that come to each of three mailboxes */
const EACH = isLong() ? 100 : 40;
const NEW = 3 * EACH;
/** mails that are imported */
const OLD = isLong() ? 600 : 300;

let live: OwnLive;

beforeAll(async () => {
  // another worker takes the mailboxes over soon
  live = await startLive({ SYNC_HEARTBEAT_TIMEOUT: '4s' });
}, 120_000);

afterAll(() => live?.close());

/** the mailboxes that mail comes to */
let owners: ConnectedUser[];
/** the one whose mail is imported */
let ora: Connected;
let atKill: { reported: number; imported: number };

const reported = () => new Set(live.receiver.accepted({ types: ['email.new'] }).map((call) => emailOf(call).subject));
const imported = async () => (await live.api.get<Account>(`/accounts/${ora.account.id}`)).initial_sync?.imported ?? 0;

/** kill -9 of the worker, once, while mail arrives and while mail is imported. */
beforeAll(async () => {
  const user = await addUser();
  const box = await openMailbox(user);
  for (let index = 0; index < OLD; index++) {
    await box.append('INBOX', { subject: `old ${index}` }, { date: new Date(Date.now() - 86_400_000) });
  }
  await box.close();
  owners = await Promise.all([1, 2, 3].map(() => connectUser(live)));
  let died: () => void = () => {};
  const dead = new Promise<void>((resolve) => {
    died = resolve;
  });
  const filling = owners.map(async (owner, number) => {
    for (let index = 0; index < EACH; index++) {
      await owner.box.append(index % 10 === 9 ? 'Archive' : 'INBOX', { subject: `mail ${number}/${index}` });
      // the kill falls among the arrivals: the last third waits for it
      if (index === Math.floor(EACH * 0.66)) await dead;
    }
  });
  await waitFor(() => reported().size > NEW / 5, { timeoutMs: 30_000, everyMs: 5 });
  ora = await connectLogin(live, user, { config: { initial_sync_enable: true, initial_sync_days: 30 } });
  await waitFor(async () => (await imported()) > 0, { timeoutMs: 30_000, everyMs: 10 });
  await live.product.killWorker('SIGKILL');
  died();
  await Promise.all(filling);
  atKill = { reported: reported().size, imported: await imported() };
  live.product.startWorker();
}, 180_000);

test('mails that arrive around the kill are each reported once', async () => {
  expect(atKill.reported).toBeLessThan(NEW);
  await waitFor(() => reported().size === NEW, {
    timeoutMs: 90_000,
    what: () => `${NEW} mails; came: ${reported().size}`,
  });

  for (const owner of owners) await owner.settle();
  const events = new Map<string, Set<string>>();
  for (const call of live.receiver.accepted({ types: ['email.new'] })) {
    const subject = emailOf(call).subject;
    events.set(subject, (events.get(subject) ?? new Set()).add(call.event.id));
  }
  expect([...events].filter(([subject, ids]) => subject !== 'a mark' && ids.size !== 1)).toEqual([]);
  // A call whose answer was lost with the worker is made again: same event, same bytes.
  const bodies = new Map<string, string>();
  for (const { event, body } of live.receiver.calls) {
    expect(bodies.get(event.id) ?? body.toString()).toBe(body.toString());
    bodies.set(event.id, body.toString());
  }
  for (const { account, box } of owners) {
    const listed = await live.api.emails(account.id, { limit: '250', meta_only: 'true' });
    expect(listed.data.filter(({ subject }) => subject.startsWith('mail '))).toHaveLength(EACH);
    expect(live.receiver.accepted({ account: account.id, types: ['email.delete', 'email.update'] })).toEqual([]);
    await box.close();
  }
}, 240_000);

test('an import is resumed after the kill, and imports nothing twice', async () => {
  await ora.event('account.initial_sync.completed', undefined, { timeoutMs: 120_000 });
  expect(atKill.imported).toBeLessThan(OLD);
  const reported = ora.events(
    'account.initial_sync.running',
    'account.initial_sync.completed',
    'account.initial_sync.failed',
  );
  expect(typesOf(reported)).toEqual(['account.initial_sync.running', 'account.initial_sync.completed']);
  expect(await imported()).toBe(OLD);
  const subjects = new Set<string>();
  let cursor: string | null = null;
  do {
    const query: Record<string, string> = { limit: '250', meta_only: 'true', ...(cursor === null ? {} : { cursor }) };
    const page = await live.api.emails(ora.account.id, query);
    for (const { subject } of page.data) {
      expect(subjects).not.toContain(subject);
      subjects.add(subject);
    }
    cursor = page.cursor;
  } while (cursor !== null);
  expect(subjects.size).toBe(OLD);
  expect(brief(await ora.settle())).toEqual([]);
  await ora.box.close();
}, 180_000);
