import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { connectUser, type OwnLive, startLive } from '../helpers/live.ts';
import { emailOf } from '../helpers/receiver.ts';
import { waitFor } from '../helpers/wait.ts';

/** Nothing is lost and nothing reported twice when the worker dies without a word. */

let live: OwnLive;

beforeAll(async () => {
  live = await startLive();
}, 120_000);

afterAll(() => live?.close());

test('kill -9 of the worker while 300 mails arrive: each is reported once after its restart', async () => {
  const owners = await Promise.all([1, 2, 3].map(() => connectUser(live)));
  const reported = () => new Set(live.receiver.accepted({ types: ['email.new'] }).map((call) => emailOf(call).subject));
  let died: () => void = () => {};
  const dead = new Promise<void>((resolve) => {
    died = resolve;
  });
  const filling = owners.map(async ({ box }, owner) => {
    for (let index = 0; index < 100; index++) {
      await box.append(index % 10 === 9 ? 'Archive' : 'INBOX', { subject: `mail ${owner}/${index}` });
      // the kill falls among the arrivals: the last third waits for it
      if (index === 66) await dead;
    }
  });
  await waitFor(() => reported().size > 60, { timeoutMs: 30_000, everyMs: 5 });
  await live.product.killWorker('SIGKILL');
  died();
  await Promise.all(filling);
  expect(reported().size).toBeLessThan(300);

  live.product.startWorker();
  await waitFor(() => reported().size === 300, {
    timeoutMs: 90_000,
    what: () => `300 mails; came: ${reported().size}`,
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
    expect(listed.data.filter(({ subject }) => subject.startsWith('mail '))).toHaveLength(100);
    expect(live.receiver.accepted({ account: account.id, types: ['email.delete', 'email.update'] })).toEqual([]);
    await box.close();
  }
}, 240_000);
